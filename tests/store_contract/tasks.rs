//! The store swaps rows of tasks one by one for nodes, and keeps heartbeats.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tickwheel::{
    limits,
    model::{
        ids::TaskId,
        state::{Detail, Expect, History, State, TaskRow, Transition},
        time::Millis,
    },
    store::{Error, Freshness, Heartbeat, Swapped},
};

use uuid::Uuid;

use super::{Stores, content, spec};

pub(crate) async fn check(stores: &Stores) {
    a_row_is_created_replaced_and_read_as_it_was_written(stores).await;
    an_expectation_that_does_not_hold_is_a_conflict_with_what_is_there(stores).await;
    a_conflict_with_our_own_write_is_applied(stores).await;
    the_newest_heartbeat_of_an_attempt_is_read(stores).await;
    what_had_an_end_lives_on_when_it_is_written_without_one(stores).await;
}

/// A row of a task, named by a fresh nonce.
pub(crate) fn row(stores: &Stores, id: TaskId, state: State, attempt: u32) -> TaskRow {
    row_of(id, state, attempt, stores.time.random_uuid())
}

/// A row of a task.
pub(crate) fn row_of(id: TaskId, state: State, attempt: u32, nonce: Uuid) -> TaskRow {
    TaskRow {
        id,
        state,
        generation: 1,
        attempt,
        tries: attempt,
        next: Millis(5),
        last: Millis(6),
        cancel_requested: false,
        nonce,
        detail: Detail {
            spec: spec(),
            start: id.first_start(),
            fire_time: Some(Millis(5)),
            claim_time: Some(Millis(7)),
            end_time: None,
            worker: "w".to_owned(),
            result: state.is_terminal().then(|| Bytes::from_static(b"r").into()),
            error: None,
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

pub(crate) fn transition(expect: Expect, row: &TaskRow) -> Transition {
    Transition {
        expect,
        row: row.clone(),
        ttl: row
            .state
            .is_terminal()
            .then_some(Duration::from_millis(999_500)),
    }
}

pub(crate) async fn swap(stores: &Stores, transitions: &[Transition]) -> Vec<Swapped<Expect>> {
    let answers = stores.one.swap_tasks(transitions).await;
    answers.into_iter().map(Result::unwrap).collect()
}

pub(crate) async fn read(stores: &Stores, ids: &[TaskId]) -> Vec<Option<TaskRow>> {
    let serial = stores.one.tasks(ids, Freshness::Serial).await.unwrap();
    let quorum = stores.other.tasks(ids, Freshness::Quorum).await.unwrap();
    assert_eq!(serial, quorum);
    let each = stores.one.tasks_each(ids, Freshness::Quorum).await;
    let each: Vec<Option<TaskRow>> = each.into_iter().map(Result::unwrap).collect();
    assert_eq!(serial, each);
    serial
}

async fn a_row_is_created_replaced_and_read_as_it_was_written(stores: &Stores) {
    let tick = stores.tick();
    let (id, other) = (stores.task(0, tick), stores.task(3, tick.plus(1)));
    assert_eq!(read(stores, &[id, other, id]).await, [None, None, None]);
    let claimed = row(stores, id, State::Claimed, 1);
    let ended = row(stores, id, State::Succeeded, 1);
    for (expect, row) in [(Expect::Absent, &claimed), (claimed.seen(), &ended)] {
        let answers = swap(stores, &[transition(expect, row)]).await;
        assert_eq!(answers, [Swapped::Applied]);
        let expected = [None, Some(row.clone()), Some(row.clone())];
        assert_eq!(read(stores, &[other, id, id]).await, expected);
    }
    assert_eq!(swap(stores, &[]).await, []);
    assert_eq!(read(stores, &[]).await, []);
}

async fn an_expectation_that_does_not_hold_is_a_conflict_with_what_is_there(stores: &Stores) {
    let id = stores.task(0, stores.tick());
    let there = row(stores, id, State::Claimed, 2);
    swap(stores, &[transition(Expect::Absent, &there)]).await;
    let nonce = there.nonce;
    let seen = |state, generation, attempt, cancel_requested| Expect::Row {
        state,
        generation,
        attempt,
        cancel_requested,
        nonce,
    };
    // It differs by its write alone.
    let other = row(stores, id, State::Claimed, 2);
    for expect in [
        Expect::Absent,
        seen(State::New, 1, 2, false),
        seen(State::Claimed, 0, 2, false),
        seen(State::Claimed, 1, 1, false),
        seen(State::Claimed, 1, 2, true),
        other.seen(),
    ] {
        let wanted = row(stores, id, State::Retrying, 2);
        let answers = swap(stores, &[transition(expect, &wanted)]).await;
        assert_eq!(answers, [Swapped::Conflict(there.seen())]);
    }
    assert_eq!(read(stores, &[id]).await, [Some(there.clone())]);
    let missing = row(stores, stores.task(0, stores.tick()), State::Claimed, 3);
    let answers = swap(stores, &[transition(there.seen(), &missing)]).await;
    assert_eq!(answers, [Swapped::Conflict(Expect::Absent)]);
    assert_eq!(read(stores, &[missing.id]).await, [None]);
}

async fn a_conflict_with_our_own_write_is_applied(stores: &Stores) {
    let id = stores.task(0, stores.tick());
    let claimed = row(stores, id, State::Claimed, 1);
    let again = transition(Expect::Absent, &claimed);
    for _ in 0..2 {
        let answers = swap(stores, std::slice::from_ref(&again)).await;
        assert_eq!(answers, [Swapped::Applied]);
    }
    assert_eq!(read(stores, &[id]).await, [Some(claimed)]);
}

/// A dead task runs again: its row and its content must not expire as those of a dead one.
async fn what_had_an_end_lives_on_when_it_is_written_without_one(stores: &Stores) {
    let tick = stores.tick();
    let (id, other) = (stores.task(0, tick), stores.task(0, tick));
    let short = |row: &TaskRow| Transition {
        ttl: Some(Duration::from_secs(2)),
        ..transition(Expect::Absent, row)
    };
    let [dead, left] = [id, other].map(|id| row(stores, id, State::Dead, 3));
    for row in [&dead, &left] {
        assert_eq!(swap(stores, &[short(row)]).await, [Swapped::Applied]);
    }
    let again = TaskRow {
        generation: dead.generation + 1,
        tries: 0,
        ..row(stores, id, State::New, 3)
    };
    let redriven = transition(dead.seen(), &again);
    assert_eq!(swap(stores, &[redriven]).await, [Swapped::Applied]);
    let bodies = [(id, Arc::new(content(10))), (other, Arc::new(content(10)))];
    for (bodies, written, ttl) in [(&bodies[..], 20, Some(2)), (&bodies[..1], 21, None)] {
        for put in stores.one.put_bodies(bodies, written, ttl).await {
            put.unwrap();
        }
    }
    stores.time.sleep(Duration::from_secs(4)).await;
    assert_eq!(read(stores, &[id, other]).await, [Some(again), None]);
    let bodies = stores.other.bodies(&[id, other]).await.unwrap();
    assert_eq!(bodies, [Some(content(10)), None]);
}

async fn put(stores: &Stores, heartbeats: &[Heartbeat]) {
    let answers: Result<Vec<()>, Error> = stores
        .one
        .put_heartbeats(heartbeats, limits::HEARTBEAT_KEPT_MIN)
        .await
        .into_iter()
        .collect();
    assert_eq!(answers.unwrap().len(), heartbeats.len());
}

async fn the_newest_heartbeat_of_an_attempt_is_read(stores: &Stores) {
    let tick = stores.tick();
    let ids = Arc::new([
        stores.task(0, tick),
        stores.task(0, tick),
        stores.task(1, tick),
    ]);
    let beat = |id: TaskId, attempt, at: i64, progress: Option<&'static str>| Heartbeat {
        id,
        attempt,
        at: Millis(1_790_000_000_000 + at),
        progress: progress.map(Bytes::from),
    };
    let first: Vec<_> = ids.iter().map(|id| beat(*id, 1, 0, Some("half"))).collect();
    put(stores, &first).await;
    put(
        stores,
        &[beat(ids[0], 2, 5, None), beat(ids[1], 1, 9, None)],
    )
    .await;
    put(
        stores,
        &[beat(ids[1], 1, 8, Some("late")), first[2].clone()],
    )
    .await;
    let asked = [
        (ids[0], 2),
        (ids[0], 1),
        (ids[1], 1),
        (ids[1], 2),
        (ids[2], 1),
    ];
    let read = stores.other.heartbeats(&asked).await.unwrap();
    let expected = [
        Some(beat(ids[0], 2, 5, None)),
        Some(first[0].clone()),
        Some(beat(ids[1], 1, 9, None)),
        None,
        Some(first[2].clone()),
    ];
    assert_eq!(read, expected);
    assert_eq!(stores.one.heartbeats(&[]).await.unwrap(), []);
}
