//! What stores keep of entries, tasks and clocks: the domain as columns of plain numbers and bytes, and back.
//!
//! Every store converts through here, so that the persisted numbers are listed once and bytes from outside are
//! checked once. Writing cannot fail. Reading can: another program, another version or a broken disk may have been
//! there, so every column may be missing or wrong, and the answer names it.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use uuid::Uuid;

use super::Unreadable;
use crate::{
    model::{
        clock::{ClockRow, Position},
        entry::{DoneReason, Entry, Key, KeyCode, Kind},
        ids::{NodeId, TaskId},
        state::{Detail, Expect, State, TaskRow},
        task::Spec,
        time::{Millis, Tick},
    },
    schema::{Malformed, decode_spec, encode_spec, spec_from_message, spec_to_message, v1},
};

/// Numbers of the `kind` column; never reused.
mod kind {
    pub(super) const DUE: i8 = 0;
    pub(super) const LOOK: i8 = 1;
    pub(super) const DONE: i8 = 2;
}

/// Bits of the `flags` column; never reused.
mod flag {
    /// Due: the first of its generation.
    pub(super) const FIRST: i8 = 1;
    /// Look: the task was published at `at_ms`.
    pub(super) const PUBLISHED: i8 = 2;
}

/// Numbers of the `reason` column; never reused.
mod reason {
    pub(super) const CANCELLED: i8 = 1;
    pub(super) const PUBLISHED: i8 = 2;
    pub(super) const MOVED: i8 = 3;
}

/// Why stored columns cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Undecodable {
    /// A column that must be there is not.
    #[error("column {0} is missing")]
    Missing(&'static str),
    /// A column has a value that cannot be.
    #[error("column {column} cannot be {value}")]
    OutOfRange {
        /// The column.
        column: &'static str,
        /// What it holds.
        value: i64,
    },
    /// The id is not one of ours.
    #[error("{0} is not a task id")]
    NotATaskId(Uuid),
    /// A column of bytes is not the message it should be.
    #[error("column {column} is malformed: {cause}")]
    Malformed {
        /// The column.
        column: &'static str,
        /// What is wrong with it.
        cause: Malformed,
    },
}

impl Undecodable {
    fn out_of_range(column: &'static str, value: impl Into<i64>) -> Self {
        let value = value.into();
        Self::OutOfRange { column, value }
    }
}

/// What is stored of an entry beside its key and its write time.
///
/// Writing fills what the kind of the entry uses and leaves the rest out; reading looks at nothing else, so that a
/// column that an overwritten entry left behind means nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EntryColumns {
    /// Due, look or done.
    pub kind: Option<i8>,
    /// Bits.
    pub flags: Option<i8>,
    /// Done: why.
    pub reason: Option<i8>,
    /// How often it was put further on.
    pub spills: Option<i32>,
    /// The true start time.
    pub start_ms: Option<i64>,
    /// Look: when published; done: when marked.
    pub at_ms: Option<i64>,
    /// Done and moved: whereto.
    pub moved_ms: Option<i64>,
    /// The task.
    pub spec: Option<Bytes>,
}

impl EntryColumns {
    /// Returns the columns of an entry.
    #[must_use]
    pub fn of(entry: &Entry) -> Self {
        Self::with_spec(entry, encode_spec(&entry.spec))
    }

    /// Returns the columns of an entry whose spec has been encoded already.
    #[must_use]
    pub fn with_spec(entry: &Entry, spec: Bytes) -> Self {
        let common = Self {
            kind: Some(kind::DUE),
            flags: Some(0),
            spills: Some(to_i32(entry.spills)),
            start_ms: Some(entry.start.0),
            spec: Some(spec),
            ..Self::default()
        };
        match entry.kind {
            Kind::Due { first, .. } => Self {
                flags: Some(if first { flag::FIRST } else { 0 }),
                ..common
            },
            Kind::Look { published } => Self {
                kind: Some(kind::LOOK),
                flags: Some(if published.is_some() {
                    flag::PUBLISHED
                } else {
                    0
                }),
                at_ms: published.map(|at| at.0),
                ..common
            },
            Kind::Done { reason, at } => {
                let (reason, moved_ms) = match reason {
                    DoneReason::Cancelled => (reason::CANCELLED, None),
                    DoneReason::Published => (reason::PUBLISHED, None),
                    DoneReason::Moved { to } => (reason::MOVED, Some(to.0)),
                };
                Self {
                    kind: Some(kind::DONE),
                    reason: Some(reason),
                    at_ms: Some(at.0),
                    moved_ms,
                    ..common
                }
            }
        }
    }

    /// Reads an entry back.
    ///
    /// # Errors
    /// [`Unreadable`] with the first thing that is wrong, and the bytes of the spec.
    pub fn into_entry(self, key: Key, written: i64) -> Result<Entry, Unreadable> {
        let raw = self.spec.clone().unwrap_or_default();
        self.decode(key, written).map_err(|cause| Unreadable {
            reason: cause.to_string(),
            raw,
        })
    }

