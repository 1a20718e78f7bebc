//! The store seam gives the service one interface to every store, and this contract to rely on.
//!
//! It has six small traits, one per table family, and [`Store`] as their sum. New state goes into [`records`] and [`index`],
//! which take any kind of it. One suite tests the contract below (`tests/store_contract.rs`) on every implementation.
//!
//! # Contract
//! - **Acknowledged means durable**, and visible to every read that starts after the acknowledgement, on any node.
//! - **Plain writes** (entries, bodies, heartbeats, nodes, rows of the index) carry the time of their first attempt. The newest
//!   wins, and a repetition with the same time changes nothing. An error means unknown: the write may take
//!   effect, now or later.
//! - **Conditional writes** (clock, tasks, records) are linearizable and have three outcomes: [`Swapped::Applied`],
//!   [`Swapped::Conflict`] (certainly not applied, with what is there instead) and [`Swapped::Unknown`] (it may have been
//!   applied, or may be applied later). An implementation never repeats one by itself unless the first is known not to have
//!   been applied. An error means that it was certainly not applied.
//! - **Batches** are answered item by item, in order. One bad item fails alone. Callers bound their size.
//! - Every call ends within the store's own time limit. Dropping a call's future leaves its outcome unknown.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::join_all;

use crate::{
    limits::{RANGE_READS_IN_FLIGHT_MAX, STORE_READS_IN_FLIGHT_MAX},
    model::{
        clock::{ClockRow, Position},
        entry::{Entry, Key},
        ids::{NodeId, TaskId},
        state::{Expect, TaskRow, Transition},
        task::Content,
        time::{Millis, Tick},
        wheel::{Slot, Span, WheelNumber},
    },
};

#[cfg(feature = "cassandra")]
pub mod cassandra;
#[cfg(feature = "embedded")]
pub mod embedded;
pub mod index;
pub mod kinds;
mod range;
pub mod records;
pub mod row;

pub use index::IndexStore;
pub use range::{RangePage, RangeScan};
pub use records::RecordStore;

/// A fault of the store.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// It did not answer in time, or refused for now. Try again later.
    #[error("the store is unavailable while trying to {operation}: {reason}")]
    Unavailable {
        /// The attempted operation, as a verb phrase.
        operation: &'static str,
        /// The reason.
        reason: String,
    },
    /// It has no room for new work, but goes on with the tasks that are there. New work is taken again once there is room.
    #[error("the store is full: {reason}")]
    Full {
        /// How full, and what to do.
        reason: String,
    },
    /// It holds data that cannot be understood. A person must look.
    #[error("the store holds data that cannot be read while trying to {operation}: {reason}")]
    Corrupt {
        /// The attempted operation, as a verb phrase.
        operation: &'static str,
        /// The defect.
        reason: String,
    },
    /// It was written by a later version, so this one must leave it alone.
    #[error(
        "the store holds data of a later version while trying to {operation}: {reason}; update this node"
    )]
    Newer {
        /// The attempted operation, as a verb phrase.
        operation: &'static str,
        /// The unknown part.
        reason: String,
    },
    /// It is not set up as this program needs it; the reason says what to do.
    #[error("the store cannot be used: {reason}")]
    Unsuitable {
        /// The defect, and what to do.
        reason: String,
    },
}

impl Error {
    /// Tells whether a row that was read cannot be understood. Other rows of the same read may well be understood.
    #[must_use]
    pub const fn is_of_a_row(&self) -> bool {
        match self {
            Self::Corrupt { .. } | Self::Newer { .. } => true,
            Self::Unavailable { .. } | Self::Full { .. } | Self::Unsuitable { .. } => false,
        }
    }
}

/// The outcome of a conditional write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Swapped<T> {
    /// It is durable.
    Applied,
    /// It was not applied, because this is there instead.
    Conflict(T),
    /// It may have been applied, or may be applied later.
    Unknown,
}

/// The freshness that a read of conditionally written rows needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// Sees every conditional write that was acknowledged before the read started.
    Quorum,
    /// Also settles conditional writes that are still in flight, so that the returned row cannot be undone.
    Serial,
}

/// A bounded read of one tick of one wheel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scan {
    /// The wheel.
    pub wheel: WheelNumber,
    /// The tick's slot.
    pub slot: Slot,
    /// The due times to read.
    pub span: Span,
    /// Reads on behind this key; none reads from the span's beginning.
    pub behind: Option<Key>,
    /// Returns at most this many rows.
    pub rows_max: usize,
}

/// Rows of a scan, in key order.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// The rows.
    pub rows: Vec<ScannedRow>,
    /// Whether there may be more rows behind the last one. A page may be empty and still not be the last.
    pub more: bool,
}

