//! The record counts for operators what this node has done in the last five minutes, second by second.
//!
//! No decision depends on it, and it is forgotten with the process. A figure that is to be kept is a metric.
//! Each batch takes one short lock.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::{Mutex, MutexGuard};

use super::{
    callback_lateness::CallbackLateness,
    second::{KEPT, Second},
};
use crate::model::{ids::TaskId, target::Target, time::Millis};

/// How many of the tasks that fired last are remembered.
const RECENT_MAX: usize = 20;

/// A task that was handed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fired {
    /// The task.
    pub id: TaskId,
    /// The callback or topic it went to.
    pub to: String,
    /// When it was due.
    pub due: Millis,
    /// When it was handed over.
    pub at: Millis,
}

/// The record. Cheap to clone; clones are the same record.
#[derive(Debug, Clone, Default)]
pub(in crate::flow) struct RecentActivity {
    kept: Arc<Mutex<Kept>>,
}

#[derive(Debug, Default)]
struct Kept {
    seconds: VecDeque<Second>,
    recent: VecDeque<Fired>,
    callbacks: CallbackLateness,
    /// Tasks that were handed over since the node began.
    fired: u64,
}

impl RecentActivity {
    /// Counts registrations.
    pub(in crate::flow) fn registered(&self, now: Millis, tasks: usize) {
        self.with(now, |second| second.registered += tasks as u64);
    }

    /// Counts settled attempts.
    pub(in crate::flow) fn settled(&self, now: Millis, attempts: usize) {
        self.with(now, |second| second.settled += attempts as u64);
    }

    /// Notes what was handed over at `at`: task, target, due time.
    pub(in crate::flow) fn fired<'a>(
        &self,
        at: Millis,
        tasks: impl ExactSizeIterator<Item = (TaskId, &'a Target, Millis)>,
    ) {
        let forgotten = tasks.len().saturating_sub(RECENT_MAX);
        let mut kept = self.at(at);
        let Kept {
            seconds,
            recent,
            callbacks,
            fired,
        } = &mut *kept;
        *fired += tasks.len() as u64;
        let Some(second) = seconds.back_mut() else {
            return;
        };
        for (index, (id, to, due)) in tasks.enumerate() {
            let late_ms = (at.0 - due.0).max(0);
            second.fire(late_ms);
            if let Some(callback) = to.callback() {
                callbacks.note(at, callback, late_ms);
            }
            if index >= forgotten {
                note(recent, (id, to, due), at);
            }
        }
    }

    /// Returns how many tasks this node has handed over since it began.
    pub(in crate::flow) fn fired_ever(&self) -> u64 {
        self.lock().fired
    }

    /// Returns how late this node handed over the tasks of a callback lately: how many of each class, and the latest.
    pub(in crate::flow) fn late_of(&self, now: Millis, callback: &str) -> (Vec<u64>, i64) {
        self.lock().callbacks.of(now, callback)
    }

    /// Returns the callbacks of which this node handed over tasks lately.
    pub(in crate::flow) fn callbacks(&self, now: Millis) -> Vec<String> {
        self.lock().callbacks.names(now)
    }

    /// Returns the seconds from the oldest to the one before `now`, those without work included.
    #[must_use]
    pub(in crate::flow) fn seconds(&self, now: Millis) -> Vec<Second> {
        let (last, kept) = (now.0.div_euclid(1000), self.lock());
        let length = i64::try_from(KEPT.as_secs()).unwrap_or(i64::MAX);
        let mut known = kept.seconds.iter().peekable();
        let second = |at| {
            while known.next_if(|second| second.at < at).is_some() {}
            let found = known.next_if(|second| second.at == at);
            found.cloned().unwrap_or_else(|| Second::new(at))
        };
        (last - length..last).map(second).collect()
    }

    /// Returns what was handed over last, the newest first.
    #[must_use]
    pub(in crate::flow) fn recent(&self) -> Vec<Fired> {
        self.lock().recent.iter().cloned().collect()
    }

    fn with(&self, now: Millis, note: impl FnOnce(&mut Second)) {
        if let Some(second) = self.at(now).seconds.back_mut() {
            note(second);
        }
    }

