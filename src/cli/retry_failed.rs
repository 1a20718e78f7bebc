//! The command `tickwheel task retry-failed` runs the failed part of a tree again for the user.

use std::io::Write as _;

use clap::Args;

use super::{ClientArgs, Exit, Failure, output};
use crate::model::ids::TaskId;

pub(super) const EXAMPLES: &str = "Examples:
  tickwheel task retry-failed 0198c2a4-7c51-8003-a1b2-c3d4e5f60718
  tickwheel task list --roots --state failed -o jsonl | jq -r .id | xargs -n1 tickwheel task retry-failed";

/// The task whose failed part is to run again.
#[derive(Debug, Args)]
pub(super) struct Command {
    /// Its id, as printed by `task register`: that of a root, or of any task of a tree.
    id: TaskId,
    #[command(flatten)]
    client: ClientArgs,
}

pub(super) async fn run(command: Command) -> Result<Exit, Failure> {
    let Command { id, client: of } = command;
    let answer = of.connect()?.retry_failed(id).await?;
    let mut out = std::io::stdout().lock();
    output::task(&mut out, of.print.output, Some("runs again"), &answer.task)?;
    let (retried, left) = (answer.retried, answer.left);
    writeln!(
        std::io::stderr(),
        "{id}: {retried} tasks run again, {left} failed ones cannot"
    )?;
    Ok(Exit::Ok)
}
