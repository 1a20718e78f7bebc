//! The command `tickwheel task reopen` lets tasks of trees that have succeeded run again for the user.

use clap::Args;

use super::{
    ClientArgs, Exit, Failure,
    bulk::{self, BulkArgs},
    output,
};
use crate::{client::JobKind, model::ids::TaskId};

pub(super) const EXAMPLES: &str = "Examples:
  tickwheel task reopen 0198c2a4-7c51-8003-a1b2-c3d4e5f60718
  tickwheel task reopen 0198c2a4-7c51-8003-a1b2-c3d4e5f60718 --attempt 1
  tickwheel task reopen --filter callback=render --filter label.book=17 --dry-run";

/// The tasks that are to begin a new round.
#[derive(Debug, Args)]
pub(super) struct Command {
    /// Its id, as printed by `task register`.
    #[arg(conflicts_with_all = ["filter", "all"])]
    id: Option<TaskId>,
    /// Only if this is still its last attempt.
    #[arg(long, value_name = "N", requires = "id")]
    attempt: Option<u32>,
    #[command(flatten)]
    bulk: BulkArgs,
    #[command(flatten)]
    client: ClientArgs,
}

pub(super) async fn run(command: Command) -> Result<Exit, Failure> {
    let Command {
        id,
        attempt,
        bulk,
        client: of,
    } = command;
    let Some(id) = id else {
        if !bulk.is_given() {
            return Err(Failure::usage(bulk::EXPECTED));
        }
        return bulk::run(JobKind::Reopen, &bulk, None, &of).await;
    };
    bulk.refuse()?;
    let answer = of.connect()?.reopen(id, attempt).await?;
    let mut out = std::io::stdout().lock();
    output::task(&mut out, of.print.output, Some("reopened"), &answer.task)?;
    Ok(Exit::Ok)
}
