//! The range reads return rows of a wheel to its callers: ranges of the two keyspaces that they lie in,
//! merged in key order.

use std::iter::Peekable;

use super::walk::{Row, Walk};
use crate::{
    model::{
        entry::{Entry, Key, Kind},
        ids::TaskId,
        time::Millis,
        wheel::WheelNumber,
    },
    store::{
        Error, Page, Scan, ScannedRow,
        embedded::{
            clock,
            disk::database::{Open, Space},
            erased,
            faults::fault,
            key,
            marks::Hidden,
            value,
        },
    },
};

/// The most versions of a task's rows at one instant that are looked at.
const VERSIONS_MAX: usize = 10_000;

/// The number of consecutive rows of other tasks after which the task's own are searched for anew. To pass
/// over so many costs about half of such a search.
const PASSED_MAX: usize = 8;

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
    /// Returns the place of the next row.
    fn place(&mut self) -> Option<&[u8]> {
        match self.rows.peek()? {
            Ok((key, _)) => Some(key.get(..key::PLACE_BYTES).unwrap_or(key)),
            // An error sorts before everything, so it ends the read.
            Err(_) => Some(&[]),
        }
    }

    /// Passes over the rows that lie before a key. None if there are more than a few.
    fn passed_to(mut self, key: &[u8]) -> Option<Self> {
        let before = |row: &Row| matches!(row, Ok((found, _)) if found.as_ref() < key);
        let is_there = (0..PASSED_MAX).any(|_| self.rows.next_if(before).is_none());
        is_there.then_some(self)
    }

    /// Takes the next row, and drops its older versions. None if there is no more, or it was erased.
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
pub(in crate::store::embedded) fn scan(open: &Open, scan: &Scan) -> Result<Page, Error> {
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

/// Reads a page of a wheel's looks. Without a key it begins at the clock's `fired` hand: a task under way has
/// a look ahead of it.
pub(in crate::store::embedded) fn looks(
    open: &Open,
    wheel: WheelNumber,
    behind: Option<Key>,
    max: usize,
) -> Result<Page, Error> {
    let lower = match behind {
        Some(behind) => key::behind(&key::place(&behind)),
        None => key::after_due(wheel, Millis(clock::read(open, wheel)?.fired.due.0 - 1)),
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
pub(in crate::store::embedded) fn find(
    open: &Open,
    id: TaskId,
    dues: &[Millis],
) -> Result<Vec<Entry>, Error> {
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

/// A search for the rows of a task: the first bytes of their keys, and the index of the question.
struct Sought {
    key: Vec<u8>,
    id: TaskId,
    due: Millis,
    asked: usize,
}

/// Reads the entries that tasks have at due times. Looks are read only for a task without an entry there that
/// will start it.
///
/// To begin a range costs 10 us and more, as it has no filter, even where no row lies in it. Tasks that are
/// asked for together often lie together. So those of a stretch and wheel are found by one range, as long as
/// few others lie between them.
pub(in crate::store::embedded) fn find_starts(
    open: &Open,
    places: &[(TaskId, Millis)],
) -> Vec<Result<Vec<Entry>, Error>> {
    let sought = |(asked, (id, due)): (usize, &(TaskId, Millis))| Sought {
        key: key::of_task(*id, *due),
        id: *id,
        due: *due,
        asked,
    };
    let mut sought: Vec<Sought> = places.iter().enumerate().map(sought).collect();
    sought.sort_unstable_by(|one, other| one.key.cmp(&other.key));
    let mut answers = vec![Ok(Vec::new()); places.len()];
    for together in sought.chunk_by(|one, other| key::are_near(&one.key, &other.key)) {
        find_together(open, together, |asked, found| {
            if let Some(answer) = answers.get_mut(asked) {
                *answer = found;
            }
        });
    }
    answers
}

/// Finds the rows of tasks in one stretch and wheel, in the order of the keys.
fn find_together(
    open: &Open,
    together: &[Sought],
    mut tell: impl FnMut(usize, Result<Vec<Entry>, Error>),
) {
    let [first, ..] = together else { return };
    let wheel = first.id.wheel();
    let hidden = match erased::hidden(open, wheel) {
        Ok(hidden) => hidden,
        Err(error) => {
            return together
                .iter()
                .for_each(|sought| tell(sought.asked, Err(error.clone())));
        }
    };
    let end_of = |key: &[u8]| [key, &[0xff; 17]].concat();
    let upper = end_of(together.last().map_or(&first.key, |last| &last.key));
    let mut under_way: Option<(Newest<'_, Walk<'_>>, &[u8])> = None;
    for sought in together {
        if sought.due <= hidden.floor() {
            tell(sought.asked, Ok(Vec::new()));
            continue;
        }
        let key = sought.key.as_slice();
        let mut rows = match under_way.take() {
            Some((rows, last)) if last < key => rows.passed_to(key),
            Some(_) | None => None,
        }
        .unwrap_or_else(|| newest(open, Space::Due, wheel, (key, &upper), &hidden));
        let mut found = find_from(open, &mut rows, sought, &hidden);
        if found.is_ok() {
            under_way = Some((rows, key));
        } else {
            // The row that could not be read may lie behind the task's own rows. Then it does not matter to
            // this task.
            let end = end_of(key);
            let mut alone = newest(open, Space::Due, wheel, (key, &end), &hidden);
            found = find_from(open, &mut alone, sought, &hidden);
        }
        tell(sought.asked, found);
    }
}

/// Finds the rows of one task, which come next.
fn find_from(
    open: &Open,
    rows: &mut Newest<'_, Walk<'_>>,
    sought: &Sought,
    hidden: &Hidden,
) -> Result<Vec<Entry>, Error> {
    let mut found: Vec<Entry> = Vec::new();
    let is_its = |place: &[u8]| place.is_empty() || place.starts_with(&sought.key);
    for _ in 0..VERSIONS_MAX {
        if !rows.place().is_some_and(is_its) {
            break;
        }
        let row = rows.take()?;
        found.extend(row.and_then(|row| row.entry.ok()));
    }
    let starts = |entry: &Entry| matches!(entry.kind, Kind::Due { .. });
    if !found.iter().any(starts) {
        find_in(open, Space::Look, sought.id, sought.due, hidden, &mut found)?;
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
