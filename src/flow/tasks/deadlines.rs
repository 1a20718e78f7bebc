//! The watch notices for every task that its worker has stopped sending heartbeats. It does so when the lease
//! ends, not when the next look of the task comes up.
//!
//! A node watches, in memory, the attempts whose claims and heartbeats it serves. When a lease lapses, and
//! once a minute, it reads the row and the last heartbeat, since heartbeats may go to another node. Then it does what a look
//! does ([`crate::flow::dispatch::look`]): successor first, publication after. So nothing is written for a
//! healthy attempt. Several nodes that notice one death repeat each other harmlessly, and the durable look
//! remains the safety net for a node that died.
//!
//! The order is that of the monotonic clock, and each attempt is examined at least every [`limits::WATCH_EXAMINED_EVERY`] if no
//! heartbeat comes here. A wall clock that is an hour ahead or behind for seconds would put an attempt off by an hour, and it
//! would count as running when another node has long ended it.
//!
//! The watch is bounded: beyond [`limits::WATCHED_ATTEMPTS_MAX`] an attempt is left to its look.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::watched::{Lapsed, Watched};
use crate::{
    flow::{TASK_EVENTS, context::Context, dispatch::look::Looker},
    limits,
    model::{
        entry::Entry,
        ids::TaskId,
        state::{State, TaskRow},
        time::Millis,
    },
    time_source::{Moment, TimeSource},
};

/// Wait before an attempt is examined again after the store was away.
const PAUSE: Duration = Duration::from_secs(1);

/// The watched attempts of a node. Cheap to clone; clones are the same watch.
#[derive(Debug, Clone)]
pub struct Deadlines {
    time: TimeSource,
    watched: Arc<Mutex<Watched>>,
    earlier: Arc<Notify>,
    /// The grace behind each lease: on a cluster, how far the clock of the node that answers the next claim may be behind.
    grace: Duration,
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
    fn put_back(&self, one: &Lapsed, alive_until: Option<Millis>) {
        let now = self.time.moment();
        let until = alive_until.map(|until| {
            let wait = wait_for(until.after(self.grace), self.time.now());
            now.after(wait)
        });
        if self.lock().put_back(one, until, now) {
            self.earlier.notify_one();
        }
    }

    fn next(&self) -> Option<Moment> {
        self.lock().order.first().map(|(at, _)| *at)
    }

    fn lock(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns how long an attempt whose lease ends at `until` is not examined.
fn wait_for(until: Millis, now: Millis) -> Duration {
    until.since(now).min(limits::WATCH_EXAMINED_EVERY)
}

/// The stage that examines attempts whose leases have lapsed.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Watcher {
    pub(in crate::flow) ctx: Arc<Context>,
    pub(in crate::flow) deadlines: Deadlines,
    pub(in crate::flow) looker: Looker,
}

impl Watcher {
    /// Examines what lapses until `stop`.
    pub(in crate::flow) async fn run(self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let max = limits::STEP_ENTRIES_MAX;
            let lapsed = self.deadlines.lock().take(self.ctx.time.moment(), max);
            if !lapsed.is_empty() {
                let mut taken = Taken {
                    watcher: &self,
                    open: &lapsed,
                    lapsed: &lapsed,
                };
                self.examine(&lapsed).await;
                taken.open = &[];
                continue;
            }
            let next = self.deadlines.next();
            let until = self.ctx.time.sleep_until_next(next);
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = self.deadlines.earlier.notified() => {}
                () = until => {}
            }
        }
    }

    async fn examine(&self, lapsed: &[Lapsed]) {
        // Taken before the reads: a later heartbeat must not find its lease ended by the time of the decision.
        let now = self.ctx.now();
        let tasks: Vec<(TaskId, u32)> = lapsed.iter().map(|lapsed| (lapsed.id, 0)).collect();
        let known = match self.looker.known(&tasks).await {
            Ok(known) => known,
            Err(fault) => {
                tracing::debug!(%fault, "lapsed attempts cannot be read now: trying again");
                return self.again(lapsed);
            }
        };
        let (mut looks, mut lost) = (Vec::new(), Vec::new());
        for (one, row) in lapsed.iter().zip(known.rows) {
            if known.unreadable.contains_key(&one.id) {
                // It may live: it is counted, and read once a minute.
                let later = now.after(limits::WATCH_EXAMINED_EVERY);
                self.deadlines.put_back(one, Some(later));
                continue;
            }
            let lives = |row: &TaskRow| row.state == State::Claimed && row.attempt == one.attempt;
            let Some(row) = row.filter(lives) else {
                continue;
            };
            let beat = known.heartbeats.get(&one.id).map(|beat| beat.at);
            let alive_until = row.alive_until(self.ctx.sign_of_life(beat));
            if now < alive_until.after(self.deadlines.grace) {
                self.deadlines.put_back(one, Some(alive_until));
                continue;
            }
            tracing::debug!(
                target: TASK_EVENTS, task = %one.id, attempt = one.attempt, worker = row.detail.worker,
                "its worker stopped sending heartbeats"
            );
            let spec = Arc::clone(&row.detail.spec);
            let (start, stamp) = (row.detail.start, self.ctx.time.stamp());
            looks.push(Entry::look(
                one.id,
                row.generation,
                now,
                None,
                start,
                spec,
                stamp,
            ));
            lost.push(one.clone());
        }
        if looks.is_empty() {
            return;
        }
        metrics::counter!("tickwheel_attempts_lost_total").increment(lost.len() as u64);
        let looks: Vec<&Entry> = looks.iter().collect();
        let results = self.looker.look(&looks).await;
        let failed = lost.into_iter().zip(results);
        let failed: Vec<Lapsed> = failed
            .filter_map(|(one, result)| result.is_err().then_some(one))
            .collect();
        self.again(&failed);
    }

    /// Examines attempts again in a moment; one that has moved on is dropped then.
    fn again(&self, lapsed: &[Lapsed]) {
        let at = self.ctx.now().after(PAUSE);
        for one in lapsed {
            self.deadlines.put_back(one, Some(at));
        }
    }
}

/// Attempts that were taken out to be examined. If that panics they are examined again: the stage is started anew.
struct Taken<'a> {
    watcher: &'a Watcher,
    /// Those that were not examined to the end.
    open: &'a [Lapsed],
    /// All of them.
    lapsed: &'a [Lapsed],
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.watcher.again(self.open);
        for one in self.lapsed {
            self.watcher.deadlines.put_back(one, None);
        }
    }
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
