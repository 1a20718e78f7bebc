//! Lanes keep a sick topic from delaying healthy ones for the publisher: they note how each partition
//! answers, and choose the producer of its next record.
//!
//! A partition is sick when it has open records and has acknowledged none for [`limits::TOPIC_PATIENCE`], or
//! when a record timed out there. A busy partition whose records take long is not sick: it acknowledges all
//! the time. Records of a sick partition leave by the spare producer, [`limits::SICK_LANE_RECORDS_MAX`] at a
//! time. These are enough to notice when it is well again, and so few that hardly one goes out twice. A quick
//! acknowledgement there heals it.
//!
//! A record without a key may go to any partition, so it goes to one that is well, if there is one. To find a
//! sick partition well again where no other record goes, one such record is risked on it ever more seldom.
//!
//! The spare producer also tells two faults apart that look the same from outside. If it gets through while
//! the main one has had no answer for [`limits::PRODUCER_STALL`], the main one is stuck and has to be
//! replaced. If neither gets through, the topic is at fault (no leader, fewer replicas than
//! `min.insync.replicas`) and a new producer would not help.
//!
//! The first record of a producer to a partition travels alone. A broker that has no state of a producer
//! accepts any first sequence number. If it refuses one batch because it does not lead the partition yet and
//! takes the next, librdkafka counts the first as stored too, and the record is lost (confluent-kafka-go#921).
//! Once one record is acknowledged, the broker refuses what is out of sequence, and librdkafka sends it again.
//!
//! It is pure except for its locks: instants are arguments.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, futures::Notified};

use crate::{limits, time_source::Moment};

/// The producer by which a record leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// The producer of healthy partitions.
    Main,
    /// The producer of sick partitions.
    Spare,
}

/// The answer to a record that wants to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    /// It may leave, and counts as open.
    Open(By),
    /// The first record of this producer is on its way, or the producer was replaced just now. It is to ask again after
    /// [`Lanes::changed`].
    Wait,
    /// The allowed number of records is open already.
    Full,
}

/// How a record came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The partition has stored it.
    Acknowledged,
    /// The broker or the client answered, and refused it.
    Answered,
    /// There was no answer in time.
    TimedOut,
    /// Its producer was given up, which says nothing about the partition.
    GivenUp,
}

#[derive(Debug, Clone, Copy)]
struct Side {
    open: usize,
    /// Since when there was no answer; counts only while a record is open.
    silent_since: Moment,
    /// The number of the producer of which the next two fields tell.
    producer: u64,
    /// When a record was acknowledged last.
    acknowledged: Option<Moment>,
    /// A record travels alone.
    has_first: bool,
}

impl Side {
    const fn new(now: Moment) -> Self {
        Self {
            open: 0,
            silent_since: now,
            producer: 0,
            acknowledged: None,
            has_first: false,
        }
    }

    /// Lets a record of this producer in, unless it has to wait for the first one.
    fn enter(&mut self, now: Moment, producer: u64) -> bool {
        if producer < self.producer {
            return false;
        }
        if producer > self.producer {
            self.producer = producer;
            self.acknowledged = None;
            self.has_first = false;
        }
        let known = |at: Moment| now.since(at) < limits::PRODUCER_REMEMBERED;
        if !self.acknowledged.is_some_and(known) {
            if self.has_first {
                return false;
            }
            self.has_first = true;
        }
        if self.open == 0 {
            self.silent_since = now;
        }
        self.open += 1;
        true
    }

    /// Tells whether others may have waited for this record.
    fn leave(&mut self, now: Moment, producer: u64, outcome: Outcome) -> bool {
        self.open = self.open.saturating_sub(1);
        if matches!(outcome, Outcome::Acknowledged | Outcome::Answered) {
            self.silent_since = now;
        }
        if producer != self.producer {
            return false;
        }
        if outcome == Outcome::Acknowledged {
            self.acknowledged = Some(now);
        }
        std::mem::take(&mut self.has_first)
    }

    fn silent_for(&self, now: Moment) -> Duration {
        match self.open {
            0 => Duration::ZERO,
            _ => now.since(self.silent_since),
        }
    }
}

