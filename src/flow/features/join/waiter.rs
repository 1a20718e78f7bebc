//! The look of a waiter has it checked for the wheels: an end may have been noted by a node that died, or by none.

use std::sync::Arc;

use crate::{
    flow::base::context::Context,
    model::{entry::Entry, ids::TaskId, look::Grid, row::TaskRow, task::Spec},
};

/// Returns the first look of a task that is to wait for others.
pub(in crate::flow) fn first_look(ctx: &Context, id: TaskId, spec: &Arc<Spec>) -> Entry {
    let at = Grid::of(id, ctx.shape()).one_step_after(ctx.now());
    let (spec, stamp) = (Arc::clone(spec), ctx.time.stamp());
    Entry::look(id, 0, at, None, id.first_start(), spec, stamp)
}

/// Tells whether the task of a look waits for others.
pub(in crate::flow) fn awaits(look: &Entry, row: Option<&TaskRow>) -> bool {
    let is_first = look.key.generation == 0 && look.spec.after.is_some();
    row.map_or(is_first, TaskRow::waits_for_tasks)
}