    /// Returns the record with the second of `now` as its last one.
    fn at(&self, now: Millis) -> MutexGuard<'_, Kept> {
        let at = now.0.div_euclid(1000);
        let mut kept = self.lock();
        let seconds = &mut kept.seconds;
        // A clock that was set back starts the record anew.
        if seconds.back().is_some_and(|last| last.at > at) {
            seconds.clear();
        }
        if seconds.back().is_none_or(|last| last.at < at) {
            let oldest = at - i64::try_from(KEPT.as_secs()).unwrap_or(i64::MAX);
            while seconds.front().is_some_and(|first| first.at < oldest) {
                seconds.pop_front();
            }
            seconds.push_back(Second::new(at));
        }
        kept
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock()
    }
}

/// Notes a task as handed over. One that goes out again for the same time, after a start or a change of owners, stays as it is.
fn note(recent: &mut VecDeque<Fired>, (id, to, due): (TaskId, &Target, Millis), at: Millis) {
    if let Some(place) = recent.iter().position(|fired| fired.id == id) {
        if recent.get(place).is_some_and(|fired| fired.due == due) {
            return;
        }
        recent.remove(place);
    }
    recent.truncate(RECENT_MAX - 1);
    let to = to.name().to_owned();
    recent.push_front(Fired { id, to, due, at });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{flow::base::figures::second::lateness, model::wheel::WheelNumber};

    fn id(number: u64) -> TaskId {
        TaskId::new(Millis(0), WheelNumber::new(0).unwrap(), number)
    }

    #[test]
    fn seconds_without_work_are_there_and_old_ones_are_not() {
        let pulse = RecentActivity::default();
        pulse.registered(Millis(1_000_500), 3);
        pulse.registered(Millis(1_002_000), 4);
        let seconds = pulse.seconds(Millis(1_003_100));
        assert_eq!(seconds.len(), 300);
        let counts: Vec<u64> = seconds.iter().rev().take(4).map(|s| s.registered).collect();
        assert_eq!(counts, [4, 0, 3, 0]);
        pulse.registered(Millis(2_000_000), 1);
        assert!(
            pulse
                .seconds(Millis(2_001_000))
                .iter()
                .map(|s| s.registered)
                .sum::<u64>()
                == 1
        );
    }

    #[test]
    fn lateness_is_weighted_by_tasks() {
        let pulse = RecentActivity::default();
        let at = Millis(5_000_100);
        let to = Target::Callback {
            name: "c".to_owned(),
        };
        let on_time = (0..98).map(|n| (id(n), &to, Millis(at.0 - 1)));
        pulse.fired(at, on_time.collect::<Vec<_>>().into_iter());
        pulse.fired(
            at,
            [
                (id(98), &to, Millis(at.0 - 40)),
                (id(99), &to, Millis(at.0 - 700)),
            ]
            .into_iter(),
        );
        let lateness = lateness(&pulse.seconds(Millis(5_001_000))).unwrap();
        assert_eq!(
            (lateness.p50_ms, lateness.p99_ms, lateness.max_ms),
            (1, 50, 700)
        );
        let recent = pulse.recent();
        assert_eq!((recent.len(), recent[0].id), (RECENT_MAX, id(99)));
    }

    #[test]
    fn a_task_is_there_once_and_again_when_it_was_moved() {
        let pulse = RecentActivity::default();
        let to = Target::Callback {
            name: "c".to_owned(),
        };
        let fire = |number, due, at| {
            pulse.fired(Millis(at), [(id(number), &to, Millis(due))].into_iter());
        };
        fire(1, 1000, 1001);
        fire(2, 2000, 2001);
        fire(1, 1000, 3000);
        let shown = |recent: Vec<Fired>| -> Vec<(TaskId, i64)> {
            let of = |fired: Fired| (fired.id, fired.at.0);
            recent.into_iter().map(of).collect()
        };
        assert_eq!(shown(pulse.recent()), [(id(2), 2001), (id(1), 1001)]);
        fire(1, 4000, 4001);
        assert_eq!(shown(pulse.recent()), [(id(1), 4001), (id(2), 2001)]);
    }

    #[test]
    fn a_clock_that_is_set_back_starts_anew() {
        let pulse = RecentActivity::default();
        pulse.settled(Millis(9_000_000), 5);
        pulse.settled(Millis(5_000_000), 1);
        let sum = |now| pulse.seconds(now).iter().map(|s| s.settled).sum::<u64>();
        assert_eq!(sum(Millis(5_001_000)), 1);
    }
}
