//! These tests compare the records of schedules and of backfills with those of older versions. This version must read and write
//! them in the same way: the file under `tests/golden/` is never changed, only added to.

use std::{fmt::Write as _, time::Duration};

use tickwheel::{
    model::{
        draft::{BackoffDraft, TaskDraft},
        job::{Backfill, Job, JobFilter, JobItem, JobKind, Place},
        look_step::LookStep,
        schedule::{
            life::{ChangeMark, Missed, Overlap, Pause, Schedule, ScheduleSpec, State},
            run::{Cause, Listed, Run},
        },
        time::Millis,
    },
    schema::{decode_job, decode_run, decode_schedule, encode_job, encode_run, encode_schedule},
};

use crate::golden::{START, full, id};

fn spec() -> ScheduleSpec {
    ScheduleSpec {
        crons: vec!["30 2 * * MON-FRI".to_owned()],
        every: Some(Duration::from_secs(900)),
        zone: "Europe/Berlin".to_owned(),
        start: Some(START),
        end: Some(Millis(START.0 + 1)),
        limit: Some(7),
        jitter: Duration::from_secs(300),
        overlap: Overlap::BufferOne,
        missed: Missed::All,
        window: Duration::from_secs(3600),
        pause_on_failure: true,
        note: "nightly".to_owned(),
        labels: [("team".to_owned(), "billing".to_owned())].into(),
        task: TaskDraft {
            collection: None,
            backoff: BackoffDraft::default(),
            retention: None,
            ..full().0.into()
        },
    }
}

fn run(seq: u64) -> Run {
    Run {
        id: id(),
        generation: 3,
        seq,
        time: START,
        entered: seq == 4,
        late: false,
    }
}

fn schedule() -> Schedule {
    let mark = ChangeMark {
        id: 8 << 100,
        at: Millis(START.0 - 9),
    };
    let step = LookStep::covering(Duration::from_secs(90));
    let pause = Pause {
        reason: "holidays".to_owned(),
        who: "ann".to_owned(),
        since: Millis(START.0 - 8),
    };
    Schedule {
        state: State::Paused(pause),
        generation: 3,
        seq: 5,
        next: Some(Millis(START.0 + 2)),
        wake: Some(Millis(START.0 + 3)),
        ahead: vec![run(4), run(5)],
        waiting: Some(run(6)),
        used: 9,
        missed: 10,
        skipped: 11,
        zone_data: "2026a".to_owned(),
        ..Schedule::created(spec(), None, 7 << 90, step, mark)
    }
}

/// A record of 0.2.0 has no such times.
fn with_begun_runs() -> Schedule {
    Schedule {
        begun: vec![Millis(START.0 - 60_000), Millis(START.0 - 1)],
        ..schedule()
    }
}

/// A record of 0.2.0 has no such runs.
fn with_a_late_run() -> Schedule {
    let late = Run {
        late: true,
        ..run(4)
    };
    Schedule {
        ahead: vec![late, run(5)],
        ..schedule()
    }
}

fn backfill() -> Job {
    let backfill = Backfill {
        schedule: "nightly".to_owned(),
        incarnation: 1 << 80,
        generation: 4,
        step: LookStep::covering(Duration::from_secs(90)),
        anchor: START,
        spec: spec(),
        seed: 2 << 70,
        from: Millis(START.0 + 4),
        to: Millis(START.0 + 5),
        overlap: Overlap::Allow,
        last: None,
    };
    Job {
        backfill: Some(Box::new(backfill)),
        items: vec![JobItem {
            id: id(),
            generation: 0,
            time: Some(Millis(START.0 + 6)),
        }],
        place: Place::Times {
            behind: Millis(START.0 + 7),
        },
        ..Job::new(JobKind::Backfill, JobFilter::default(), START)
    }
}

/// Its runs follow each other.
fn backfill_in_turn() -> Job {
    let job = backfill();
    let backfill = job.backfill.map(|backfill| Backfill {
        overlap: Overlap::BufferOne,
        last: Some(id()),
        ..*backfill
    });
    Job {
        backfill: backfill.map(Box::new),
        ..job
    }
}

fn listed() -> Listed {
    Listed {
        run: Run {
            entered: false,
            ..run(4)
        },
        cause: Cause::Trigger,
        skipped: true,
    }
}

#[test]
fn records_of_schedules_are_unchanged() {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/schedules.txt");
    let mut now = String::new();
    writeln!(now, "schedule {:?}", encode_schedule(&schedule())).unwrap();
    let begun = encode_schedule(&with_begun_runs());
    writeln!(now, "schedule_with_begun_runs {begun:?}").unwrap();
    let late = encode_schedule(&with_a_late_run());
    writeln!(now, "schedule_with_a_late_run {late:?}").unwrap();
    writeln!(now, "run {:?}", encode_run(&listed())).unwrap();
    writeln!(now, "backfill {:?}", encode_job(&backfill())).unwrap();
    if std::env::var_os("TICKWHEEL_UPDATE_GOLDEN").is_some() {
        std::fs::write(&file, &now).unwrap();
    }
    let golden = std::fs::read_to_string(&file).unwrap();
    assert_eq!(now, golden, "the format has changed; it is now:\n{now}");
}

#[test]
fn records_of_schedules_are_read_as_they_were_written() {
    assert_eq!(
        decode_schedule(encode_schedule(&schedule())),
        Ok(schedule())
    );
    for other in [with_begun_runs(), with_a_late_run()] {
        assert_eq!(decode_schedule(encode_schedule(&other)), Ok(other));
    }
    assert_eq!(decode_run(encode_run(&listed())), Ok(listed()));
    for job in [backfill(), backfill_in_turn()] {
        assert_eq!(decode_job(encode_job(&job)), Ok(job));
    }
}
