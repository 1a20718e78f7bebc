//! These tests check for every store both ways of the conversion, and columns that cannot be understood.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;

use super::*;
use crate::model::{
    backoff::Backoff,
    clock::{ClockRow, Position},
    entry::{DoneReason, Entry, Key, KeyCode},
    history::{Answered, Attempt, Ending},
    ids::{NodeId, TaskId},
    kin::{Rounds, TreeEnd, TreeOutcome},
    state::{Detail, Expect, History, State, TaskRow},
    target::Target,
    task::{Body, Content, Priority, Spec},
    time::{Millis, Tick},
    wheel::WheelNumber,
};

/// Returns the spec of a task with a callback.
pub(crate) fn spec() -> Arc<Spec> {
    Arc::new(Spec {
        indexed: Vec::new(),
        target: Target::Callback {
            name: "send".to_owned(),
        },
        collection: String::new(),
        priority: Priority::Normal,
        max_attempts: 3,
        backoff: Backoff::QUICK,
        claim_timeout: Duration::from_secs(60),
        heartbeat_timeout: Duration::from_secs(30),
        attempt_timeout: None,
        ordering_key: None,
        dead_retention: None,
        expire_after: None,
        retention: Duration::from_secs(3600),
        create_time: Millis(1),
        asked_start: None,
        scheduled: None,
        key: None,
        notify: None,
        actions: None,
        kin: None,
        after: None,
        then: Vec::new(),
        body: Body::Inline(Content::default()),
    })
}

fn id() -> TaskId {
    TaskId::new(Millis(7_000), WheelNumber::from_low_bits(3), 42)
}

fn every_kind() -> Vec<Entry> {
    let due = |attempt| Entry::due(id(), 1, attempt, Millis(7_000), spec(), 9);
    let look = |published| Entry::look(id(), 1, Millis(8_000), published, Millis(7_000), spec(), 9);
    let done = |reason| due(2).marked_done(reason, Millis(6_000), 10);
    vec![
        due(0),
        due(5).first_of_generation(),
        Entry {
            spills: 4,
            start: Millis(-1),
            ..due(1)
        },
        look(None),
        look(Some(Millis(0))),
        look(None).marked_done(DoneReason::Cancelled, Millis(1), 11),
        done(DoneReason::Cancelled),
        done(DoneReason::Published),
        done(DoneReason::Moved { to: Millis(5) }),
    ]
}

fn history() -> History {
    let attempt = |ending| Attempt {
        attempt: 1,
        worker: "w".to_owned(),
        claimed: Some(Millis(1)),
        ended: Some(Millis(2)),
        ending: Some(ending),
        error: Some("e".to_owned()),
        answered: Some(answered()),
    };
    let least = Attempt {
        attempt: 2,
        worker: String::new(),
        claimed: None,
        ended: None,
        ending: None,
        error: None,
        answered: None,
    };
    let attempts = Ending::ALL.map(attempt).into_iter().chain([least]);
    History {
        attempts: attempts.collect(),
        dropped: 3,
        answered: Some(answered()),
    }
}

fn answered() -> Answered {
    Answered::new(503, b"busy")
}

fn row(state: State) -> TaskRow {
    TaskRow {
        id: id(),
        state,
        generation: 1,
        attempt: 2,
        tries: 3,
        next: Millis(4),
        last: Millis(5),
        cancel_requested: true,
        nonce: Uuid::from_u128(6),
        detail: Detail {
            spec: spec(),
            start: Millis(7),
            fire_time: Some(Millis(6)),
            claim_time: Some(Millis(8)),
            end_time: None,
            worker: "w".to_owned(),
            result: Some(Bytes::new().into()),
            error: Some("e".to_owned()),
            died: Some(7_001),
            erased: true,
            tree: Some(TreeEnd {
                outcome: TreeOutcome::Cancelled,
                at: Millis(9),
            }),
            children_time_passed: true,
            rounds: Rounds {
                round: 3,
                opened: 1,
                awaits: true,
            },
            lived: 2,
            history: history(),
            next: None,
        },
    }
}

#[test]
fn every_kind_of_entry_survives_its_columns() {
    for entry in every_kind() {
        let columns = EntryColumns::of(&entry);
        assert_eq!(columns.into_entry(entry.key, entry.written), Ok(entry));
    }
}

#[test]
fn what_an_overwritten_entry_left_behind_means_nothing() {
    for entry in every_kind() {
        let mut columns = EntryColumns::of(&entry);
        columns.reason.get_or_insert(3);
        columns.at_ms.get_or_insert(99);
        columns.moved_ms.get_or_insert(99);
        assert_eq!(columns.into_entry(entry.key, entry.written), Ok(entry));
    }
}

#[test]
fn a_done_entry_overwrites_every_column_of_what_it_replaces() {
    let names = |columns: &EntryColumns| {
        [
            columns.kind.is_some(),
            columns.flags.is_some(),
            columns.spills.is_some(),
            columns.start_ms.is_some(),
            columns.at_ms.is_some(),
            columns.spec.is_some(),
        ]
    };
    for entry in every_kind() {
        let done = entry.marked_done(DoneReason::Cancelled, Millis(1), 12);
        let (before, after) = (EntryColumns::of(&entry), EntryColumns::of(&done));
        for (was, is) in names(&before).into_iter().zip(names(&after)) {
            assert!(is || !was, "{entry:?}");
        }
    }
}

