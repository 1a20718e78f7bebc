//! Removes what is not needed any more, with cursors and slowly: it reads as absent since long, only its bytes are in the way.
//!
//! Three things: rows that have expired, contents that have, and leftovers of the wheel, which are rows that were written
//! behind a hand that had passed them. A pass over what expires takes hours whatever there is, so the bytes of what has
//! expired are a small part of what is kept for days.

use std::{collections::HashMap, time::Duration};

use fjall::Slice;

use super::{
    database::{Open, Space, fault},
    group::Group,
    key::{self, family},
    read, value,
};
use crate::{
    model::{
        time::Millis,
        wheel::{Shape, WheelNumber},
    },
    store::Error,
};

/// Steps in which everything is read once: with one a second, two hours.
const STEPS_PER_PASS: usize = 7200;

/// Rows of a step, at least and at most: nothing on an idle service, and some ten milliseconds of the writer.
const STEP_ROWS: (usize, usize) = (50, 5000);

/// Bytes after which a step ends: contents are read whole.
const STEP_BYTES_MAX: usize = 1024 * 1024;

/// How far behind the `erased` hand a leftover of the wheel is kept, so that its task can still be found by it.
const LEFTOVER_AGE: Duration = Duration::from_secs(24 * 3600);

/// How far behind that a process begins: what is older was gone through by those before it.
const LOOK_BACK: Duration = Duration::from_secs(7 * 24 * 3600);

/// Due times of a step: between two rows lie the marks of what was erased, which are walked over one by one.
const WINDOW: Duration = Duration::from_secs(3600);

/// Where a sweep is.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    stage: Stage,
    /// How far the leftovers of each wheel have been removed: what lies below was walked over once and never is again.
    swept: HashMap<(WheelNumber, Space), Millis>,
}

/// What is swept: one thing a step.
#[derive(Debug)]
enum Stage {
    /// What expires, from a key on.
    Expiring(Space, Vec<u8>),
    /// A wheel's leftovers.
    Leftovers(u16, Space),
}

impl Default for Stage {
    fn default() -> Self {
        Self::Expiring(Space::Row, vec![family::TASK])
    }
}

impl Sweep {
    /// Adds some deletions.
    pub(super) fn step(
        &mut self,
        open: &Open,
        group: &mut Group<'_>,
        shape: &Shape,
        now: Millis,
    ) -> Result<(), Error> {
        self.stage = match std::mem::take(&mut self.stage) {
            Stage::Expiring(space, from) => match expired(open, group, space, from, now)? {
                Some(on) => Stage::Expiring(space, on),
                None if space == Space::Row => Stage::Expiring(Space::Body, Vec::new()),
                None => Stage::Leftovers(0, Space::Due),
            },
            Stage::Leftovers(wheel, space) => {
                self.leftovers(open, group, shape, WheelNumber::from_low_bits(wheel), space)?;
                match space {
                    Space::Due => Stage::Leftovers(wheel, Space::Look),
                    _ if wheel + 1 < shape.wheels() => Stage::Leftovers(wheel + 1, Space::Due),
                    _ => Stage::default(),
                }
            }
        };
        Ok(())
    }

    fn leftovers(
        &mut self,
        open: &Open,
        group: &mut Group<'_>,
        shape: &Shape,
        wheel: WheelNumber,
        space: Space,
    ) -> Result<(), Error> {
        let erased = shape.tick().end_of(read::clock(open, wheel)?.erased);
        let old = erased.before(LEFTOVER_AGE);
        let swept = self.swept.remove(&(wheel, space));
        let from = swept.unwrap_or_else(|| old.before(LOOK_BACK));
        let through = old.min(from.after(WINDOW));
        let (lower, upper) = (key::from_due(wheel, from), key::after_due(wheel, through));
        let mut found = 0;
        if lower < upper {
            let rows = open.space(space).range(lower..upper);
            for row in rows.take(STEP_ROWS.1) {
                let key = row.key().map_err(|cause| fault("sweep", &cause))?;
                group.delete(space, key);
                found += 1;
            }
        }
        // A window with more than a step may delete is gone through again.
        let reached = if found < STEP_ROWS.1 { through } else { from };
        self.swept.insert((wheel, space), reached.max(from));
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
        Space::Row => vec![family::PARKED],
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

    use super::{super::database, *};
    use crate::model::{
        clock::ClockRow,
        entry::{Key, KeyCode},
        ids::TaskId,
        time::{Tick, TickLength},
    };

    fn count(open: &Open, space: Space) -> usize {
        open.space(space).range(Vec::new()..vec![0xff; 64]).count()
    }

    #[test]
    fn what_has_expired_and_what_was_left_behind_goes_and_the_rest_stays() {
        let directory = TempDir::new().unwrap();
        let open = database::open(&directory.path().join("store")).unwrap();
        let shape = Shape::new(2, TickLength::new(Duration::from_secs(1)).unwrap(), 8).unwrap();
        let now = Millis(1_790_000_000_000);
        let wheel = WheelNumber::from_low_bits(1);
        let mut group = Group::new(&open, now);
        let id = |number| TaskId::new(now, wheel, number);
        for number in 0..120 {
            let expires = Millis(now.0 + if number % 3 == 0 { 0 } else { 1 });
            let row = value::newest(expires, 1, b"content");
            group.insert(Space::Row, key::task(id(number)), row.clone());
            group.insert(Space::Body, key::body(id(number)), row);
            let days = i64::try_from(number).unwrap() * 3_600_000;
            for (code, space) in [(KeyCode(0), Space::Due), (KeyCode::LOOK, Space::Look)] {
                let key = Key {
                    due: Millis(now.0 - days),
                    id: id(number),
                    generation: 0,
                    code,
                };
                group.insert(space, key::version(&key, 1), Slice::from(b"row"));
            }
        }
        let erased = Tick(now.0 / 1000);
        for wheel in shape.all_wheels() {
            let clock = ClockRow {
                erased,
                ..ClockRow::first(&shape, now)
            };
            group.insert(Space::Row, key::clock(wheel), value::clock(&clock));
        }
        group.commit(false).unwrap();
        let mut sweep = Sweep::default();
        // Some ten steps go through everything once, an hour of each wheel at a time.
        for _ in 0..12 * (LOOK_BACK.as_secs() / WINDOW.as_secs() + 1) {
            let mut group = Group::new(&open, now);
            sweep.step(&open, &mut group, &shape, now).unwrap();
            group.commit(false).unwrap();
        }
        assert_eq!(
            (count(&open, Space::Row), count(&open, Space::Body)),
            (80 + 2, 80)
        );
        // From 24 hours on they are old.
        assert_eq!(
            (count(&open, Space::Due), count(&open, Space::Look)),
            (24, 24)
        );
    }
}
