//! Remembered holds for the parts of a node the hints and figures that they share in memory; nothing rests on them.

use std::sync::Arc;

use super::{
    context::Context, deadlines::Deadlines, hand::Hands, leftovers::Leftovers, pending::Pending,
    pulse::Pulse, unclaimed::Demand,
};

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct Remembered {
    pub(super) pulse: Pulse,
    pub(super) deadlines: Deadlines,
    pub(super) pending: Pending,
    pub(super) demand: Demand,
    pub(super) leftovers: Leftovers,
    /// Write times from here on are of this process.
    pub(super) began: i64,
}

impl Remembered {
    pub(super) fn new(ctx: &Arc<Context>, hands: &Hands) -> Self {
        let (pending, demand) = (Pending::new(ctx), Demand::new(Arc::clone(ctx)));
        Self {
            pulse: Pulse::default(),
            deadlines: Deadlines::new(ctx),
            leftovers: Leftovers::new(
                Arc::clone(ctx),
                hands.clone(),
                pending.clone(),
                demand.clone(),
            ),
            pending,
            demand,
            began: ctx.time.stamp(),
        }
    }
}
