//! Sick and new partitions keep their rules for the publisher.

use super::*;
use crate::time_source::TimeSource;

fn begin() -> (Lane, Moment) {
    let now = TimeSource::simulated(crate::model::time::Millis(0), 1).moment();
    let lane = Lane::new(limits::TOPIC_PATIENCE, now, Arc::default());
    // Its first record was acknowledged.
    for by in [By::Main, By::Spare] {
        let mut state = lane.lock();
        let side = match by {
            By::Main => &mut state.main,
            By::Spare => &mut state.spare,
        };
        assert!(side.enter(now, 1));
        side.leave(now, 1, Outcome::Acknowledged);
    }
    (lane, now)
}

/// Enters by the producer that the lane names.
fn enter(lane: &Lane, now: Moment) -> (Entry, bool) {
    lane.enter(now, lane.by(now), 1)
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
        assert_eq!(enter(&lane, at).0, Entry::Open(By::Main));
        if step % 2 == 1 {
            let since = now.after(ms(step * 10));
            lane.leave((By::Main, 1), since, at, Outcome::Acknowledged);
        }
        assert!(!lane.is_sick(at), "it acknowledges all the time");
    }
}

#[test]
fn a_silent_partition_has_few_records_open_and_one_quick_answer_heals_it() {
    let (lane, now) = begin();
    assert_eq!(enter(&lane, now).0, Entry::Open(By::Main));
    assert!(!lane.is_sick(now.after(limits::TOPIC_PATIENCE)));
    let later = now.after(limits::TOPIC_PATIENCE + ms(1));
    assert!(lane.is_sick(later));
    for _ in 0..limits::SICK_LANE_RECORDS_MAX {
        assert_eq!(enter(&lane, later).0, Entry::Open(By::Spare));
    }
    assert_eq!(enter(&lane, later).0, Entry::Full);
    // The outage ends. Records that were open for long say nothing; the next ones do.
    let end = later.after(ms(5000));
    lane.leave((By::Main, 1), now, end, Outcome::Acknowledged);
    for _ in 0..limits::SICK_LANE_RECORDS_MAX {
        lane.leave((By::Spare, 1), later, end, Outcome::Acknowledged);
    }
    assert!(lane.is_sick(end));
    assert_eq!(enter(&lane, end).0, Entry::Open(By::Spare));
    lane.leave((By::Spare, 1), end, end.after(ms(5)), Outcome::Acknowledged);
    assert_eq!(enter(&lane, end.after(ms(5))).0, Entry::Open(By::Main));
}

#[test]
fn a_refusal_is_an_answer_and_a_timeout_is_none() {
    let (lane, now) = begin();
    enter(&lane, now);
    lane.leave((By::Main, 1), now, now.after(ms(200)), Outcome::Answered);
    assert!(!lane.is_sick(now.after(ms(9000))));
    enter(&lane, now);
    lane.leave((By::Main, 1), now, now.after(ms(200)), Outcome::GivenUp);
    assert!(!lane.is_sick(now.after(ms(9000))));
    enter(&lane, now);
    lane.leave((By::Main, 1), now, now.after(ms(200)), Outcome::TimedOut);
    assert!(lane.is_sick(now.after(ms(200))));
}

#[test]
fn the_main_producer_is_stuck_only_where_the_spare_one_gets_through() {
    let (lane, now) = begin();
    enter(&lane, now);
    let later = now.after(ms(1000));
    assert_eq!(enter(&lane, later), (Entry::Open(By::Spare), false));
    let stall = now.after(limits::PRODUCER_STALL);
    assert!(!enter(&lane, stall).1, "a topic that is sick for both");
    lane.leave(
        (By::Spare, 1),
        later,
        later.after(ms(5)),
        Outcome::Acknowledged,
    );
    assert!(
        lane.is_sick(later.after(ms(5))),
        "the main one still holds a record"
    );
    assert!(!enter(&lane, later.after(ms(6))).1, "it may be slow");
    assert!(enter(&lane, stall).1);
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
    enter(&lanes.of("t", 1, begun), at(0));
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
        enter(&lanes.of("t", partition, begun), at(0));
    }
    let any = chosen(later + 16 * every + 10..later + 16 * every + 13);
    assert_eq!(any.iter().sum::<i32>(), 3, "{any:?}");
    let healed = at((later + 17 * every) * together);
    let lane = lanes.of("t", 1, healed);
    lane.leave((By::Main, 1), begun, healed, Outcome::TimedOut);
    enter(&lane, healed);
    lane.leave(
        (By::Spare, 1),
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
    enter(&held, now);
    for number in 0..limits::TOPICS_KNOWN_MAX {
        lanes.of(&number.to_string(), 0, now);
    }
    let kept = lanes.by_topic.lock().len();
    assert!(kept <= 3, "{kept} topics");
    assert!(Arc::ptr_eq(&held, &lanes.of("held", 0, now)));
}

