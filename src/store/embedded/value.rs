//! The values hold rows for the database: small heads of fixed numbers in front of the bytes that
//! [`crate::store::row`] and [`crate::schema`] make.
//!
//! A value that expires begins with the instant, so the writer and the sweeper read nothing else of it.

use bytes::Bytes;
use fjall::Slice;
use uuid::Uuid;

use crate::{
    model::{
        clock::ClockRow,
        entry::{Entry, Key},
        ids::TaskId,
        state::{Expect, TaskRow},
        time::Millis,
    },
    schema,
    store::{
        Heartbeat, Parked, Unreadable,
        row::{ClockColumns, EntryColumns, ExpectColumns, TaskColumns, Undecodable},
    },
};

/// Bits that tell which columns an entry has; never reused.
mod has {
    pub(super) const REASON: u8 = 1;
    pub(super) const AT: u8 = 2;
    pub(super) const MOVED: u8 = 4;
    /// Its start is its due time, and it was never moved further on. Neither column is written then.
    pub(super) const PLAIN: u8 = 8;
}

/// The end of a value that never expires.
pub const NEVER: Millis = Millis(i64::MAX);

/// Reads numbers from the front of bytes.
struct Head<'a>(&'a [u8]);

impl Head<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn int(&mut self) -> Option<i32> {
        self.take().map(i32::from_be_bytes)
    }

    fn long(&mut self) -> Option<i64> {
        self.take().map(i64::from_be_bytes)
    }

    fn uuid(&mut self) -> Option<Uuid> {
        self.take().map(Uuid::from_bytes)
    }

    fn rest(&self) -> Bytes {
        Bytes::copy_from_slice(self.0)
    }
}

/// Returns the value of a row of the wheel.
#[must_use]
pub fn entry(entry: &Entry, spec: Bytes) -> Slice {
    let columns = EntryColumns::with_spec(entry, spec);
    let spec = columns.spec.unwrap_or_default();
    let mut bytes = Vec::with_capacity(32 + spec.len());
    let is_plain = entry.start == entry.key.due && entry.spills == 0;
    let mut presence = if is_plain { has::PLAIN } else { 0 };
    let mut optional = Vec::with_capacity(17);
    if let Some(reason) = columns.reason {
        presence |= has::REASON;
        optional.extend(reason.to_be_bytes());
    }
    for (bit, column) in [(has::AT, columns.at_ms), (has::MOVED, columns.moved_ms)] {
        if let Some(column) = column {
            presence |= bit;
            optional.extend(column.to_be_bytes());
        }
    }
    bytes.extend(columns.kind.unwrap_or_default().to_be_bytes());
    bytes.extend(columns.flags.unwrap_or_default().to_be_bytes());
    bytes.push(presence);
    if !is_plain {
        bytes.extend(columns.spills.unwrap_or_default().to_be_bytes());
        bytes.extend(columns.start_ms.unwrap_or_default().to_be_bytes());
    }
    bytes.extend(optional);
    bytes.extend(&spec);
    Slice::from(bytes)
}

/// Reads a row of the wheel.
///
/// # Errors
/// The defect.
pub fn parse_entry(key: Key, written: i64, value: &[u8]) -> Result<Entry, Unreadable> {
    let unreadable = |reason: &str| Unreadable {
        reason: reason.to_owned(),
        newer: false,
        raw: Bytes::copy_from_slice(value),
    };
    entry_columns(value, key.due)
        .ok_or_else(|| unreadable("it ends before its columns do"))?
        .into_entry(key, written)
}

fn entry_columns(value: &[u8], due: Millis) -> Option<EntryColumns> {
    let mut head = Head(value);
    let (kind, flags) = (head.byte()?.cast_signed(), head.byte()?.cast_signed());
    let presence = head.byte()?;
    let (spills, start_ms) = if presence & has::PLAIN == 0 {
        (head.int()?, head.long()?)
    } else {
        (0, due.0)
    };
    let mut columns = EntryColumns {
        kind: Some(kind),
        flags: Some(flags),
        spills: Some(spills),
        start_ms: Some(start_ms),
        ..EntryColumns::default()
    };
    if presence & has::REASON != 0 {
        columns.reason = Some(head.byte()?.cast_signed());
    }
    if presence & has::AT != 0 {
        columns.at_ms = Some(head.long()?);
    }
    if presence & has::MOVED != 0 {
        columns.moved_ms = Some(head.long()?);
    }
    columns.spec = Some(head.rest());
    Some(columns)
}

/// Returns the value of a clock.
#[must_use]
pub fn clock(row: &ClockRow) -> Slice {
    let mut bytes = Vec::with_capacity(80);
    bytes.extend(row.version.to_be_bytes());
    for number in [
        row.opened.0,
        row.fired.due.0,
        row.erased.0,
        row.lease_until.0,
        row.wall.0,
    ] {
        bytes.extend(number.to_be_bytes());
    }
    bytes.extend(row.fired.id.uuid().as_bytes());
    bytes.extend(row.owner.0.as_bytes());
    Slice::from(bytes)
}

/// Reads a clock.
///
/// # Errors
/// The defect.
pub fn parse_clock(value: &[u8]) -> Result<ClockRow, Undecodable> {
    let mut head = Head(value);
    ClockColumns {
        version: head.long(),
        opened: head.long(),
        fired_due_ms: head.long(),
        erased: head.long(),
        lease_until_ms: head.long(),
        wall_ms: head.long(),
        fired_id: head.uuid(),
        owner: head.uuid(),
    }
    .into_row()
}

