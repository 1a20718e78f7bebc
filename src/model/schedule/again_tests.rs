//! Cases for times that were missed: those that nobody has decided on, and runs that are decided on again.

use std::{collections::BTreeSet, time::Duration};

use proptest::prelude::*;

use super::{
    advance::{AHEAD_MAX, Seen},
    advance_tests::{BEGIN, Life, MINUTE, SECOND, spec},
    again::again,
    life::{Missed, Overlap, ScheduleSpec, State},
    missed::MISSED_AFTER,
};
use crate::model::ids::TaskId;

const MILLISECOND: Duration = Duration::from_millis(1);

impl Life {
    /// All runs that are due, and have not begun, are held where they would go out; those that are void are withdrawn, and a look
    /// counts them. Returns the times of those that go out, in seconds.
    fn hands_over(&mut self) -> Vec<u64> {
        let due = self.at.ahead.iter().filter(|run| run.time <= self.now);
        let held: BTreeSet<TaskId> = due.map(|run| run.id).collect();
        self.decides_again(&held);
        self.look();
        let due = self.at.ahead.iter().filter(|run| run.time <= self.now);
        due.map(|run| run.time.since(BEGIN).as_secs()).collect()
    }

    fn decides_again(&mut self, held: &BTreeSet<TaskId>) {
        let decided = self.with(|at, around| again(at, around, held));
        if let Some(decided) = decided {
            assert!(decided.more && decided.schedule.wake == Some(self.now));
            self.at = decided.schedule;
            let (void, _) = self.at.void_and_valid();
            self.seen
                .extend(void.iter().map(|run| (run.id, Seen::Withdrawn)));
        }
    }
}

fn missing(missed: Missed, every: Duration) -> Life {
    let mut life = Life::new(ScheduleSpec {
        missed,
        ..spec(every)
    });
    life.look();
    life
}

#[test]
fn missed_times_are_made_up_for_as_the_user_wants() {
    let outage = MINUTE * 10;
    let after_outage = |missed, window| {
        let mut life = Life::new(ScheduleSpec {
            missed,
            window,
            ..spec(MINUTE)
        });
        life.look_at(outage + SECOND * 40);
        let late: Vec<u64> = life
            .at
            .ahead
            .iter()
            .filter(|run| run.time <= life.now)
            .map(|run| run.time.since(BEGIN).as_secs() / 60)
            .collect();
        (late, life.at.missed)
    };
    assert_eq!(after_outage(Missed::Latest, MINUTE * 60), (vec![10], 9));
    assert_eq!(after_outage(Missed::Skip, MINUTE * 60), (vec![], 10));
    assert_eq!(after_outage(Missed::All, MINUTE * 60).0.len(), 10);
    assert_eq!(after_outage(Missed::All, MINUTE * 3), (vec![8, 9, 10], 7));
    assert_eq!(after_outage(Missed::Latest, SECOND * 35), (vec![], 10));
}

#[test]
fn a_long_outage_is_passed_over_in_bounded_writes() {
    let mut life = Life::new(ScheduleSpec {
        overlap: Overlap::Skip,
        ..spec(SECOND)
    });
    life.look_at(Duration::from_secs(395 * 86_400));
    assert_eq!(life.at.missed, 395 * 86_400 - 1);
    assert_eq!(life.at.ahead.len(), 1, "the last");
    let mut writes = 0;
    let mut life = Life::new(ScheduleSpec {
        missed: Missed::All,
        ..spec(SECOND)
    });
    life.now = BEGIN.after(SECOND * 5000);
    while let Some(advanced) = life.once().filter(|advanced| advanced.more) {
        life.at = advanced.schedule;
        writes += 1;
    }
    assert_eq!((writes, life.at.missed), (4, 1399));
    assert_eq!(life.seqs().len(), AHEAD_MAX);
}

#[test]
fn a_run_that_would_go_out_late_is_decided_on_again() {
    for (missed, runs, left_out) in [
        (Missed::Skip, vec![], 1),
        (Missed::Latest, vec![60], 0),
        (Missed::All, vec![60], 0),
    ] {
        let mut life = missing(missed, MINUTE);
        life.now = BEGIN.after(MINUTE + MISSED_AFTER);
        assert_eq!(life.hands_over(), [60], "{missed:?}: in time");
        life.now = life.now.after(MILLISECOND);
        assert_eq!(life.hands_over(), runs, "{missed:?}");
        assert_eq!(life.at.missed, left_out, "{missed:?}");
    }
}

