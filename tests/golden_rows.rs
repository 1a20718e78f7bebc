//! These tests compare ids, keys and rows of stores with those of older versions. This version must read and
//! write them in the same way: the files under `tests/golden/` are never changed, only added to. (The
//! embedded store has formats, see `golden_embedded`.)

use std::{fmt::Write as _, sync::Arc, time::Duration};

use bytes::Bytes;
use tickwheel::{
    flow::base::tables::letters::{Part, Scope, Spot},
    model::{
        backoff::Jitter,
        callback::{Callback, Policy},
        clock::{ClockRow, Position},
        configuration::Epoch,
        dead_letter::Letter,
        draft::BackoffDraft,
        entry::{DoneReason, Entry, Key, KeyCode},
        gate::{Gate, GateState, Held},
        history::{Answered, Attempt, Ending},
        ids::{NodeId, TaskId},
        job::{Counts, Job, JobFilter, JobItem, JobKind, JobState, Lease, Place},
        key::Holder,
        limit::{Limits, Pool, Rate, Share, Waiting},
        look_step::LookStep,
        record::{Kind, Name, Record, Version},
        result::{self, TaskResult},
        state::{Detail, History, State, TaskRow},
        task::Priority,
        time::{Millis, Tick},
        wheel::WheelNumber,
    },
    schema::{
        Request, decode_callback, decode_epoch, decode_held, decode_holder, decode_job,
        decode_pool, decode_request, encode_callback, encode_epoch, encode_held, encode_holder,
        encode_job, encode_letter, encode_pool, encode_request, held_partition,
    },
    store::{
        index::{IndexKind, Partition},
        row::{ClockColumns, EntryColumns, RecordColumns, TaskColumns},
    },
};
use uuid::Uuid;

use crate::golden::{START, full, id};

pub(crate) fn entries() -> Vec<(&'static str, Entry)> {
    let spec = Arc::new(full().0);
    let due = Entry::due(id(), 2, 3, START, Arc::clone(&spec), 77);
    let spilled = Entry {
        spills: 4,
        ..due.clone()
    };
    let moved = DoneReason::Moved {
        to: Millis(START.0 + 60_000),
    };
    let at = Millis(START.0 - 5);
    vec![
        ("due, first", due.clone().first_of_generation()),
        ("due, spilled", spilled),
        (
            "look",
            Entry::look(id(), 2, START, Some(at), START, Arc::clone(&spec), 78),
        ),
        (
            "look, never published",
            Entry::look(id(), 0, START, None, START, spec, 79),
        ),
        (
            "done, cancelled",
            due.marked_done(DoneReason::Cancelled, at, 80),
        ),
        (
            "done, published",
            due.marked_done(DoneReason::Published, at, 81),
        ),
        ("done, moved", due.marked_done(moved, at, 82)),
    ]
}

pub(crate) fn task() -> TaskRow {
    TaskRow {
        id: id(),
        state: State::Retrying,
        generation: 2,
        attempt: 3,
        tries: 1,
        next: Millis(START.0 + 1000),
        last: Millis(START.0 + 9000),
        cancel_requested: true,
        nonce: Uuid::from_u128(0x1234_5678_9abc_def0_1234_5678_9abc_def0),
        detail: Detail {
            spec: Arc::new(full().0),
            start: START,
            fire_time: Some(START),
            claim_time: Some(Millis(START.0 + 1)),
            end_time: Some(Millis(START.0 + 2)),
            worker: "w-1".to_owned(),
            result: Some(Bytes::from_static(b"{\"ok\":1}").into()),
            error: Some("no route".to_owned()),
            died: None,
            erased: false,
            tree: None,
            children_time_passed: false,
            rounds: tickwheel::model::family::Rounds::default(),
            lived: 0,
            history: History::default(),
            next: None,
        },
    }
}

/// A task that was deleted after its second death.
pub(crate) fn deleted() -> TaskRow {
    let mut row = TaskRow {
        state: State::Dead,
        ..task()
    };
    row.detail.died = Some(1_893_456_000_250_001);
    row.detail.erased = true;
    row
}

