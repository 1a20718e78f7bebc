//! Remembered holds for the parts of a node the knowledge that they share in memory: hints and figures on which nothing rests,
//! the callbacks, whose copy says itself how old it is, and the limiter, whose state is in the store.

use std::sync::Arc;

use crate::flow::{
    base::{
        context::Context,
        entries::{leftovers::Leftovers, watermarks::Watermarks},
        figures::{
            pending::Pending,
            recent::RecentActivity,
            unclaimed::{Demand, Unclaimed},
        },
        records::callbacks::Callbacks,
    },
    features::limit::{deadlines::Deadlines, limiter::Limiter},
};

/// See the module.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Remembered {
    pub(in crate::flow) pulse: RecentActivity,
    pub(in crate::flow) deadlines: Deadlines,
    pub(in crate::flow) pending: Pending,
    pub(in crate::flow) demand: Demand,
    pub(in crate::flow) leftovers: Leftovers,
    pub(in crate::flow) callbacks: Callbacks,
    pub(in crate::flow) limiter: Limiter,
    /// Write times from here on are of this process.
    pub(in crate::flow) began: i64,
}

impl Remembered {
    pub(in crate::flow) fn new(ctx: &Arc<Context>, watermarks: &Watermarks) -> Self {
        let (pending, demand) = (Pending::new(ctx), Demand::new(Arc::clone(ctx)));
        let (deadlines, callbacks) = (Deadlines::new(ctx), Callbacks::new(Arc::clone(ctx)));
        let limiter = Limiter::new(Arc::clone(ctx), callbacks.clone(), deadlines.clone());
        Self {
            pulse: RecentActivity::default(),
            deadlines,
            leftovers: Leftovers::new(
                Arc::clone(ctx),
                watermarks.clone(),
                pending.clone(),
                demand.clone(),
            ),
            pending,
            demand,
            callbacks,
            limiter,
            began: ctx.time.stamp(),
        }
    }
    /// Returns the due tasks that no worker has taken, each callback with the cause.
    pub(in crate::flow) fn unclaimed(&self) -> Unclaimed {
        let bound = |callback: &str| self.limiter.bound(callback);
        self.demand.tally(bound)
    }
}