#[test]
fn the_last_of_the_times_that_have_passed_runs_alone() {
    let mut life = missing(Missed::Latest, SECOND);
    life.now = BEGIN.after(SECOND * 7200);
    assert_eq!(life.hands_over(), [7200]);
    assert_eq!(life.at.missed, 7199);
    // A look comes before the runs are held: there is no room, and the times are decided on together all the same.
    let mut life = missing(Missed::Latest, SECOND);
    life.look_at(SECOND * 2);
    assert_eq!(life.seqs().len(), 62);
    life.look_at(SECOND * 4);
    assert_eq!(life.seqs().len(), AHEAD_MAX);
    life.look_at(SECOND * 7200);
    assert_eq!(life.at.missed, 7200 - 31 - 65, "one of them is left");
    life.now = BEGIN.after(SECOND * 7203);
    assert_eq!(life.hands_over(), [7203]);
    assert_eq!(life.at.missed, 7202);
}

/// Wheels hand over runs of one schedule apart from each other.
#[test]
fn runs_that_are_held_in_parts_are_decided_on_alike() {
    let mut life = missing(Missed::Latest, SECOND * 5);
    life.now = BEGIN.after(SECOND * 75);
    let ids: Vec<TaskId> = life.at.ahead.iter().map(|run| run.id).collect();
    for half in [0, 1] {
        let held = ids.iter().skip(half).step_by(2).copied().collect();
        life.decides_again(&held);
        life.look();
    }
    // Those of the last half minute are in time.
    assert_eq!(life.hands_over(), [45, 50, 55, 60, 65, 70, 75]);
    assert_eq!(life.at.missed, 8);
}

#[test]
fn times_behind_a_missed_one_are_decided_on_with_it() {
    let late = |missed, after: Duration| {
        let mut life = Life::new(ScheduleSpec {
            missed,
            ..spec(SECOND * 10)
        });
        life.look_at(after);
        let times = life.at.ahead.iter().filter(|run| run.time <= life.now);
        let times: Vec<u64> = times.map(|run| run.time.since(BEGIN).as_secs()).collect();
        (times, life.at.missed)
    };
    let in_time = SECOND * 10 + MISSED_AFTER;
    for missed in [Missed::Latest, Missed::Skip, Missed::All] {
        assert_eq!(late(missed, in_time), (vec![10, 20, 30, 40], 0));
    }
    let missed_one = in_time + MILLISECOND;
    assert_eq!(late(Missed::Latest, missed_one), (vec![40], 3));
    assert_eq!(late(Missed::Skip, missed_one), (vec![40], 3));
    assert_eq!(late(Missed::All, missed_one), (vec![10, 20, 30, 40], 0));
}

#[test]
fn a_run_that_has_begun_though_it_was_void_stays_a_run() {
    let mut life = missing(Missed::Skip, MINUTE);
    life.now = BEGIN.after(MINUTE * 2 - SECOND);
    let held: BTreeSet<TaskId> = life.at.ahead.iter().map(|run| run.id).collect();
    life.decides_again(&held);
    assert!(life.at.ahead.iter().all(|run| run.late));
    life.see(1, Seen::Active);
    life.look();
    assert_eq!((life.at.missed, life.at.used), (0, 2));
    assert_eq!(life.at.begun, [BEGIN.after(MINUTE)]);
}

#[test]
fn a_missed_run_does_not_count_against_the_limit_of_a_schedule_that_has_ended() {
    let mut life = Life::new(ScheduleSpec {
        missed: Missed::Skip,
        limit: Some(2),
        ..spec(SECOND * 20)
    });
    life.look();
    assert_eq!((life.seqs(), &life.at.state), (vec![1, 2], &State::Ended));
    life.now = BEGIN.after(SECOND * 62);
    assert_eq!(life.hands_over(), [40, 60], "22 s and 2 s late");
    assert_eq!((life.at.missed, life.at.used), (1, 2));
    assert_eq!(life.at.state, State::Ended);
}

#[test]
fn a_later_run_stands_for_a_missed_one_only_if_the_last_is_wanted() {
    for (missed, goes) in [(Missed::Latest, vec![]), (Missed::All, vec![20])] {
        let mut life = missing(missed, SECOND * 20);
        life.see(2, Seen::Active);
        life.see(3, Seen::Active);
        // The wheel of the first run is behind.
        life.look_at(SECOND * 62);
        assert_eq!(life.hands_over(), goes, "{missed:?}");
    }
}