/// A task whose large result is kept apart.
pub(crate) fn returned() -> TaskRow {
    let mut row = TaskRow {
        state: State::Succeeded,
        ..task()
    };
    row.detail.result = Some(TaskResult {
        content_type: "image/png".to_owned(),
        place: result::Place::Apart {
            attempt: 3,
            bytes: 900_000,
        },
    });
    row
}

/// A task with two attempts before its last one.
pub(crate) fn tried() -> TaskRow {
    let mut row = task();
    let attempt = |number, ending| Attempt {
        attempt: number,
        worker: format!("w-{number}"),
        claimed: Some(START),
        ended: Some(Millis(START.0 + 30_000)),
        ending: Some(ending),
        error: (ending == Ending::Retry).then(|| "no route".to_owned()),
        answered: (ending == Ending::Retry).then(|| Answered::new(503, b"busy")),
    };
    row.detail.history = History {
        attempts: vec![attempt(1, Ending::Lost), attempt(2, Ending::Retry)],
        dropped: 4,
        answered: Some(Answered::new(200, b"{}")),
    };
    row
}

pub(crate) fn letter() -> Letter {
    Letter {
        callback: "send-email".to_owned(),
        error: "timeout after # ms".to_owned(),
        attempts: 10,
        time: START,
        stamp: START.0 * 1000 + 2,
        kept: Duration::from_secs(30 * 86_400),
    }
}

pub(crate) fn clock() -> ClockRow {
    ClockRow {
        version: 41,
        opened: Tick(1_893_456_003),
        fired: Position {
            due: START,
            id: id(),
        },
        erased: Tick(1_893_455_000),
        owner: NodeId(Uuid::from_u128(7)),
        lease_until: Millis(START.0 + 5000),
        wall: START,
    }
}

