//! The contract of `tickwheel::store` is checked here, line by line, for every implementation.
//!
//! The implementations without a server run it in `local_stores.rs` and `embedded_store/`, Cassandra in `store_on_cassandra.rs`.
//!
//! Each check takes two handles of one store, as two nodes have them, and its own tasks, so that checks do
//! not see each other. Checks of a single implementation are beside its factory.

mod bodies;
mod clocks;
mod entries;
mod erasing;
mod groups;
mod index;
mod nodes;
mod records;
pub(crate) mod tasks;

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use tickwheel::{
    model::{
        backoff::Backoff,
        entry::Entry,
        ids::TaskId,
        target::Target,
        task::{Body, Content, Priority, Spec},
        time::{Millis, Tick, TickLength},
        wheel::{Shape, WheelNumber},
    },
    store::{Page, Scan, Store},
    time_source::TimeSource,
};

/// Few slots, so that the wheel wraps.
pub(crate) fn shape() -> Shape {
    Shape::new(4, TickLength::new(Duration::from_secs(1)).unwrap(), 8).unwrap()
}

/// Two handles of one store.
pub(crate) struct Stores {
    pub(crate) one: Arc<dyn Store>,
    pub(crate) other: Arc<dyn Store>,
    pub(crate) time: TimeSource,
    next_tick: AtomicI64,
}

impl Stores {
    pub(crate) fn new(one: Arc<dyn Store>, other: Arc<dyn Store>) -> Self {
        Self::with_time(one, other, TimeSource::real())
    }

    /// Two handles of a store whose time is this one.
    pub(crate) fn with_time(one: Arc<dyn Store>, other: Arc<dyn Store>, time: TimeSource) -> Self {
        Self {
            one,
            other,
            time,
            next_tick: AtomicI64::new(2_000_000_000),
        }
    }

    /// A tick that no other check uses, nor its neighbours or its next revolutions.
    pub(crate) fn tick(&self) -> Tick {
        Tick(self.next_tick.fetch_add(1000, Ordering::Relaxed))
    }

    /// A task that starts at the end of a tick.
    pub(crate) fn task(&self, wheel: u16, tick: Tick) -> TaskId {
        self.task_at(wheel, shape().tick().end_of(tick))
    }

    /// A task that starts at an instant.
    pub(crate) fn task_at(&self, wheel: u16, start: Millis) -> TaskId {
        TaskId::new(start, WheelNumber::new(wheel).unwrap(), self.time.random())
    }
}

/// Reads a whole tick of a wheel, in pages of `rows_max`.
pub(crate) async fn read_tick(
    store: &dyn Store,
    wheel: u16,
    tick: Tick,
    rows_max: usize,
) -> Vec<Entry> {
    let mut scan = Scan {
        wheel: WheelNumber::new(wheel).unwrap(),
        slot: shape().slot_of(tick),
        span: shape().span_of(tick),
        behind: None,
        rows_max,
    };
    let mut entries = Vec::new();
    loop {
        let Page { rows, more } = store.scan(&scan).await.unwrap();
        assert!(rows.len() <= rows_max);
        if let Some(last) = rows.last() {
            scan.behind = Some(last.key);
        }
        entries.extend(rows.into_iter().map(|row| {
            let entry = row.entry.unwrap();
            assert_eq!((row.key, row.written), (entry.key, entry.written));
            entry
        }));
        if !more {
            return entries;
        }
    }
}

pub(crate) fn content(bytes: usize) -> Content {
    Content {
        payload: vec![7; bytes].into(),
        content_type: "text/plain".to_owned(),
        ..Content::default()
    }
}

pub(crate) fn spec_with(content: Content) -> Arc<Spec> {
    Arc::new(Spec {
        indexed: Vec::new(),
        target: Target::Callback {
            name: "send".to_owned(),
        },
        collection: "c".to_owned(),
        priority: Priority::High,
        max_attempts: 3,
        backoff: Backoff::QUICK,
        claim_timeout: Duration::from_secs(60),
        heartbeat_timeout: Duration::from_secs(30),
        attempt_timeout: None,
        ordering_key: None,
        dead_retention: None,
        expire_after: Some(Duration::from_secs(9)),
        retention: Duration::from_secs(3600),
        create_time: Millis(1_790_000_000_000),
        asked_start: None,
        scheduled: None,
        key: None,
        notify: None,
        actions: None,
        kin: None,
        after: None,
        then: Vec::new(),
        body: Body::Inline(content),
    })
}

pub(crate) fn spec() -> Arc<Spec> {
    spec_with(content(10))
}

/// Checks the whole contract.
pub(crate) async fn suite(stores: &Stores) {
    entries::check(stores).await;
    erasing::check(stores).await;
    bodies::check(stores).await;
    clocks::check(stores).await;
    tasks::check(stores).await;
    groups::check(stores).await;
    nodes::check(stores).await;
    records::check(stores).await;
    index::check(stores).await;
}
