//! Removes what has expired, with a cursor and slowly: it reads as absent since long, only its bytes are in the way.
//!
//! A pass takes hours whatever there is, so the bytes of what has expired are a small part of what is kept for days.

use fjall::Error as Cause;

use super::{
    database::{Open, Space},
    group::Group,
    key::family,
    value,
};
use crate::model::time::Millis;

/// Steps in which everything is read once: with one a second, two hours.
const STEPS_PER_PASS: usize = 7200;

/// Rows of a step, at least and at most: nothing on an idle service, and some ten milliseconds of the writer.
const STEP_ROWS: (usize, usize) = (50, 5000);

/// Bytes after which a step ends: contents are read whole.
const STEP_BYTES_MAX: usize = 1024 * 1024;

/// Where a sweep is.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    /// Whether it is at the contents.
    at_bodies: bool,
    behind: Option<Vec<u8>>,
}

impl Sweep {
    /// Adds the deletion of what has expired among the next rows.
    pub(super) fn step(
        &mut self,
        open: &Open,
        group: &mut Group<'_>,
        now: Millis,
    ) -> Result<(), Cause> {
        let (space, first, end) = if self.at_bodies {
            (Space::Body, Vec::new(), vec![0xff; 17])
        } else {
            (Space::Row, vec![family::TASK], vec![family::PARKED])
        };
        let keyspace = open.space(space);
        let rows = (keyspace.approximate_len() / STEPS_PER_PASS).clamp(STEP_ROWS.0, STEP_ROWS.1);
        let lower = self.behind.take().unwrap_or(first);
        let mut last = None;
        let mut bytes = 0;
        for (count, row) in keyspace.range(lower..end).take(rows).enumerate() {
            let (key, value) = row.into_inner()?;
            if !value::is_live(&value, now) {
                group.delete(space, key.clone());
            }
            bytes += value.len();
            last = (count + 1 == rows || bytes > STEP_BYTES_MAX).then_some(key);
            if last.is_some() {
                break;
            }
        }
        match last {
            Some(key) => self.behind = Some([&key, [0].as_slice()].concat()),
            None => self.at_bodies = !self.at_bodies,
        }
        Ok(())
    }
}
