//! The follow-ups are made here for the end steps: the tasks that a client wants to be registered when another one ends
//! ([`crate::model::chain`]). In a tree that is cancelled nothing follows a success. Tasks that follow other ends do, and a
//! cancel passes over them there.
//!
//! A result that is kept apart is copied into the content of its follow-up, which may run long after the other task is gone. The
//! copies take their bytes from the budget of the node, one after the other.

use super::orders;
use crate::{
    flaw::{self, Flaw},
    flow::base::{api::Fault, context::Context, rows::content, tables::trees},
    model::{
        action::End,
        action_task::{end_of_run, end_of_tree},
        chain::{self, FollowUp},
        chain_task,
        holder::Holder,
        ids::TaskId,
        kin::{TreeEnd, TreeOutcome},
        result::{self, Place, TaskResult},
        row::TaskRow,
        task::{Content, Spec},
        time::Millis,
    },
};

/// Which follow-ups of an end are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Those outside of trees.
    Outside,
    /// Those in the tree of the task.
    InTree,
}

/// Registers the follow-ups of an end that are in no tree: they are durable then.
///
/// # Errors
/// When one of them may not be durable; repeating it is safe.
pub(super) async fn follow(ctx: &Context, row: &TaskRow, end: End) -> Result<(), Fault> {
    register(ctx, row, end, Part::Outside).await
}

/// Adds the follow-ups of a task that are in its tree: their rows and entries are durable then. It comes before the row of the
/// task itself says that it has ended, so its tree cannot end in between. Repeating it is safe at any time, since each has a row
/// there.
///
/// # Errors
/// As of [`follow`].
pub(in crate::flow) async fn join(ctx: &Context, row: &TaskRow) -> Result<(), Fault> {
    let spec = &row.detail.spec;
    if !spec.then.iter().any(|follow| follow.in_tree) || flaw::is(Flaw::FollowUpNotJoined) {
        return Ok(());
    }
    // The follow-ups of the own run of a root were added before its tree ended, also where that was opened again.
    let has_ended = row.detail.tree.is_some() || row.detail.rounds.opened > 0;
    let is_over = has_ended && spec.parent().is_none();
    for end in [end_of_run(row), end_of_tree(row)].into_iter().flatten() {
        if !is_over {
            register(ctx, row, end, Part::InTree).await?;
        }
    }
    Ok(())
}

/// Adds the follow-ups in the tree of a root that ask for its cancel, which was at this time: they are durable then. It comes
/// before the end of the tree, which takes no more tasks. A child joins the tree of its parent with those.
///
/// # Errors
/// As of [`follow`].
pub(in crate::flow) async fn join_cancelled(
    ctx: &Context,
    row: &TaskRow,
    at: Millis,
) -> Result<(), Fault> {
    if row.detail.spec.parent().is_some() {
        return Ok(());
    }
    let outcome = TreeOutcome::Cancelled;
    let end = End::Tree(TreeEnd { outcome, at });
    register(ctx, row, end, Part::InTree).await
}

/// Tells whether nothing follows the success of a task any more: its tree, or that of its parent, was cancelled.
async fn is_cancelled(ctx: &Context, row: &TaskRow) -> Result<bool, Fault> {
    let spec = &row.detail.spec;
    if spec.undoes() {
        return Ok(false);
    }
    for tree in spec
        .parent()
        .into_iter()
        .chain(spec.is_parent().then_some(row.id))
    {
        if trees::is_cancelled(ctx, tree).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn register(ctx: &Context, row: &TaskRow, end: End, part: Part) -> Result<(), Fault> {
    let wanted = |follow: &FollowUp<Spec>| follow.in_tree == (part == Part::InTree);
    let due = chain::due(&row.detail.spec.then, end, row.state);
    let due: Vec<(usize, &FollowUp<Spec>)> = due.filter(|(_, follow)| wanted(follow)).collect();
    if due.is_empty() || (chain_task::is_success(end) && is_cancelled(ctx, row).await?) {
        return Ok(());
    }
    let apart = row.detail.result.as_ref().and_then(TaskResult::apart);
    let (mut small, mut large) = (Vec::new(), Vec::new());
    for (place, follow) in due {
        match apart.filter(|_| follow.with_result) {
            Some((attempt, bytes)) => large.push((place, follow, attempt, bytes)),
            None => {
                let result = row.detail.result.clone().filter(|_| follow.with_result);
                small.push(chain_task::follow_up(row, end, (place, follow), result));
            }
        }
    }
    if !small.is_empty() {
        let small = small.into_iter().map(|task| named(ctx, task)).collect();
        told(row, orders::register(ctx, small).await)?;
    }
    for (place, follow, attempt, bytes) in large {
        // As it is read, and as it is written.
        let _room = ctx.contents.take_to_end(2 * bytes).await;
        let result = copy(ctx, row, attempt).await?;
        let task = chain_task::follow_up(row, end, (place, follow), result);
        told(row, orders::register(ctx, vec![named(ctx, task)]).await)?;
    }
    Ok(())
}

/// Reads a result that is kept apart. Of one that is gone its size is left.
async fn copy(ctx: &Context, row: &TaskRow, attempt: u32) -> Result<Option<TaskResult>, Fault> {
    let read = content::read(ctx, result::key(row.id, attempt)).await?;
    let Some(result) = row.detail.result.clone() else {
        return Ok(None);
    };
    Ok(Some(match read {
        Some(Content { payload, .. }) => TaskResult {
            place: Place::Inline(payload),
            ..result
        },
        None => result,
    }))
}

/// Returns a task under its computed id.
fn named(ctx: &Context, mut task: Holder) -> Holder {
    if flaw::is(Flaw::FollowUpDrawn) {
        let (start, step) = (task.id.first_start(), task.id.look_step());
        let drawn = TaskId::new(start, task.id.wheel(), ctx.time.random());
        task.id = drawn.with_look_step(step);
    }
    task
}

/// A tree that does not take a follow-up will never take it: the end of the task must not wait for it.
fn told(row: &TaskRow, registered: Result<(), Fault>) -> Result<(), Fault> {
    match registered {
        Err(Fault::Family(refusal)) => {
            tracing::warn!(task = %row.id, %refusal, "a follow-up was not added to the tree of its task");
            Ok(())
        }
        registered => registered,
    }
}
