//! The record of a near task makes durable for the stages what a node holds in its memory only.

use std::sync::Arc;

use crate::{
    flow::base::context::Context,
    model::{
        backup,
        dispatch::Dispatch,
        entry::{Entry, Key},
        look::Grid,
        task::Spec,
        time::Tick,
    },
};

/// Builds the durable record of a task that a node is about to fire from memory: its look, or its backup entry. The look names
/// this node, for others that find it dead; a node that is alone with its store has none.
pub(in crate::flow) fn near_record(
    ctx: &Context,
    dispatch: Dispatch,
    spec: &Arc<Spec>,
    opened: Tick,
) -> Entry {
    let (id, start) = (dispatch.id, dispatch.start);
    let (stamp, spec) = (ctx.time.stamp(), Arc::clone(spec));
    if spec.target.is_tracked() {
        let grid = Grid::of(id, ctx.shape());
        let at = grid.for_near(start, ctx.tick().end_of(opened));
        let generation = dispatch.generation;
        let look = Entry::look(id, generation, at, Some(start), start, spec, stamp);
        return if ctx.underway.is_some() {
            look
        } else {
            look.held_by(ctx.me)
        };
    }
    let chance = ctx.time.random();
    let due = backup::due(ctx.shape(), opened, start, ctx.rules.look_ahead, chance);
    let entry = dispatch.entry(spec, stamp);
    let key = Key { due, ..entry.key };
    Entry { key, ..entry }.first_of_generation()
}
