//! Pending counts for operators the tasks that wait for their start, exactly, where the store is this node's alone.
//!
//! A task is counted once, at the place in the wheel that will start it. The writer of entries adds it when its first
//! write is known to stand, and the stage that cancels or moves the task takes it out. A firing takes no task out:
//! places that the `fired` hand of their wheel has passed are left out of the sum. So a wheel that is read again
//! counts no task twice.
//!
//! The counts are kept in memory, by wheel and second, and by callback for the forecast, and cost no write. Entries of the
//! process before are read once, in the background (`Census`), as they were at the start. Until that has ended, the counts say
//! that they are not exact. Near tasks are counted in the memory that they wait in.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::{Mutex, MutexGuard};
use tokio_util::sync::CancellationToken;

use crate::{
    flow::base::{context::Context, labels},
    limits,
    model::{
        clock::ClockRow,
        entry::{Entry, Key, Kind},
        forecast::Forecast,
        time::Millis,
        wheel::WheelNumber,
    },
    store::{Freshness, Underway},
    time_source::TimeSource,
};

/// Seconds of the span in which tasks are counted when there is no room to count them second by second.
const COARSE: i64 = 3600;

/// The waiting tasks by the second of their due time. A count below zero: taken out before the census came to it.
#[derive(Debug, Default)]
struct Seconds {
    exact: BTreeMap<i64, i64>,
    /// The tasks for which there was no room, by the last second of an hour. In which part of the hour they
    /// wait, and when they fire, is not known.
    coarse: BTreeMap<i64, i64>,
}

impl Seconds {
    fn change(&mut self, due: Millis, by: i64, max: usize) {
        let second = due.0.div_euclid(1000);
        let hour = (second.div_euclid(COARSE) + 1).saturating_mul(COARSE) - 1;
        let is_known = self.exact.contains_key(&second);
        let adds_one = by > 0 && self.exact.len() < max;
        let (counts, place) =
            if is_known || adds_one || (by < 0 && !self.coarse.contains_key(&hour)) {
                (&mut self.exact, second)
            } else {
                (&mut self.coarse, hour)
            };
        let count = counts.entry(place).or_default();
        *count += by;
        if *count == 0 {
            counts.remove(&place);
        }
    }

    /// Forgets the seconds that have passed wholly before `fired`.
    fn pass(&mut self, fired: Millis) {
        let second = fired.0.div_euclid(1000);
        for counts in [&mut self.exact, &mut self.coarse] {
            *counts = counts.split_off(&second);
        }
    }
}

#[derive(Debug)]
struct Counts {
    time: TimeSource,
    wheels: Vec<Mutex<Seconds>>,
    forecast: Mutex<Forecast>,
    /// The census has ended.
    complete: AtomicBool,
    /// A write whose outcome is not known may have been one too many or too few.
    uncertain: AtomicBool,
}

/// The counts. Cheap to clone; clones are the same counts. Without any, nothing is counted and nothing is known.
#[derive(Debug, Clone, Default)]
pub struct Pending(Option<Arc<Counts>>);

impl Pending {
    /// Returns the counts of a node whose store is its own, so that no entry there is another's; others count nothing.
    #[must_use]
    pub fn new(ctx: &Context) -> Self {
        let counts = || Counts {
            time: ctx.time.clone(),
            forecast: Mutex::default(),
            wheels: ctx.shape().all_wheels().map(|_| Mutex::default()).collect(),
            complete: AtomicBool::new(false),
            uncertain: AtomicBool::new(false),
        };
        Self(ctx.underway.is_some().then(|| Arc::new(counts())))
    }

    /// Adds an entry that stands in an open slot, unless its task is counted elsewhere.
    pub(in crate::flow) fn stands(&self, entry: &Entry) {
        if is_counted(entry) {
            self.change(&entry.key, entry.spec.callback(), true);
        }
    }

    /// Takes an entry out that will not start its task any more.
    pub(in crate::flow) fn gone(&self, entry: &Entry) {
        if is_counted(entry) {
            self.change(&entry.key, entry.spec.callback(), false);
        }
    }

