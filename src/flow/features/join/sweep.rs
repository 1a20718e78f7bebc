//! The sweep tells a check of a waiter cheaply that the waiter goes on waiting, as long as one of its dependencies is open.
//!
//! The ends of a thousand dependencies are a thousand checks. So a node remembers behind which row the first open one was, and a
//! check reads on from there: it passes each row once, and reads one more. Where nothing is remembered, or no row is open any
//! more, all rows are read. An end that ends the wait before the others have ended comes by a list of its own.

use crate::{
    flow::base::{
        api::Fault,
        context::Context,
        tables::joins::{self, Joined},
    },
    limits::JOINS_SWEEP_PAGE,
    model::{
        ids::TaskId,
        join::{self, After, Seen},
    },
    schema::{DependencyRow, join_partition},
};

/// Tells whether a dependency of a waiter is open, as far as the rows say from the first open one on; false also if it cannot
/// tell.
///
/// # Errors
/// When the store is away.
pub(in crate::flow) async fn finds_open(
    ctx: &Context,
    waiter: TaskId,
    after: &After,
) -> Result<bool, Fault> {
    let Some(mut behind) = ctx.joins.passed(waiter) else {
        return Ok(false);
    };
    let (mut from, mut rows_max) = (behind.clone(), 1);
    loop {
        let page = joins::page(ctx, waiter, from, rows_max).await?;
        for Joined { id, row, .. } in page.rows {
            match row {
                DependencyRow::Open { .. } => {
                    ctx.joins.pass(waiter, behind);
                    return Ok(true);
                }
                DependencyRow::Ended(outcome) if join::passes(after, &outcome) => {
                    behind = Some(join_partition(id));
                }
                DependencyRow::Ended(_) => return Ok(false),
            }
        }
        if page.next.is_none() {
            return Ok(false);
        }
        (from, rows_max) = (page.next, JOINS_SWEEP_PAGE);
    }
}

/// Remembers of a waiter that goes on waiting where its first open dependency is.
pub(in crate::flow) fn remember(
    ctx: &Context,
    waiter: TaskId,
    after: &After,
    seen: &[(TaskId, Seen)],
) {
    let passes = |seen: &Seen| matches!(seen, Seen::Ended(outcome) if join::passes(after, outcome));
    let passed = seen.iter().take_while(|(_, seen)| passes(seen));
    let behind = passed.last().map(|(id, _)| join_partition(*id));
    ctx.joins.pass(waiter, behind);
}
