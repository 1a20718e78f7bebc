//! The keys place rows for the database: their bytes sort in the order of what they stand for.
//!
//! Every number is big-endian with its sign bit flipped, so that comparing bytes compares numbers. A row of
//! the wheel ends in its write time, newest first. So writing needs no read, and reading takes the first of a
//! key and passes over the rest.
//!
//! Rows of all wheels lie together by stretches of 256 ms, all but the last byte of their due time, and by
//! wheels within a stretch. Rows written about the same time for about the same time lie together, so merges
//! are small and past rows lie in tables of their own (`erased.rs`). With the wheel first, each table that
//! was written out reached over all rows, and a merge of 100 MiB rewrote 250 more.

use fjall::Slice;

use crate::{
    model::{
        entry::{Key, KeyCode},
        ids::TaskId,
        time::Millis,
        wheel::WheelNumber,
    },
    schema::sort_key,
};

/// Bytes of a stretch, which is a due time without its last byte.
const STRETCH_BYTES: usize = 7;

/// A key behind every row of a wheel, because no wheel has such a number.
pub(super) const END: [u8; STRETCH_BYTES + 2] = [0xff; STRETCH_BYTES + 2];

/// Bytes of a row's key without its write time.
pub(super) const PLACE_BYTES: usize = 2 + 8 + 16 + 4 + 4;

/// Bytes of a row's key.
pub const VERSION_BYTES: usize = PLACE_BYTES + 8;

/// The place of a row: its wheel and its key.
pub type Place = [u8; PLACE_BYTES];

/// First bytes of the keys of the keyspaces `row` and `clock`; never reused.
pub mod family {
    /// Clock rows.
    pub const CLOCK: u8 = 1;
    /// Task rows.
    pub const TASK: u8 = 2;
    /// Heartbeats.
    pub const HEARTBEAT: u8 = 3;
    /// Rows that were set aside.
    pub const PARKED: u8 = 4;
    /// The row that holds the shape of the wheels.
    pub const SHAPE: u8 = 5;
}

/// Joins parts into one key.
fn joined<const N: usize>(parts: &[&[u8]]) -> [u8; N] {
    let mut bytes = [0; N];
    let mut rest = bytes.as_mut_slice();
    for part in parts {
        let (head, tail) = rest.split_at_mut(part.len());
        head.copy_from_slice(part);
        rest = tail;
    }
    bytes
}

/// Returns the stretch of a due time, and its place in the stretch.
const fn split(due: Millis) -> ([u8; STRETCH_BYTES], u8) {
    let [a, b, c, d, e, f, g, rest] = sort_key::ascending(due.0);
    ([a, b, c, d, e, f, g], rest)
}

/// Returns the key of a row without its write time.
#[must_use]
pub fn place(key: &Key) -> Place {
    let (stretch, rest) = split(key.due);
    joined(&[
        &stretch,
        &key.wheel().get().to_be_bytes(),
        &[rest],
        key.id.uuid().as_bytes(),
        &key.generation.to_be_bytes(),
        &(key.code.0 ^ i32::MIN).to_be_bytes(),
    ])
}

/// Returns the key of one version of a row.
#[must_use]
pub fn version(key: &Key, written: i64) -> Slice {
    let bytes: [u8; VERSION_BYTES] = joined(&[&place(key), &sort_key::ascending(!written)]);
    Slice::from(bytes)
}

/// Returns a key behind every version of a row.
#[must_use]
pub fn behind(place: &Place) -> Vec<u8> {
    [place.as_slice(), &[0xff; 9]].concat()
}

/// Returns a key before everything of a wheel that is due at `due` or later.
#[must_use]
pub(super) fn from_due(wheel: WheelNumber, due: Millis) -> Vec<u8> {
    let (stretch, rest) = split(due);
    [stretch.as_slice(), &wheel.get().to_be_bytes(), &[rest]].concat()
}

