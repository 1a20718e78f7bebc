//! Leftovers keep the old places of cancelled and moved tasks out of the queue for workers, and out of the
//! counts for people who read figures.
//!
//! Where the slot is still open the place is marked, and its reader passes over it on any node. Where the
//! slot is closed, its reader may hold the place in memory already, so this node remembers for a while that
//! the place means nothing any more. Both ways avoid a publication whose claim would be refused. No promise
//! depends on them.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;

use super::watermarks::Watermarks;
use crate::{
    flow::base::{
        context::Context,
        figures::{pending::Pending, unclaimed::Demand},
    },
    limits,
    model::{
        entry::{DoneReason, Entry, Kind},
        ids::TaskId,
        time::Millis,
    },
};

/// How long behind its due time a place is remembered: it has gone out by then, unless its wheel is late.
const KEPT: Duration = Duration::from_secs(60);

/// The version of a task in a publication: generation and expected attempt.
type Version = (u32, u32);

#[derive(Debug, Default)]
struct Passed {
    versions: HashMap<TaskId, (Version, Millis)>,
    order: VecDeque<(Millis, TaskId)>,
}

/// The memory of places in closed slots. Cheap to clone; clones are the same memory.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Leftovers {
    ctx: Arc<Context>,
    watermarks: Watermarks,
    pending: Pending,
    demand: Demand,
    passed: Arc<Mutex<Passed>>,
}

impl Leftovers {
    /// Remembers nothing yet.
    #[must_use]
    pub(in crate::flow) fn new(
        ctx: Arc<Context>,
        watermarks: Watermarks,
        pending: Pending,
        demand: Demand,
    ) -> Self {
        Self {
            ctx,
            watermarks,
            pending,
            demand,
            passed: Arc::default(),
        }
    }

    /// Takes a due entry out of the counts whose task was cancelled or moved; returns the mark to write over it where that
    /// helps. The conditional write that decided so has been applied.
    pub(in crate::flow) fn retire(&self, entry: &Entry, reason: DoneReason) -> Option<Entry> {
        self.demand.taken(entry.key.id);
        self.demand.retrying().forget(entry.key.id);
        self.demand.expiries().forget(entry.key.id);
        self.drop(entry, reason)
    }

    /// As [`Self::retire`], for an entry that was written in vain.
    pub(in crate::flow) fn drop(&self, entry: &Entry, reason: DoneReason) -> Option<Entry> {
        let Kind::Due { .. } = entry.kind else {
            return None;
        };
        if self.ctx.tick().tick_of(entry.key.due) <= self.watermarks.guess(entry.key.wheel()) {
            let until = entry.key.due.max(self.ctx.now()).after(KEPT);
            self.pass(entry.key.id, (entry.key.generation, u32::MAX), until);
            return None;
        }
        self.pending.gone(entry);
        Some(entry.marked_done(reason, self.ctx.now(), self.ctx.time.stamp()))
    }

    /// Remembers until `until` that publications of a task up to this version mean nothing any more.
    pub(in crate::flow) fn pass(&self, id: TaskId, version: Version, until: Millis) {
        let now = self.ctx.now();
        let mut passed = self.passed.lock();
        let Passed { versions, order } = &mut *passed;
        while order
            .front()
            .is_some_and(|(until, _)| *until < now || order.len() >= limits::LEFTOVERS_MAX)
        {
            if let Some((_, id)) = order.pop_front() {
                versions.remove(&id);
            }
        }
        let known = versions.entry(id).or_insert(((0, 0), until));
        *known = (known.0.max(version), known.1.max(until));
        order.push_back((until, id));
    }

    /// Tells of each publication whether it means nothing any more.
    pub(in crate::flow) fn are_stale(
        &self,
        publications: impl Iterator<Item = (TaskId, u32, u32)>,
    ) -> Vec<bool> {
        let passed = self.passed.lock();
        // Mostly there are none.
        let none = passed.versions.is_empty();
        let now = self.ctx.now();
        let stale = |(id, generation, attempt)| {
            if none {
                return false;
            }
            let version = passed.versions.get(&id);
            version
                .is_some_and(|(version, until)| now <= *until && (generation, attempt) <= *version)
        };
        publications.map(stale).collect()
    }
}
