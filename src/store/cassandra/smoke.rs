//! The smoke test proves for `init`, on the server at hand, that conditional writes and claim groups do what
//! the protocol rests on.
//!
//! They differ between servers and versions more than anything else: not supported beside tablets, not
//! linearizable in some settings, other columns in the answer to a refusal. It is better to refuse a server
//! at `init` than to lose a claim race on it. The rows are those of invented tasks and vanish after a minute.

use std::{sync::Arc, time::Duration};

use super::Store;
use crate::{
    model::{
        backoff::Backoff,
        ids::TaskId,
        record::{self, Change, Kind, Mark, Name, Record},
        state::{Detail, Expect, History, State, TaskRow, Transition},
        target::Target,
        task::{Body, Content, Priority, Spec},
        time::Millis,
        wheel::WheelNumber,
    },
    store::{Error, Freshness, RecordStore, Swapped, TaskStore},
};

const TTL: Duration = Duration::from_secs(60);

/// Tries every case that a claim group can meet.
///
/// # Errors
/// [`Error::Unsuitable`] when one does not end as it must.
pub(super) async fn test(store: &Store) -> Result<(), Error> {
    let [a, b, c] = [0, 1, 2].map(|_| invented(store));
    let rows = |ids: &[TaskId]| -> Vec<TaskRow> { ids.iter().map(|id| row(*id, store)).collect() };
    let absent = |row: &TaskRow| transition(Expect::Absent, row.clone());
    let first = rows(&[a, b]);

    let both: Vec<Transition> = first.iter().map(absent).collect();
    let applied = [Swapped::Applied, Swapped::Applied];
    expect(store, "a group of two new rows", &both, &applied).await?;
    expect(
        store,
        "the same group again, which is its own",
        &both,
        &applied,
    )
    .await?;

    let seen = State::Cancelled;
    let taken = |row: &TaskRow| Swapped::Conflict(row.seen());
    let again: Vec<Transition> = rows(&[a, b]).iter().map(absent).collect();
    let refused: Vec<Swapped<Expect>> = first.iter().map(taken).collect();
    expect(
        store,
        "a group of two rows that are taken",
        &again,
        &refused,
    )
    .await?;

    let mixed: Vec<Transition> = rows(&[a, c]).iter().map(absent).collect();
    let half = [Swapped::Conflict(first_seen(&first)), Swapped::Applied];
    expect(store, "a group of a taken row and a new one", &mixed, &half).await?;

    let unseen = TaskRow {
        state: seen,
        ..row(invented(store), store)
    };
    let missing = [transition(first_seen(&first), unseen)];
    let gone = [Swapped::Conflict(Expect::Absent)];
    expect(store, "a row that is not there", &missing, &gone).await?;

    let stored = store.tasks(&[a, b], Freshness::Serial).await?;
    let wanted: Vec<Option<TaskRow>> = first.into_iter().map(Some).collect();
    if stored != wanted {
        return Err(refusal("reading the rows back", &wanted, &stored));
    }
    records(store).await
}

/// Tries what a conditional write of a record can meet.
async fn records(store: &Store) -> Result<(), Error> {
    let key = store.time.random_uuid().to_string();
    let unnamed = |refused: record::Refused| Error::Unsuitable {
        reason: refused.to_string(),
    };
    let name = Name::new(Kind::IdempotencyKey, &key).map_err(unnamed)?;
    let change = |replaced: Option<&Record>, value: &'static str| {
        let mark = Mark {
            nonce: store.time.random_uuid(),
            stamp: store.time.stamp(),
        };
        let expires = Some(store.time.now().after(TTL));
        Change::put(name.clone(), replaced, value.into(), expires, mark).map_err(unnamed)
    };
    let first = change(None, "first")?;
    let first_there = || Some(first.record().clone());
    let second = change(Some(first.record()), "second")?;
    for (what, change, wanted) in [
        ("a new record", &first, Swapped::Applied),
        (
            "the same record again, which is its own",
            &first,
            Swapped::Applied,
        ),
        (
            "a record that is taken",
            &change(None, "other")?,
            Swapped::Conflict(first_there()),
        ),
        (
            "a record over the one that is there",
            &second,
            Swapped::Applied,
        ),
        (
            "a record over one that has gone",
            &change(first_there().as_ref(), "other")?,
            Swapped::Conflict(Some(second.record().clone())),
        ),
    ] {
        match store.swap_record(change).await? {
            Swapped::Unknown => return Err(unknown()),
            got if got == wanted => {}
            got => return Err(refusal(what, &wanted, &got)),
        }
    }
    Ok(())
}

fn unknown() -> Error {
    super::link::unavailable(
        "try conditional writes",
        "an outcome is unknown: run `tickwheel init` again",
    )
}

async fn expect(
    store: &Store,
    what: &str,
    transitions: &[Transition],
    wanted: &[Swapped<Expect>],
) -> Result<(), Error> {
    let mut answers = Vec::with_capacity(wanted.len());
    for answer in store.swap_tasks(transitions).await {
        answers.push(answer?);
    }
    if answers.contains(&Swapped::Unknown) {
        return Err(unknown());
    }
    if answers == wanted {
        return Ok(());
    }
    Err(refusal(what, &wanted, &answers))
}

fn refusal(what: &str, wanted: &impl std::fmt::Debug, got: &impl std::fmt::Debug) -> Error {
    Error::Unsuitable {
        reason: format!(
            "its conditional writes do not work as needed: {what} gave {got:?} instead of {wanted:?}; use Cassandra \
             4.1 or later with `paxos_variant: v2`, or Scylla with a keyspace without tablets"
        ),
    }
}

/// Returns an id of a time when no task was due.
fn invented(store: &Store) -> TaskId {
    TaskId::new(
        Millis::EPOCH,
        WheelNumber::from_low_bits(0),
        store.time.random(),
    )
}

fn first_seen(rows: &[TaskRow]) -> Expect {
    rows.first().map_or(Expect::Absent, TaskRow::seen)
}

fn transition(expect: Expect, row: TaskRow) -> Transition {
    Transition {
        expect,
        row,
        ttl: Some(TTL),
    }
}

fn row(id: TaskId, store: &Store) -> TaskRow {
    let spec = Spec {
        indexed: Vec::new(),
        target: Target::Callback {
            name: "init".to_owned(),
        },
        collection: String::new(),
        priority: Priority::Normal,
        max_attempts: 1,
        backoff: Backoff::QUICK,
        claim_timeout: TTL,
        heartbeat_timeout: TTL,
        attempt_timeout: None,
        ordering_key: None,
        dead_retention: None,
        expire_after: None,
        retention: TTL,
        create_time: Millis::EPOCH,
        asked_start: None,
        scheduled: None,
        key: None,
        notify: None,
        actions: None,
        kin: None,
        after: None,
        then: Vec::new(),
        body: Body::Inline(Content::default()),
    };
    TaskRow {
        id,
        state: State::Cancelled,
        generation: 0,
        attempt: 1,
        tries: 1,
        next: Millis::EPOCH,
        last: Millis::EPOCH,
        cancel_requested: false,
        nonce: store.time.random_uuid(),
        detail: Detail {
            spec: Arc::new(spec),
            start: Millis::EPOCH,
            fire_time: None,
            claim_time: None,
            end_time: None,
            worker: String::new(),
            result: None,
            error: None,
            died: None,
            erased: false,
            tree: None,
            children_time_passed: false,
            rounds: crate::model::family::Rounds::default(),
            lived: 0,
            history: History::default(),
            next: None,
        },
    }
}
