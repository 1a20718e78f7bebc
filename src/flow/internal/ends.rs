//! The ends have for the end steps everything registered that follows the end of a task: its notice and its actions.

use futures_util::future::try_join_all;

use super::{actions, notices, outbox};
use crate::{
    flaw::{self, Flaw},
    flow::{api::Fault, context::Context},
    limits,
    model::{action_task, holder::Holder, notice::Notice, row::TaskRow},
};

/// Has the end of a task told, and its actions done, if somebody asked for it: the internal tasks are durable then. Others cost
/// nothing.
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
    register(ctx, tasks).await
}

/// Has the actions done that the end of the tree of a task asks for: the internal tasks are durable then.
///
/// # Errors
/// As of [`tell`].
pub(in crate::flow) async fn tell_tree(ctx: &Context, row: &TaskRow) -> Result<(), Fault> {
    let end = action_task::end_of_tree(row).filter(|_| row.detail.spec.end_is_awaited());
    let Some(end) = end else {
        return Ok(());
    };
    let tasks = Box::pin(actions::tasks(ctx, row, end)).await?;
    register(ctx, tasks).await
}

async fn register(ctx: &Context, tasks: Vec<Holder>) -> Result<(), Fault> {
    let registered = try_join_all(tasks.into_iter().map(|task| ctx.outbox.register(task)));
    let registered = async { registered.await.map(drop) };
    let registered = ctx.time.within(limits::OUTBOX_WAIT_MAX, registered).await;
    if flaw::is(Flaw::EndToldTooSoon) {
        return Ok(());
    }
    registered.unwrap_or_else(|| Err(outbox::unanswered()))
}
