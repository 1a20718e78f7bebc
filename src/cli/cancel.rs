//! The command `tickwheel task cancel` cancels one task or many for the user.
//!
//! Each cancel is answered; the exit code is that of the worst.

use std::{fmt::Display, io::Write as _};

use clap::Args;

use super::{
    ClientArgs, Exit, Failure,
    bulk::{self, BulkArgs},
    output::{self, printable},
    report::broke_off,
};
use crate::{
    client::{CancelOutcome, CancelResponse, Client, Error, JobKind},
    limits::BATCH_ITEMS_MAX,
    model::ids::TaskId,
};

pub(super) const EXAMPLES: &str = "Examples:
  tickwheel task cancel 0198c2a4-7c51-8003-a1b2-c3d4e5f60718
  tickwheel task list --callback send_email -o jsonl | jq -r .id | xargs tickwheel task cancel
  tickwheel task cancel --filter callback=send_email --filter state=retrying --dry-run";

/// The tasks to cancel.
#[derive(Debug, Args)]
pub(super) struct Command {
    /// Their ids, as printed by `task register`.
    #[arg(value_name = "ID", conflicts_with_all = ["filter", "all"])]
    ids: Vec<TaskId>,
    /// Cancel all tasks below it, too.
    #[arg(long, conflicts_with_all = ["filter", "all"])]
    tree: bool,
    #[command(flatten)]
    bulk: BulkArgs,
    #[command(flatten)]
    client: ClientArgs,
}

pub(super) async fn run(command: Command) -> Result<Exit, Failure> {
    let Command {
        ids,
        tree,
        bulk,
        client: of,
    } = command;
    if bulk.is_given() {
        return bulk::run(JobKind::Cancel, &bulk, None, &of).await;
    }
    bulk.refuse()?;
    if ids.is_empty() {
        return Err(Failure::usage(bulk::EXPECTED));
    }
    let client = of.connect()?;
    if tree {
        return cancel_trees(&of, &client, &ids).await;
    }
    if let [id] = ids.as_slice() {
        return told(&of, &client.cancel(*id).await?);
    }
    let mut worst = Exit::Ok;
    for ids in ids.chunks(BATCH_ITEMS_MAX) {
        let answers = client.cancel_batch(ids).await;
        let answers = answers.map_err(|error| broke_off(&first_of(ids), error))?;
        for (id, answer) in ids.iter().zip(answers) {
            let exit = match answer {
                Ok(answer) => told(&of, &answer)?,
                Err(problem) => {
                    let Failure { exit, text } = Error::of_item(problem).into();
                    writeln!(std::io::stderr(), "{id}: {text}")?;
                    exit
                }
            };
            worst = worse(worst, exit);
        }
    }
    Ok(worst)
}

/// Returns the first of some ids, for the refusal of all of them.
pub(super) fn first_of(ids: &[TaskId]) -> String {
    ids.first().map(ToString::to_string).unwrap_or_default()
}

/// Cancels tasks with all below them.
async fn cancel_trees(of: &ClientArgs, client: &Client, ids: &[TaskId]) -> Result<Exit, Failure> {
    let mut worst = Exit::Ok;
    for id in ids {
        let answer = client.cancel_tree(*id).await;
        let answer = answer.map_err(|error| broke_off(&id.to_string(), error))?;
        let (outcome, exit) = words(answer.outcome);
        let mut out = std::io::stdout().lock();
        output::task(&mut out, of.print.output, Some(outcome), &answer.task)?;
        let (cancelled, requested) = (answer.cancelled, answer.cancel_requested);
        writeln!(
            std::io::stderr(),
            "{id}: {cancelled} tasks below it cancelled, {requested} told to stop"
        )?;
        tell_reason(id, answer.reason.as_deref())?;
        worst = worse(worst, exit);
    }
    Ok(worst)
}

/// Returns the worse exit: a fault is worse than an answer, and an exit after which the command may be
/// repeated is the worst.
pub(super) fn worse(one: Exit, other: Exit) -> Exit {
    let rank = |exit: Exit| match exit {
        Exit::Ok => 0,
        Exit::TooLate => 1,
        Exit::NotFound => 2,
        Exit::Usage => 3,
        Exit::Failed => 4,
        Exit::Unavailable => 5,
    };
    if rank(other) > rank(one) { other } else { one }
}

fn told(of: &ClientArgs, answer: &CancelResponse) -> Result<Exit, Failure> {
    let (outcome, exit) = words(answer.outcome);
    let mut out = std::io::stdout().lock();
    output::task(&mut out, of.print.output, Some(outcome), &answer.task)?;
    tell_reason(&answer.task.id, answer.reason.as_deref())?;
    Ok(exit)
}

/// Says why a change came too late. It goes to standard error: the task itself has a `reason` of its end.
pub(super) fn tell_reason(id: impl Display, reason: Option<&str>) -> Result<(), Failure> {
    if let Some(reason) = reason {
        writeln!(std::io::stderr(), "{id}: too late: {}", printable(reason))?;
    }
    Ok(())
}

const fn words(outcome: CancelOutcome) -> (&'static str, Exit) {
    match outcome {
        CancelOutcome::Cancelled => ("cancelled", Exit::Ok),
        CancelOutcome::AlreadyCancelled => ("already cancelled", Exit::Ok),
        CancelOutcome::CancelRequested => ("cancel requested: an attempt is running", Exit::Ok),
        CancelOutcome::TooLate => ("too late", Exit::TooLate),
    }
}