/// Returns a key before everything of a wheel that is due after `due`.
#[must_use]
pub(super) fn after_due(wheel: WheelNumber, due: Millis) -> Vec<u8> {
    match due.0.checked_add(1) {
        Some(next) => from_due(wheel, Millis(next)),
        None => END.to_vec(),
    }
}

/// Returns a key before everything of any wheel that is due in the stretch of `due` or later.
#[must_use]
pub(super) fn before_stretch(due: Millis) -> Vec<u8> {
    split(due).0.to_vec()
}

/// Returns a key in a stretch that belongs to no wheel.
#[must_use]
pub(super) fn of_nobody(stretch: &[u8]) -> Slice {
    Slice::from([stretch, [0xff; 2].as_slice()].concat())
}

/// Returns the number of the wheel that a row belongs to.
#[must_use]
pub(super) fn wheel_of(row: &[u8]) -> Option<u16> {
    let wheel = row.get(STRETCH_BYTES..)?.first_chunk()?;
    Some(u16::from_be_bytes(*wheel))
}

/// Returns a key before the first row of a wheel that lies behind a row of another.
#[must_use]
pub(super) fn next_of_wheel(row: &[u8], wheel: WheelNumber) -> Option<Vec<u8>> {
    let (stretch, _) = row.split_first_chunk::<STRETCH_BYTES>()?;
    let mut bytes = [0; 8];
    bytes[1..].copy_from_slice(stretch);
    let later = u64::from(wheel_of(row)? > wheel.get());
    let [0, stretch @ ..] = (u64::from_be_bytes(bytes) + later).to_be_bytes() else {
        return None;
    };
    Some([stretch.as_slice(), &wheel.get().to_be_bytes()].concat())
}

/// Returns the first bytes of the keys of a task's rows at one due time.
#[must_use]
pub fn of_task(id: TaskId, due: Millis) -> Vec<u8> {
    let wheel = from_due(id.wheel(), due);
    [wheel.as_slice(), id.uuid().as_bytes()].concat()
}

/// Tells whether two rows, or tasks, lie in the same stretch and wheel.
#[must_use]
pub(super) fn are_near(one: &[u8], other: &[u8]) -> bool {
    let head = |key: &[u8]| key.first_chunk::<{ STRETCH_BYTES + 2 }>().copied();
    head(one) == head(other)
}

/// Takes the key of a row apart: key and write time.
#[must_use]
pub fn parse_version(bytes: &[u8]) -> Option<(Key, i64)> {
    let (stretch, rest) = bytes.split_first_chunk::<STRETCH_BYTES>()?;
    let (_wheel, rest) = rest.split_first_chunk::<2>()?;
    let (last, rest) = rest.split_first_chunk::<1>()?;
    let due: [u8; 8] = joined(&[stretch, last]);
    let (id, rest) = rest.split_first_chunk::<16>()?;
    let (generation, rest) = rest.split_first_chunk::<4>()?;
    let (code, rest) = rest.split_first_chunk::<4>()?;
    let written = rest.first_chunk::<8>().filter(|_| rest.len() == 8)?;
    let key = Key {
        due: Millis(sort_key::of_ascending(due)),
        id: TaskId::bound(uuid::Uuid::from_bytes(*id)),
        generation: u32::from_be_bytes(*generation),
        code: KeyCode(i32::from_be_bytes(*code) ^ i32::MIN),
    };
    Some((key, !sort_key::of_ascending(*written)))
}

/// Returns the key of the row that holds the shape.
#[must_use]
pub(super) fn shape() -> Slice {
    Slice::from([family::SHAPE])
}

/// Returns the key of a wheel's clock.
#[must_use]
pub fn clock(wheel: WheelNumber) -> Slice {
    let [high, low] = wheel.get().to_be_bytes();
    Slice::from([family::CLOCK, high, low])
}

/// Returns the key of a task's row.
#[must_use]
pub fn task(id: TaskId) -> Slice {
    let bytes: [u8; 17] = joined(&[&[family::TASK], id.uuid().as_bytes()]);
    Slice::from(bytes)
}

