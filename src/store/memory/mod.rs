//! A store in memory, for tests: the contract of [`crate::store`], and every fault a real store shows, on demand.
//!
//! One [`MemoryStore`] is the cluster's; each node under test gets a [`MemoryHandle`] of its own, with its own [`Hook`]:
//! the hook sees every call and chooses its [`Fate`], so a test can crash a node at its k-th operation, lose the reply of
//! a conditional write, or have it applied later. Deterministic: sorted maps, virtual time, no randomness of its own.

mod data;
mod handle;

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use data::Data;
pub use handle::MemoryHandle;

use super::{Parked, Unreadable};
use crate::{
    model::{
        clock::ClockRow,
        entry::{Entry, Key},
        ids::TaskId,
        state::TaskRow,
        wheel::{Shape, WheelNumber},
    },
    time_source::TimeSource,
};

/// A call of a store, as a hook sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// Name of the method.
    pub operation: &'static str,
    /// Whether it writes.
    pub writes: bool,
    /// Whether it is a conditional write.
    pub conditional: bool,
}

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is done.
    Go,
    /// It is done after this wait.
    Delay(Duration),
    /// It fails, and has no effect.
    Fail,
    /// It is done, and its reply is lost: an error, or [`super::Swapped::Unknown`].
    LoseReply,
    /// Its reply is lost, and it takes effect after this wait.
    ApplyLater(Duration),
    /// The process dies before the call has an effect: it never returns.
    StopBefore,
    /// The process dies after the call has had its effect: it never returns.
    StopAfter,
}

/// Chooses the fate of each call of a handle.
pub type Hook = Arc<dyn Fn(Call) -> Fate + Send + Sync>;

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
    pub fn handle(self: &Arc<Self>) -> Arc<MemoryHandle> {
        self.handle_with(Arc::new(|_| Fate::Go))
    }

    /// Returns a handle whose calls meet the fates that the hook chooses.
    #[must_use]
    pub fn handle_with(self: &Arc<Self>, hook: Hook) -> Arc<MemoryHandle> {
        Arc::new(MemoryHandle::new(Arc::clone(self), hook))
    }

    /// Returns the shape.
    #[must_use]
    pub const fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Cuts pages to this many rows, so that a test of few rows meets page boundaries.
    pub fn set_page_rows_max(&self, rows: usize) {
        self.lock().page_rows_max = Some(rows);
    }

    /// Puts a row that cannot be understood.
    pub fn put_garbage(&self, key: Key, written: i64) {
        let unreadable = Unreadable {
            reason: "garbage".to_owned(),
            raw: bytes::Bytes::from_static(b"\xff"),
        };
        self.lock()
            .put_row(&self.shape, key, written, Err(unreadable));
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

    /// Returns everything that was set aside.
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

    /// Every change of a clock row that broke its rules; empty, or the protocol is broken.
    #[must_use]
    pub fn clock_violations(&self) -> Vec<String> {
        self.lock().clock_violations.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Data> {
        self.data.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
