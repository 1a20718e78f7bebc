//! The rows of ended tasks: tasks of a callback by the day of their end, and by their state or the class of their error. The
//! value is empty.
//!
//! Partition: day, then the state and the callback, or a mark, the callback and the hash of the class. Order: id, which is that
//! of first starts. A row ends when its task can be read no more.

use bytes::{BufMut as _, Bytes, BytesMut};
use xxhash_rust::xxh3::xxh3_128;

use super::rows_by_id::sort;
use crate::{
    model::{ids::TaskId, row::State, time::Millis},
    store::index::{IndexKind, IndexPut, Partition, Place, Refused},
};

const DAY_MS: i64 = 24 * 3600 * 1000;

/// The number that stands for a class of errors where that of a state is otherwise.
const BY_ERROR: i8 = -1;

/// Which of the tasks that ended on one day lie together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::flow) enum Trait<'a> {
    /// Those that ended in this state.
    State(State),
    /// Those whose last error is of this class ([`crate::model::error_class::error_class`]).
    Error(&'a str),
}

/// The tasks of a callback that ended with one trait on one day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::flow) struct Part<'a> {
    pub(in crate::flow) callback: &'a str,
    pub(in crate::flow) of: Trait<'a>,
    /// Days since 1970.
    pub(in crate::flow) day: i64,
}

/// Returns the day of an instant, as a number since 1970.
pub(in crate::flow) const fn day_of(at: Millis) -> i64 {
    at.0.div_euclid(DAY_MS)
}

/// Returns the place of a task in a part.
pub(in crate::flow) fn place(part: Part<'_>, id: TaskId) -> Result<Place, Refused> {
    Place::new(partition(part)?, sort(id))
}

/// Returns a row that ends at `end`.
pub(in crate::flow) fn row(place: Place, written: i64, end: Millis) -> Result<IndexPut, Refused> {
    Ok(IndexPut::new(place, Bytes::new(), written)?.until(end))
}

pub(in crate::flow) fn partition(part: Part<'_>) -> Result<Partition, Refused> {
    let mut name = BytesMut::new();
    name.put_i64(part.day);
    match part.of {
        Trait::State(state) => {
            name.put_i8(state.number());
            name.put_slice(part.callback.as_bytes());
        }
        Trait::Error(class) => {
            name.put_i8(BY_ERROR);
            name.put_slice(part.callback.as_bytes());
            // The hash of the class, which a reader compares with the task: of fixed length, so no two parts have one name.
            name.put_u128(xxh3_128(class.as_bytes()));
        }
    }
    Partition::new(IndexKind::Ended, name.freeze())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::error_class;

    #[test]
    fn parts_of_other_callbacks_states_errors_and_days_lie_apart() {
        let part = Part {
            callback: "mail",
            of: Trait::State(State::Dead),
            day: day_of(Millis(1_800_000_000_000)),
        };
        let place = |part| partition(part).unwrap();
        for other in [
            Part {
                callback: "mai",
                ..part
            },
            Part {
                of: Trait::State(State::Failed),
                ..part
            },
            Part {
                of: Trait::Error(""),
                ..part
            },
            Part {
                day: part.day + 1,
                ..part
            },
        ] {
            assert_ne!(place(part), place(other));
        }
        let of_error = |callback, class| {
            place(Part {
                callback,
                of: Trait::Error(class),
                ..part
            })
        };
        assert_ne!(of_error("mail", "no route"), of_error("mail", "no"));
        assert_ne!(of_error("mail", "no route"), of_error("mai", "lno route"));
        assert!(
            State::ALL
                .into_iter()
                .all(|state| state.number() != BY_ERROR)
        );
        let longest = "é".repeat(error_class::ERROR_CLASS_CHARS_MAX);
        let name = "m".repeat(crate::limits::NAME_CHARS_MAX);
        assert!(
            partition(Part {
                callback: &name,
                of: Trait::Error(&longest),
                ..part
            })
            .is_ok()
        );
        assert_eq!((day_of(Millis(-1)), day_of(Millis(0))), (-1, 0));
    }
    #[test]
    fn the_bytes_of_rows_are_unchanged() {
        let id = "01b8dac5-b4fa-8201-8123-456789abcdef"
            .parse::<TaskId>()
            .unwrap();
        let bytes = |of| {
            let part = Part {
                callback: "mail",
                of,
                day: 20_833,
            };
            let row = row(place(part, id).unwrap(), 7, Millis(99)).unwrap();
            assert_eq!((row.value().len(), row.expires), (0, Some(Millis(99))));
            assert_eq!(row.place().sort(), &id.uuid().as_bytes()[..]);
            assert_eq!(row.place().partition().kind(), IndexKind::Ended);
            row.place().partition().name().clone()
        };
        assert_eq!(
            &bytes(Trait::State(State::Dead))[..],
            b"\0\0\0\0\0\0Qa\x08mail"
        );
        let by_error = bytes(Trait::Error("no route"));
        assert_eq!(&by_error[..13], b"\0\0\0\0\0\0Qa\xffmail");
        let hash = u128::from_be_bytes(by_error[13..].try_into().unwrap());
        assert_eq!(hash, HASH_OF_NO_ROUTE);
    }

    /// By another implementation of XXH3.
    const HASH_OF_NO_ROUTE: u128 = 0xb77e_ecee_0be8_068c_01b8_0e5b_1396_e2f8;
}
