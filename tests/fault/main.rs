//! A drill runs three nodes of the service on three Cassandra servers and three Kafka brokers, with four
//! workers and with faults, in real processes on a network of their own. At the end a checker judges it by
//! the logs alone.
//!
//! Clients use plain tasks and records with cancels and moves (`clients`), and with `--kinds` the operating model
//! (`kinds`): sequences, keys, gates, schedules, trees, chains, joins, dead letters and jobs.
//!
//! ```text
//! cargo test --test drill                                    the short version, a few faults
//! cargo test --test drill -- --all [--minutes 10]            every fault alone, then random combinations
//! cargo test --test drill -- --faults kill-node,clock+30s    these
//!     --seed S   the seed that a run printed, for the same choices
//!     --kinds    the operating model as well
//!     --plain    without namespaces, on the loopback device
//!     --keep     keep the logs of a run that passes
//! cargo test --test drill -- check DIRECTORY                 the checker alone, on the logs of an earlier run
//! ```

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::large_futures,
    reason = "a test that fails may say so by panicking, and prints what it measured"
)]

/// Prints a line for people.
macro_rules! say {
    ($($part:tt)*) => {{
        use std::io::Write as _;
        writeln!(std::io::stdout().lock(), $($part)*).expect("standard output is open");
    }};
}

mod calls;
mod check;
mod clients;
mod faults;
mod fence;
mod finals;
mod journal;
mod kinds;
mod members;
mod net;
mod plan;
mod process;
mod records;
mod servers;
mod site;
mod switch;
mod worker;

use std::process::ExitCode;

/// The name of the program where tests are chosen by name.
const NAME: &str = "three_nodes_with_faults";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    // Worker threads for clients; processes are started by this thread only.
    let runtime = runtime.worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime can be made");
    match arguments.first().map(String::as_str) {
        Some("worker") => {
            runtime.block_on(worker::run(&arguments));
            ExitCode::SUCCESS
        }
        Some("check") => {
            let root = arguments.get(1).expect("check needs a folder");
            let (good, text) = check::report(std::path::Path::new(root));
            say!("{text}");
            if good {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
        Some("--list") => {
            say!("{NAME}: test");
            ExitCode::SUCCESS
        }
        // The harness of other tests succeeds as well for a word that names none of them.
        Some(word) if !word.starts_with('-') && !NAME.contains(word) => ExitCode::SUCCESS,
        _ => runtime.block_on(plan::run(&plan::Options::read(&arguments))),
    }
}
