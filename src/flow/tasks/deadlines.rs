//! The watch notices for every task that its worker has stopped sending heartbeats. It does so when the lease
//! ends, not when the next look of the task comes up.
//!
//! A node watches, in memory, the attempts whose claims and heartbeats it serves. When a lease lapses it
//! reads the row and the last heartbeat, since heartbeats may go to another node. Then it does what a look
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
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

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

/// An attempt that is watched.
#[derive(Debug, Clone)]
struct Watch {
    attempt: u32,
    callback: Arc<str>,
    /// When it is examined, as far as is known by now.
    until: Moment,
    /// Its place in the order: at `until`, or before if a heartbeat has come since.
    placed: Moment,
}

/// An attempt whose lease has lapsed, as far as this node knows.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Lapsed {
    id: TaskId,
    attempt: u32,
    callback: Arc<str>,
}

#[derive(Debug, Default)]
struct Watched {
    by_id: HashMap<TaskId, Watch>,
    order: BTreeSet<(Moment, TaskId)>,
    /// How many attempts of each callback are watched.
    running: HashMap<Arc<str>, usize>,
    /// Told once, when an attempt of a callback has ended: tasks wait for its place.
    waiting: HashMap<Arc<str>, Arc<Notify>>,
}

impl Watched {
    /// Watches an attempt until `until`, or longer if it is watched for longer already; tells whether it is now the first.
    fn watch(
        &mut self,
        id: TaskId,
        attempt: u32,
        callback: &str,
        until: Moment,
        max: usize,
    ) -> bool {
        if let Some(watch) = self.by_id.get_mut(&id)
            && watch.attempt >= attempt
        {
            // A heartbeat costs no more than this: its place in the order is mended when it comes up.
            if watch.attempt == attempt {
                watch.until = watch.until.max(until);
            }
            return false;
        }
        self.forget(id);
        if self.by_id.len() >= max {
            return false;
        }
        let first = self.order.first().is_none_or(|(next, _)| until < *next);
        self.order.insert((until, id));
        let watch = Watch {
            attempt,
            callback: self.count(callback),
            until,
            placed: until,
        };
        self.by_id.insert(id, watch);
        first
    }

    fn forget(&mut self, id: TaskId) {
        if let Some(watch) = self.by_id.remove(&id) {
            self.order.remove(&(watch.placed, id));
            self.uncount(&watch.callback);
        }
    }

    /// Counts one more attempt of a callback, and returns its name as it is kept.
    fn count(&mut self, callback: &str) -> Arc<str> {
        let kept = self.running.get_key_value(callback);
        let name = kept.map_or_else(|| Arc::from(callback), |(name, _)| Arc::clone(name));
        *self.running.entry(Arc::clone(&name)).or_default() += 1;
        name
    }

    fn uncount(&mut self, callback: &Arc<str>) {
        if let Some(count) = self.running.get_mut(callback) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.running.remove(callback);
            }
        }
        if let Some(signal) = self.waiting.remove(callback) {
            signal.notify_one();
        }
    }

    /// Takes out what has lapsed at `now`, at most `max`. It counts as running until it is given back: its worker may live.
    fn take(&mut self, now: Moment, max: usize) -> Vec<Lapsed> {
        let mut lapsed = Vec::new();
        while lapsed.len() < max
            && let Some((placed, id)) = self.order.first().copied()
            && placed <= now
        {
            self.order.pop_first();
            let Some(watch) = self.by_id.get_mut(&id) else {
                continue;
            };
            if watch.until > now {
                watch.placed = watch.until;
                self.order.insert((watch.until, id));
                continue;
            }
            let (attempt, callback) = (watch.attempt, Arc::clone(&watch.callback));
            self.by_id.remove(&id);
            lapsed.push(Lapsed {
                id,
                attempt,
                callback,
            });
        }
        lapsed
    }
}

impl Watched {
    /// Counts attempts that were taken out no longer.
    fn give_back(&mut self, lapsed: &[Lapsed]) {
        for one in lapsed {
            self.uncount(&one.callback);
        }
    }
}

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
            let until = async {
                match next {
                    Some(at) => self.ctx.time.sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
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
            let lives = |row: &TaskRow| row.state == State::Claimed && row.attempt == one.attempt;
            let Some(row) = row.filter(lives) else {
                continue;
            };
            let alive_until = row.alive_until(known.heartbeats.get(&one.id).map(|beat| beat.at));
            if now < alive_until.after(self.deadlines.grace) {
                self.deadlines
                    .watch_until(one.id, one.attempt, &one.callback, alive_until);
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
            self.deadlines
                .watch_until(one.id, one.attempt, &one.callback, at);
        }
    }
}