#[test]
fn a_run_that_may_not_be_entered_is_looked_for_until_that_is_known() {
    let mut life = Life::new(ScheduleSpec {
        limit: Some(1),
        ..spec(MINUTE)
    });
    life.look();
    assert_eq!(life.at.state, State::Ended);
    life.unsure = life.at.ahead.iter().map(|run| run.id).collect();
    life.look_at(MINUTE * 3);
    assert!(life.at.ahead.iter().all(|run| !run.entered));
    assert_eq!(life.at.wake, Some(life.now.after(SECOND)));
    life.unsure.clear();
    life.look_at(MINUTE * 3 + SECOND);
    assert!(life.at.ahead.iter().all(|run| run.entered));
    assert_eq!(life.at.wake, None);
}

#[test]
fn a_run_is_made_up_for_within_the_window_alone() {
    for (after, goes) in [
        (MINUTE * 60, vec![3600]),
        (MINUTE * 60 + MILLISECOND, vec![]),
    ] {
        let mut life = Life::new(ScheduleSpec {
            missed: Missed::All,
            window: MINUTE * 60,
            ..spec(MINUTE * 60)
        });
        life.look_at(MINUTE * 60 - SECOND);
        life.now = BEGIN.after(MINUTE * 60 + after);
        let due = life.at.ahead.iter().filter(|run| run.seq == 1);
        let held = due.map(|run| run.id).collect();
        life.decides_again(&held);
        life.look();
        let first = life.at.ahead.iter().filter(|run| run.seq == 1);
        let first: Vec<u64> = first.map(|run| run.time.since(BEGIN).as_secs()).collect();
        assert_eq!(first, goes);
    }
}

/// Expressions are passed at once as intervals are.
#[test]
fn a_year_of_cron_expressions_is_passed_in_one_write() {
    let expressions = ["* * * * * *", "0 9 * * *"].map(str::to_owned);
    let mut life = Life::new(ScheduleSpec {
        crons: expressions.to_vec(),
        every: None,
        ..spec(SECOND)
    });
    life.now = BEGIN.after(Duration::from_secs(395 * 86_400));
    let advanced = life.once().unwrap();
    assert_eq!(advanced.schedule.missed, 395 * 86_400 - 1);
    assert_eq!(advanced.schedule.ahead[0].time, life.now);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Each time that has passed is one run or was missed, whichever runs are held, and in which parts; a run that would be late
    /// goes out only where it is made up for.
    #[test]
    fn each_time_runs_or_was_missed(
        every in 1..100_u64,
        missed in prop::sample::select(vec![Missed::Latest, Missed::All, Missed::Skip]),
        steps in prop::collection::vec((0..200_u64, any::<u16>()), 1..20),
    ) {
        let mut life = Life::new(ScheduleSpec {
            overlap: Overlap::Allow,
            missed,
            ..spec(SECOND * u32::try_from(every).unwrap())
        });
        let (mut passed, mut runs) = (0, BTreeSet::new());
        for (pause, chance) in steps {
            passed += pause;
            life.look_at(SECOND * u32::try_from(passed).unwrap());
            let due = life.at.ahead.iter().filter(|run| run.time <= life.now);
            let due: Vec<TaskId> = due.map(|run| run.id).collect();
            for part in 0..2 {
                let in_part = |(index, _): &(usize, &TaskId)| usize::from(chance >> (index % 16) & 1) == part;
                let held = due.iter().enumerate().filter(in_part).map(|(_, id)| *id).collect();
                life.decides_again(&held);
                if chance & 1 == 0 {
                    life.look();
                }
            }
            life.look();
            for run in life.at.ahead.iter().filter(|run| run.time <= life.now) {
                let late = life.now.since(run.time) > MISSED_AFTER;
                prop_assert!(!late || missed != Missed::Skip || !due.contains(&run.id));
                prop_assert!(runs.insert(run.time));
                life.seen.insert(run.id, Seen::Ended { failed: false });
            }
            life.look();
            // Where there was no room, some have only been decided on now.
            if life.at.ahead.iter().all(|run| run.time > life.now) {
                let times = life.now.since(BEGIN).as_secs() / every;
                prop_assert_eq!(runs.len() as u64 + life.at.missed, times);
            }
        }
    }
}
