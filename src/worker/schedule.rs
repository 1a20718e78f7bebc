//! The schedule decides for the heartbeater when each heartbeat is sent. It is pure: moments come in, batches
//! go out.
//!
//! Its form is that of the SWF heartbeat manager that Dropbox ATF describes. All attempts wait in a main
//! queue, move to a second queue once their heartbeat is recorded, and come back at the start of the next
//! cycle. A cycle is a quarter of the heartbeat timeout and is cut into [`STEPS`]. Each step sends an equal
//! share of the waiting heartbeats as one batch, so that a thousand attempts that were claimed together do
//! not stay together for ever.
//!
//! - throttled: back to the **front** of the queue, and nothing is sent for a while
//! - failed for any other reason: to the **back**, with a count; after [`FAILURES_MAX`] it waits for the next
//!   cycle
//! - a thread that was starved does not catch up: missed heartbeats are spread over the rest of the cycle

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    time::Duration,
};

use super::attempt::Key;
use crate::{limits::BATCH_ITEMS_MAX, time_source::Moment};

/// Steps of a cycle: more make smaller batches and more requests.
pub(crate) const STEPS: u32 = 8;

/// Failures in a row after which an attempt's heartbeat waits for the next cycle.
pub(crate) const FAILURES_MAX: u32 = 3;

/// Cycles of one heartbeat timeout: one may be lost and one late before the lease is in danger.
const CYCLES_PER_TIMEOUT: u32 = 4;

/// Heartbeats to send as one call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Batch {
    /// The attempts.
    pub(crate) keys: Vec<Key>,
    /// Its cycle, and how long the call may take: a step that hangs must not cost the lease.
    pub(crate) limit: Duration,
}

/// The result of one heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// It counts.
    Recorded,
    /// The server asked for patience.
    Throttled,
    /// Anything else.
    Failed,
}

#[derive(Debug)]
struct Lane {
    began: Moment,
    step: u32,
    /// How many heartbeats the current step still has to send.
    owed: usize,
    attempts: usize,
    main: VecDeque<Key>,
    sent: VecDeque<Key>,
}

#[derive(Debug)]
struct Running {
    cycle: Duration,
    failures: u32,
}

/// The heartbeats of all running attempts; one lane per cycle length.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    running: HashMap<Key, Running>,
    lanes: BTreeMap<Duration, Lane>,
    paused_until: Option<Moment>,
}

impl Schedule {
    /// Adds a running attempt.
    pub(crate) fn add(&mut self, key: Key, heartbeat_timeout: Duration, now: Moment) {
        let cycle = cycle_of(heartbeat_timeout);
        let running = Running { cycle, failures: 0 };
        if self.running.insert(key, running).is_some() {
            return;
        }
        let lane = self.lanes.entry(cycle).or_insert_with(|| Lane::new(now));
        lane.attempts += 1;
        lane.main.push_back(key);
    }

    /// Removes an attempt that has ended.
    pub(crate) fn remove(&mut self, key: Key) {
        let Some(running) = self.running.remove(&key) else {
            return;
        };
        if let Some(lane) = self.lanes.get_mut(&running.cycle) {
            lane.attempts -= 1;
            if lane.attempts == 0 {
                self.lanes.remove(&running.cycle);
            }
        }
    }

    /// Returns when [`Schedule::take`] has something next; none when nothing runs whose cycle has `room`.
    pub(crate) fn next(&self, room: impl Fn(Duration) -> bool) -> Option<Moment> {
        let lanes = self.lanes.iter().filter(|(cycle, _)| room(**cycle));
        let steps = lanes.map(|(cycle, lane)| lane.next(*cycle));
        let next = steps.min()?;
        Some(self.paused_until.map_or(next, |until| until.max(next)))
    }

    /// Returns the next batch that is due and whose cycle has `room`. Call it until there is none.
    pub(crate) fn take(&mut self, now: Moment, room: impl Fn(Duration) -> bool) -> Option<Batch> {
        if self.paused_until.is_some_and(|until| now < until) {
            return None;
        }
        self.paused_until = None;
        let Self { running, lanes, .. } = self;
        let mut lanes = lanes.iter_mut().filter(|(cycle, _)| room(**cycle));
        lanes.find_map(|(cycle, lane)| {
            let keys = lane.take(*cycle, now, running);
            let limit = *cycle;
            (!keys.is_empty()).then_some(Batch { keys, limit })
        })
    }