/// Attempts that were taken out to be examined. If that panics they are watched again: the stage is started anew.
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
        self.watcher.deadlines.lock().give_back(self.lapsed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::wheel::WheelNumber;

    thread_local! {
        static BEGAN: Moment = TimeSource::real().moment();
    }

    fn at(ms: u64) -> Moment {
        BEGAN.with(|began| began.after(Duration::from_millis(ms)))
    }

    fn id(number: u64) -> TaskId {
        TaskId::new(Millis(0), WheelNumber::new(0).unwrap(), number)
    }

    fn ids(lapsed: &[Lapsed]) -> Vec<(TaskId, u32)> {
        lapsed.iter().map(|one| (one.id, one.attempt)).collect()
    }

    #[test]
    fn a_heartbeat_puts_off_what_a_settle_ends() {
        let mut watched = Watched::default();
        assert!(watched.watch(id(1), 1, "c", at(50), 9));
        assert!(!watched.watch(id(2), 1, "c", at(60), 9));
        assert!(watched.watch(id(3), 4, "c", at(40), 9));
        watched.watch(id(1), 1, "c", at(90), 9);
        watched.forget(id(2));
        assert_eq!(watched.take(at(39), 9), []);
        let mut lapsed = watched.take(at(89), 9);
        assert_eq!(ids(&lapsed), [(id(3), 4)]);
        lapsed.extend(watched.take(at(90), 9));
        assert_eq!(ids(&lapsed), [(id(3), 4), (id(1), 1)]);
        watched.give_back(&lapsed);
        assert!(watched.by_id.is_empty() && watched.order.is_empty());
        assert!(watched.running.is_empty());
    }

    #[test]
    fn an_attempt_is_examined_at_the_end_of_its_lease_and_at_least_once_a_minute() {
        let (now, ms) = (Millis(1_000_000), Duration::from_millis);
        assert_eq!(wait_for(Millis(999_999), now), ms(0));
        assert_eq!(wait_for(Millis(1_000_001), now), ms(1));
        assert_eq!(wait_for(Millis(1_060_000), now), ms(60_000));
        assert_eq!(wait_for(Millis(1_060_001), now), ms(60_000));
    }

    #[test]
    fn running_attempts_are_counted_by_callback() {
        let mut watched = Watched::default();
        watched.watch(id(1), 1, "a", at(50), 9);
        watched.watch(id(2), 1, "a", at(60), 9);
        watched.watch(id(2), 2, "a", at(60), 9);
        watched.watch(id(3), 1, "b", at(60), 9);
        let running = |watched: &Watched, name: &str| watched.running.get(name).copied();
        assert_eq!(
            (running(&watched, "a"), running(&watched, "b")),
            (Some(2), Some(1))
        );
        // Its worker may live: it counts until it was examined.
        let lapsed = watched.take(at(55), 9);
        assert_eq!(running(&watched, "a"), Some(2));
        watched.give_back(&lapsed);
        watched.forget(id(3));
        assert_eq!(
            (running(&watched, "a"), running(&watched, "b")),
            (Some(1), None)
        );
    }

    #[test]
    fn the_newest_attempt_is_watched_and_no_more_than_there_is_room_for() {
        let mut watched = Watched::default();
        watched.watch(id(1), 2, "c", at(50), 2);
        watched.watch(id(1), 1, "c", at(70), 2);
        watched.watch(id(1), 3, "c", at(60), 2);
        watched.watch(id(2), 1, "c", at(10), 2);
        watched.watch(id(3), 1, "c", at(20), 2);
        assert_eq!((watched.by_id.len(), watched.order.len()), (2, 2));
        let lapsed = watched.take(at(100), 1);
        assert_eq!(ids(&lapsed), [(id(2), 1)]);
        assert_eq!(ids(&watched.take(at(100), 9)), [(id(1), 3)]);
    }
}