    /// Notes that it is not known whether an entry stands.
    pub(in crate::flow) fn unknown(&self, entry: &Entry) {
        if let Some(counts) = self.0.as_ref().filter(|_| is_counted(entry)) {
            counts.uncertain.store(true, Ordering::Relaxed);
        }
    }

    /// Tells whether tasks are counted.
    #[must_use]
    pub(in crate::flow) const fn is_counting(&self) -> bool {
        self.0.is_some()
    }

    /// Tells whether the counts are exact.
    #[must_use]
    pub(in crate::flow) fn is_exact(&self) -> bool {
        self.0.as_ref().is_some_and(|counts| {
            let by_second = |seconds: &Mutex<Seconds>| {
                let seconds = seconds.lock();
                seconds.coarse.is_empty()
            };
            counts.complete.load(Ordering::Relaxed)
                && !counts.uncertain.load(Ordering::Relaxed)
                && counts.wheels.iter().all(by_second)
        })
    }

    /// Hands out what lies in a wheel and was not fired: the last millisecond of each second, and how many are due in it.
    pub(in crate::flow) fn each(
        &self,
        wheel: WheelNumber,
        fired: Millis,
        mut take: impl FnMut(Millis, u64),
    ) {
        let Some(mut seconds) = self.seconds(wheel) else {
            return;
        };
        seconds.pass(fired);
        for (second, count) in seconds.exact.iter().chain(&seconds.coarse) {
            let last = Millis(second.saturating_mul(1000).saturating_add(999));
            if last > fired {
                take(last, u64::try_from(*count).unwrap_or(0));
            }
        }
    }

    /// Reads the forecast, and whether it has all tasks; none where tasks are not counted.
    pub(in crate::flow) fn forecast<T>(
        &self,
        read: impl FnOnce(&mut Forecast) -> T,
    ) -> Option<(T, bool)> {
        let counts = self.0.as_ref()?;
        let mut forecast = counts.forecast.lock();
        let read = read(&mut forecast);
        let has_all = counts.complete.load(Ordering::Relaxed)
            && !counts.uncertain.load(Ordering::Relaxed)
            && !forecast.is_cut();
        Some((read, has_all))
    }

    fn change(&self, key: &Key, callback: Option<&str>, adds: bool) {
        let Some(counts) = &self.0 else {
            return;
        };
        if let Some(mut seconds) = self.seconds(key.wheel()) {
            seconds.change(
                key.due,
                if adds { 1 } else { -1 },
                limits::PENDING_SECONDS_MAX,
            );
        }
        let label = labels::label(callback.unwrap_or_default());
        let now = counts.time.now();
        let mut forecast = counts.forecast.lock();
        forecast.change(&label, key.due, adds, now, limits::FORECAST_CELLS_MAX);
    }

    fn seconds(&self, wheel: WheelNumber) -> Option<MutexGuard<'_, Seconds>> {
        let wheels = &self.0.as_ref()?.wheels;
        let seconds = wheels.get(usize::from(wheel.get()))?;
        Some(seconds.lock())
    }
}

/// The backup of a near task lies behind its start; the task is counted where it waits. Tasks of the service's own are not.
fn is_counted(entry: &Entry) -> bool {
    if entry.key.id.is_internal() {
        return false;
    }
    let first = matches!(entry.kind, Kind::Due { first: true, .. });
    first && (!entry.is_moved() || entry.spills > 0)
}

/// Counts once what the process before has left. Clones go on where one has stopped.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Census {
    ctx: Arc<Context>,
    pending: Pending,
    /// Rows from here on were written by this process.
    began: i64,
    /// The last place that was counted.
    behind: Arc<Mutex<Option<Key>>>,
}

impl Census {
    /// Has counted nothing yet; rows written at `began` or later are this process's.
    pub(in crate::flow) fn new(ctx: Arc<Context>, pending: Pending, began: i64) -> Self {
        Self {
            ctx,
            pending,
            began,
            behind: Arc::default(),
        }
    }