#[derive(Debug)]
struct State {
    main: Side,
    spare: Side,
    sick: bool,
    /// Since when it had been silent when it was found sick.
    sick_from: Moment,
    /// When the spare producer got through last.
    proved: Option<Moment>,
    /// When a record that could have gone elsewhere was risked here last, and how often since the partition
    /// is sick.
    risked: Option<(Moment, u32)>,
}

/// One partition of one topic.
#[derive(Debug)]
pub(super) struct Lane {
    state: Mutex<State>,
    /// How long it may be silent.
    patience: Duration,
    changed: Arc<Notify>,
}

impl Lane {
    fn new(patience: Duration, now: Moment, changed: Arc<Notify>) -> Self {
        let side = Side::new(now);
        let state = State {
            main: side,
            spare: side,
            sick: false,
            sick_from: now,
            proved: None,
            risked: None,
        };
        Self {
            state: Mutex::new(state),
            patience,
            changed,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Returns the producer that the next record has to take.
    pub(super) fn by(&self, now: Moment) -> By {
        if self.is_sick(now) {
            By::Spare
        } else {
            By::Main
        }
    }

    /// Lets a record in that leaves by the producer of this number, or refuses it; also tells whether the main
    /// producer is known to be stuck.
    pub(super) fn enter(&self, now: Moment, by: By, producer: u64) -> (Entry, bool) {
        let mut state = self.lock();
        state.notice(now, self.patience);
        match (by, state.sick) {
            (By::Main, false) if state.main.enter(now, producer) => {
                return (Entry::Open(By::Main), false);
            }
            (By::Main, false) => return (Entry::Wait, false),
            (By::Spare, true) => {}
            (By::Main, true) | (By::Spare, false) => return (Entry::Wait, false),
        }
        let silent_since = state.main.silent_since;
        let stuck = state.main.silent_for(now) >= limits::PRODUCER_STALL
            && state.proved.is_some_and(|proved| proved > silent_since);
        if state.spare.open >= limits::SICK_LANE_RECORDS_MAX {
            return (Entry::Full, stuck);
        }
        // The partition is silent: a record does not wait for one that may stay open for long.
        let entry = match state.spare.enter(now, producer) {
            true => Entry::Open(By::Spare),
            false => Entry::Full,
        };
        (entry, stuck)
    }

    /// Tells whether a record that may go to any partition should go to this one.
    fn takes_any(&self, now: Moment) -> bool {
        let mut state = self.lock();
        state.notice(now, self.patience);
        if !state.sick {
            state.risked = None;
            return true;
        }
        let (last, times) = *state.risked.get_or_insert((now, 0));
        let pause = limits::SICK_RISKED_EVERY.saturating_mul(1 << times.min(5));
        let is_risked = now.since(last) >= pause;
        if is_risked {
            state.risked = Some((now, times + 1));
        }
        is_risked
    }

    /// Takes back a record that entered by the producer of this number at `since`.
    pub(super) fn leave(
        &self,
        (by, producer): (By, u64),
        since: Moment,
        now: Moment,
        outcome: Outcome,
    ) {
        let mut state = self.lock();
        let side = match by {
            By::Main => &mut state.main,
            By::Spare => &mut state.spare,
        };
        if side.leave(now, producer, outcome) {
            self.changed.notify_waiters();
        }
        match (outcome, by) {
            (Outcome::TimedOut, _) => state.fall_sick(since),
            (Outcome::Acknowledged, By::Spare) => {
                state.proved = Some(now);
                // Records that the main producer still holds would be overtaken, and would stall again if
                // that producer is at fault.
                if state.main.open == 0 && now.since(since) <= self.patience {
                    state.sick = false;
                }
            }
            (Outcome::Acknowledged, By::Main) | (Outcome::Answered | Outcome::GivenUp, _) => {}
        }
    }

    /// Tells whether a record that is open here should be waited for no longer.
    pub(super) fn is_sick(&self, now: Moment) -> bool {
        let mut state = self.lock();
        state.notice(now, self.patience);
        state.sick
    }

    /// Tells whether open records of this partition show that the whole queue may be silent, where any partition has acknowledged
    /// something last at `acknowledged`. The silence of one that was silent before that shows nothing.
    fn shows_silence(&self, now: Moment, acknowledged: Option<Moment>) -> bool {
        let mut state = self.lock();
        state.notice(now, self.patience);
        let (open, from) = if state.sick {
            (state.main.open + state.spare.open, state.sick_from)
        } else {
            (state.main.open, state.main.silent_since)
        };
        open > 0 && acknowledged.is_none_or(|at| from >= at)
    }

    fn is_idle(&self) -> bool {
        let state = self.lock();
        !state.sick && state.main.open == 0
    }
}

impl State {
    fn notice(&mut self, now: Moment, patience: Duration) {
        if self.main.silent_for(now) > patience {
            self.fall_sick(self.main.silent_since);
        }
    }

    const fn fall_sick(&mut self, from: Moment) {
        if !self.sick {
            self.sick = true;
            self.sick_from = from;
        }
    }
}

/// The lanes of one topic.
#[derive(Debug)]
struct Topic {
    partitions: HashMap<i32, Arc<Lane>>,
    /// Where records without a key go, and since when.
    turn: (i32, Moment),
}

/// The lanes that are in use.
#[derive(Debug)]
pub(super) struct Lanes {
    patience: Duration,
    by_topic: Mutex<HashMap<String, Topic>>,
    changed: Arc<Notify>,
}

impl Lanes {
    pub(super) fn new(patience: Duration) -> Self {
        Self {
            patience,
            by_topic: Mutex::default(),
            changed: Arc::default(),
        }
    }

    /// Tells whether nothing has been acknowledged for so long, last at `acknowledged`, that the brokers may be away. Where only
    /// partitions have open records that were silent before, their topics are at fault, and little else was sent.
    pub(super) fn is_queue_silent(&self, now: Moment, acknowledged: Option<Moment>) -> bool {
        if acknowledged.is_some_and(|at| now.since(at) <= limits::QUEUE_SILENT) {
            return false;
        }
        let by_topic = self.by_topic.lock();
        let mut lanes = by_topic
            .values()
            .flat_map(|topic| topic.partitions.values());
        lanes.any(|lane| lane.shows_silence(now, acknowledged))
    }

    /// Resolves when the first record of a producer to any partition has come back. Polled before the lane is asked, it
    /// misses none.
    pub(super) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Returns the lane of a partition; -1 stands for the partition that the client chooses.
    pub(super) fn of(&self, topic: &str, partition: i32, now: Moment) -> Arc<Lane> {
        let mut by_topic = self.by_topic.lock();
        if let Some(lane) = by_topic
            .get(topic)
            .and_then(|topic| topic.partitions.get(&partition))
        {
            return Arc::clone(lane);
        }
        if by_topic.len() >= limits::TOPICS_KNOWN_MAX {
            // A lane that is well and empty says nothing.
            by_topic.retain(|_, topic| topic.partitions.values().any(|lane| !lane.is_idle()));
        }
        let lane = Arc::new(Lane::new(self.patience, now, Arc::clone(&self.changed)));
        let topic = by_topic.entry(topic.to_owned()).or_insert_with(|| Topic {
            partitions: HashMap::new(),
            turn: (0, now),
        });
        topic.partitions.insert(partition, Arc::clone(&lane));
        lane
    }

    /// Chooses the partition of a record without a key. Each partition has its turn for a moment, so that
    /// records travel together. A sick one is left out while another is well.
    pub(super) fn choose(&self, topic: &str, count: i32, now: Moment) -> i32 {
        let first = self.turn(topic, count, now);
        let in_turn = (0..count).map(|more| (first + more).rem_euclid(count));
        let mut well = in_turn.filter(|partition| self.of(topic, *partition, now).takes_any(now));
        well.next().unwrap_or(first)
    }

    fn turn(&self, topic: &str, count: i32, now: Moment) -> i32 {
        let mut by_topic = self.by_topic.lock();
        let Some(Topic { turn, .. }) = by_topic.get_mut(topic) else {
            return 0;
        };
        if now.since(turn.1) >= limits::KEYLESS_TOGETHER || turn.0 >= count {
            *turn = ((turn.0 + 1).rem_euclid(count), now);
        }
        turn.0
    }
}

#[cfg(test)]
#[path = "lanes_tests.rs"]
mod tests;