/// A row of a slot.
#[derive(Debug, Clone)]
pub struct ScannedRow {
    /// Its key.
    pub key: Key,
    /// Its write time in microseconds.
    pub written: i64,
    /// Its content. One that cannot be understood is kept as it is.
    pub entry: Result<Entry, Unreadable>,
}

impl ScannedRow {
    /// Returns its place in the wheel's log.
    #[must_use]
    pub const fn position(&self) -> Position {
        Position {
            due: self.key.due,
            id: self.key.id,
        }
    }
}

/// A row that cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// The defect.
    pub reason: String,
    /// A later version may understand it, so it must not be set aside.
    pub newer: bool,
    /// Its bytes.
    pub raw: Bytes,
}

/// The deletion of the rows that a tick's slot holds for that tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Erasure {
    /// The tick.
    pub tick: Tick,
    /// The newest write time among the rows that were read. Rows with a newer one survive.
    pub newest_written: i64,
}

/// A row that was set aside because nothing can be done with it. It is kept for a person to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parked {
    /// Where it was.
    pub key: Key,
    /// When it was set aside.
    pub at: Millis,
    /// Why.
    pub reason: String,
    /// Its bytes.
    pub raw: Bytes,
}

/// The slots of the wheels, and the bodies that are too large for them. Plain writes.
#[async_trait]
pub trait WheelStore: Send + Sync {
    /// Writes entries under their keys. An entry with the same key and an older write time is replaced.
    async fn put_entries(&self, entries: &[Entry]) -> Vec<Result<(), Error>>;
    /// Reads a page of one tick.
    async fn scan(&self, scan: &Scan) -> Result<Page, Error>;
    /// Reads a page of one tick as [`WheelStore::scan`] does, for work that is less urgent than firing.
    async fn scan_aside(&self, scan: &Scan) -> Result<Page, Error> {
        self.scan(scan).await
    }
    /// Reads the rows of a wheel that are due in a range of many ticks, in key order; for lists, never for firing.
    ///
    /// Every row of the range up to [`RangePage::reached`] is in this page or lies before the place it was read from.
    ///
    /// The default reads tick by tick, at most [`RangeScan::slots_max`] slots. A store whose slots lie apart cannot do
    /// better. A store that keeps a wheel as one ordered log overrides it with one ordered read of the whole range. The read
    /// is bounded by [`RangeScan::rows_max`] alone, and empty ticks cost it nothing.
    async fn scan_range(&self, range: &RangeScan) -> Result<RangePage, Error> {
        let mut assembly = range::Assembly::of(range);
        for scans in range.scans().chunks(RANGE_READS_IN_FLIGHT_MAX) {
            let pages = join_all(scans.iter().map(|scan| self.scan_aside(scan))).await;
            if !range::take_all(&mut assembly, scans, pages)? {
                break;
            }
        }
        Ok(assembly.finish())
    }
    /// Reads the entries that a task has at these due times, in key order. It leaves out entries that cannot
    /// be understood.
    async fn find_entries(&self, id: TaskId, dues: &[Millis]) -> Result<Vec<Entry>, Error>;
    /// Reads the entries that tasks have at one due time each, as [`WheelStore::find_entries`] does for one
    /// of them. If an entry of a task will start it, the looks beside it may be left out: they say nothing
    /// more about the task.
    ///
    /// The default makes a read for each. A store whose slots lie apart cannot do better.
    async fn entries_at(&self, places: &[(TaskId, Millis)]) -> Vec<Result<Vec<Entry>, Error>> {
        let mut found = Vec::with_capacity(places.len());
        for places in places.chunks(STORE_READS_IN_FLIGHT_MAX) {
            let find = |(id, due): &(TaskId, Millis)| {
                let (id, due) = (*id, *due);
                async move { self.find_entries(id, &[due]).await }
            };
            found.extend(join_all(places.iter().map(find)).await);
        }
        found
    }
    /// Returns how many large reads of a node are worth having under way at once, if the store shares the
    /// node's cores. By default there is no such number, and the store's own bounds hold.
    fn reads_at_once(&self) -> Option<usize> {
        None
    }
    /// Tells whether the store removes by itself rows that were written behind the `erased` hand.
    fn removes_leftovers(&self) -> bool {
        false
    }
    /// Deletes ticks of a wheel, by ranges of due time, never by whole slots.
    async fn erase(&self, wheel: WheelNumber, ticks: &[Erasure]) -> Result<(), Error>;
    /// Writes contents under their tasks' ids at `written` microseconds; they live `ttl_seconds`, or for ever.
    async fn put_bodies(
        &self,
        bodies: &[(TaskId, Arc<Content>)],
        written: i64,
        ttl_seconds: Option<u32>,
    ) -> Vec<Result<(), Error>>;
    /// Reads contents.
    async fn bodies(&self, ids: &[TaskId]) -> Result<Vec<Option<Content>>, Error>;
    /// Reads contents, each with an outcome of its own. One that cannot be understood, in two reads, fails alone.
    async fn bodies_each(&self, ids: &[TaskId]) -> Vec<Result<Option<Content>, Error>> {
        match self.bodies(ids).await {
            Ok(found) => found.into_iter().map(Ok).collect(),
            Err(error) if error.is_of_a_row() => {
                let each = ids.iter().map(|id| async move {
                    let read = self.bodies(std::slice::from_ref(id)).await;
                    read.map(|found| found.into_iter().next().flatten())
                });
                join_all(each).await
            }
            Err(error) => vec![Err(error); ids.len()],
        }
    }
    /// Deletes contents written up to `written` microseconds.
    async fn delete_bodies(&self, ids: &[TaskId], written: i64) -> Result<(), Error>;
    /// Sets a row aside.
    async fn park(&self, parked: &Parked) -> Result<(), Error>;
    /// Asks whether new tasks may be taken. It is called before they are taken, since their first records do
    /// not all show that they are new. Fails with [`Error::Full`] while new work would be refused. Waits, for
    /// less than a second, while the store has so much to do that the tasks that are there already would soon
    /// have to wait. A hint: the default does nothing.
    async fn let_in(&self, _tasks: usize) -> Result<(), Error> {
        Ok(())
    }
    /// Returns the rows that were set aside on the day of `at`, oldest first, at most `max`.
    async fn parked(&self, at: Millis, max: usize) -> Result<Vec<Parked>, Error>;
}

