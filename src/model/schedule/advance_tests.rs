//! Cases for what a schedule decides on: order, limits, overlap, missed times, failures, and random lives.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use proptest::prelude::*;

use super::{
    advance::{AHEAD, AHEAD_MAX, Advanced, Around, Seen, advance},
    life::{ChangeMark, Missed, Overlap, Pause, Schedule, ScheduleSpec, State},
    plan::{self, Plan},
    run::Namer,
};
use crate::model::{fixtures, ids::TaskId, look_step::LookStep, task::Spec, time::Millis};

pub(super) const BEGIN: Millis = Millis(1_800_000_000_000);
pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const MINUTE: Duration = Duration::from_secs(60);
pub(super) const ENDED: Seen = Seen::Ended { failed: false };

pub(super) fn spec(every: Duration) -> ScheduleSpec {
    ScheduleSpec {
        crons: Vec::new(),
        every: Some(every),
        zone: "UTC".to_owned(),
        start: None,
        end: None,
        limit: None,
        jitter: Duration::ZERO,
        overlap: Overlap::Allow,
        missed: Missed::Latest,
        window: MINUTE * 60,
        pause_on_failure: false,
        note: String::new(),
        labels: BTreeMap::new(),
        task: Spec::clone(&fixtures::spec()).into(),
    }
}

/// A schedule and the world around it.
pub(super) struct Life {
    pub(super) at: Schedule,
    pub(super) seen: BTreeMap<TaskId, Seen>,
    pub(super) unsure: BTreeSet<TaskId>,
    pub(super) now: Millis,
    skipped: Vec<u64>,
    stopped: Vec<u64>,
}

fn mark(at: Millis) -> ChangeMark {
    ChangeMark { id: 7, at }
}

impl Life {
    pub(super) fn new(spec: ScheduleSpec) -> Self {
        let step = LookStep::covering(MINUTE);
        let at = Schedule::created(spec, None, 5, step, mark(BEGIN));
        let plan = plan_of(&at);
        Self {
            at: at.going_on(plan.next(BEGIN), "a".to_owned()),
            seen: BTreeMap::new(),
            unsure: BTreeSet::new(),
            now: BEGIN,
            skipped: Vec::new(),
            stopped: Vec::new(),
        }
    }

    pub(super) fn once(&mut self) -> Option<Advanced> {
        self.with(advance)
    }

