//! The looks that stages put outside of the usual chain of looks of a task.

use std::sync::Arc;

use super::sending::Sending;
use crate::{
    flow::base::context::Context,
    model::{entry::Entry, ids::TaskId, look::Grid, state::TaskRow, task::Spec, time::Millis},
};

/// Returns the look that comes back soon to a task whose publication has failed; `published` is of the one before.
pub(in crate::flow) fn look_soon(
    ctx: &Context,
    sending: &Sending,
    published: Option<Millis>,
) -> Entry {
    let (dispatch, spec) = (&sending.dispatch, Arc::clone(&sending.spec));
    let (id, start) = (dispatch.id, dispatch.start);
    let at = Grid::of(id, ctx.shape()).one_step_after(ctx.now());
    let stamp = ctx.time.stamp();
    Entry::look(id, dispatch.generation, at, published, start, spec, stamp)
}

/// Returns the look that comes to a task whose own run has ended and whose tree goes on.
pub(in crate::flow) fn look_at_tree(ctx: &Context, row: &TaskRow) -> Entry {
    look_at_parent(ctx, row.id, Some(row), &row.detail.spec)
}

/// Returns a look that comes soon to a task, wherever it stands: `row` is its row, if it has one.
pub(in crate::flow) fn look_at_parent(
    ctx: &Context,
    id: TaskId,
    row: Option<&TaskRow>,
    spec: &Arc<Spec>,
) -> Entry {
    let at = Grid::of(id, ctx.shape()).one_step_after(ctx.now());
    let (spec, stamp) = (Arc::clone(spec), ctx.time.stamp());
    let start = row.map_or_else(|| id.first_start(), |row| row.detail.start);
    let generation = row.map_or(0, |row| row.generation);
    Entry::look(id, generation, at, None, start, spec, stamp)
}