/// The clock rows. Conditional writes only.
#[async_trait]
pub trait ClockStore: Send + Sync {
    /// Reads the clock of a wheel.
    async fn clock(&self, wheel: WheelNumber, freshness: Freshness) -> Result<ClockRow, Error>;
    /// Replaces `from` by `to` if `from` is still there in every field but `wall`.
    async fn swap_clock(
        &self,
        wheel: WheelNumber,
        from: &ClockRow,
        to: &ClockRow,
    ) -> Result<Swapped<ClockRow>, Error>;
}

/// The rows of tasks (conditional writes only), and the heartbeats of their attempts (plain writes).
#[async_trait]
pub trait TaskStore: Send + Sync {
    /// Returns the time by which rows have expired: `now`, or less where rows stay until the wheels have caught up.
    fn expired_by(&self, now: Millis) -> Millis {
        now
    }
    /// Reads task rows; none for a row that is absent.
    async fn tasks(
        &self,
        ids: &[TaskId],
        freshness: Freshness,
    ) -> Result<Vec<Option<TaskRow>>, Error>;
    /// Reads task rows, each with an outcome of its own. A row that cannot be understood, or whose servers
    /// are away, fails alone.
    async fn tasks_each(
        &self,
        ids: &[TaskId],
        freshness: Freshness,
    ) -> Vec<Result<Option<TaskRow>, Error>> {
        let mut rows = Vec::with_capacity(ids.len());
        // A read fails as a whole. Halves of it, and halves of these, find the few rows that are at fault.
        let mut open = vec![ids];
        while let Some(part) = open.pop() {
            if part.is_empty() {
                continue;
            }
            match self.tasks(part, freshness).await {
                Ok(found) => rows.extend(found.into_iter().map(Ok)),
                Err(error) if part.len() > 1 && error.is_of_a_row() => {
                    let (first, second) = part.split_at(part.len() / 2);
                    open.extend([second, first]);
                }
                Err(error) => rows.extend(part.iter().map(|_| Err(error.clone()))),
            }
        }
        rows
    }
    /// Tells whether rows of tasks that have ended can be listed, and a wheel is one ordered log. Lists have
    /// no horizon then.
    fn lists_ended_tasks(&self) -> bool {
        false
    }
    /// Reads up to `rows_max` rows behind an id in the order of ids, and returns those of tasks that have ended. Of rows
    /// that cannot be understood it returns the ids.
    ///
    /// It is called only where [`TaskStore::lists_ended_tasks`] holds. A store whose rows lie apart finds
    /// none.
    async fn ended_tasks(&self, _behind: TaskId, _rows_max: usize) -> Result<EndedPage, Error> {
        Ok(EndedPage::default())
    }
    /// Tells whether conditional writes of one (wheel, slot) race each other, and share one round where they come together.
    fn has_rounds(&self) -> bool {
        true
    }
    /// Writes rows conditionally, each on its own. Several of one (wheel, slot) share one round.
    ///
    /// The caller makes sure that ids are distinct and, where the store has rounds ([`Self::has_rounds`]), that one call at a
    /// time is under way per (wheel, slot). A conflict whose row carries the transition's own nonce is answered as applied.
    async fn swap_tasks(&self, transitions: &[Transition]) -> Vec<Result<Swapped<Expect>, Error>>;
    /// Records signs of life. Each can be read for at least `kept`, unless a newer one of its attempt
    /// replaces it.
    async fn put_heartbeats(
        &self,
        heartbeats: &[Heartbeat],
        kept: Duration,
    ) -> Vec<Result<(), Error>>;
    /// Reads the last sign of life of attempts.
    async fn heartbeats(&self, attempts: &[(TaskId, u32)])
    -> Result<Vec<Option<Heartbeat>>, Error>;
    /// Reads signs of life, each with an outcome of its own: one that cannot be understood fails alone.
    async fn heartbeats_each(
        &self,
        attempts: &[(TaskId, u32)],
    ) -> Vec<Result<Option<Heartbeat>, Error>> {
        let mut beats = Vec::with_capacity(attempts.len());
        // As rows of tasks above.
        let mut open = vec![attempts];
        while let Some(part) = open.pop() {
            match self.heartbeats(part).await {
                Ok(found) => beats.extend(found.into_iter().map(Ok)),
                Err(error) if part.len() > 1 && error.is_of_a_row() => {
                    let (first, second) = part.split_at(part.len() / 2);
                    open.extend([second, first]);
                }
                Err(error) => beats.extend(part.iter().map(|_| Err(error.clone()))),
            }
        }
        beats
    }
    /// Returns since when no sign of life that was answered as recorded has been lost. Of those before, the
    /// newest may be missing, so each attempt that was claimed counts as alive at that time. None where an
    /// answer means that the sign is durable.
    fn heartbeats_kept_since(&self) -> Option<Millis> {
        None
    }
}