    /// Decides on what is known of it and around it.
    pub(super) fn with<T>(&self, decide: impl Fn(&Schedule, &Around<'_>) -> T) -> T {
        let (plan, shape) = (plan_of(&self.at), fixtures::shape());
        let around = Around {
            plan: &plan,
            zone_data: "a",
            namer: Namer {
                name: "n",
                incarnation: self.at.incarnation,
                step: self.at.step,
                shape: &shape,
            },
            seen: &self.seen,
            unsure: &self.unsure,
            now: self.now,
            mark: 9,
        };
        decide(&self.at, &around)
    }

    /// Looks at it until nothing more is to be decided.
    pub(super) fn look(&mut self) {
        for _ in 0..1000 {
            let Some(advanced) = self.once() else { return };
            self.at = advanced.schedule;
            self.skipped
                .extend(advanced.skipped.iter().map(|run| run.seq));
            self.stopped
                .extend(advanced.stopped.iter().map(|run| run.seq));
            if !advanced.more {
                return;
            }
        }
        panic!("it never comes to rest");
    }

    pub(super) fn look_at(&mut self, after: Duration) {
        self.now = BEGIN.after(after);
        self.look();
    }

    pub(super) fn seqs(&self) -> Vec<u64> {
        self.at.ahead.iter().map(|run| run.seq).collect()
    }

    pub(super) fn see(&mut self, seq: u64, seen: Seen) {
        let run = self.at.ahead.iter().find(|run| run.seq == seq).unwrap();
        self.seen.insert(run.id, seen);
    }
}

pub(super) fn plan_of(schedule: &Schedule) -> Plan {
    let every = schedule.spec.every.map(plan::Rule::Every);
    let crons = schedule.spec.crons.iter();
    let crons = crons.map(|text| plan::read(text, 0).unwrap().rule);
    Plan {
        rules: every.into_iter().chain(crons).collect(),
        zone: jiff::tz::TimeZone::UTC,
        anchor: schedule.anchor(),
        start: schedule.spec.start,
        end: schedule.spec.end,
    }
}

#[test]
fn runs_are_decided_on_ahead_and_once() {
    let mut life = Life::new(spec(SECOND * 20));
    life.look();
    assert_eq!(life.seqs(), [1, 2, 3]);
    let times: Vec<Millis> = life.at.ahead.iter().map(|run| run.time).collect();
    assert_eq!(times, [20, 40, 60].map(|s| BEGIN.after(SECOND * s)));
    assert!(
        life.at
            .ahead
            .iter()
            .all(|run| run.id.first_start() == run.time)
    );
    assert!(life.at.wake.unwrap() > BEGIN && life.at.wake.unwrap() < BEGIN.after(MINUTE));
    // The entries are there: that is written down once.
    life.look();
    assert!(life.at.ahead.iter().all(|run| run.entered));
    assert_eq!(life.once(), None);
    life.see(1, Seen::Active);
    life.look_at(SECOND * 30);
    assert_eq!(
        life.seqs(),
        [2, 3, 4],
        "the one that began is not looked at any more"
    );
}

#[test]
fn a_schedule_ends_at_its_limit_and_at_its_end() {
    let mut life = Life::new(ScheduleSpec {
        limit: Some(2),
        ..spec(SECOND * 20)
    });
    life.look();
    assert_eq!((life.seqs(), &life.at.state), (vec![1, 2], &State::Ended));
    let mut life = Life::new(ScheduleSpec {
        end: Some(BEGIN.after(SECOND * 25)),
        ..spec(SECOND * 20)
    });
    life.look();
    assert_eq!((life.seqs(), &life.at.state), (vec![1], &State::Ended));
    assert_eq!(life.at.wake, None);
}

#[test]
fn a_change_gives_back_what_it_withdrew() {
    let mut life = Life::new(ScheduleSpec {
        limit: Some(3),
        ..spec(SECOND * 30)
    });
    life.look();
    assert_eq!((life.seqs(), life.at.used), (vec![1, 2], 2));
    life.now = BEGIN.after(SECOND * 31);
    life.see(1, Seen::Active);
    life.see(2, Seen::Withdrawn);
    let paused = life.at.paused(Pause::default(), mark(life.now)).unwrap();
    life.at = paused;
    life.look();
    assert_eq!((life.seqs(), life.at.used, life.at.next), (vec![], 1, None));
    let resumed = life.at.resumed(mark(life.now)).unwrap();
    let next = plan_of(&resumed).next(life.now);
    life.at = resumed.going_on(next, "a".to_owned());
    life.look_at(SECOND * 35);
    assert_eq!((life.seqs(), life.at.used), (vec![3, 4], 3));
    assert_eq!(life.at.state, State::Ended);
}

#[test]
fn no_jitter_takes_a_run_behind_the_end() {
    let end = Some(BEGIN.after(SECOND * 45));
    let jitter = MINUTE * 60;
    let mut life = Life::new(ScheduleSpec {
        end,
        jitter,
        ..spec(SECOND * 20)
    });
    life.look();
    let starts = life.at.ahead.iter().map(|run| run.id.first_start());
    assert_eq!((life.seqs(), starts.max() <= end), (vec![1, 2], true));
}

/// The times of the runs in sight, in seconds from the begin.
fn seconds(life: &Life) -> Vec<u64> {
    let times = life.at.ahead.iter();
    times.map(|run| run.time.since(BEGIN).as_secs()).collect()
}

#[test]
fn a_clock_that_was_set_back_makes_no_second_run_of_a_time() {
    let mut life = Life::new(ScheduleSpec {
        limit: Some(4),
        ..spec(SECOND * 20)
    });
    life.look_at(SECOND * 15);
    assert_eq!(seconds(&life), [20, 40, 60]);
    // One run is seen before the clock is set back, another one behind that.
    life.see(1, Seen::Active);
    life.look_at(SECOND * 45);
    life.see(2, ENDED);
    for seq in 3..=4 {
        life.see(seq, Seen::Withdrawn);
    }
    life.now = BEGIN.after(SECOND * 5);
    life.at = life.at.paused(Pause::default(), mark(life.now)).unwrap();
    life.look();
    assert_eq!((life.seqs(), life.at.used), (vec![], 2));
    let resumed = life.at.resumed(mark(life.now)).unwrap();
    let next = plan_of(&resumed).next(life.now);
    assert_eq!(next, Some(BEGIN.after(SECOND * 20)));
    life.at = resumed.going_on(next, "a".to_owned());
    life.look_at(SECOND * 30);
    assert_eq!((seconds(&life), life.at.missed), (vec![60, 80], 0));
    assert_eq!(life.at.state, State::Ended);
}

#[test]
fn a_run_that_begins_while_its_schedule_is_changed_is_not_made_again_even_after_an_outage() {
    for outage in [Duration::ZERO, MINUTE * 10] {
        let mut life = Life::new(ScheduleSpec {
            missed: Missed::All,
            ..spec(SECOND * 20)
        });
        life.look();
        life.see(1, Seen::Active);
        for seq in 2..=3 {
            life.see(seq, Seen::Withdrawn);
        }
        // The change was decided on a moment before the run began.
        let noted = ScheduleSpec {
            note: "another".to_owned(),
            ..life.at.spec.clone()
        };
        let changed = life.at.with_spec(noted, life.at.step, mark(BEGIN));
        let next = plan_of(&changed).next(BEGIN);
        life.at = changed.going_on(next, "a".to_owned());
        life.look_at(SECOND * 21 + outage);
        assert_eq!(seconds(&life).first(), Some(&40), "{outage:?}");
        assert_eq!(life.at.missed, 0);
    }
}

#[test]
fn times_of_runs_that_have_begun_are_remembered_for_a_minute() {
    let mut life = Life::new(spec(SECOND));
    for second in 0..300 {
        life.look_at(SECOND * second);
        for run in life.at.ahead.iter().filter(|run| run.time <= life.now) {
            life.seen.insert(run.id, ENDED);
        }
    }
    life.look();
    assert_eq!(life.at.begun.len(), 61);
    assert_eq!(life.at.begun.last(), Some(&life.now));
}

#[test]
fn a_run_is_skipped_while_the_one_before_goes_on() {
    let mut life = Life::new(ScheduleSpec {
        overlap: Overlap::Skip,
        ..spec(MINUTE)
    });
    life.look();
    assert_eq!(life.seqs(), [1]);
    life.see(1, Seen::Active);
    // Before the time of the next nothing is decided on.
    life.look_at(MINUTE + SECOND * 45);
    assert_eq!((life.seqs(), life.skipped.len()), (vec![1], 0));
    assert_eq!(life.at.wake, Some(BEGIN.after(MINUTE * 2)));
    life.look_at(MINUTE * 2);
    assert_eq!((life.seqs(), &life.skipped), (vec![1], &vec![2]));
    life.see(1, ENDED);
    life.look_at(MINUTE * 2 + SECOND * 35);
    assert_eq!((life.seqs(), life.at.skipped), (vec![3], 1));
    assert_eq!(life.at.used, 2, "a run that was skipped does not count");
}

/// Neither a pause hides it from the next run, nor settings for a schedule that has ended.
#[test]
fn a_run_that_goes_on_over_a_change_is_seen_until_the_schedule_is_deleted() {
    let mut spec = spec(MINUTE);
    spec.overlap = Overlap::Skip;
    for limit in [None, Some(1)] {
        spec.limit = limit;
        let mut life = Life::new(spec.clone());
        life.look();
        life.see(1, Seen::Active);
        life.look_at(MINUTE + SECOND);
        let pause = Pause::default();
        life.at = life.at.paused(pause, mark(life.now)).unwrap_or(life.at);
        life.look();
        assert_ne!(life.at.state, State::Live);
        spec.limit = None;
        let mark = mark(life.now);
        let put = || life.at.with_spec(spec.clone(), life.at.step, mark);
        let changed = life.at.resumed(mark).unwrap_or_else(put);
        let next = plan_of(&changed).next(life.now);
        life.at = changed.going_on(next, "a".to_owned());
        life.look_at(MINUTE * 2);
        assert_eq!((life.seqs(), &life.skipped), (vec![1], &vec![2]));
        life.at = life.at.deleted(mark);
        life.look();
        assert_eq!(life.seqs(), [0; 0]);
    }
}

#[test]
fn one_run_waits_for_the_end_of_another() {
    let mut life = Life::new(ScheduleSpec {
        overlap: Overlap::BufferOne,
        ..spec(MINUTE)
    });
    life.look();
    life.see(1, Seen::Active);
    life.look_at(MINUTE * 2);
    assert_eq!(life.at.waiting.map(|run| run.seq), Some(2));
    assert_eq!(life.at.wake, Some(life.now.after(SECOND)));
    life.look_at(MINUTE * 3);
    assert_eq!(
        (life.at.waiting.map(|run| run.seq), &life.skipped),
        (Some(2), &vec![3])
    );
    life.see(1, ENDED);
    life.look_at(MINUTE * 3 + SECOND * 5);
    assert_eq!((life.seqs(), life.at.waiting), (vec![2], None));
    assert_eq!(life.at.ahead.first().map(|run| run.entered), Some(false));
}

#[test]
fn a_run_tells_the_one_before_to_stop() {
    let mut life = Life::new(ScheduleSpec {
        overlap: Overlap::CancelOther,
        ..spec(MINUTE)
    });
    life.look();
    life.see(1, Seen::Active);
    life.look_at(MINUTE * 2);
    assert_eq!(
        (&life.stopped, life.at.waiting.map(|run| run.seq)),
        (&vec![1], Some(2))
    );
    life.look_at(MINUTE * 3);
    assert_eq!(
        (life.at.waiting.map(|run| run.seq), &life.skipped),
        (Some(3), &vec![2])
    );
    life.see(1, ENDED);
    life.look_at(MINUTE * 3 + SECOND);
    assert_eq!(life.seqs(), [3]);
}

#[test]
fn a_failed_run_pauses_the_schedule() {
    let mut life = Life::new(ScheduleSpec {
        pause_on_failure: true,
        ..spec(MINUTE)
    });
    life.look();
    life.see(1, ENDED);
    life.look_at(MINUTE + SECOND * 5);
    assert_eq!(life.seqs(), [2]);
    life.see(2, Seen::Ended { failed: true });
    let before = life.at.generation;
    life.look_at(MINUTE * 2 + SECOND);
    let State::Paused(pause) = &life.at.state else {
        panic!("{:?}", life.at.state)
    };
    assert!(pause.reason.contains("failed") && pause.who == "tickwheel");
    assert_eq!((life.at.generation, life.at.change), (before + 1, 9));
    assert_eq!(life.at.wake, None);
}

#[test]
fn runs_that_do_not_start_keep_others_back_and_are_given_up_after_days() {
    let mut life = Life::new(spec(SECOND));
    life.look();
    life.look_at(MINUTE);
    assert_eq!(life.at.ahead.len(), AHEAD_MAX);
    assert!(life.at.wake.is_some_and(|wake| wake > life.now));
    life.look_at(Duration::from_secs(4 * 86_400));
    let oldest = life.at.ahead.first().unwrap();
    assert!(life.now.since(oldest.time) < MINUTE * 61, "{}", oldest.time);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Runs may end at any time. They are numbered without a gap, in order of time, and no two runs of a strict schedule overlap.
    #[test]
    fn any_life_decides_on_each_time_once(
        every in 1..200_u64,
        overlap in prop::sample::select(vec![
            Overlap::Allow, Overlap::Skip, Overlap::BufferOne, Overlap::CancelOther, Overlap::OneByOne,
        ]),
        missed in prop::sample::select(vec![Missed::Latest, Missed::All, Missed::Skip]),
        limit in prop::option::of(1..30_u64),
        steps in prop::collection::vec((0..400_u64, any::<u8>()), 1..40),
    ) {
        let mut life = Life::new(ScheduleSpec { overlap, missed, limit, ..spec(SECOND * u32::try_from(every).unwrap()) });
        let mut all = BTreeMap::new();
        let mut passed = Duration::ZERO;
        for (pause, chance) in steps {
            passed += Duration::from_secs(pause);
            life.look_at(passed);
            for run in &life.at.ahead {
                let before = all.insert(run.seq, (run.time, run.id));
                prop_assert!(before.is_none_or(|before| before == (run.time, run.id)), "{run:?} {before:?}");
                prop_assert!(run.time <= life.now.after(AHEAD));
            }
            prop_assert!(life.at.ahead.len() <= AHEAD_MAX);
            if overlap != Overlap::Allow {
                prop_assert!(life.at.ahead.len() <= 1, "{:?}", life.at.ahead);
            }
            prop_assert!(life.at.used <= limit.unwrap_or(u64::MAX));
            let is_resting = life.at.state != State::Live;
            prop_assert!(is_resting || life.at.wake.is_some_and(|wake| wake > life.now), "{:?}", life.at.wake);
            let seqs = life.seqs();
            for (index, seq) in seqs.into_iter().enumerate() {
                if chance >> (index % 8) & 1 == 1 {
                    life.see(seq, ENDED);
                }
            }
        }
        let times: Vec<Millis> = all.values().map(|(time, _)| *time).collect();
        prop_assert!(times.is_sorted_by(|a, b| a < b), "{times:?}");
        let decided = life.at.seq;
        prop_assert!(decided >= life.at.skipped);
    }
}
