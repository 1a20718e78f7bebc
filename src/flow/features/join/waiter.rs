//! The look of a waiter has it checked for the wheels: an end may have been noted by a node that died, or by none.

use std::sync::Arc;

use crate::{
    flow::base::{api::Fault, context::Context, rows::transition::Mover},
    model::{
        entry::Entry,
        ids::TaskId,
        look::Grid,
        row::TaskRow,
        state::{self, Event},
        task::Spec,
    },
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

/// Asks for the check of a waiter whose look has come up. One that has no row gets it: its registration ended before.
///
/// # Errors
/// When its row may not be durable.
pub(in crate::flow) async fn ask(
    ctx: &Context,
    mover: &Mover,
    look: &Entry,
    row: Option<&TaskRow>,
) -> Result<(), Fault> {
    let (id, spec) = (look.key.id, &look.spec);
    if row.is_none() {
        let decide = |row: Option<&TaskRow>, now, nonce| {
            state::next(id, row, spec, Event::Await, now, nonce)
        };
        mover.apply(id, None, false, decide).await?;
    }
    ctx.joins.asked.add(id, ctx.time.moment());
    Ok(())
}
