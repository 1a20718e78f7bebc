//! The command `tickwheel task reopen` lets a task of a tree that has succeeded run again for the user.

use clap::Args;

use super::{ClientArgs, Exit, Failure, output};
use crate::model::ids::TaskId;

pub(super) const EXAMPLES: &str = "Examples:
  tickwheel task reopen 0198c2a4-7c51-8003-a1b2-c3d4e5f60718
  tickwheel task reopen 0198c2a4-7c51-8003-a1b2-c3d4e5f60718 --attempt 1";

/// The task that is to begin a new round.
#[derive(Debug, Args)]
pub(super) struct Command {
    /// Its id, as printed by `task register`.
    id: TaskId,
    /// Only if this is still its last attempt.
    #[arg(long, value_name = "N")]
    attempt: Option<u32>,
    #[command(flatten)]
    client: ClientArgs,
}

pub(super) async fn run(command: Command) -> Result<Exit, Failure> {
    let Command {
        id,
        attempt,
        client: of,
    } = command;
    let answer = of.connect()?.reopen(id, attempt).await?;
    let mut out = std::io::stdout().lock();
    output::task(&mut out, of.print.output, Some("reopened"), &answer.task)?;
    Ok(Exit::Ok)
}
