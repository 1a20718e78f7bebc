//! The standing of a service says for the walk what of it is still to be done at a time.

use std::{collections::HashSet, time::Duration};

use super::Walk;
use crate::{
    limits::WALK_POLLED_LATELY,
    model::{ids::TaskId, time::Millis},
};

/// The parts of the service do in a moment what is to be done within this.
const SOON: Duration = Duration::from_secs(1);

/// An attempt that runs, by task and number; a task that waits for a worker has none.
pub(super) type Attempt = (TaskId, Option<u32>);

/// The work that is still to be done.
#[derive(Debug, Default)]
pub(super) struct Standing {
    /// The service itself has something to do.
    pub(super) is_busy: bool,
    /// Attempts that run, and tasks that workers are about to take.
    open: Vec<Attempt>,
    /// Tasks that no worker asks for.
    pub(super) waiting: u64,
}

impl Standing {
    /// Returns what is open beside those that are waited for no more.
    pub(super) fn open_but(&self, passed: &HashSet<Attempt>) -> Vec<Attempt> {
        let open = self.open.iter().filter(|attempt| !passed.contains(attempt));
        open.copied().collect()
    }

    /// Forgets those that have ended of what is waited for no more.
    pub(super) fn forget_ended(&self, passed: &mut HashSet<Attempt>) {
        passed.retain(|attempt| self.open.contains(attempt));
    }
}

/// Looks at the service as it has to be at `at`. With `all_are_asked_for` each task that waits for a worker is open.
pub(super) fn of(walk: &Walk, at: Millis, all_are_asked_for: bool) -> Standing {
    let is_busy = is_busy(walk, at);
    let mut open: Vec<Attempt> = Vec::new();
    let running = walk.known.deadlines.attempts().into_iter();
    open.extend(running.map(|(id, attempt)| (id, Some(attempt))));
    let mut waiting = 0;
    for (id, callback) in walk.known.demand.waiting_at(at) {
        if walk.known.limiter.bound(&callback).is_some() {
            continue;
        }
        if all_are_asked_for || is_asked_for(walk, &callback) {
            open.push((id, None));
        } else {
            waiting += 1;
        }
    }
    Standing {
        is_busy,
        open,
        waiting,
    }
}

/// Tells whether a worker polls a callback, or is about to come back.
fn is_asked_for(walk: &Walk, callback: &str) -> bool {
    let poller = walk.service.poller.as_ref();
    poller.is_some_and(|poller| poller.is_polled(callback))
        || walk
            .known
            .demand
            .polled(callback)
            .is_some_and(|ago| ago < WALK_POLLED_LATELY)
}

/// Tells whether stages of the node have something to do that is due at `at`, or in a moment.
fn is_busy(walk: &Walk, at: Millis) -> bool {
    let (ctx, now) = (&walk.ctx, walk.ctx.time.moment());
    let is_due = |next: Option<Millis>| next.is_some_and(|next| next <= at);
    let joins = &ctx.joins;
    let soon = [
        ctx.pokes.next(),
        joins.ended.next(),
        joins.failed.next(),
        joins.asked.next(),
        ctx.turn_queue.passed().next(),
    ];
    let claims = walk.service.poller.as_ref();
    !walk.terms.are_done(ctx.shape(), at, now)
        || is_due(walk.near.next())
        || is_due(walk.known.demand.expiries().next())
        || walk.service.settling.is_under_way()
        || claims.is_some_and(|poller| poller.is_claiming())
        || ctx.outbox.has_orders()
        || walk.service.schedules.is_behind(at)
        || soon
            .into_iter()
            .flatten()
            .any(|next| next <= now.after(SOON))
}