pub(crate) fn records() -> [(&'static str, Record); 2] {
    let record = |value, expires| Record {
        name: Name::new(Kind::Callback, "send-email").unwrap(),
        version: Version(1_893_456_000_250_001),
        nonce: task().nonce,
        value,
        expires,
    };
    [
        (
            "record",
            record(Some(Bytes::from_static(b"\x0a\x01v")), None),
        ),
        ("record, removed", record(None, Some(START))),
    ]
}

pub(crate) fn request() -> Request {
    let hash = 0x0123_4567_89ab_cdef;
    Request { id: id(), hash }
}

pub(crate) fn holder() -> Holder {
    let mut spec = full().0;
    spec.key = Some("order-7".to_owned());
    Holder {
        id: id(),
        generation: 2,
        spec: Arc::new(spec),
    }
}

pub(crate) fn epoch() -> Epoch {
    let name = |kind, key| Name::new(kind, key).unwrap();
    Epoch::default()
        .raised(7, name(Kind::Callback, "send-email"))
        .raised(1_893_456_000_250_001, name(Kind::ApiKey, "k-1"))
}

/// Every field has a value that is not its default.
pub(crate) fn callback() -> Callback {
    let second = Duration::from_secs(1);
    Callback {
        policy: Some(Policy {
            description: "mail".to_owned(),
            max_attempts: Some(7),
            backoff: BackoffDraft {
                initial: Some(second),
                factor_milli: Some(1500),
                max: Some(second * 9),
                jitter: Some(Jitter::None),
            },
            claim_timeout: Some(second * 90),
            heartbeat_timeout: Some(second * 45),
            expire_after: Some(second * 600),
            retention: Some(second * 3600),
            priority: Some(Priority::High),
            labels: [("team".to_owned(), "billing".to_owned())].into(),
            ..Policy::default()
        }),
        gates: vec![Gate {
            collection: "bulk".to_owned(),
            state: GateState::Paused,
            reason: "too many".to_owned(),
            since: START,
            until: Some(Millis(START.0 + 60_000)),
            who: String::new(),
        }],
    }
}

/// The same with limits.
pub(crate) fn limited() -> Callback {
    let mut callback = callback();
    callback.policy.as_mut().unwrap().limits = Limits {
        rate: Rate::new(0.5, Some(100)),
        in_flight: Some(200),
    };
    callback
}

pub(crate) fn pool() -> Pool {
    let share = Share {
        held: 3,
        wanted: 9,
        until: Millis(START.0 + 5000),
        served: START,
    };
    Pool {
        full_at_nanos: START.0 * 1_000_000 + 123_456,
        drawn: Millis(START.0 + 1),
        waiting: [(
            NodeId(Uuid::from_u128(8)),
            Waiting {
                served: Millis(START.0 + 2),
                until: Millis(START.0 + 3),
            },
        )]
        .into(),
        shares: [(NodeId(Uuid::from_u128(7)), share)].into(),
    }
}

pub(crate) fn held() -> Held {
    Held {
        id: id(),
        start: START,
        generation: 2,
        attempt: 3,
    }
}

/// Every field has a value that is not its default, one by one for the places of a search.
pub(crate) fn jobs() -> [(&'static str, Job); 2] {
    let callback = Some("send-email".to_owned());
    let filter = JobFilter {
        callback,
        collection: Some("bulk".to_owned()),
        state: Some("retrying".to_owned()),
        labels: [("team".to_owned(), "billing".to_owned())].into(),
        from: Some(START),
        to: Some(Millis(START.0 + 1000)),
        error: Some("timeout after # ms".to_owned()),
    };
    let item = JobItem {
        id: id(),
        generation: 2,
        time: None,
    };
    let job = Job {
        start: Some(START),
        rate_milli: Some(1500),
        dry_run: true,
        request: Some(0x0123_4567_89ab_cdef),
        state: JobState::Running,
        ended: Some(Millis(START.0 + 2)),
        lease: Some(Lease {
            node: Uuid::from_u128(7),
            until: Millis(START.0 + 3),
        }),
        page: 4,
        items: vec![item],
        tries: 1,
        place: Place::Wheels {
            behind: Key {
                due: START,
                id: id(),
                generation: 2,
                code: KeyCode::LOOK,
            },
            through: Millis(START.0 + 4),
            to: Millis(START.0 + 5),
        },
        searches_failed: 2,
        not_before: Millis(START.0 + 6),
        counts: Counts {
            done: 7,
            skipped: 8,
            failed: 9,
            matching: 10,
        },
        sample: vec![id()],
        error: Some("no quorum".to_owned()),
        ..Job::new(JobKind::Reschedule, filter, START)
    };
    let place = Place::Letters {
        time: START,
        id: id().uuid(),
    };
    let letters = Job {
        place,
        ..Job::new(JobKind::Redrive, JobFilter::default(), START)
    };
    [("job", job), ("job among letters", letters)]
}

fn rendered() -> String {
    let mut text = String::new();
    let stepped = id().with_look_step(LookStep::covering(Duration::from_secs(90)));
    let first = TaskId::new(Millis::EPOCH, WheelNumber::new(0).unwrap(), 0);
    writeln!(
        text,
        "id {}\nid with a look step {stepped}\nid, least {first}",
        id()
    )
    .unwrap();
    let steps: Vec<u64> = (0..64)
        .map(|bits| LookStep::from_low_bits(bits).duration().as_secs())
        .collect();
    writeln!(text, "look steps, s {steps:?}").unwrap();
    writeln!(
        text,
        "key codes: look {:?}, due {:?}",
        KeyCode::LOOK,
        [0, 1, 7].map(KeyCode::due)
    )
    .unwrap();
    let states = State::ALL.map(|state| (state, state.number()));
    writeln!(text, "states {states:?}").unwrap();
    for (name, entry) in entries() {
        writeln!(text, "entry: {name}\n{:#?}", EntryColumns::of(&entry)).unwrap();
    }
    writeln!(text, "task\n{:#?}", TaskColumns::of(&task())).unwrap();
    writeln!(text, "clock\n{:#?}", ClockColumns::of(&clock())).unwrap();
    let kinds = Kind::ALL.map(|kind| (kind, kind.number()));
    writeln!(text, "kinds of records {kinds:?}").unwrap();
    let kinds = IndexKind::ALL.map(|kind| (kind, kind.number()));
    writeln!(text, "kinds of rows of the index {kinds:?}").unwrap();
    for (name, record) in records() {
        writeln!(text, "{name}\n{:#?}", RecordColumns::of(&record)).unwrap();
        let listed = Partition::of_records(record.name.kind());
        writeln!(text, "its list {:?}", listed.name()).unwrap();
    }
    writeln!(text, "epoch {:?}", encode_epoch(&epoch())).unwrap();
    for (what, row) in [
        ("that was deleted", deleted()),
        ("with attempts", tried()),
        ("with a large result", returned()),
    ] {
        let detail = TaskColumns::of(&row).detail;
        writeln!(text, "detail of a task {what} {detail:?}").unwrap();
    }
    let letter = letter();
    let part = Part::of(id(), letter.time);
    let spot = Spot {
        time: letter.time,
        id: id().uuid(),
    };
    writeln!(text, "place of a letter {:?}", spot.sort()).unwrap();
    for scope in [Scope::All, Scope::Callback(letter.callback.clone())] {
        let (entry, end) = part.entry(&scope, &letter).unwrap();
        let names = (entry.partition().name(), part.partition(&scope).unwrap());
        let value = encode_letter(&letter, scope.names_callbacks());
        writeln!(
            text,
            "letters {names:?} {:?} {end:?} {value:?}",
            entry.sort()
        )
        .unwrap();
    }
    writeln!(text, "marked request {:?}", encode_request(&request())).unwrap();
    writeln!(text, "holder of a key {:?}", encode_holder(&holder())).unwrap();
    writeln!(text, "callback {:?}", encode_callback(&callback())).unwrap();
    writeln!(
        text,
        "callback with limits {:?}",
        encode_callback(&limited())
    )
    .unwrap();
    writeln!(text, "pool of limits {:?}", encode_pool(&pool())).unwrap();
    let held = held();
    let partition = held_partition("send-email", "bulk", held.id.wheel());
    let row = encode_held(&held, &full().0);
    writeln!(text, "held {partition:?} {row:?}").unwrap();
    for (name, job) in jobs() {
        writeln!(text, "{name} {:?}", encode_job(&job)).unwrap();
    }
    crate::golden_ordering::render(&mut text);
    crate::golden_trees::render(&mut text);
    text
}

#[test]
fn ids_keys_and_rows_are_unchanged() {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/rows.txt");
    let now = rendered();
    if std::env::var_os("TICKWHEEL_UPDATE_GOLDEN").is_some() {
        std::fs::write(&file, &now).unwrap();
    }
    let golden = std::fs::read_to_string(&file).unwrap();
    assert_eq!(now, golden, "the format has changed; it is now:\n{now}");
}

#[test]
fn rows_are_read_as_they_were_written() {
    for (name, entry) in entries() {
        let read = EntryColumns::of(&entry).into_entry(entry.key, entry.written);
        assert_eq!(read.as_ref(), Ok(&entry), "{name}");
    }
    assert_eq!(
        TaskColumns::of(&task()).into_row(id().uuid()).ok(),
        Some(task())
    );
    let mut replaced = task();
    replaced.detail.next = Some(Arc::new(holder()));
    assert_eq!(
        TaskColumns::of(&replaced).into_row(id().uuid()).ok(),
        Some(replaced.clone())
    );
    assert_eq!(
        TaskColumns::short(&replaced).into_row(id().uuid()).ok(),
        Some(replaced)
    );
    for (name, record) in records() {
        let read = RecordColumns::of(&record).into_record(record.name.clone());
        assert_eq!(read.as_ref(), Ok(&record), "{name}");
    }
    for row in [deleted(), tried(), returned()] {
        assert_eq!(TaskColumns::of(&row).into_row(id().uuid()), Ok(row));
    }
    let read = decode_epoch(epoch().number, encode_epoch(&epoch()));
    assert_eq!(read, Ok(epoch()));
    assert_eq!(decode_holder(encode_holder(&holder())), Ok(holder()));
    assert_eq!(decode_request(encode_request(&request())), Ok(request()));
    let read = decode_callback(encode_callback(&callback()));
    assert_eq!(read, Ok(callback()));
    assert_eq!(decode_callback(encode_callback(&limited())), Ok(limited()));
    assert_eq!(decode_pool(encode_pool(&pool())), Ok(pool()));
    for (name, job) in jobs() {
        assert_eq!(decode_job(encode_job(&job)), Ok(job), "{name}");
    }
    let (sort, value) = encode_held(&held(), &full().0);
    assert_eq!(decode_held(&sort, value), Ok((held(), Some(full().0))));
    assert_eq!(ClockColumns::of(&clock()).into_row().ok(), Some(clock()));
}