/// Returns when a value expires.
#[must_use]
pub fn expires(value: &[u8]) -> Option<Millis> {
    Head(value).long().map(Millis)
}

/// Tells whether a value has not expired.
#[must_use]
pub fn is_live(value: &[u8], now: Millis) -> bool {
    expires(value).is_some_and(|at| at > now)
}

/// Returns the value of a task. The columns that conditions look at come first.
#[must_use]
pub fn task(row: &TaskRow, expires: Millis) -> Slice {
    let columns = TaskColumns::short(row);
    let detail = columns.detail.unwrap_or_default();
    let mut bytes = Vec::with_capacity(64 + detail.len());
    bytes.extend(expires.0.to_be_bytes());
    bytes.extend(row.nonce.as_bytes());
    bytes.extend(columns.state.unwrap_or_default().to_be_bytes());
    bytes.push(u8::from(row.cancel_requested));
    for number in [columns.generation, columns.attempt, columns.tries] {
        bytes.extend(number.unwrap_or_default().to_be_bytes());
    }
    bytes.extend(row.next.0.to_be_bytes());
    bytes.extend(row.last.0.to_be_bytes());
    bytes.extend(&detail);
    Slice::from(bytes)
}

/// Reads a task.
///
/// # Errors
/// The defect.
pub fn parse_task(id: TaskId, value: &[u8]) -> Result<TaskRow, Undecodable> {
    let mut head = Head(value);
    let _expires = head.long();
    let columns = TaskColumns {
        nonce: head.uuid(),
        state: head.byte().map(u8::cast_signed),
        cancel_requested: head.byte().map(|flag| flag != 0),
        generation: head.int(),
        attempt: head.int(),
        tries: head.int(),
        next_ms: head.long(),
        last_ms: head.long(),
        detail: Some(head.rest()),
    };
    columns.into_row(id.uuid())
}

/// Reads the columns that conditions look at: the nonce of the last write, and those that a condition
/// compares.
///
/// # Errors
/// The defect.
pub fn parse_seen(value: &[u8]) -> Result<(Uuid, Expect), Undecodable> {
    let mut head = Head(value);
    let _expires = head.long();
    let nonce = head.uuid().ok_or(Undecodable::Missing("nonce"))?;
    let columns = ExpectColumns {
        state: head.byte().map(u8::cast_signed),
        cancel_requested: head.byte().map(|flag| flag != 0),
        generation: head.int(),
        attempt: head.int(),
        nonce: Some(nonce),
    };
    // The row is there, so it is not absent, whatever its columns say.
    match columns.into_expect()? {
        Expect::Absent => Err(Undecodable::Missing("state")),
        seen @ Expect::Row { .. } => Ok((nonce, seen)),
    }
}

/// Returns a value whose newest version wins: end, time of the write, content.
#[must_use]
pub fn newest(expires: Millis, written: i64, content: &[u8]) -> Slice {
    let (expires, written) = (expires.0.to_be_bytes(), written.to_be_bytes());
    Slice::from([expires.as_slice(), written.as_slice(), content].concat())
}

/// Returns the time of the write.
#[must_use]
pub fn parse_written(value: &[u8]) -> Option<i64> {
    let mut head = Head(value);
    head.long()?;
    head.long()
}

/// Reads the content behind the time of the write.
#[must_use]
pub(super) fn parse_newest(value: &[u8]) -> Option<(i64, Bytes)> {
    let mut head = Head(value);
    head.long()?;
    Some((head.long()?, head.rest()))
}

/// Returns the value of a sign of life.
#[must_use]
pub fn heartbeat(heartbeat: &Heartbeat, expires: Millis) -> Slice {
    let progress = heartbeat.progress.as_deref();
    let content = [
        &[u8::from(progress.is_some())],
        progress.unwrap_or_default(),
    ]
    .concat();
    newest(expires, heartbeat.at.0, &content)
}

/// Reads a sign of life.
#[must_use]
pub fn parse_heartbeat(id: TaskId, attempt: u32, value: &[u8]) -> Option<Heartbeat> {
    let (at, mut content) = parse_newest(value)?;
    let flag = (!content.is_empty()).then(|| content.split_to(1))?;
    Some(Heartbeat {
        id,
        attempt,
        at: Millis(at),
        progress: (flag[..] == [1]).then_some(content),
    })
}

/// Returns the value of a content.
#[must_use]
pub fn body(content: &crate::model::task::Content, written: i64, expires: Millis) -> Slice {
    newest(expires, written, &schema::encode_content(content))
}

/// Returns the value of a row that was set aside.
#[must_use]
pub fn parked(parked: &Parked) -> Slice {
    let reason = parked.reason.as_bytes();
    let length = u32::try_from(reason.len()).unwrap_or(u32::MAX);
    Slice::from([&length.to_be_bytes(), reason, &parked.raw].concat())
}

/// Reads a row that was set aside.
#[must_use]
pub fn parse_parked(at: Millis, key: Key, value: &[u8]) -> Option<Parked> {
    let mut head = Head(value);
    let length = usize::try_from(head.int()?).ok()?;
    let (reason, raw) = head.0.split_at_checked(length)?;
    Some(Parked {
        key,
        at,
        reason: String::from_utf8_lossy(reason).into_owned(),
        raw: Bytes::copy_from_slice(raw),
    })
}