/// Rows of tasks that have ended.
#[derive(Debug, Clone, Default)]
pub struct EndedPage {
    /// The rows, by id.
    pub rows: Vec<TaskRow>,
    /// Tasks whose rows cannot be understood, by id.
    pub unread: Vec<TaskId>,
    /// The last id that was looked at; none if there are no rows behind these.
    pub reached: Option<TaskId>,
}

/// A sign of life of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heartbeat {
    /// The task.
    pub id: TaskId,
    /// The attempt.
    pub attempt: u32,
    /// When the service received it.
    pub at: Millis,
    /// The progress that the callback reports, opaque.
    pub progress: Option<Bytes>,
}

/// The row that a node writes about itself every second. A hint, never a fence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRow {
    /// This life of the process.
    pub node: NodeId,
    /// The name that people use.
    pub name: String,
    /// Where its API answers.
    pub address: String,
    /// Its wall clock when it wrote the row.
    pub wall: Millis,
    /// Whether it can own wheels: scanner role, sane clock, broker reachable, not leaving.
    pub ready: bool,
}

/// The list of nodes. Plain writes; rows vanish 30 s after the last one.
#[async_trait]
pub trait NodeStore: Send + Sync {
    /// Writes a node's row.
    async fn put_node(&self, node: &NodeRow) -> Result<(), Error>;
    /// Removes a node's row.
    async fn remove_node(&self, node: NodeId) -> Result<(), Error>;
    /// Lists the rows.
    async fn nodes(&self) -> Result<Vec<NodeRow>, Error>;
}

/// A part of the tasks that wait for their first publication.
#[derive(Debug, Clone, Default)]
pub struct Firsts {
    /// The places of due entries that are the first of their generation, with the names of their callbacks; none for a record,
    /// or where that cannot be read.
    pub firsts: Vec<(Key, Option<String>)>,
    /// The place where the next part begins; none if this is the last.
    pub behind: Option<Key>,
}

/// A store that belongs to one process alone and can list the tasks that are under way: those that have a
/// look.
///
/// At start it serves to rebuild what its process kept in memory, above all an embedded queue.
#[async_trait]
pub trait Underway: Store {
    /// Reads the looks of a wheel behind a key in key order, or from the `fired` hand on, at most `rows_max`.
    async fn looks(
        &self,
        wheel: WheelNumber,
        behind: Option<Key>,
        rows_max: usize,
    ) -> Result<Page, Error>;
    /// Reads the places of due entries that are the first of their generation, of all wheels, due at `from`
    /// or later and behind a key. They are read as they were before `before` microseconds: rows written since
    /// say nothing about them. Looks at about `rows_max` rows.
    async fn firsts(
        &self,
        from: Millis,
        behind: Option<Key>,
        before: i64,
        rows_max: usize,
    ) -> Result<Firsts, Error>;
}

/// A store.
pub trait Store: WheelStore + ClockStore + TaskStore + NodeStore + RecordStore {}

impl<T: WheelStore + ClockStore + TaskStore + NodeStore + RecordStore> Store for T {}