    pub(in crate::flow) async fn run(self, underway: Arc<dyn Underway>, stop: CancellationToken) {
        let Some(fired) = self.fired(&*underway).await else {
            return;
        };
        let from = fired.values().map(|row| row.fired.due).min();
        let from = from.unwrap_or_else(|| self.ctx.now());
        let rows_max = limits::CENSUS_ROWS_MAX;
        while !stop.is_cancelled() {
            let began = self.ctx.time.moment();
            let behind = *self.behind.lock();
            let page = match underway.firsts(from, behind, self.began, rows_max).await {
                Ok(page) => page,
                Err(error) => {
                    tracing::warn!(%error, "what is pending could not be counted: the counts are too low until the next start");
                    return;
                }
            };
            for (key, callback) in &page.firsts {
                let passed = fired
                    .get(&key.wheel())
                    .is_some_and(|row| (row.fired.due, row.fired.id) >= (key.due, key.id));
                if !passed {
                    self.pending.change(key, callback.as_deref(), true);
                }
            }
            *self.behind.lock() = page.behind;
            if page.behind.is_none() {
                if let Some(counts) = &self.pending.0 {
                    counts.complete.store(true, Ordering::Relaxed);
                }
                return;
            }
            // Half of a core at most: what is due comes first.
            let took = self.ctx.time.moment().since(began);
            self.ctx.time.sleep(took).await;
        }
    }

    async fn fired(&self, underway: &dyn Underway) -> Option<BTreeMap<WheelNumber, ClockRow>> {
        let mut rows = BTreeMap::new();
        for wheel in self.ctx.shape().all_wheels() {
            match underway.clock(wheel, Freshness::Quorum).await {
                Ok(row) => rows.insert(wheel, row),
                Err(error) => {
                    tracing::warn!(%error, "what is pending could not be counted: the counts are too low until the next start");
                    return None;
                }
            };
        }
        Some(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{entry::KeyCode, ids::TaskId};

    fn total(seconds: &Seconds) -> i64 {
        seconds.exact.values().chain(seconds.coarse.values()).sum()
    }

    #[test]
    fn what_there_is_no_room_for_is_counted_by_the_hour() {
        let mut seconds = Seconds::default();
        for second in 0..10 {
            seconds.change(Millis(second * 1000 + 7), 1, 4);
            seconds.change(Millis(second * 1000 + 8), 1, 4);
        }
        assert_eq!(total(&seconds), 20);
        assert_eq!(seconds.coarse.get(&3599), Some(&12));
        for second in 0..10 {
            seconds.change(Millis(second * 1000), -1, 4);
        }
        assert_eq!(total(&seconds), 10);
        seconds.pass(Millis(2500));
        let exact: Vec<i64> = seconds.exact.keys().copied().collect();
        let coarse: Vec<i64> = seconds.coarse.keys().copied().collect();
        assert_eq!((exact, coarse), (vec![2, 3], vec![3599]));
    }

    #[test]
    fn counts_by_the_hour_are_not_exact() {
        let pending = Pending(Some(Arc::new(Counts {
            time: TimeSource::simulated(Millis(0), 1),
            forecast: Mutex::default(),
            wheels: vec![Mutex::default(), Mutex::default()],
            complete: AtomicBool::new(true),
            uncertain: AtomicBool::new(false),
        })));
        let wheel = WheelNumber::new(1).unwrap();
        let change = |due| {
            let id = TaskId::new(due, wheel, 7);
            let (generation, code) = (0, KeyCode::due(0));
            pending.change(
                &Key {
                    due,
                    id,
                    generation,
                    code,
                },
                None,
                true,
            );
        };
        for second in 0..limits::PENDING_SECONDS_MAX {
            change(Millis(second as i64 * 1000));
        }
        assert!(pending.is_exact());
        // The hour takes the one second for which there is no room. The counts are exact again when that hour has passed.
        let due = Millis(limits::PENDING_SECONDS_MAX as i64 * 1000);
        change(due);
        assert!(!pending.is_exact());
        pending.each(
            wheel,
            due.after(std::time::Duration::from_secs(3600)),
            |_, _| {},
        );
        assert!(pending.is_exact());
    }

    #[test]
    fn what_is_taken_out_before_it_is_found_is_not_counted() {
        let mut seconds = Seconds::default();
        seconds.change(Millis(5000), -1, 4);
        seconds.change(Millis(5000), 1, 4);
        assert!(seconds.exact.is_empty());
    }
}
