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
//! It is pure except for its locks: instants are arguments.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

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
}

impl Side {
    fn enter(&mut self, now: Moment) {
        if self.open == 0 {
            self.silent_since = now;
        }
        self.open += 1;
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
}

impl Lane {
    fn new(patience: Duration, now: Moment) -> Self {
        let side = Side {
            open: 0,
            silent_since: now,
        };
        let state = State {
            main: side,
            spare: side,
            sick: false,
            proved: None,
            risked: None,
        };
        Self {
            state: Mutex::new(state),
            patience,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a record in or refuses it; also tells whether the main producer is known to be stuck.
    pub(super) fn enter(&self, now: Moment) -> (Entry, bool) {
        let mut state = self.lock();
        state.notice(now, self.patience);
        if !state.sick {
            state.main.enter(now);
            return (Entry::Open(By::Main), false);
        }
        let silent_since = state.main.silent_since;
        let stuck = state.main.silent_for(now) >= limits::PRODUCER_STALL
            && state.proved.is_some_and(|proved| proved > silent_since);
        if state.spare.open >= limits::SICK_LANE_RECORDS_MAX {
            return (Entry::Full, stuck);
        }
        state.spare.enter(now);
        (Entry::Open(By::Spare), stuck)
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

    /// Takes back a record that entered at `since`.
    pub(super) fn leave(&self, by: By, since: Moment, now: Moment, outcome: Outcome) {
        let mut state = self.lock();
        let side = match by {
            By::Main => &mut state.main,
            By::Spare => &mut state.spare,
        };
        side.open = side.open.saturating_sub(1);
        if matches!(outcome, Outcome::Acknowledged | Outcome::Answered) {
            side.silent_since = now;
        }
        match (outcome, by) {
            (Outcome::TimedOut, _) => state.sick = true,
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

    fn is_idle(&self) -> bool {
        let state = self.lock();
        !state.sick && state.main.open == 0
    }
}

impl State {
    fn notice(&mut self, now: Moment, patience: Duration) {
        self.sick |= self.main.silent_for(now) > patience;
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
}

impl Lanes {
    pub(super) fn new(patience: Duration) -> Self {
        Self {
            patience,
            by_topic: Mutex::default(),
        }
    }

    /// Returns the lane of a partition; -1 stands for the partition that the client chooses.
    pub(super) fn of(&self, topic: &str, partition: i32, now: Moment) -> Arc<Lane> {
        let mut by_topic = self.by_topic.lock().unwrap_or_else(PoisonError::into_inner);
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
        let lane = Arc::new(Lane::new(self.patience, now));
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
        let mut by_topic = self.by_topic.lock().unwrap_or_else(PoisonError::into_inner);
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
mod tests {
    use super::*;
    use crate::time_source::TimeSource;

    fn begin() -> (Lane, Moment) {
        let now = TimeSource::simulated(crate::model::time::Millis(0), 1).moment();
        (Lane::new(limits::TOPIC_PATIENCE, now), now)
    }

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_partition_that_is_busy_is_not_sick() {
        let (lane, now) = begin();
        // Twice as many records come as are acknowledged, so in the end a record takes two seconds.
        for step in 0..100 {
            let at = now.after(ms(step * 20));
            assert_eq!(lane.enter(at).0, Entry::Open(By::Main));
            if step % 2 == 1 {
                let since = now.after(ms(step * 10));
                lane.leave(By::Main, since, at, Outcome::Acknowledged);
            }
            assert!(!lane.is_sick(at), "it acknowledges all the time");
        }
    }

    #[test]
    fn a_silent_partition_has_few_records_open_and_one_quick_answer_heals_it() {
        let (lane, now) = begin();
        assert_eq!(lane.enter(now).0, Entry::Open(By::Main));
        assert!(!lane.is_sick(now.after(limits::TOPIC_PATIENCE)));
        let later = now.after(limits::TOPIC_PATIENCE + ms(1));
        assert!(lane.is_sick(later));
        for _ in 0..limits::SICK_LANE_RECORDS_MAX {
            assert_eq!(lane.enter(later).0, Entry::Open(By::Spare));
        }
        assert_eq!(lane.enter(later).0, Entry::Full);
        // The outage ends. Records that were open for long say nothing; the next ones do.
        let end = later.after(ms(5000));
        lane.leave(By::Main, now, end, Outcome::Acknowledged);
        for _ in 0..limits::SICK_LANE_RECORDS_MAX {
            lane.leave(By::Spare, later, end, Outcome::Acknowledged);
        }
        assert!(lane.is_sick(end));
        assert_eq!(lane.enter(end).0, Entry::Open(By::Spare));
        lane.leave(By::Spare, end, end.after(ms(5)), Outcome::Acknowledged);
        assert_eq!(lane.enter(end.after(ms(5))).0, Entry::Open(By::Main));
    }

    #[test]
    fn a_refusal_is_an_answer_and_a_timeout_is_none() {
        let (lane, now) = begin();
        lane.enter(now);
        lane.leave(By::Main, now, now.after(ms(200)), Outcome::Answered);
        assert!(!lane.is_sick(now.after(ms(9000))));
        lane.enter(now);
        lane.leave(By::Main, now, now.after(ms(200)), Outcome::GivenUp);
        assert!(!lane.is_sick(now.after(ms(9000))));
        lane.enter(now);
        lane.leave(By::Main, now, now.after(ms(200)), Outcome::TimedOut);
        assert!(lane.is_sick(now.after(ms(200))));
    }

    #[test]
    fn the_main_producer_is_stuck_only_where_the_spare_one_gets_through() {
        let (lane, now) = begin();
        lane.enter(now);
        let later = now.after(ms(1000));
        assert_eq!(lane.enter(later), (Entry::Open(By::Spare), false));
        let stall = now.after(limits::PRODUCER_STALL);
        assert!(!lane.enter(stall).1, "a topic that is sick for both");
        lane.leave(By::Spare, later, later.after(ms(5)), Outcome::Acknowledged);
        assert!(
            lane.is_sick(later.after(ms(5))),
            "the main one still holds a record"
        );
        assert!(!lane.enter(later.after(ms(6))).1, "it may be slow");
        assert!(lane.enter(stall).1);
    }

    #[test]
    fn records_without_a_key_go_where_it_is_well_in_turn() {
        let begun = begin().1;
        let lanes = Lanes::new(limits::TOPIC_PATIENCE);
        let at = |millis| begun.after(ms(millis));
        let together = u64::try_from(limits::KEYLESS_TOGETHER.as_millis()).unwrap();
        let chosen = |turns: std::ops::Range<u64>| -> Vec<i32> {
            turns
                .map(|turn| lanes.choose("t", 3, at(turn * together)))
                .collect()
        };
        assert_eq!(chosen(0..6), [0, 1, 2, 0, 1, 2]);
        assert_eq!(
            lanes.choose("t", 3, at(5 * together + 1)),
            2,
            "with the last"
        );
        // One is silent.
        lanes.of("t", 1, begun).enter(at(0));
        let later = 1000 / together;
        let well = chosen(later..later + 60);
        assert!(well.iter().all(|partition| *partition != 1), "{well:?}");
        assert!(well.contains(&0) && well.contains(&2));
        // It is risked ever more seldom.
        let every = u64::try_from(limits::SICK_RISKED_EVERY.as_millis()).unwrap() / together;
        let risked = chosen(later..later + 16 * every);
        let risked = risked.iter().filter(|partition| **partition == 1).count();
        assert_eq!(risked, 4, "after 1, 3, 7 and 15 pauses");
        // All are silent, so the one whose turn it is gets it.
        for partition in [0, 2] {
            lanes.of("t", partition, begun).enter(at(0));
        }
        let any = chosen(later + 16 * every + 10..later + 16 * every + 13);
        assert_eq!(any.iter().sum::<i32>(), 3, "{any:?}");
        let healed = at((later + 17 * every) * together);
        let lane = lanes.of("t", 1, healed);
        lane.leave(By::Main, begun, healed, Outcome::TimedOut);
        lane.enter(healed);
        lane.leave(
            By::Spare,
            healed,
            healed.after(ms(5)),
            Outcome::Acknowledged,
        );
        assert!(lane.takes_any(healed.after(ms(6))));
    }

    #[test]
    fn lanes_that_are_well_and_empty_are_forgotten() {
        let now = begin().1;
        let lanes = Lanes::new(limits::TOPIC_PATIENCE);
        let held = lanes.of("held", 0, now);
        held.enter(now);
        for number in 0..limits::TOPICS_KNOWN_MAX {
            lanes.of(&number.to_string(), 0, now);
        }
        let kept = lanes.by_topic.lock().unwrap().len();
        assert!(kept <= 3, "{kept} topics");
        assert!(Arc::ptr_eq(&held, &lanes.of("held", 0, now)));
    }
}