    /// Records the result of a heartbeat; does nothing for an attempt that has ended.
    pub(crate) fn answered(&mut self, key: Key, sent: Sent) {
        let Some(running) = self.running.get_mut(&key) else {
            return;
        };
        let Some(lane) = self.lanes.get_mut(&running.cycle) else {
            return;
        };
        match sent {
            Sent::Recorded => {
                running.failures = 0;
                lane.sent.push_back(key);
            }
            Sent::Throttled => {
                lane.main.push_front(key);
                lane.owed += 1;
            }
            Sent::Failed if running.failures < FAILURES_MAX => {
                running.failures += 1;
                lane.main.push_back(key);
            }
            Sent::Failed => {
                running.failures = 0;
                lane.sent.push_back(key);
            }
        }
    }

    /// Sends nothing until a moment.
    pub(crate) fn pause(&mut self, until: Moment) {
        self.paused_until = self.paused_until.max(Some(until));
    }
}

impl Lane {
    const fn new(now: Moment) -> Self {
        Self {
            began: now,
            step: 0,
            owed: 0,
            attempts: 0,
            main: VecDeque::new(),
            sent: VecDeque::new(),
        }
    }

    /// The share of a step is sent at the step's end, so an attempt that has ended by then costs nothing.
    fn next(&self, cycle: Duration) -> Moment {
        if self.owed > 0 {
            return self.began;
        }
        self.began.after(cycle / STEPS * (self.step + 1))
    }

    fn take(&mut self, cycle: Duration, now: Moment, running: &HashMap<Key, Running>) -> Vec<Key> {
        while self.next(cycle) <= now && self.owed == 0 {
            self.begin_step(cycle, now, running);
        }
        let count = self.owed.min(BATCH_ITEMS_MAX).min(self.main.len());
        self.owed = if count < BATCH_ITEMS_MAX {
            0
        } else {
            self.owed - count
        };
        let batch = self.main.drain(..count);
        batch.filter(|key| running.contains_key(key)).collect()
    }

    fn begin_step(&mut self, cycle: Duration, now: Moment, running: &HashMap<Key, Running>) {
        let mut passed = self.steps_passed(cycle, now);
        if passed > u128::from(STEPS) {
            // The thread slept through the end of the cycle: begin a new one, so that there is no burst.
            self.began = now.before(cycle / STEPS);
            self.step = 0;
            passed = 1;
        }
        if self.step == 0 {
            // The sent ones come back only now, so that those of the last step have been answered.
            self.main.append(&mut self.sent);
        }
        self.main.retain(|key| running.contains_key(key));
        let step = u32::try_from(passed).unwrap_or(STEPS).clamp(1, STEPS);
        let left = usize::try_from(STEPS - step + 1).unwrap_or(1);
        self.owed = self.main.len().div_ceil(left);
        self.step = step;
        if step == STEPS {
            self.began = self.began.after(cycle);
            self.step = 0;
        }
    }

    fn steps_passed(&self, cycle: Duration, now: Moment) -> u128 {
        now.since(self.began).as_nanos() / (cycle / STEPS).as_nanos().max(1)
    }
}

