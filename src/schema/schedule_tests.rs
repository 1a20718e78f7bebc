//! Tests of the codec of schedules.

use std::collections::BTreeMap;

use super::*;
use crate::model::{fixtures, schedule::life::ChangeMark};

fn run(seq: u64) -> Run {
    Run {
        id: fixtures::id(),
        generation: 3,
        seq,
        time: Millis(1_800_000_000_000),
        entered: seq == 4,
        late: seq == 5,
    }
}

fn schedule() -> Schedule {
    let spec = ScheduleSpec {
        crons: vec!["H 2 * * *".to_owned(), "@daily".to_owned()],
        every: None,
        zone: "Europe/Berlin".to_owned(),
        start: Some(Millis(5)),
        end: Some(Millis(6)),
        limit: Some(9),
        jitter: Duration::from_secs(300),
        overlap: Overlap::CancelOther,
        missed: Missed::All,
        window: Duration::from_secs(3600),
        pause_on_failure: true,
        note: "nightly".to_owned(),
        labels: BTreeMap::from([("team".to_owned(), "a".to_owned())]),
        task: fixtures::spec().into(),
    };
    let mark = ChangeMark {
        id: 8,
        at: Millis(77),
    };
    let step = LookStep::from_low_bits(15);
    let created = Schedule::created(spec, None, 1 << 100, step, mark);
    Schedule {
        ahead: vec![run(4), run(5)],
        begun: vec![Millis(1_800_000_000_000), Millis(1_800_000_020_000)],
        waiting: Some(run(6)),
        line: Some(line_of((1_800_000_000_000, 1_800_003_600_000))),
        used: 4,
        missed: 2,
        skipped: 1,
        seq: 6,
        zone_data: "2026a".to_owned(),
        ..created.going_on(Some(Millis(1_900_000_000_000)), String::new())
    }
}

#[test]
fn a_schedule_survives_its_bytes_in_each_state() {
    let pause = Pause {
        reason: "holidays".to_owned(),
        who: "ann".to_owned(),
        since: Millis(9),
    };
    for state in [
        State::Live,
        State::Paused(pause),
        State::Ended,
        State::Deleted,
    ] {
        let schedule = Schedule {
            state,
            ..schedule()
        };
        let bytes = encode_schedule(&schedule);
        assert_eq!(decode_schedule(bytes.clone()), Ok(schedule));
        assert!(decode_schedule(bytes.slice(..bytes.len() - 3)).is_err());
    }
    assert_eq!(
        decode_schedule(Bytes::new()),
        Err(Malformed::OutOfRange("state"))
    );
}

#[test]
fn fields_that_the_callback_is_to_fill_in_stay_open() {
    let full: TaskDraft = fixtures::spec().into();
    let task = TaskDraft {
        collection: None,
        priority: None,
        max_attempts: None,
        backoff: BackoffDraft::default(),
        claim_timeout: None,
        heartbeat_timeout: None,
        retention: None,
        ..full
    };
    let mut open = schedule();
    open.spec.task = task;
    assert_eq!(decode_schedule(encode_schedule(&open)), Ok(open.clone()));
    open.spec.task.backoff.max = Some(Duration::from_secs(3600));
    assert_eq!(decode_schedule(encode_schedule(&open)), Ok(open));
}

#[test]
fn a_listed_run_survives_its_bytes() {
    for (cause, _) in CAUSES {
        let listed = Listed {
            run: Run {
                entered: false,
                late: false,
                ..run(4)
            },
            cause,
            skipped: cause == Cause::Schedule,
        };
        assert_eq!(decode_run(encode_run(&listed)), Ok(listed));
    }
    assert!(decode_run(Bytes::new()).is_err());
}
