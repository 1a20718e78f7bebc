//! A task that took the place of another one is written once more, for looks and parents, where its request may have died.

use std::sync::Arc;

use super::finish;
use crate::{
    flow::{
        base::{
            api::Fault,
            context::Context,
            entries::{entry_writer::Placer, near_record::near_record},
        },
        features::{
            ends::{actions, orders},
            join::waiter::first_look,
            key::keys::Keys,
            lists::label_rows,
            sequence::place,
        },
    },
    model::{
        dispatch::Dispatch,
        entry::{Entry, Kind},
        key::Holder,
        row::TaskRow,
    },
};

/// Does the end steps of a task for its look. Of one that was replaced they finish what the replacing request may have
/// left undone: first the record names the next task, then that has an entry.
///
/// # Errors
/// When the store is away; the look comes back to it.
pub(in crate::flow) async fn end_steps(
    ctx: &Context,
    keys: &Keys,
    placer: &Placer,
    row: &TaskRow,
) -> Result<(), Fault> {
    if let Some(next) = keys.left_unwritten(row).await? {
        enter(ctx, placer, next).await?;
    }
    finish::steps(ctx, row).await
}

/// Writes a task that was never written whole, or is written over itself: its checks, the rows of its labels, its place and
/// its entry, which makes it durable, in the order of a registration.
///
/// # Errors
/// When it may not be durable; repeating it is safe.
pub(in crate::flow) async fn enter(
    ctx: &Context,
    placer: &Placer,
    task: &Holder,
) -> Result<(), Fault> {
    let checks = actions::check_tasks(task.id, &task.spec).collect();
    orders::register(ctx, checks).await?;
    let one = std::iter::once((task.id, &*task.spec));
    if let Some((_, fault)) = label_rows::put(ctx, one).await.pop() {
        return Err(fault);
    }
    if task.spec.after.is_some() {
        // It gets its place when it is let go. A look that finds no row writes it.
        let look = first_look(ctx, task.id, &task.spec);
        let placed = placer.place(vec![look]).await;
        return placed.into_iter().try_for_each(|placed| placed.map(drop));
    }
    let dispatch = Dispatch::first(task.id, task.id.first_start());
    let place = place::announce_one(ctx, &task.spec, dispatch).await?;
    for placed in placer.place(vec![entry_of(ctx, task)]).await {
        placed?;
    }
    place::confirm_one(ctx, place).await
}

/// Returns the entry of a task that was never written, or is written over itself.
fn entry_of(ctx: &Context, holder: &Holder) -> Entry {
    let start = holder.id.first_start();
    let (dispatch, opened) = (Dispatch::first(holder.id, start), ctx.opened_soon());
    if ctx.tick().tick_of(start) > opened {
        let entry = dispatch.entry(Arc::clone(&holder.spec), ctx.time.stamp());
        return entry.first_of_generation();
    }
    // No node holds it in memory: its look publishes it for the first time.
    let mut look = near_record(ctx, dispatch, &holder.spec, opened);
    if let Kind::Look { published, held_by } = &mut look.kind {
        (*published, *held_by) = (None, None);
    }
    look
}
