//! The guard kills the commands of a worker that has died without doing so itself, for the next attempts of their tasks.
//!
//! It is a process of its own that runs this program. The worker writes into its standard input which process groups run; the end
//! of that input is the end of the worker, whatever ended it. Processes that left their group are not reached.

use std::{
    collections::BTreeSet,
    io::{self, BufRead, Write as _},
    os::unix::process::CommandExt as _,
    process::{ChildStdin, Command, Stdio},
};

use parking_lot::{Mutex, MutexGuard};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::signal::unix::{SignalKind, signal};

use super::{Exit, Failure};

/// The command of this program that is the guard.
pub(super) const COMMAND: &str = "worker-guard";

/// The input of the guard; none where there is none.
static GUARD: Mutex<Option<ChildStdin>> = Mutex::new(None);

fn guard() -> MutexGuard<'static, Option<ChildStdin>> {
    GUARD.lock()
}

/// Starts the guard of this process, outside of the reach of a terminal's signals.
pub(super) fn start() -> io::Result<()> {
    let mut child = Command::new(std::env::current_exe()?)
        .arg(COMMAND)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()?;
    *guard() = child.stdin.take();
    // Not joined: the guard outlives this process, if only for a moment.
    std::thread::spawn(move || {
        if child.wait().is_ok() {
            tracing::warn!("the guard is gone: commands outlive a worker that is killed");
        }
    });
    Ok(())
}

/// Notes a process group that runs.
pub(super) fn begun(group: i32) {
    note('+', group);
}

/// Notes that a process group has ended.
pub(super) fn ended(group: i32) {
    note('-', group);
}

fn note(sign: char, group: i32) {
    if let Some(input) = &mut *guard() {
        // A guard that is gone was warned of.
        writeln!(input, "{sign}{group}").unwrap_or_default();
    }
}

/// Is the guard: reads until the worker has ended, and kills what it has left.
pub(super) async fn run() -> Result<Exit, Failure> {
    // Signals for all processes of a service do not end the guard before the worker.
    let kinds = [
        SignalKind::terminate(),
        SignalKind::interrupt(),
        SignalKind::hangup(),
    ];
    let _held = kinds.map(signal);
    for group in left(io::stdin().lock()) {
        // One that has ended meanwhile needs no signal.
        kill_process_group(group, Signal::KILL).unwrap_or_default();
    }
    Ok(Exit::Ok)
}

/// Returns the groups that have begun and not ended.
fn left(notes: impl BufRead) -> impl Iterator<Item = Pid> {
    let mut running = BTreeSet::new();
    for note in notes.lines().map_while(Result::ok) {
        let group = note.get(1..).and_then(|text| text.parse::<i32>().ok());
        match (note.get(..1), group) {
            (Some("+"), Some(group)) => running.insert(group),
            (Some("-"), Some(group)) => running.remove(&group),
            _ => false,
        };
    }
    running.into_iter().filter_map(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_that_have_not_ended_are_left() {
        let notes = "+10\n+11\n-10\n-12\nx\n\n+0\n+13";
        let left: Vec<i32> = left(notes.as_bytes())
            .map(|pid| pid.as_raw_nonzero().get())
            .collect();
        assert_eq!(left, [11, 13]);
    }
}
