//! These tests show that the simulated store does as three replicas do: each behaviour that the
//! runs rely on occurs.

mod erasing;
mod expiry;
mod history;
mod outages;
mod pages;
mod quorum;
mod records;
mod rows;
mod speed;
mod swaps;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tickwheel::{
    model::{
        backoff::Backoff,
        clock::{ClockRow, Position},
        entry::Entry,
        ids::{NodeId, TaskId},
        state::{Detail, Expect, History, State, TaskRow, Transition},
        target::Target,
        task::{Body, Content, Priority, Spec},
        time::{Millis, Tick, TickLength},
        wheel::{Shape, WheelNumber},
    },
    store::{ClockStore, Error, Freshness, Scan, TaskStore, WheelStore},
    time_source::TimeSource,
};
use uuid::Uuid;

use super::{Control, Faults, Handle, Replicas, Sink};

const EPOCH: Millis = Millis(1_800_000_000_437);

/// A tick of the future, so that nothing is due.
const TICK: Tick = Tick(1_800_000_100);

fn shape() -> Shape {
    Shape::new(4, TickLength::new(Duration::from_secs(1)).unwrap(), 8).unwrap()
}

/// Two nodes on one store.
struct Pair {
    time: TimeSource,
    replicas: Arc<Replicas>,
    control: Control,
    one: Arc<Handle>,
    other: Arc<Handle>,
}

impl Pair {
    fn new(seed: u64) -> Self {
        let time = TimeSource::simulated(EPOCH, seed);
        let replicas = Replicas::new(shape(), time.clone(), seed);
        Self {
            control: replicas.control(),
            one: replicas.handle(time.simulated_peer(1)),
            other: replicas.handle(time.simulated_peer(2)),
            replicas,
            time,
        }
    }

    fn with(seed: u64, faults: Faults) -> Self {
        let pair = Self::new(seed);
        pair.control.set(faults);
        pair
    }

    /// Collects the trace from now on.
    fn traced(&self) -> Arc<Mutex<Vec<String>>> {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&lines);
        let sink: Sink = Arc::new(move |line| kept.lock().unwrap().push(line.to_owned()));
        self.control.trace(Some(sink));
        lines
    }

    async fn put(&self, entry: &Entry) -> Result<(), Error> {
        let answers = self.one.put_entries(std::slice::from_ref(entry)).await;
        answers.into_iter().collect()
    }

    /// Whether the other node sees the very entry.
    async fn sees(&self, entry: &Entry) -> bool {
        let dues = [entry.key.due];
        let found = self.other.find_entries(entry.key.id, &dues);
        found.await.unwrap().contains(entry)
    }

    async fn clock(&self, freshness: Freshness) -> ClockRow {
        self.other.clock(wheel(), freshness).await.unwrap()
    }

    async fn task(&self, id: TaskId, freshness: Freshness) -> Option<TaskRow> {
        let rows = self.other.tasks(&[id], freshness).await.unwrap();
        rows.into_iter().next().unwrap()
    }
}

fn wheel() -> WheelNumber {
    WheelNumber::new(1).unwrap()
}

fn id(number: u64) -> TaskId {
    TaskId::new(shape().tick().end_of(TICK), wheel(), number)
}

fn entry(number: u64, written: i64) -> Entry {
    let id = id(number);
    Entry::due(id, 0, 0, id.first_start(), spec(), written)
}

fn scan_of(tick: Tick, rows_max: usize) -> Scan {
    Scan {
        wheel: wheel(),
        slot: shape().slot_of(tick),
        span: shape().span_of(tick),
        behind: None,
        rows_max,
    }
}

fn spec() -> Arc<Spec> {
    Arc::new(Spec {
        indexed: Vec::new(),
        target: Target::Callback {
            name: "work".to_owned(),
        },
        collection: String::new(),
        priority: Priority::Normal,
        max_attempts: 3,
        backoff: Backoff::QUICK,
        claim_timeout: Duration::from_secs(10),
        heartbeat_timeout: Duration::from_secs(10),
        attempt_timeout: None,
        ordering_key: None,
        dead_retention: None,
        expire_after: None,
        retention: Duration::from_secs(3600),
        create_time: EPOCH,
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

/// The clock that follows a row, one tick on.
fn next(row: &ClockRow, owner: u128) -> ClockRow {
    ClockRow {
        version: row.version + 1,
        opened: row.opened.plus(1),
        fired: Position {
            due: Millis(row.fired.due.0 + 1000),
            ..row.fired
        },
        owner: NodeId(Uuid::from_u128(owner)),
        ..*row
    }
}

/// A transition of a task to this attempt; the nonce names it.
fn claim(number: u64, expect: Expect, attempt: u32, nonce: u128) -> Transition {
    let id = id(number);
    Transition {
        expect,
        row: TaskRow {
            id,
            state: State::Claimed,
            generation: 0,
            attempt,
            tries: attempt,
            next: EPOCH,
            last: EPOCH,
            cancel_requested: false,
            nonce: Uuid::from_u128(nonce),
            detail: Detail {
                spec: spec(),
                start: id.first_start(),
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
                rounds: tickwheel::model::family::Rounds::default(),
                lived: 0,
                history: History::default(),
                next: None,
            },
        },
        ttl: None,
    }
}
