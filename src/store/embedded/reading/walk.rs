//! The walk returns to readers the rows of one wheel from a keyspace in which all wheels lie.
//!
//! Rows lie by stretches of time, and by wheels within a stretch. A walk through a wheel passes over the rows
//! of the others. It takes them one by one while they are few, as they are where tasks lie far apart;
//! otherwise it looks for its own wheel again.

use fjall::{Error as Cause, Iter, Keyspace, Slice};

use crate::{model::wheel::WheelNumber, store::embedded::key};

/// A row of the keyspace, or the error of its read.
pub(in crate::store::embedded) type Row = Result<(Slice, Slice), Cause>;

/// The number of consecutive rows of other wheels after which the next of the wheel is searched for. So many
/// cost about as much as one search.
const STRANGERS_MAX: usize = 64;

/// See the module.
pub(in crate::store::embedded) struct Walk<'a> {
    keyspace: &'a Keyspace,
    wheel: WheelNumber,
    upper: &'a [u8],
    rows: Option<Iter>,
    strangers: usize,
}

impl<'a> Walk<'a> {
    /// Walks from one key to another, which is excluded.
    pub(in crate::store::embedded) fn new(
        keyspace: &'a Keyspace,
        wheel: WheelNumber,
        lower: &[u8],
        upper: &'a [u8],
    ) -> Self {
        let mut walk = Self {
            keyspace,
            wheel,
            upper,
            rows: None,
            strangers: 0,
        };
        walk.go_to(lower);
        walk
    }

    fn go_to(&mut self, lower: &[u8]) {
        let is_more = lower < self.upper;
        self.rows = is_more.then(|| self.keyspace.range(lower..self.upper));
        self.strangers = 0;
    }
}

impl Iterator for Walk<'_> {
    type Item = Row;

    fn next(&mut self) -> Option<Row> {
        loop {
            let row = self.rows.as_mut()?.next()?.into_inner();
            let Ok((found, _)) = &row else {
                return Some(row);
            };
            // A key that is no row at all goes to the reader, who complains of it.
            if key::wheel_of(found).is_none_or(|wheel| wheel == self.wheel.get()) {
                self.strangers = 0;
                return Some(row);
            }
            self.strangers += 1;
            if self.strangers > STRANGERS_MAX {
                let next = key::next_of_wheel(found, self.wheel)?;
                self.go_to(&next);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::{
        model::{
            entry::{Key, KeyCode},
            ids::TaskId,
            time::Millis,
        },
        store::embedded::{
            disk::database::{Space, create, open},
            tests::shape,
        },
    };

    /// Four wheels of 40 to 160 rows a stretch over three stretches, and some far from all others.
    #[test]
    fn a_walk_sees_every_row_of_its_wheel_in_order_and_none_of_another() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("store");
        let shape = shape(4);
        create(&path, &shape).unwrap();
        let open = open(&path, &shape).unwrap();
        let due = open.space(Space::Due);
        let start = 1_790_000_000_000_i64;
        let mut expected: Vec<Vec<Key>> = vec![Vec::new(); 4];
        for number in 0..1200_i64 {
            let wheel = WheelNumber::from_low_bits(
                [0, 1, 1, 2, 2, 2, 3][usize::try_from(number % 7).unwrap()],
            );
            let far = if number % 100 == 0 {
                number * 1_000_000
            } else {
                0
            };
            let at = Millis(start + number * 768 / 1200 + far);
            let key = Key {
                due: at,
                id: TaskId::new(at, wheel, number.unsigned_abs() * 77),
                generation: 0,
                code: KeyCode(0),
            };
            due.insert(key::version(&key, 1), []).unwrap();
            expected[usize::from(wheel.get())].push(key);
        }
        due.insert(
            key::of_nobody(&key::before_stretch(Millis(start + 300))),
            [],
        )
        .unwrap();
        for (wheel, mut keys) in expected.into_iter().enumerate() {
            keys.sort();
            let wheel = WheelNumber::from_low_bits(u16::try_from(wheel).unwrap());
            let read = |from: Millis, through: Millis| -> Vec<Key> {
                let (lower, upper) = (key::from_due(wheel, from), key::after_due(wheel, through));
                let rows = Walk::new(due, wheel, &lower, &upper);
                rows.map(|row| key::parse_version(&row.unwrap().0).unwrap().0)
                    .collect()
            };
            assert_eq!(read(Millis(i64::MIN), Millis::MAX), keys);
            for from in (0..1000).step_by(37) {
                let (from, through) = (Millis(start + from), Millis(start + from + 300));
                let within = |key: &&Key| key.due >= from && key.due <= through;
                let part: Vec<Key> = keys.iter().filter(within).copied().collect();
                assert_eq!(read(from, through), part);
            }
            assert_eq!(read(Millis(start + 10), Millis(start)), []);
        }
    }
}