    fn decode(self, key: Key, written: i64) -> Result<Entry, Undecodable> {
        if TaskId::from_uuid(key.id.uuid()).is_none() {
            return Err(Undecodable::NotATaskId(key.id.uuid()));
        }
        let kind = self.entry_kind(key.code)?;
        let spec = decode_spec(there(self.spec, "spec")?);
        Ok(Entry {
            key,
            kind,
            start: Millis(there(self.start_ms, "start_ms")?),
            spills: to_u32(self.spills, "spills")?,
            spec: Arc::new(spec.map_err(|cause| malformed("spec", cause))?),
            written,
        })
    }

    fn entry_kind(&self, code: KeyCode) -> Result<Kind, Undecodable> {
        let flags = there(self.flags, "flags")?;
        let attempt = u32::try_from(code.0).ok().filter(|code| code % 2 == 0);
        match there(self.kind, "kind")? {
            kind::DUE => Ok(Kind::Due {
                expected_attempt: attempt
                    .ok_or_else(|| Undecodable::out_of_range("code", code.0))?
                    / 2,
                first: flags & flag::FIRST != 0,
            }),
            kind::LOOK if code != KeyCode::LOOK => Err(Undecodable::out_of_range("code", code.0)),
            kind::LOOK if flags & flag::PUBLISHED == 0 => Ok(Kind::Look { published: None }),
            kind::LOOK => Ok(Kind::Look {
                published: Some(Millis(there(self.at_ms, "at_ms")?)),
            }),
            kind::DONE if attempt.is_none() && code != KeyCode::LOOK => {
                Err(Undecodable::out_of_range("code", code.0))
            }
            kind::DONE => Ok(Kind::Done {
                reason: self.done_reason()?,
                at: Millis(there(self.at_ms, "at_ms")?),
            }),
            other => Err(Undecodable::out_of_range("kind", other)),
        }
    }

    fn done_reason(&self) -> Result<DoneReason, Undecodable> {
        match there(self.reason, "reason")? {
            reason::CANCELLED => Ok(DoneReason::Cancelled),
            reason::PUBLISHED => Ok(DoneReason::Published),
            reason::MOVED => Ok(DoneReason::Moved {
                to: Millis(there(self.moved_ms, "moved_ms")?),
            }),
            other => Err(Undecodable::out_of_range("reason", other)),
        }
    }
}

/// What is stored of a task beside its id.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskColumns {
    /// The state's number.
    pub state: Option<i8>,
    /// Reschedules.
    pub generation: Option<i32>,
    /// Claims.
    pub attempt: Option<i32>,
    /// Whether a cancel was requested.
    pub cancel_requested: Option<bool>,
    /// Claims that count.
    pub tries: Option<i32>,
    /// Not before.
    pub next_ms: Option<i64>,
    /// Latest entry.
    pub last_ms: Option<i64>,
    /// Names the last write.
    pub nonce: Option<Uuid>,
    /// The rest, as a message.
    pub detail: Option<Bytes>,
}

impl TaskColumns {
    /// Returns the columns of a row: all of them are there.
    #[must_use]
    pub fn of(row: &TaskRow) -> Self {
        let TaskRow {
            id: _,
            state,
            generation,
            attempt,
            tries,
            next,
            last,
            cancel_requested,
            nonce,
            detail,
        } = row;
        Self {
            state: Some(state.number()),
            generation: Some(to_i32(*generation)),
            attempt: Some(to_i32(*attempt)),
            cancel_requested: Some(*cancel_requested),
            tries: Some(to_i32(*tries)),
            next_ms: Some(next.0),
            last_ms: Some(last.0),
            nonce: Some(*nonce),
            detail: Some(encode_detail(detail)),
        }
    }

    /// Reads a row back.
    ///
    /// # Errors
    /// [`Undecodable`] with the first thing that is wrong.
    pub fn into_row(self, id: Uuid) -> Result<TaskRow, Undecodable> {
        Ok(TaskRow {
            id: TaskId::from_uuid(id).ok_or(Undecodable::NotATaskId(id))?,
            state: to_state(there(self.state, "state")?)?,
            generation: to_u32(self.generation, "generation")?,
            attempt: to_u32(self.attempt, "attempt")?,
            tries: to_u32(self.tries, "tries")?,
            next: Millis(there(self.next_ms, "next_ms")?),
            last: Millis(there(self.last_ms, "last_ms")?),
            cancel_requested: there(self.cancel_requested, "cancel_requested")?,
            nonce: there(self.nonce, "nonce")?,
            detail: decode_detail(there(self.detail, "detail")?)?,
        })
    }
}

/// The columns that a conditional write of a task's row names: what it must find, or what it found instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExpectColumns {
    /// The state's number; missing is an absent row.
    pub state: Option<i8>,
    /// The generation.
    pub generation: Option<i32>,
    /// The attempt.
    pub attempt: Option<i32>,
    /// The cancel flag.
    pub cancel_requested: Option<bool>,
}

