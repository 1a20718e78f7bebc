//! The watch notices for every task that its worker has stopped sending heartbeats. It does so when the lease
//! ends, not when the next look of the task comes up.
//!
//! A node watches, in memory, the attempts whose claims and heartbeats it serves. When a lease lapses, and
//! once a minute, it reads the row and the last heartbeat, since heartbeats may go to another node. Then it does what a look
//! does (`flow::stages::wheel::lapses`): successor first, publication after. So nothing is written for a
//! healthy attempt. Several nodes that notice one death repeat each other harmlessly, and the durable look
//! remains the safety net for a node that died.
//!
//! The order is that of the monotonic clock, and each attempt is examined at least every [`limits::WATCH_EXAMINED_EVERY`] if no
//! heartbeat comes here. A wall clock that is an hour ahead or behind for seconds would put an attempt off by an hour, and it
//! would count as running when another node has long ended it.
//!
//! The watch is bounded: beyond [`limits::WATCHED_ATTEMPTS_MAX`] an attempt is left to its look.

use std::{sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use super::watched::{Lapsed, Watched};
use crate::{
    flow::base::context::Context,
    limits,
    model::{
        ids::TaskId,
        state::{State, TaskRow},
        time::Millis,
    },
    time_source::{Moment, TimeSource},
};

/// The watched attempts of a node. Cheap to clone; clones are the same watch.
#[derive(Debug, Clone)]
pub struct Deadlines {
    time: TimeSource,
    watched: Arc<Mutex<Watched>>,
    earlier: Arc<Notify>,
    /// The grace behind each lease: on a cluster, how far the clock of the node that answers the next claim may be behind.
    pub(in crate::flow) grace: Duration,
}

impl Deadlines {
    /// Watches nothing yet.
    #[must_use]
    pub fn new(ctx: &Context) -> Self {
        // One process has one clock.
        let shared = ctx.underway.is_none();
        Self {
            time: ctx.time.clone(),
            watched: Arc::default(),
            earlier: Arc::default(),
            grace: if shared {
                ctx.rules.skew_max
            } else {
                Duration::ZERO
            },
        }
    }

    /// Watches the attempt of a row that is claimed; `heartbeat` is the last sign of life that is known. Other rows are not
    /// watched, nor is one for which there is no room: its look comes to it.
    pub fn watch(&self, row: &TaskRow, heartbeat: Option<Millis>) {
        if row.state == State::Claimed {
            let callback = row.detail.spec.callback().unwrap_or_default();
            let until = row.alive_until(heartbeat);
            self.watch_until(row.id, row.attempt, callback, until);
        }
    }

    /// Forgets a task: its attempt has ended.
    pub fn forget(&self, id: TaskId) {
        self.lock().forget(id);
    }

    /// Returns how many attempts of a callback are watched here.
    #[must_use]
    pub fn running(&self, callback: &str) -> usize {
        self.lock()
            .running
            .get(callback)
            .copied()
            .unwrap_or_default()
    }

    /// Returns all attempts that are watched here.
    pub(in crate::flow) fn attempts(&self) -> Vec<(TaskId, u32)> {
        let watched = self.lock();
        let attempts = watched.by_id.iter();
        attempts.map(|(id, watch)| (*id, watch.attempt)).collect()
    }

    /// Returns the callbacks of which attempts are watched here.
    pub(in crate::flow) fn callbacks(&self) -> Vec<Arc<str>> {
        self.lock().running.keys().map(Arc::clone).collect()
    }

    /// Tells `signal` once, when an attempt of a callback has ended or is not watched here any more; one signal a callback.
    pub(in crate::flow) fn tell_when_ended(&self, callback: &str, signal: Arc<Notify>) {
        self.lock().waiting.insert(Arc::from(callback), signal);
    }

    /// Returns attempts of a callback, at most `max`, those first whose leases end first as far as is known.
    pub(in crate::flow) fn some_of(&self, callback: &str, max: usize) -> Vec<(TaskId, u32)> {
        let watched = self.lock();
        let attempts = watched.order.iter().filter_map(|(_, id)| {
            let watch = watched.by_id.get(id)?;
            (*watch.callback == *callback).then_some((*id, watch.attempt))
        });
        attempts.take(max).collect()
    }

    /// Forgets an attempt, unless a later one of its task is watched.
    pub(in crate::flow) fn forget_attempt(&self, id: TaskId, attempt: u32) {
        let mut watched = self.lock();
        let is_it = watched
            .by_id
            .get(&id)
            .is_some_and(|watch| watch.attempt == attempt);
        if is_it {
            watched.forget(id);
        }
    }

    fn watch_until(&self, id: TaskId, attempt: u32, callback: &str, alive_until: Millis) {
        let wait = wait_for(alive_until.after(self.grace), self.time.now());
        let until = self.time.moment().after(wait);
        let max = limits::WATCHED_ATTEMPTS_MAX;
        if self.lock().watch(id, attempt, callback, until, max) {
            self.earlier.notify_one();
        }
    }

    /// Watches an attempt that was examined until then, or no longer.
    pub(in crate::flow) fn put_back(&self, one: &Lapsed, alive_until: Option<Millis>) {
        let now = self.time.moment();
        let until = alive_until.map(|until| {
            let wait = wait_for(until.after(self.grace), self.time.now());
            now.after(wait)
        });
        if self.lock().put_back(one, until, now) {
            self.earlier.notify_one();
        }
    }

    /// Returns when the next attempt is to be examined.
    pub(in crate::flow) fn next(&self) -> Option<Moment> {
        self.lock().order.first().map(|(at, _)| *at)
    }

    /// Takes attempts out that are to be examined at `now`, at most `max`. Each is to be put back.
    pub(in crate::flow) fn take(&self, now: Moment, max: usize) -> Vec<Lapsed> {
        self.lock().take(now, max)
    }

    /// Waits until an attempt is to be examined earlier than the first one was.
    pub(in crate::flow) async fn earlier(&self) {
        self.earlier.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock()
    }
}

/// Returns how long an attempt whose lease ends at `until` is not examined.
fn wait_for(until: Millis, now: Millis) -> Duration {
    until.since(now).min(limits::WATCH_EXAMINED_EVERY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_is_examined_at_the_end_of_its_lease_and_at_least_once_a_minute() {
        let (now, ms) = (Millis(1_000_000), Duration::from_millis);
        assert_eq!(wait_for(Millis(999_999), now), ms(0));
        assert_eq!(wait_for(Millis(1_000_001), now), ms(1));
        assert_eq!(wait_for(Millis(1_060_000), now), ms(60_000));
        assert_eq!(wait_for(Millis(1_060_001), now), ms(60_000));
    }
}