/// Returns the cycle of a timeout: a quarter of it, rounded down to three significant bits, so that tasks
/// with slightly different timeouts share batches.
fn cycle_of(heartbeat_timeout: Duration) -> Duration {
    let millis = u64::try_from(heartbeat_timeout.as_millis()).unwrap_or(u64::MAX)
        / u64::from(CYCLES_PER_TIMEOUT);
    let bits = (u64::BITS - millis.leading_zeros()).saturating_sub(3);
    Duration::from_millis((millis >> bits << bits).max(u64::from(STEPS)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::{ids::TaskId, time::Millis, wheel::WheelNumber},
        time_source::TimeSource,
    };

    /// Its cycle has a power of two, and so do its steps.
    const TIMEOUT: Duration = Duration::from_millis(32_768);
    const CYCLE: Duration = Duration::from_millis(8192);

    fn key(number: u64) -> Key {
        let wheel = WheelNumber::from_low_bits(0);
        Key {
            id: TaskId::new(Millis(0), wheel, number),
            attempt: 1,
        }
    }

    fn filled(count: u64) -> (Schedule, Moment) {
        let start = TimeSource::real().moment();
        let mut schedule = Schedule::default();
        for number in 0..count {
            schedule.add(key(number), TIMEOUT, start);
        }
        (schedule, start)
    }

    fn steps(count: u32) -> Duration {
        CYCLE / STEPS * count
    }

    fn take_all(schedule: &mut Schedule, now: Moment) -> Vec<Key> {
        let mut all = Vec::new();
        while let Some(batch) = schedule.take(now, |_| true) {
            all.extend(batch.keys);
        }
        all
    }

    #[test]
    fn a_cycle_sends_every_heartbeat_once_and_evenly() {
        let (mut schedule, start) = filled(80);
        for cycle in 0..3 {
            let mut seen = Vec::new();
            for step in 1..=8 {
                let now = start.after(CYCLE * cycle).after(steps(step));
                assert_eq!(schedule.next(|_| true), Some(now));
                let keys = take_all(&mut schedule, now);
                assert_eq!(keys.len(), 10, "cycle {cycle} step {step}");
                for key in &keys {
                    schedule.answered(*key, Sent::Recorded);
                }
                seen.extend(keys);
            }
            seen.sort_by_key(|key| key.id);
            seen.dedup();
            assert_eq!(seen.len(), 80);
        }
    }

    #[test]
    fn nothing_is_sent_before_its_step_or_for_an_ended_attempt() {
        let (mut schedule, start) = filled(2);
        assert_eq!(schedule.take(start, |_| true), None);
        schedule.remove(key(0));
        schedule.remove(key(1));
        assert_eq!(schedule.next(|_| true), None);
        assert_eq!(schedule.take(start.after(CYCLE), |_| true), None);
    }

    #[test]
    fn a_throttled_heartbeat_is_sent_first_after_the_pause() {
        let (mut schedule, start) = filled(16);
        let first = take_all(&mut schedule, start.after(steps(1)));
        schedule.answered(first[0], Sent::Throttled);
        schedule.pause(start.after(steps(3)));
        assert_eq!(schedule.take(start.after(steps(2)), |_| true), None);
        assert_eq!(schedule.next(|_| true), Some(start.after(steps(3))));
        assert_eq!(
            schedule.take(start.after(steps(3)), |_| true).unwrap().keys,
            [first[0]]
        );
    }

    #[test]
    fn a_failed_heartbeat_waits_behind_the_others_and_is_given_up_for_the_cycle() {
        let (mut schedule, start) = filled(8);
        let first = take_all(&mut schedule, start.after(steps(1)));
        schedule.answered(first[0], Sent::Failed);
        let mut order = Vec::new();
        for step in 2..=8 {
            order.extend(take_all(&mut schedule, start.after(steps(step))));
        }
        assert_eq!(order.last(), Some(&first[0]));
        for _ in 0..FAILURES_MAX {
            schedule.answered(first[0], Sent::Failed);
        }
        assert_eq!(schedule.running[&first[0]].failures, 0);
    }

    #[test]
    fn a_starved_thread_spreads_what_it_missed() {
        let (mut schedule, start) = filled(80);
        assert_eq!(take_all(&mut schedule, start.after(steps(1))).len(), 10);
        // The thread slept through steps 2 to 6: the 70 that wait are spread over steps 6, 7, 8.
        let late = take_all(&mut schedule, start.after(steps(6)));
        assert_eq!(late.len(), 24);
    }

    #[test]
    fn a_thread_that_slept_through_a_cycle_does_not_burst() {
        let (mut schedule, start) = filled(80);
        let now = start.after(steps(60));
        assert_eq!(take_all(&mut schedule, now).len(), 10);
        assert_eq!(schedule.next(|_| true), Some(now.after(steps(1))));
    }

    #[test]
    fn a_batch_has_a_bound() {
        let (mut schedule, start) = filled(8 * 1500);
        let now = start.after(steps(1));
        let sizes: Vec<usize> = std::iter::from_fn(|| schedule.take(now, |_| true))
            .map(|batch| batch.keys.len())
            .collect();
        assert_eq!(sizes, [1000, 500]);
    }

    #[test]
    fn two_full_cycles_and_more_fit_into_every_timeout() {
        for millis in [3000, 3001, 4999, 30_000, 45_123, 86_400_000] {
            let timeout = Duration::from_millis(millis);
            let cycle = cycle_of(timeout);
            assert!(cycle * 4 <= timeout && cycle * 6 > timeout, "{millis}");
        }
    }
}
