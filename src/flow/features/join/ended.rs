//! This part of the end steps tells the tasks that wait for a task that it has ended, with all of its tree.
//!
//! The outcome is in the row of a waiter before the waiter is poked, and the row that names the waiter goes last. So a crash in
//! between repeats it for the waiters that are left. A waiter that has ended itself lets its own rows go.

use super::marks;
use crate::{
    flaw::{self, Flaw},
    flow::base::{api::Fault, context::Context, tables::joins},
    model::{
        dead_letter, family::Outcome, ids::TaskId, join, row::TaskRow, state::TERMINAL_TTL_MIN,
    },
};

/// Does what the end of a task asks for beside those that wait for it, and for its own wait. Repeating it is safe.
///
/// # Errors
/// When the store is away; the look of the task comes back to it.
pub(in crate::flow) async fn step(ctx: &Context, row: &TaskRow) -> Result<(), Fault> {
    let spec = &row.detail.spec;
    if spec.after.is_some() {
        Box::pin(let_go(ctx, row)).await?;
    }
    let (Some(callback), Some(outcome)) = (spec.callback(), Outcome::of(row)) else {
        return Ok(());
    };
    let is_own = row.id.is_internal();
    if is_own || flaw::is(Flaw::WaitersUntold) || !marks::may_be_awaited(ctx, callback).await? {
        return Ok(());
    }
    Box::pin(tell(ctx, row.id, outcome)).await
}

async fn tell(ctx: &Context, dependency: TaskId, outcome: Outcome) -> Result<(), Fault> {
    loop {
        let page = joins::waiters(ctx, dependency).await?;
        if page.ids.is_empty() {
            return Ok(());
        }
        let outcomes = page.ids.iter().map(|waiter| (*waiter, dependency, outcome));
        joins::put_outcomes(ctx, outcomes).await?;
        // An end that may end a wait has all rows of the waiter read. After another one a check stops at the first open one.
        let joins = &ctx.joins;
        let list = if join::has_succeeded(&outcome) {
            &joins.ended
        } else {
            &joins.failed
        };
        for waiter in &page.ids {
            list.add(*waiter, ctx.time.moment());
        }
        joins::forget(ctx, page.ids.iter().map(|waiter| (dependency, *waiter))).await?;
        if !page.more {
            return Ok(());
        }
    }
}

/// Gives the rows of a waiter that has ended an end of life. Its dependencies need not know it any more.
async fn let_go(ctx: &Context, row: &TaskRow) -> Result<(), Fault> {
    ctx.joins.leave(row.id);
    let dependencies = joins::dependencies(ctx, row.id).await?;
    if dependencies.is_empty() {
        return Ok(());
    }
    let end = row.ended_at().unwrap_or_else(|| ctx.now());
    let expires = end.after(dead_letter::kept(row).max(TERMINAL_TTL_MIN));
    joins::let_go(ctx, row.id, &dependencies, expires).await?;
    let open = dependencies.iter().filter(|one| one.is_open());
    joins::forget(ctx, open.map(|one| (one.id, row.id))).await
}