#[test]
fn stored_numbers_never_change() {
    let numbers: Vec<_> = every_kind()
        .iter()
        .map(|entry| {
            let columns = EntryColumns::of(entry);
            (columns.kind, columns.flags, columns.reason)
        })
        .collect();
    let expected = [
        (0, 0, None),
        (0, 1, None),
        (0, 0, None),
        (1, 0, None),
        (1, 2, None),
        (2, 0, Some(1)),
        (2, 0, Some(1)),
        (2, 0, Some(2)),
        (2, 0, Some(3)),
    ]
    .map(|(kind, flags, reason)| (Some(kind), Some(flags), reason));
    assert_eq!(numbers, expected);
    let states: Vec<_> = State::ALL.map(State::number).into();
    assert_eq!(states, [1, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn an_entry_that_cannot_be_understood_says_which_column_and_keeps_its_bytes() {
    let entry = Entry::due(id(), 0, 0, Millis(7_000), spec(), 9);
    let good = || EntryColumns::of(&entry);
    let broken = |columns: EntryColumns, key: Key, says: &str| {
        let raw = columns.spec.clone().unwrap_or_default();
        let unreadable = columns.into_entry(key, 1).unwrap_err();
        assert!(unreadable.reason.contains(says), "{}", unreadable.reason);
        assert_eq!(unreadable.raw, raw);
    };
    let with = |change: fn(&mut EntryColumns)| {
        let mut columns = good();
        change(&mut columns);
        columns
    };
    broken(
        EntryColumns::default(),
        entry.key,
        "column flags is missing",
    );
    broken(with(|c| c.kind = None), entry.key, "kind is missing");
    broken(with(|c| c.kind = Some(77)), entry.key, "kind cannot be 77");
    broken(
        with(|c| c.kind = Some(9)),
        entry.key,
        "kind is 9, which this version does not know",
    );
    let later = with(|c| c.kind = Some(3)).into_entry(entry.key, 1);
    assert!(later.unwrap_err().newer);
    let spoiled = with(|c| c.kind = Some(77)).into_entry(entry.key, 1);
    assert!(!spoiled.unwrap_err().newer);
    broken(with(|c| c.kind = Some(1)), entry.key, "code cannot be 0");
    broken(with(|c| c.kind = Some(2)), entry.key, "reason is missing");
    broken(
        with(|c| c.spills = Some(-1)),
        entry.key,
        "spills cannot be -1",
    );
    broken(with(|c| c.spec = None), entry.key, "spec is missing");
    broken(
        with(|c| c.spec = Some(Bytes::from_static(b"\xff\xff\xff"))),
        entry.key,
        "column spec is malformed",
    );
    let odd = Key {
        code: KeyCode(3),
        ..entry.key
    };
    broken(good(), odd, "code cannot be 3");
    let foreign = Key {
        id: TaskId::bound(Uuid::from_u128(77)),
        ..entry.key
    };
    broken(good(), foreign, "is not a task id");
}

#[test]
fn every_task_row_survives_its_columns() {
    for state in State::ALL {
        let row = row(state);
        assert_eq!(TaskColumns::of(&row).into_row(row.id.uuid()), Ok(row));
    }
}

#[test]
fn a_task_row_that_cannot_be_understood_says_which_column() {
    let good = TaskColumns::of(&row(State::Claimed));
    let with = |change: fn(&mut TaskColumns)| {
        let mut columns = good.clone();
        change(&mut columns);
        columns.into_row(id().uuid())
    };
    assert_eq!(
        with(|c| c.state = Some(0)),
        Err(Undecodable::out_of_range("state", 0))
    );
    assert_eq!(
        with(|c| c.state = Some(9)),
        Err(Undecodable::Newer {
            column: "state",
            value: 9
        })
    );
    assert_eq!(
        with(|c| c.attempt = Some(-2)),
        Err(Undecodable::out_of_range("attempt", -2))
    );
    assert_eq!(with(|c| c.nonce = None), Err(Undecodable::Missing("nonce")));
    assert_eq!(
        with(|c| c.detail = Some(Bytes::new())),
        Err(malformed("detail", Malformed::Missing("spec")))
    );
    let foreign = Uuid::from_u128(77);
    assert_eq!(
        good.clone().into_row(foreign),
        Err(Undecodable::NotATaskId(foreign))
    );
}

#[test]
fn expectations_and_clocks_survive_their_columns() {
    let seen = row(State::Claimed).seen();
    for expect in [Expect::Absent, seen] {
        assert_eq!(ExpectColumns::of(&expect).into_expect(), Ok(expect));
    }
    let half = ExpectColumns {
        state: None,
        ..ExpectColumns::of(&seen)
    };
    assert_eq!(half.into_expect(), Err(Undecodable::Missing("state")));
    let clock = ClockRow {
        version: 1,
        opened: Tick(2),
        fired: Position::behind(Millis(3)),
        erased: Tick(4),
        owner: NodeId(Uuid::from_u128(5)),
        lease_until: Millis(6),
        wall: Millis(7),
    };
    assert_eq!(ClockColumns::of(&clock).into_row(), Ok(clock));
    assert_eq!(
        ClockColumns::default().into_row(),
        Err(Undecodable::Missing("version"))
    );
}
