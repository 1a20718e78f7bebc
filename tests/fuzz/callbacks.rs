//! Damaged records of callbacks and jobs, and rows of held tasks, make no decoder panic, and are read back as they were written.

use bytes::Bytes;
use tickwheel::{
    model::{
        callback::{Callback, Policy},
        callback_share::{CallbackShare, SeenWorker},
        gate::{Gate, GateState, Held},
        ids::NodeId,
        job::{Job, JobFilter, JobItem, JobKind, Place, Rows},
        limit::{Asked, Limits, Pool, Rate, Share, Waiting},
        task::Priority,
    },
    schema::{
        decode_callback, decode_callback_share, decode_held, decode_job, decode_pool,
        encode_callback, encode_callback_share, encode_held, encode_job, encode_pool,
    },
};

use super::{
    run::Target,
    samples::{START, id, specs},
};

/// Bytes of the sort key of a held task.
const SORT_BYTES: usize = 24;

fn target(name: &'static str, samples: Vec<Vec<u8>>) -> Target<'static> {
    Target {
        name,
        samples,
        words: &["\u{0}", "\u{8}\u{1}", "team"],
        bytes_max: (16 * 1024, 64),
        seconds: 2,
    }
}

#[test]
fn records_of_limits() {
    let share = Share {
        held: 3,
        wanted: 9,
        until: START,
        served: START,
    };
    let pool = Pool {
        full_at_nanos: START.0 * 1_000_000,
        drawn: START,
        waiting: [(
            NodeId::NOBODY,
            Waiting {
                served: START,
                until: START,
            },
        )]
        .into(),
        shares: [(NodeId::NOBODY, share)].into(),
    };
    target("pool", vec![encode_pool(&pool).to_vec()]).run(|bytes| {
        let Ok(mut pool) = decode_pool(Bytes::copy_from_slice(bytes)) else {
            return false;
        };
        assert_eq!(decode_pool(encode_pool(&pool)), Ok(pool.clone()));
        // It gives no more than the limits say.
        let limits = Limits {
            rate: Rate::new(10.0, Some(20)),
            in_flight: Some(5),
        };
        let asked = Asked {
            tokens: 100,
            wanted: 100,
            running: 0,
        };
        let given = pool.ask(limits, NodeId::NOBODY, START, asked);
        assert!(given.tokens <= given.places && given.places <= 5);
        true
    });
}

#[test]
fn records_of_callbacks() {
    let callback = Callback {
        policy: Some(Policy {
            description: "mail".to_owned(),
            max_attempts: Some(3),
            priority: Some(Priority::Low),
            labels: [("team".to_owned(), "mail".to_owned())].into(),
            limits: Limits {
                rate: Rate::new(0.5, Some(100)),
                in_flight: Some(200),
            },
            dead_letter_topic: Some("mail.dlt".to_owned()),
            skips_retries: Some(true),
            list_succeeded: true,
            ..Policy::default()
        }),
        gates: vec![Gate {
            collection: "bulk".to_owned(),
            state: GateState::Paused,
            reason: "too many".to_owned(),
            since: START,
            until: Some(START),
            who: "night watch".to_owned(),
        }],
    };
    let sample = encode_callback(&callback).to_vec();
    target("callback", vec![sample]).run(|bytes| {
        let Ok(callback) = decode_callback(Bytes::copy_from_slice(bytes)) else {
            return false;
        };
        let again = decode_callback(encode_callback(&callback));
        assert_eq!(again.unwrap(), callback);
        true
    });
}

#[test]
fn records_of_jobs() {
    let filter = JobFilter {
        callback: Some("mail".to_owned()),
        labels: [("team".to_owned(), "mail".to_owned())].into(),
        from: Some(START),
        ..JobFilter::default()
    };
    let letters = Job {
        items: vec![JobItem {
            id: id(),
            generation: 1,
            time: None,
        }],
        sample: vec![id()],
        place: Place::Letters {
            time: START,
            id: id().uuid(),
        },
        ..Job::new(JobKind::Redrive, filter.clone(), START)
    };
    let wheels = Job {
        place: Place::End,
        request: Some(7),
        ..Job::new(JobKind::Cancel, filter, START).led(id().uuid(), START)
    };
    let rows = Job {
        by_rows: true,
        estimate: Some(9),
        place: Place::Rows {
            of: Rows::Filed { day: 7, state: 1 },
            behind: id().uuid(),
        },
        ..Job::new(JobKind::Delete, JobFilter::default(), START)
    };
    let samples = [letters, wheels, rows].map(|job| encode_job(&job).to_vec());
    target("job", samples.to_vec()).run(|bytes| {
        let Ok(job) = decode_job(Bytes::copy_from_slice(bytes)) else {
            return false;
        };
        assert_eq!(decode_job(encode_job(&job)).unwrap(), job);
        true
    });
}

#[test]
fn rows_of_shares() {
    let share = CallbackShare {
        workers: vec![SeenWorker {
            name: "w".to_owned(),
            version: Some("1".to_owned()),
            last: START,
        }],
        ready: 1,
        oldest: Some(START),
        running: 2,
        retrying: 3,
        late: vec![4, 5],
        latest_ms: 6,
    };
    let sample = encode_callback_share(&share, START).to_vec();
    target("share", vec![sample]).run(|bytes| {
        let Ok((at, share)) = decode_callback_share(Bytes::copy_from_slice(bytes)) else {
            return false;
        };
        let again = decode_callback_share(encode_callback_share(&share, at));
        assert_eq!(again, Ok((at, share)));
        true
    });
}

#[test]
fn rows_of_held_tasks() {
    let held = Held {
        id: id(),
        start: START,
        generation: 2,
        attempt: 1,
    };
    let samples = specs().into_iter().take(2).map(|spec| {
        let (sort, value) = encode_held(&held, &spec);
        [&sort[..], &value[..]].concat()
    });
    target("held", samples.collect()).run(|bytes| {
        let (sort, value) = bytes.split_at(bytes.len().min(SORT_BYTES));
        let Ok((held, spec)) = decode_held(sort, Bytes::copy_from_slice(value)) else {
            return false;
        };
        let Some(spec) = spec else { return true };
        let (sort, value) = encode_held(&held, &spec);
        let (again, read) = decode_held(&sort, value).unwrap();
        assert_eq!(again, held);
        // One that grew beyond a row is left out.
        assert!(read.is_none_or(|read| read == spec));
        true
    });
}
