//! The ends have for the end steps everything registered that follows the end of a task: its notice, its actions, and the tasks
//! that a client wants to follow it.
//!
//! Follow-ups in the tree of the task are added apart ([`super::follow_ups::join`]).

use super::{actions, follow_ups, notices, orders::register};
use crate::{
    flow::{api::Fault, context::Context},
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
    let notice = Notice::of(row).map(|notice| notice.task(notices::write(&notice)));
    let mut tasks: Vec<Holder> = notice.into_iter().collect();
    if let Some(end) = action_task::end_of_run(row) {
        tasks.extend(Box::pin(actions::tasks(ctx, row, end)).await?);
    }
    register(ctx, tasks).await?;
    follow(ctx, row, action_task::end_of_run(row)).await
}

/// Registers the follow-ups of an end, if there are any.
async fn follow(ctx: &Context, row: &TaskRow, end: Option<End>) -> Result<(), Fault> {
    match end {
        Some(end) if !row.detail.spec.then.is_empty() => {
            Box::pin(follow_ups::follow(ctx, row, end)).await
        }
        Some(_) | None => Ok(()),
    }
}

/// Has the actions done and the follow-ups registered that the end of the tree of a task asks for: these tasks are durable then.
///
/// # Errors
/// As of [`tell`].
pub(in crate::flow) async fn tell_tree(ctx: &Context, row: &TaskRow) -> Result<(), Fault> {
    let end = action_task::end_of_tree(row).filter(|_| row.detail.spec.end_is_awaited());
    let Some(end) = end else {
        return Ok(());
    };
    let tasks = Box::pin(actions::tasks(ctx, row, end)).await?;
    register(ctx, tasks).await?;
    follow(ctx, row, Some(end)).await
}
