//! The memory store keeps the contract of [`crate::store`] for tests, and shows every fault of a real store
//! on demand.
//!
//! One [`MemoryStore`] is the cluster's; each node under test gets a [`Faulty`] handle of its own, with its
//! own [`Hook`]. It is deterministic: sorted maps, virtual time, no randomness of its own.

mod calls;
mod data;
mod records;

use std::{fmt, sync::Arc};

use data::Data;
use parking_lot::{Mutex, MutexGuard};

use super::faulty::{Fate, Faulty, Hook};
use crate::{
    model::{
        clock::ClockRow,
        entry::{Entry, Key},
        ids::TaskId,
        state::TaskRow,
        wheel::{Shape, WheelNumber},
    },
    store::{Parked, Unreadable},
    time_source::TimeSource,
};

/// The cluster's store.
pub struct MemoryStore {
    shape: Shape,
    time: TimeSource,
    data: Mutex<Data>,
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore")
            .field("shape", &self.shape)
            .finish_non_exhaustive()
    }
}

impl MemoryStore {
    /// Creates a store whose clock rows begin now.
    #[must_use]
    pub fn new(shape: Shape, time: TimeSource) -> Arc<Self> {
        let first = ClockRow::first(&shape, time.now());
        let data = Data {
            clocks: shape.all_wheels().map(|wheel| (wheel, first)).collect(),
            ..Data::default()
        };
        Arc::new(Self {
            shape,
            time,
            data: Mutex::new(data),
        })
    }

    /// Returns a handle without faults.
    #[must_use]
    pub fn handle(self: &Arc<Self>) -> Arc<Faulty> {
        self.handle_with(Arc::new(|_| Fate::Go))
    }

    /// Returns a handle whose calls meet the fates that the hook chooses.
    #[must_use]
    pub fn handle_with(self: &Arc<Self>, hook: Hook) -> Arc<Faulty> {
        let store = Arc::clone(self);
        Arc::new(Faulty::new(store, self.time.clone(), hook))
    }

    /// Returns the shape.
    #[must_use]
    pub const fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Cuts pages to this many rows, so that a test with few rows meets page boundaries.
    pub fn set_page_rows_max(&self, rows: usize) {
        self.lock().page_rows_max = Some(rows);
    }

    /// Puts a row that cannot be understood.
    pub fn put_garbage(&self, key: Key, written: i64) {
        let unreadable = Unreadable {
            reason: "garbage".to_owned(),
            newer: false,
            raw: bytes::Bytes::from_static(b"\xff"),
        };
        self.lock()
            .put_row(&self.shape, key, written, Err(unreadable));
    }

    /// Puts an entry of a kind that only a later version knows.
    pub fn put_newer(&self, key: Key, written: i64) {
        let unreadable = Unreadable {
            reason: "column kind is 9, which this version does not know".to_owned(),
            newer: true,
            raw: bytes::Bytes::from_static(b"\xff"),
        };
        self.lock()
            .put_row(&self.shape, key, written, Err(unreadable));
    }

    /// Makes the row of a task one that cannot be understood.
    pub fn spoil_row(&self, id: TaskId) {
        self.lock().spoiled.insert(id);
    }

    /// Makes the content of a task, which is kept apart, one that cannot be understood.
    pub fn spoil_body(&self, id: TaskId) {
        self.lock().spoiled_bodies.insert(id);
    }

    /// Makes the last sign of life of an attempt one that cannot be understood, until the next one comes.
    pub fn spoil_heartbeat(&self, id: TaskId, attempt: u32) {
        self.lock().spoiled_beats.insert((id, attempt));
    }

    /// Makes the servers that have the row of a task unreachable, or reachable again.
    pub fn cut_off_row(&self, id: TaskId, away: bool) {
        let mut data = self.lock();
        if away {
            data.unreachable.insert(id);
        } else {
            data.unreachable.remove(&id);
        }
    }

    /// Returns every live row of every slot.
    #[must_use]
    pub fn entries(&self) -> Vec<(Key, Option<Entry>)> {
        let data = self.lock();
        data.wheel
            .iter()
            .map(|((_, _, key), row)| (*key, row.entry.clone().ok()))
            .collect()
    }

    /// Returns every task row.
    #[must_use]
    pub fn task_rows(&self) -> Vec<TaskRow> {
        self.lock()
            .tasks
            .values()
            .map(|(row, _)| row.clone())
            .collect()
    }

    /// Returns the task row as it is, without a fault.
    #[must_use]
    pub fn task_row(&self, id: TaskId) -> Option<TaskRow> {
        self.lock().task(id, self.time.now())
    }

    /// Returns the clock of a wheel, without a fault.
    #[must_use]
    pub fn clock_row(&self, wheel: WheelNumber) -> Option<ClockRow> {
        self.lock().clocks.get(&wheel).copied()
    }

    /// Returns all rows that were set aside.
    #[must_use]
    pub fn all_parked(&self) -> Vec<Parked> {
        self.lock().parked.clone()
    }

    /// Returns the ids whose contents are kept apart.
    #[must_use]
    pub fn body_ids(&self) -> Vec<TaskId> {
        let now = self.time.now();
        let data = self.lock();
        let live = data
            .bodies
            .iter()
            .filter(|(_, body)| body.expires.is_none_or(|at| at > now));
        live.map(|(id, _)| *id).collect()
    }

    /// Returns every change of a clock row that broke its rules. If it is not empty, the protocol is broken.
    #[must_use]
    pub fn clock_violations(&self) -> Vec<String> {
        self.lock().clock_violations.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Data> {
        self.data.lock()
    }
}
