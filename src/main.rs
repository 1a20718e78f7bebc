//! The `tickwheel` program.

use std::process::ExitCode;

use clap::Parser as _;
use tickwheel::cli::{self, Cli};

#[tokio::main]
async fn main() -> ExitCode {
    cli::run(Cli::parse()).await
}