/// Returns the task of a row's key.
#[must_use]
pub fn task_of(key: &[u8]) -> Option<TaskId> {
    let (family, id) = key.split_first()?;
    let id = uuid::Uuid::from_slice(id).ok()?;
    (*family == family::TASK).then(|| TaskId::bound(id))
}

/// Returns the key of an attempt's sign of life.
#[must_use]
pub fn heartbeat(id: TaskId, attempt: u32) -> Slice {
    let bytes: [u8; 21] = joined(&[
        &[family::HEARTBEAT],
        id.uuid().as_bytes(),
        &attempt.to_be_bytes(),
    ]);
    Slice::from(bytes)
}

/// Returns the key of a content that is kept apart.
#[must_use]
pub fn body(id: TaskId) -> Slice {
    Slice::from(id.uuid().as_bytes())
}

/// Returns a key before the rows that were set aside at `at` or later.
#[must_use]
pub(super) fn parked_from(at: Millis) -> Vec<u8> {
    [[family::PARKED].as_slice(), &sort_key::ascending(at.0)].concat()
}

/// Returns the key of a row that was set aside.
#[must_use]
pub fn parked(at: Millis, key: &Key) -> Slice {
    let bytes: [u8; 9 + VERSION_BYTES] =
        joined(&[&parked_from(at), &place(key), &sort_key::ascending(!0)]);
    Slice::from(bytes)
}

/// Splits the key of a row that was set aside: when, and where it was.
#[must_use]
pub fn parse_parked(bytes: &[u8]) -> Option<(Millis, Key)> {
    let (at, rest) = bytes.get(1..)?.split_first_chunk::<8>()?;
    let (key, _) = parse_version(rest)?;
    Some((Millis(sort_key::of_ascending(*at)), key))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_key() -> impl Strategy<Value = (Key, i64)> {
        let id = (0..=1_i64 << 40, 0..4_u16, any::<u64>()).prop_map(|(start, wheel, random)| {
            TaskId::new(Millis(start), WheelNumber::from_low_bits(wheel), random)
        });
        (-600..600_i64, id, 0..3_u32, -2..3_i32, -3..3_i64).prop_map(
            |(due, id, generation, code, written)| {
                let key = Key {
                    due: Millis(due),
                    id,
                    generation,
                    code: KeyCode(code),
                };
                (key, written)
            },
        )
    }

    proptest! {
        #[test]
        fn keys_are_read_back_and_sort_as_stretch_wheel_key_and_newest_first(a in any_key(), b in any_key()) {
            let order = |(key, written): (Key, i64)| (key.due.0 >> 8, key.wheel(), key, std::cmp::Reverse(written));
            let (x, y) = (version(&a.0, a.1), version(&b.0, b.1));
            prop_assert_eq!(parse_version(&x), Some(a));
            prop_assert_eq!(x.cmp(&y), order(a).cmp(&order(b)));
            prop_assert!(place(&a.0).as_slice() < &*x && *x < *behind(&place(&a.0)));
            prop_assert!(*from_due(a.0.wheel(), a.0.due) < *x && *x < *after_due(a.0.wheel(), a.0.due));
            prop_assert!(x.starts_with(&of_task(a.0.id, a.0.due)) && *x < END[..]);
            prop_assert!(*before_stretch(a.0.due) < *x && wheel_of(&x) == Some(a.0.wheel().get()));
            if a.0.wheel() != b.0.wheel() {
                let next = next_of_wheel(&x, b.0.wheel()).unwrap();
                prop_assert!(*next > *x && (x > y || *next < *y));
            }
            prop_assert_eq!(parse_parked(&parked(Millis(a.1), &b.0)), Some((Millis(a.1), b.0)));
        }
    }

    #[test]
    fn numbers_sort_at_their_ends_too() {
        let numbers = [i64::MIN, -1, 0, 1, i64::MAX];
        for pair in numbers.windows(2) {
            assert!(sort_key::ascending(pair[0]) < sort_key::ascending(pair[1]));
        }
        for number in numbers {
            assert_eq!(sort_key::of_ascending(sort_key::ascending(number)), number);
        }
    }
}
