//! Removes what is not needed any more, with cursors and slowly: it reads as absent since long, only its bytes are in the way.
//!
//! Rows, heartbeats and contents that have expired. A pass over them takes hours whatever there is, so the bytes of what has
//! expired are a small part of what is kept for days. What is past on the wheel is not for here: [`super::erased`].

use fjall::Slice;

use super::{
    database::{Open, Space, fault},
    group::Group,
    key::family,
    value,
};
use crate::{model::time::Millis, store::Error};

/// Steps in which everything is read once: with one a second, two hours.
const STEPS_PER_PASS: usize = 7200;

/// Rows of a step, at least and at most: nothing on an idle service, and some ten milliseconds of the writer.
const STEP_ROWS: (usize, usize) = (50, 5000);

/// Bytes after which a step ends: contents are read whole.
const STEP_BYTES_MAX: usize = 1024 * 1024;

/// Where a sweep is: at which key of what.
#[derive(Debug)]
pub(super) struct Sweep {
    space: Space,
    from: Vec<u8>,
}

impl Default for Sweep {
    fn default() -> Self {
        Self {
            space: Space::Row,
            from: Vec::new(),
        }
    }
}

impl Sweep {
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
            (None, Space::Clock) => Self {
                space: Space::Body,
                from: Vec::new(),
            },
            (None, _) => Self::default(),
        };
        Ok(())
    }
}

/// Adds the deletion of what has expired among the next rows. Returns where to go on, or none at the end.
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
    let keyspace = open.space(space);
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

    use super::{
        super::{database, key, tests::shape},
        *,
    };
    use crate::model::{ids::TaskId, wheel::WheelNumber};

    fn count(open: &Open, space: Space) -> usize {
        open.space(space).range(Vec::new()..vec![0xff; 64]).count()
    }

    #[test]
    fn what_has_expired_goes_and_the_rest_stays() {
        let directory = TempDir::new().unwrap();
        let open = database::open(&directory.path().join("store"), &shape(2)).unwrap();
        let now = Millis(1_790_000_000_000);
        let mut group = Group::new(&open, now);
        for number in 0..120 {
            let expires = Millis(now.0 + i64::from(number % 3 != 0));
            let row = value::newest(expires, 1, b"content");
            let id = TaskId::new(now, WheelNumber::from_low_bits(1), number);
            group.insert(Space::Row, key::task(id), row.clone());
            group.insert(Space::Clock, key::heartbeat(id, 1), row.clone());
            group.insert(Space::Body, key::body(id), row);
        }
        // No clock expires, whatever its bytes look like.
        let clock = key::clock(WheelNumber::from_low_bits(1));
        group.insert(Space::Clock, clock, value::newest(Millis(1), 1, b""));
        group.commit(false).unwrap();
        let mut sweep = Sweep::default();
        // Three steps go through each of the three.
        for _ in 0..9 {
            let mut group = Group::new(&open, now);
            sweep.step(&open, &mut group, now).unwrap();
            group.commit(false).unwrap();
        }
        let left = [Space::Row, Space::Clock, Space::Body].map(|space| count(&open, space));
        assert_eq!(left, [80, 81, 80]);
    }
}
