//! Reads of the wheel: ranges of the two keyspaces that its rows lie in, merged in key order.
//!
//! Every read has a lower bound: below it lie the marks of what was erased, which would be walked over one by one.

use std::iter::Peekable;

use fjall::{Error as Cause, Iter, Slice};

use super::{
    database::{Open, Space, fault},
    key, value,
};
use crate::{
    model::{
        clock::ClockRow,
        entry::{Entry, Key, Kind},
        ids::TaskId,
        time::Millis,
        wheel::WheelNumber,
    },
    store::{Error, Page, Scan, ScannedRow},
};

/// Most versions of a task's rows at one instant that are looked at.
const VERSIONS_MAX: usize = 10_000;

type Row = Result<(Slice, Slice), Cause>;

/// The rows of one keyspace, the newest version of each.
struct Newest<I: Iterator<Item = Row>> {
    rows: Peekable<I>,
}

fn newest(
    open: &Open,
    space: Space,
    lower: &[u8],
    upper: &[u8],
) -> Newest<impl Iterator<Item = Row> + use<>> {
    let rows: Iter = open.space(space).range(lower..upper);
    Newest {
        rows: rows.map(fjall::Guard::into_inner).peekable(),
    }
}

impl<I: Iterator<Item = Row>> Newest<I> {
    /// Returns where the next row lies.
    fn place(&mut self) -> Option<&[u8]> {
        match self.rows.peek()? {
            Ok((key, _)) => Some(key.get(..key::PLACE_BYTES).unwrap_or(key)),
            // Found before everything: it ends the read.
            Err(_) => Some(&[]),
        }
    }

    /// Takes the next row, and drops its older versions.
    fn take(&mut self) -> Result<Option<ScannedRow>, Error> {
        let Some(row) = self.rows.next() else {
            return Ok(None);
        };
        let (key, value) = row.map_err(|cause| fault("read the wheel", &cause))?;
        let place = key.get(..key::PLACE_BYTES).unwrap_or(&key);
        while self
            .rows
            .next_if(|older| matches!(older, Ok((key, _)) if key.starts_with(place)))
            .is_some()
        {}
        let Some((parsed, written)) = key::parse_version(&key) else {
            return Err(Error::Corrupt {
                operation: "read the wheel",
                reason: format!("a key of {} bytes: {key:x?}", key.len()),
            });
        };
        Ok(Some(ScannedRow {
            key: parsed,
            written,
            entry: value::parse_entry(parsed, written, &value),
        }))
    }
}

/// Reads a page of one tick.
pub(super) fn scan(open: &Open, scan: &Scan) -> Result<Page, Error> {
    let first = key::after_due(scan.wheel, scan.span.after);
    let behind = scan.behind.map(|behind| key::behind(&key::place(&behind)));
    let lower = behind.map_or_else(|| first.clone(), |behind| behind.max(first.clone()));
    let upper = key::after_due(scan.wheel, scan.span.through);
    let mut due = newest(open, Space::Due, &lower, &upper);
    let mut look = newest(open, Space::Look, &lower, &upper);
    let mut page = Page::default();
    loop {
        let due_is_next = match (due.place(), look.place()) {
            (None, None) => return Ok(page),
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(due), Some(look)) => due < look,
        };
        if page.rows.len() >= scan.rows_max {
            page.more = true;
            return Ok(page);
        }
        let row = if due_is_next {
            due.take()?
        } else {
            look.take()?
        };
        page.rows.extend(row);
    }
}

/// Reads a page of a wheel's looks; without a key from the clock's `fired` hand on: a task under way has one ahead of it.
pub(super) fn looks(
    open: &Open,
    wheel: WheelNumber,
    behind: Option<Key>,
    max: usize,
) -> Result<Page, Error> {
    let lower = match behind {
        Some(behind) => key::behind(&key::place(&behind)),
        None => key::after_due(wheel, Millis(clock(open, wheel)?.fired.due.0 - 1)),
    };
    let upper = key::after_wheel(wheel);
    let mut rows = newest(open, Space::Look, &lower, &upper);
    let mut page = Page::default();
    while page.rows.len() < max {
        match rows.take()? {
            Some(row) => page.rows.push(row),
            None => return Ok(page),
        }
    }
    page.more = rows.place().is_some();
    Ok(page)
}

/// Reads the entries that a task has at these due times.
pub(super) fn find(open: &Open, id: TaskId, dues: &[Millis]) -> Result<Vec<Entry>, Error> {
    let mut dues = dues.to_vec();
    dues.sort_unstable();
    dues.dedup();
    let mut found: Vec<Entry> = Vec::new();
    for due in dues {
        for space in [Space::Due, Space::Look] {
            find_in(open, space, id, due, &mut found)?;
        }
    }
    found.sort_by_key(|entry| entry.key);
    Ok(found)
}

/// Reads the entries that a task has at a due time; its looks only if no entry is there that will start it. A range without
/// filter costs 10 us and more even where nothing lies in it.
pub(super) fn find_start(open: &Open, id: TaskId, due: Millis) -> Result<Vec<Entry>, Error> {
    let mut found: Vec<Entry> = Vec::new();
    find_in(open, Space::Due, id, due, &mut found)?;
    let starts = |entry: &Entry| matches!(entry.kind, Kind::Due { .. });
    if !found.iter().any(starts) {
        find_in(open, Space::Look, id, due, &mut found)?;
        found.sort_by_key(|entry| entry.key);
    }
    Ok(found)
}

fn find_in(
    open: &Open,
    space: Space,
    id: TaskId,
    due: Millis,
    found: &mut Vec<Entry>,
) -> Result<(), Error> {
    let lower = key::of_task(id, due);
    let upper = [lower.as_slice(), &[0xff; 17]].concat();
    let mut rows = newest(open, space, &lower, &upper);
    for _ in 0..VERSIONS_MAX {
        let Some(row) = rows.take()? else { break };
        found.extend(row.entry);
    }
    Ok(())
}

/// Reads a clock.
pub(super) fn clock(open: &Open, wheel: WheelNumber) -> Result<ClockRow, Error> {
    let operation = "read a clock";
    let key = key::clock(wheel);
    if let Some(known) = open.known_clock(&key) {
        return Ok(known);
    }
    let found = open
        .get(Space::Row, &key)
        .map_err(|cause| fault(operation, &cause))?;
    let found = found.ok_or_else(super::group::no_clock)?;
    let row =
        value::parse_clock(&found).map_err(|cause| super::group::corrupt(operation, &cause))?;
    open.note_clock(key, row);
    Ok(row)
}