impl ExpectColumns {
    /// Returns the columns of an expectation.
    #[must_use]
    pub fn of(expect: &Expect) -> Self {
        match *expect {
            Expect::Absent => Self::default(),
            Expect::Row {
                state,
                generation,
                attempt,
                cancel_requested,
            } => Self {
                state: Some(state.number()),
                generation: Some(to_i32(generation)),
                attempt: Some(to_i32(attempt)),
                cancel_requested: Some(cancel_requested),
            },
        }
    }

    /// Reads what was found.
    ///
    /// # Errors
    /// [`Undecodable`] with the first thing that is wrong.
    pub fn into_expect(self) -> Result<Expect, Undecodable> {
        if self == Self::default() {
            return Ok(Expect::Absent);
        }
        Ok(Expect::Row {
            state: to_state(there(self.state, "state")?)?,
            generation: to_u32(self.generation, "generation")?,
            attempt: to_u32(self.attempt, "attempt")?,
            cancel_requested: there(self.cancel_requested, "cancel_requested")?,
        })
    }
}

/// What is stored of a clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClockColumns {
    /// Optimistic locking.
    pub version: Option<i64>,
    /// The first hand.
    pub opened: Option<i64>,
    /// The second hand's due time.
    pub fired_due_ms: Option<i64>,
    /// The second hand's id.
    pub fired_id: Option<Uuid>,
    /// The third hand.
    pub erased: Option<i64>,
    /// The owner; nil is nobody.
    pub owner: Option<Uuid>,
    /// End of the lease.
    pub lease_until_ms: Option<i64>,
    /// The proposer's wall clock.
    pub wall_ms: Option<i64>,
}

impl ClockColumns {
    /// Returns the columns of a row: all of them are there.
    #[must_use]
    pub fn of(row: &ClockRow) -> Self {
        let ClockRow {
            version,
            opened,
            fired,
            erased,
            owner,
            lease_until,
            wall,
        } = row;
        Self {
            version: Some(*version),
            opened: Some(opened.0),
            fired_due_ms: Some(fired.due.0),
            fired_id: Some(fired.id.uuid()),
            erased: Some(erased.0),
            owner: Some(owner.0),
            lease_until_ms: Some(lease_until.0),
            wall_ms: Some(wall.0),
        }
    }

    /// Reads a row back.
    ///
    /// # Errors
    /// [`Undecodable`] with the first column that is missing.
    pub fn into_row(self) -> Result<ClockRow, Undecodable> {
        Ok(ClockRow {
            version: there(self.version, "version")?,
            opened: Tick(there(self.opened, "opened")?),
            fired: Position {
                due: Millis(there(self.fired_due_ms, "fired_due_ms")?),
                id: TaskId::bound(there(self.fired_id, "fired_id")?),
            },
            erased: Tick(there(self.erased, "erased")?),
            owner: NodeId(there(self.owner, "owner")?),
            lease_until: Millis(there(self.lease_until_ms, "lease_until_ms")?),
            wall: Millis(there(self.wall_ms, "wall_ms")?),
        })
    }
}

/// Turns a count into what stores keep; one above `i32::MAX` is kept as that (the limits are far below).
#[must_use]
pub fn to_i32(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

fn to_u32(stored: Option<i32>, column: &'static str) -> Result<u32, Undecodable> {
    let stored = there(stored, column)?;
    u32::try_from(stored).map_err(|_| Undecodable::out_of_range(column, stored))
}

fn to_state(number: i8) -> Result<State, Undecodable> {
    State::from_number(number).ok_or_else(|| Undecodable::out_of_range("state", number))
}

fn there<T>(stored: Option<T>, column: &'static str) -> Result<T, Undecodable> {
    stored.ok_or(Undecodable::Missing(column))
}

const fn malformed(column: &'static str, cause: Malformed) -> Undecodable {
    Undecodable::Malformed { column, cause }
}

fn encode_detail(detail: &Detail) -> Bytes {
    let Detail {
        spec,
        start,
        claim_time,
        end_time,
        worker,
        result,
        error,
    } = detail;
    let message = v1::TaskDetail {
        spec: Some(spec_to_message(spec)),
        start_time_ms: start.0,
        claim_time_ms: claim_time.map(|at| at.0),
        end_time_ms: end_time.map(|at| at.0),
        worker: worker.clone(),
        result: result.clone(),
        error: error.clone(),
    };
    message.encode_to_vec().into()
}

fn decode_detail(bytes: Bytes) -> Result<Detail, Undecodable> {
    let read = |bytes: Bytes| -> Result<Detail, Malformed> {
        let message = v1::TaskDetail::decode(bytes)?;
        let spec: Spec = spec_from_message(message.spec.ok_or(Malformed::Missing("spec"))?)?;
        Ok(Detail {
            spec: Arc::new(spec),
            start: Millis(message.start_time_ms),
            claim_time: message.claim_time_ms.map(Millis),
            end_time: message.end_time_ms.map(Millis),
            worker: message.worker,
            result: message.result,
            error: message.error,
        })
    };
    read(bytes).map_err(|cause| malformed("detail", cause))
}

#[cfg(test)]
#[path = "row_tests.rs"]
pub(crate) mod tests;
