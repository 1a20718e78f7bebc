//! The tables convert enumerations and ids to and from the numbers and bytes of records, for the codecs.

use bytes::Bytes;
use uuid::Uuid;

use super::Malformed;

/// Returns the number of a value; zero when it has none.
pub(super) fn number<T: Copy + PartialEq, N: Copy + Into<i32>>(table: &[(T, N)], value: T) -> i32 {
    let known = table.iter().find(|(known, _)| *known == value);
    known.map_or(0, |(_, number)| (*number).into())
}

/// Reads the value of a number.
///
/// # Errors
/// [`Malformed`] when no value has it.
pub(super) fn read<T: Copy, N: Copy + Into<i32>>(
    table: &[(T, N)],
    value: i32,
    name: &'static str,
) -> Result<T, Malformed> {
    let known = table.iter().find(|(_, number)| (*number).into() == value);
    known
        .map(|(known, _)| *known)
        .ok_or(Malformed::OutOfRange(name))
}

/// Returns the bytes of an id.
pub(super) fn bytes_of(uuid: Uuid) -> Bytes {
    Bytes::copy_from_slice(uuid.as_bytes())
}
