//! The ends have for the end steps everything registered that follows the end of a task or of its tree: its notice, its actions,
//! and the tasks that a client wants to follow it.
//!
//! Follow-ups in the tree of the task are added apart ([`super::follow_ups::join`]).

use super::{actions, follow_ups, notices, orders::register};
use crate::{
    flow::base::{api::Fault, context::Context},
    model::{action::End, action_task, holder::Holder, notice::Notice, row::TaskRow},
};

/// Has the end of a task told, its actions done and its follow-ups registered, if somebody asked for it: these tasks are durable
/// then. Others cost nothing.
///
/// # Errors
/// When one of these tasks may not be durable; repeating it is safe.
pub(in crate::flow) async fn tell(ctx: &Context, row: &TaskRow) -> Result<(), Fault> {
    if !row.detail.spec.end_is_awaited() {
        return Ok(());
    }
    match action_task::end_of_run(row) {
        Some(end) => tell_end(ctx, row, end).await,
        None => Ok(()),
    }
}

/// Has the first claim of the own run of a task told, and its actions done, if it is asked for: these tasks are durable then.
///
/// # Errors
/// As of [`tell`].
pub(in crate::flow) async fn tell_claim(ctx: &Context, row: &TaskRow) -> Result<(), Fault> {
    match action_task::first_claim(row) {
        Some(claim) => tell_end(ctx, row, claim).await,
        None => Ok(()),
    }
}

/// Has the end of the tree of a task told, its actions done and its follow-ups registered, if somebody asked for it: these tasks
/// are durable then.
///
/// # Errors
/// As of [`tell`].
pub(in crate::flow) async fn tell_tree(ctx: &Context, row: &TaskRow) -> Result<(), Fault> {
    if !row.detail.spec.end_is_awaited() {
        return Ok(());
    }
    match action_task::end_of_tree(row) {
        Some(end) => tell_end(ctx, row, end).await,
        None => Ok(()),
    }
}

/// Has all registered that an end asks for. A crash in between repeats it, and computed ids make a repetition the same tasks.
async fn tell_end(ctx: &Context, row: &TaskRow, end: End) -> Result<(), Fault> {
    let notice = Notice::of(row, end).map(|notice| notice.task(notices::write(&notice)));
    let mut tasks: Vec<Holder> = notice.into_iter().collect();
    tasks.extend(Box::pin(actions::tasks(ctx, row, end)).await?);
    register(ctx, tasks).await?;
    if row.detail.spec.then.is_empty() {
        return Ok(());
    }
    Box::pin(follow_ups::follow(ctx, row, end)).await
}
