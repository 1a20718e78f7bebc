//! Reads of the wheel: ranges of the two keyspaces that its rows lie in, merged in key order.

use std::iter::Peekable;

use super::{
    database::{Open, Space, fault},
    erased::{self, Hidden},
    key, value,
    walk::{Row, Walk},
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

/// The rows of one keyspace that were not erased, the newest version of each.
struct Newest<'a, I: Iterator<Item = Row>> {
    rows: Peekable<I>,
    hidden: &'a Hidden,
}

/// Reads the rows of a wheel between two keys.
fn newest<'a>(
    open: &'a Open,
    space: Space,
    wheel: WheelNumber,
    (lower, upper): (&[u8], &'a [u8]),
    hidden: &'a Hidden,
) -> Newest<'a, Walk<'a>> {
    Newest {
        rows: Walk::new(open.space(space), wheel, lower, upper).peekable(),
        hidden,
    }
}

impl<I: Iterator<Item = Row>> Newest<'_, I> {
    /// Returns where the next row lies.
    fn place(&mut self) -> Option<&[u8]> {
        match self.rows.peek()? {
            Ok((key, _)) => Some(key.get(..key::PLACE_BYTES).unwrap_or(key)),
            // Found before everything: it ends the read.
            Err(_) => Some(&[]),
        }
    }

    /// Takes the next row, and drops its older versions. None: there is no more, or it was erased.
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
        Ok(
            (!self.hidden.hides(parsed.due, written)).then(|| ScannedRow {
                key: parsed,
                written,
                entry: value::parse_entry(parsed, written, &value),
            }),
        )
    }
}

/// Reads a page of one tick.
pub(super) fn scan(open: &Open, scan: &Scan) -> Result<Page, Error> {
    let hidden = erased::hidden(open, scan.wheel)?;
    let first = key::after_due(scan.wheel, scan.span.after.max(hidden.floor()));
    let behind = scan.behind.map(|behind| key::behind(&key::place(&behind)));
    let lower = behind.map_or_else(|| first.clone(), |behind| behind.max(first.clone()));
    let upper = key::after_due(scan.wheel, scan.span.through);
    let range = (lower.as_slice(), upper.as_slice());
    let mut due = newest(open, Space::Due, scan.wheel, range, &hidden);
    let mut look = newest(open, Space::Look, scan.wheel, range, &hidden);
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
    let hidden = erased::hidden(open, wheel)?;
    let range = (lower.as_slice(), key::END.as_slice());
    let mut rows = newest(open, Space::Look, wheel, range, &hidden);
    let mut page = Page::default();
    while page.rows.len() < max {
        if rows.place().is_none() {
            return Ok(page);
        }
        page.rows.extend(rows.take()?);
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
    let hidden = erased::hidden(open, id.wheel())?;
    for due in dues {
        for space in [Space::Due, Space::Look] {
            find_in(open, space, id, due, &hidden, &mut found)?;
        }
    }
    found.sort_by_key(|entry| entry.key);
    Ok(found)
}

/// Reads the entries that a task has at a due time; its looks only if no entry is there that will start it. A range without
/// filter costs 10 us and more even where nothing lies in it.
pub(super) fn find_start(open: &Open, id: TaskId, due: Millis) -> Result<Vec<Entry>, Error> {
    let mut found: Vec<Entry> = Vec::new();
    let hidden = erased::hidden(open, id.wheel())?;
    find_in(open, Space::Due, id, due, &hidden, &mut found)?;
    let starts = |entry: &Entry| matches!(entry.kind, Kind::Due { .. });
    if !found.iter().any(starts) {
        find_in(open, Space::Look, id, due, &hidden, &mut found)?;
        found.sort_by_key(|entry| entry.key);
    }
    Ok(found)
}

fn find_in(
    open: &Open,
    space: Space,
    id: TaskId,
    due: Millis,
    hidden: &Hidden,
    found: &mut Vec<Entry>,
) -> Result<(), Error> {
    if due <= hidden.floor() {
        return Ok(());
    }
    let lower = key::of_task(id, due);
    let upper = [lower.as_slice(), &[0xff; 17]].concat();
    let mut rows = newest(open, space, id.wheel(), (&lower, &upper), hidden);
    for _ in 0..VERSIONS_MAX {
        if rows.place().is_none() {
            break;
        }
        let row = rows.take()?;
        found.extend(row.and_then(|row| row.entry.ok()));
    }
    Ok(())
}

/// Reads a clock.
pub(super) fn clock(open: &Open, wheel: WheelNumber) -> Result<ClockRow, Error> {
    clock_if_any(open, wheel)?.ok_or_else(super::group::no_clock)
}

/// Reads a clock; a wheel beyond the shape has none.
pub(super) fn clock_if_any(open: &Open, wheel: WheelNumber) -> Result<Option<ClockRow>, Error> {
    let operation = "read a clock";
    let key = key::clock(wheel);
    if let Some(known) = open.known_clock(&key) {
        return Ok(Some(known));
    }
    let found = open
        .get(Space::Clock, &key)
        .map_err(|cause| fault(operation, &cause))?;
    let Some(found) = found else { return Ok(None) };
    let row =
        value::parse_clock(&found).map_err(|cause| super::group::corrupt(operation, &cause))?;
    open.note_clock(key, row);
    Ok(Some(row))
}