#[test]
fn the_first_record_of_a_producer_travels_alone() {
    let now = begin().1;
    let lane = Lane::new(limits::TOPIC_PATIENCE, now, Arc::default());
    let enter = |producer, at| lane.enter(at, By::Main, producer).0;
    let leave = |producer, outcome| lane.leave((By::Main, producer), now, now, outcome);
    let open = Entry::Open(By::Main);
    assert_eq!([enter(1, now), enter(1, now)], [open, Entry::Wait]);
    // Another one is the first when that was not stored.
    leave(1, Outcome::Answered);
    assert_eq!([enter(1, now), enter(1, now)], [open, Entry::Wait]);
    leave(1, Outcome::Acknowledged);
    assert_eq!([enter(1, now), enter(1, now)], [open, open]);
    // The broker may forget a producer that is silent for long.
    let kept = now.after(limits::PRODUCER_REMEMBERED - ms(1));
    leave(1, Outcome::Acknowledged);
    leave(1, Outcome::Acknowledged);
    assert_eq!([enter(1, kept), enter(1, kept)], [open, open]);
    leave(1, Outcome::Answered);
    leave(1, Outcome::Answered);
    let forgotten = now.after(limits::PRODUCER_REMEMBERED);
    assert_eq!(
        [enter(1, forgotten), enter(1, forgotten)],
        [open, Entry::Wait]
    );
    // A new producer is not known there. The answers to its predecessor say nothing about it.
    assert_eq!([enter(2, now), enter(2, now)], [open, Entry::Wait]);
    leave(1, Outcome::Acknowledged);
    assert_eq!([enter(2, now), enter(1, now)], [Entry::Wait, Entry::Wait]);
    leave(2, Outcome::Acknowledged);
    assert_eq!([enter(2, now), enter(2, now)], [open, open]);
}

#[test]
fn a_silent_partition_gets_one_record_of_a_new_spare_producer() {
    let (lane, now) = begin();
    enter(&lane, now);
    let later = now.after(limits::TOPIC_PATIENCE + ms(1));
    assert_eq!(lane.by(later), By::Spare);
    let enter = || lane.enter(later, By::Spare, 2).0;
    assert_eq!([enter(), enter()], [Entry::Open(By::Spare), Entry::Full]);
    lane.leave((By::Spare, 2), later, later, Outcome::Acknowledged);
    assert_eq!([enter(), enter()], [Entry::Open(By::Spare); 2]);
}

#[test]
fn a_sick_topic_beside_little_else_is_not_taken_for_a_silent_queue() {
    let now = TimeSource::simulated(crate::model::time::Millis(0), 1).moment();
    let lanes = Lanes::new(limits::TOPIC_PATIENCE);
    let (sick, well) = (lanes.of("sick", 0, now), lanes.of("well", 0, now));
    assert_eq!(enter(&sick, now).0, Entry::Open(By::Main));
    // Another one acknowledges before that is known to be sick, and nothing comes for a while.
    let at = now.after(ms(200));
    assert_eq!(enter(&well, now).0, Entry::Open(By::Main));
    well.leave((By::Main, 1), now, at, Outcome::Acknowledged);
    let silent = limits::QUEUE_SILENT + ms(1);
    let later = at.after(silent);
    assert!(!lanes.is_queue_silent(later, Some(at)));
    assert_eq!(enter(&sick, later).0, Entry::Open(By::Spare));
    assert!(!lanes.is_queue_silent(later, Some(at)));
    // One that was well has no answer either: the brokers are away, also when it is found sick.
    assert_eq!(enter(&well, later).0, Entry::Open(By::Main));
    assert!(lanes.is_queue_silent(later, Some(at)));
    let sick_too = later.after(limits::TOPIC_PATIENCE * 2);
    assert!(well.is_sick(sick_too));
    assert!(lanes.is_queue_silent(sick_too, Some(at)));
    // Not before a second without any answer.
    assert!(!lanes.is_queue_silent(at.after(limits::QUEUE_SILENT), Some(at)));
    // A queue that has never answered.
    assert!(lanes.is_queue_silent(later, None));
}
