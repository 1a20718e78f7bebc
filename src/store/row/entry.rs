//! Entries become columns, and columns entries, for every store.

use std::sync::Arc;

use bytes::Bytes;

use super::{Undecodable, malformed, there, to_i32, to_u32};
use crate::{
    model::{
        entry::{DoneReason, Entry, HeldBy, Key, KeyCode, Kind},
        ids::TaskId,
        time::Millis,
    },
    schema::{decode_spec, encode_spec},
    store::Unreadable,
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
    /// Look: the node `moved_ms` holds the task in its memory.
    pub(super) const HELD: i8 = 4;
}

/// Numbers of the `reason` column; never reused.
mod reason {
    pub(super) const CANCELLED: i8 = 1;
    pub(super) const PUBLISHED: i8 = 2;
    pub(super) const MOVED: i8 = 3;
}

/// Tells from its first columns whether an entry is due, and the first of its generation.
#[must_use]
pub const fn is_first(kind: i8, flags: i8) -> bool {
    kind == kind::DUE && flags & flag::FIRST != 0
}

/// The stored columns of an entry beside its key and its write time.
///
/// Writing fills the columns that the kind of the entry uses and leaves the others out. Reading looks only at
/// those, so a column that an overwritten entry left behind means nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EntryColumns {
    /// Due, look or done.
    pub kind: Option<i8>,
    /// Bits.
    pub flags: Option<i8>,
    /// Done: why.
    pub reason: Option<i8>,
    /// How often it was moved further on.
    pub spills: Option<i32>,
    /// The true start time.
    pub start_ms: Option<i64>,
    /// Look: when published; done: when marked.
    pub at_ms: Option<i64>,
    /// Done and moved: the new place. Look: the node that holds the task.
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
    pub(in crate::store) fn with_spec(entry: &Entry, spec: Bytes) -> Self {
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
            Kind::Look { published, held_by } => {
                let went_out = published.map_or(0, |_| flag::PUBLISHED);
                Self {
                    kind: Some(kind::LOOK),
                    flags: Some(went_out | held_by.map_or(0, |_| flag::HELD)),
                    at_ms: published.map(|at| at.0),
                    moved_ms: held_by.map(|HeldBy(node)| node),
                    ..common
                }
            }
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
    /// [`Unreadable`] with the first defect, and the bytes of the spec.
    pub fn into_entry(self, key: Key, written: i64) -> Result<Entry, Unreadable> {
        let raw = self.spec.clone().unwrap_or_default();
        self.decode(key, written).map_err(|cause| Unreadable {
            reason: cause.to_string(),
            newer: cause.is_newer(),
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
            kind::LOOK => {
                let at = |bit: i8, column: Option<i64>, name: &'static str| {
                    let is_there = flags & bit != 0;
                    is_there.then(|| there(column, name)).transpose()
                };
                Ok(Kind::Look {
                    published: at(flag::PUBLISHED, self.at_ms, "at_ms")?.map(Millis),
                    held_by: at(flag::HELD, self.moved_ms, "moved_ms")?.map(HeldBy),
                })
            }
            kind::DONE if attempt.is_none() && code != KeyCode::LOOK => {
                Err(Undecodable::out_of_range("code", code.0))
            }
            kind::DONE => Ok(Kind::Done {
                reason: self.done_reason()?,
                at: Millis(there(self.at_ms, "at_ms")?),
            }),
            other => Err(Undecodable::unknown("kind", other, kind::DONE)),
        }
    }

    fn done_reason(&self) -> Result<DoneReason, Undecodable> {
        match there(self.reason, "reason")? {
            reason::CANCELLED => Ok(DoneReason::Cancelled),
            reason::PUBLISHED => Ok(DoneReason::Published),
            reason::MOVED => Ok(DoneReason::Moved {
                to: Millis(there(self.moved_ms, "moved_ms")?),
            }),
            other => Err(Undecodable::unknown("reason", other, reason::MOVED)),
        }
    }
}
