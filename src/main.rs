//! The `tickwheel` program runs the command line for the user.

use std::process::ExitCode;

use clap::Parser as _;
use tickwheel::cli::{self, Cli};

/// Records, entries and requests are many small short-lived blocks of memory, allocated on one thread and
/// freed on another. The system's allocator would take a fifth of the time of publishing.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    cli::run(Cli::parse()).await
}
