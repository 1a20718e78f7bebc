//! The watched attempts are kept for the watch of deadlines, in the order in which they are to be examined.
//!
//! An attempt is counted from its claim until it is forgotten, also while it is examined. A settle, a heartbeat and the next
//! attempt may come during an examination: what they say stands.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use tokio::sync::Notify;

use crate::{model::ids::TaskId, time_source::Moment};

/// An attempt that is watched.
#[derive(Debug, Clone)]
pub(super) struct Watch {
    pub(super) attempt: u32,
    pub(super) callback: Arc<str>,
    /// When it is examined, as far as is known by now.
    until: Moment,
    /// Its place in the order: at `until`, or before if a heartbeat has come since. It has none while it is examined.
    placed: Option<Moment>,
}

/// An attempt whose lease has lapsed, as far as this node knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::flow) struct Lapsed {
    pub(in crate::flow) id: TaskId,
    pub(in crate::flow) attempt: u32,
}

/// The watched attempts of a node.
#[derive(Debug, Default)]
pub(super) struct Watched {
    pub(super) by_id: HashMap<TaskId, Watch>,
    pub(super) order: BTreeSet<(Moment, TaskId)>,
    /// How many attempts of each callback are watched.
    pub(super) running: HashMap<Arc<str>, usize>,
    /// Told once, when an attempt of a callback has ended: tasks wait for its place.
    pub(super) waiting: HashMap<Arc<str>, Arc<Notify>>,
}

impl Watched {
    /// Watches an attempt until `until`, or longer if it is watched for longer already; tells whether it is now the first.
    pub(super) fn watch(
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
            placed: Some(until),
        };
        self.by_id.insert(id, watch);
        first
    }

    pub(super) fn forget(&mut self, id: TaskId) {
        if let Some(watch) = self.by_id.remove(&id) {
            if let Some(placed) = watch.placed {
                self.order.remove(&(placed, id));
            }
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

    /// Takes what has lapsed at `now` out of the order, at most `max`. It counts as running until it is put back: its worker may
    /// live.
    pub(super) fn take(&mut self, now: Moment, max: usize) -> Vec<Lapsed> {
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
                watch.placed = Some(watch.until);
                self.order.insert((watch.until, id));
                continue;
            }
            watch.placed = None;
            lapsed.push(Lapsed {
                id,
                attempt: watch.attempt,
            });
        }
        lapsed
    }

    /// Puts an attempt back into the order that was examined, at `until` or at what heartbeats have said meanwhile; without
    /// either it is forgotten. One that has ended meanwhile, or gave way to another, stays so. Tells whether it is now the first.
    pub(super) fn put_back(&mut self, one: &Lapsed, until: Option<Moment>, now: Moment) -> bool {
        let examined = self.by_id.get_mut(&one.id);
        let Some(watch) =
            examined.filter(|watch| watch.attempt == one.attempt && watch.placed.is_none())
        else {
            return false;
        };
        watch.until = watch.until.max(until.unwrap_or(watch.until));
        if until.is_none() && watch.until <= now {
            self.forget(one.id);
            return false;
        }
        let at = watch.until;
        watch.placed = Some(at);
        let first = self.order.first().is_none_or(|(next, _)| at < *next);
        self.order.insert((at, one.id));
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    use crate::{
        model::{time::Millis, wheel::WheelNumber},
        time_source::TimeSource,
    };

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

    fn give_back(watched: &mut Watched, lapsed: &[Lapsed], now: u64) {
        for one in lapsed {
            watched.put_back(one, None, at(now));
        }
    }

    #[test]
    fn an_attempt_that_is_examined_counts_once_and_may_end_meanwhile() {
        let mut watched = Watched::default();
        let running = |watched: &Watched| watched.running.get("c").copied().unwrap_or_default();
        for number in 1..=4 {
            watched.watch(id(number), 1, "c", at(50), 9);
        }
        let lapsed = watched.take(at(50), 9);
        assert_eq!(running(&watched), 4);
        // One lives, one ends, one sends a heartbeat, and of one the next attempt begins.
        assert!(watched.put_back(&lapsed[0], Some(at(80)), at(51)));
        watched.forget(id(2));
        watched.watch(id(3), 1, "c", at(90), 9);
        watched.watch(id(4), 2, "c", at(95), 9);
        assert_eq!(running(&watched), 3);
        watched.put_back(&lapsed[1], Some(at(80)), at(51));
        give_back(&mut watched, &lapsed, 51);
        assert_eq!(running(&watched), 3);
        let order = watched.take(at(95), 9);
        assert_eq!(ids(&order), [(id(1), 1), (id(3), 1), (id(4), 2)]);
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
        give_back(&mut watched, &lapsed, 90);
        assert!(watched.by_id.is_empty() && watched.order.is_empty());
        assert!(watched.running.is_empty());
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
        give_back(&mut watched, &lapsed, 55);
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
