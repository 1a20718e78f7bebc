//! The sweep removes expired rows for the store, slowly and with cursors: they have long read as absent, and
//! only their bytes are in the way.
//!
//! These are rows of tasks, heartbeats, contents, records and rows of the index. Rows of the last two that were
//! removed are kept for a while against writes that arrive late, and go here as well. A pass takes hours, so the
//! bytes of expired rows are a small part of those kept for days. The past of the wheel is removed elsewhere:
//! [`crate::store::embedded::erased`]. [`Open::expired_by`] says when a row has expired.

use fjall::Slice;

use super::group::Group;
use crate::{
    model::time::Millis,
    store::{
        Error,
        embedded::{
            disk::database::{Open, Space},
            faults::fault,
            key::family,
            value,
        },
    },
};

/// Steps in which everything is read once: with one a second, two hours.
const STEPS_PER_PASS: usize = 7200;

/// Rows of a step, at least and at most: negligible work on an idle service, and some ten milliseconds of the
/// writer.
const STEP_ROWS: (usize, usize) = (50, 5000);

/// Bytes after which a step ends: contents are read whole.
const STEP_BYTES_MAX: usize = 1024 * 1024;

/// The position of a sweep: a key in a keyspace.
#[derive(Debug)]
pub(super) struct Sweep {
    space: Space,
    from: Vec<u8>,
}

impl Default for Sweep {
    fn default() -> Self {
        Self::of(Space::Row)
    }
}

impl Sweep {
    /// Begins a keyspace.
    const fn of(space: Space) -> Self {
        Self {
            space,
            from: Vec::new(),
        }
    }

    /// Adds some deletions.
    pub(super) fn step(
        &mut self,
        open: &Open,
        group: &mut Group<'_>,
        now: Millis,
    ) -> Result<(), Error> {
        let at = std::mem::take(self);
        let on = expired(open, group, at.space, at.from, now)?;
        *self = match (on, at.space) {
            (Some(from), space) => Self { space, from },
            (None, Space::Row) => Self {
                space: Space::Clock,
                from: vec![family::HEARTBEAT],
            },
            (None, Space::Clock) => Self::of(Space::Body),
            (None, Space::Body) => Self::of(Space::Record),
            (None, Space::Record) => Self::of(Space::Index),
            (None, Space::Index | Space::Due | Space::Look) => Self::default(),
        };
        Ok(())
    }
}

/// Adds the deletion of expired rows among the next ones. Returns where to go on, or none at the end.
fn expired(
    open: &Open,
    group: &mut Group<'_>,
    space: Space,
    from: Vec<u8>,
    now: Millis,
) -> Result<Option<Vec<u8>>, Error> {
    let end = match space {
        Space::Clock => vec![family::PARKED],
        _ => vec![0xff; 17],
    };
    let (keyspace, now) = (open.space(space), open.expired_by(now));
    let rows = (keyspace.approximate_len() / STEPS_PER_PASS).clamp(STEP_ROWS.0, STEP_ROWS.1);
    let mut bytes = 0;
    for (count, row) in keyspace.range(from..end).take(rows).enumerate() {
        let (key, value) = row.into_inner().map_err(|cause| fault("sweep", &cause))?;
        bytes += value.len();
        let is_last = count + 1 == rows || bytes > STEP_BYTES_MAX;
        let on = is_last.then(|| behind(&key));
        if !value::is_live(&value, now) {
            group.delete(space, key);
        }
        if on.is_some() {
            return Ok(on);
        }
    }
    Ok(None)
}

fn behind(key: &Slice) -> Vec<u8> {
    [key, [0].as_slice()].concat()
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::{
        limits::EXPIRED_AHEAD_MAX,
        model::{
            clock::{ClockRow, Position},
            ids::TaskId,
            wheel::WheelNumber,
        },
        store::embedded::{disk::database, key, tests::shape},
    };

    /// Notes that one wheel has fired until now, and the other until an instant.
    fn note_clocks(open: &Open, now: Millis, slower: Millis) {
        for (wheel, fired) in [now, slower].into_iter().enumerate() {
            let row = ClockRow {
                fired: Position::behind(fired),
                version: fired.0,
                ..ClockRow::first(open.shape(), now)
            };
            let wheel = WheelNumber::from_low_bits(u16::try_from(wheel).unwrap());
            open.note_clock(key::clock(wheel), row);
        }
    }

    #[test]
    fn nothing_expires_more_than_a_day_ahead_of_the_slowest_wheel() {
        let directory = TempDir::new().unwrap();
        let open = database::open(&directory.path().join("store"), &shape(2)).unwrap();
        let now = Millis(1_790_000_000_000);
        // Before the clocks are known, nothing does.
        assert!(open.expired_by(now) < Millis::EPOCH);
        let day_ago = now.before(EXPIRED_AHEAD_MAX);
        note_clocks(&open, now, Millis(day_ago.0 - 1));
        assert_eq!(open.expired_by(now), Millis(now.0 - 1));
        note_clocks(&open, now, day_ago);
        assert_eq!(open.expired_by(now), now);
        note_clocks(&open, now, now);
        assert_eq!(open.expired_by(now), now);
    }

    fn count(open: &Open, space: Space) -> usize {
        open.space(space).range(Vec::new()..vec![0xff; 64]).count()
    }

    #[test]
    fn what_has_expired_goes_and_the_rest_stays() {
        let directory = TempDir::new().unwrap();
        let open = database::open(&directory.path().join("store"), &shape(2)).unwrap();
        let now = Millis(1_790_000_000_000);
        note_clocks(&open, now, now);
        let mut group = Group::new(&open, now);
        for number in 0..120 {
            let expires = Millis(now.0 + i64::from(number % 3 != 0));
            let row = value::newest(expires, 1, b"content");
            let id = TaskId::new(now, WheelNumber::from_low_bits(1), number);
            group.insert(Space::Row, key::task(id), row.clone());
            group.insert(Space::Clock, key::heartbeat(id, 1), row.clone());
            group.insert(Space::Body, key::body(id), row.clone());
            group.insert(Space::Record, key::body(id), row.clone());
            group.insert(Space::Index, key::body(id), row);
        }
        // A clock never expires, whatever its bytes look like.
        let clock = key::clock(WheelNumber::from_low_bits(1));
        group.insert(Space::Clock, clock, value::newest(Millis(1), 1, b""));
        group.commit(false).unwrap();
        let mut sweep = Sweep::default();
        // Three steps go through each of the five.
        for _ in 0..15 {
            let mut group = Group::new(&open, now);
            sweep.step(&open, &mut group, now).unwrap();
            group.commit(false).unwrap();
        }
        let swept = [
            Space::Row,
            Space::Clock,
            Space::Body,
            Space::Record,
            Space::Index,
        ];
        let left = swept.map(|space| count(&open, space));
        assert_eq!(left, [80, 81, 80, 80, 80]);
    }
}
