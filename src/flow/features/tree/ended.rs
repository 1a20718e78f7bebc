//! This part of the end steps tells the parent of a task that the task has ended, with all of its own tree.
//!
//! The row of the child is written before the parent is poked. A parent whose own run goes on need not be: the end of that run
//! reads the rows after it is durable, so one of the two sees the other.

use crate::{
    flaw::{self, Flaw},
    flow::base::{api::Fault, context::Context, tables::trees},
    model::{family::Outcome, row::TaskRow},
};

/// Tells the parent of a task of its end; the tree of one that may have children is checked soon. Repeating it is safe.
///
/// # Errors
/// When the store is away; the look of the task comes back to it.
pub(in crate::flow) async fn step(ctx: &Context, row: &TaskRow) -> Result<(), Fault> {
    if row.waits_for_children() {
        ctx.pokes.add(row.id, ctx.time.moment());
        return Ok(());
    }
    let (Some(parent), Some(outcome)) = (row.detail.spec.parent(), Outcome::of(row)) else {
        return Ok(());
    };
    if !flaw::is(Flaw::ChildNotNoted) {
        let told = (&outcome, row.detail.rounds.round);
        trees::put_outcome(ctx, parent, row.id, told).await?;
    }
    ctx.pokes.add(parent, ctx.time.moment());
    Ok(())
}
