//! The read of a clock returns its row to callers, from memory where it is known.

use super::{
    disk::database::{Open, Space},
    faults::{corrupt, fault, no_clock},
    key, value,
};
use crate::{
    model::{clock::ClockRow, wheel::WheelNumber},
    store::Error,
};

/// Reads a clock.
pub(in crate::store::embedded) fn read(open: &Open, wheel: WheelNumber) -> Result<ClockRow, Error> {
    read_if_any(open, wheel)?.ok_or_else(no_clock)
}

/// Reads a clock. A wheel beyond the shape has none.
pub(in crate::store::embedded) fn read_if_any(
    open: &Open,
    wheel: WheelNumber,
) -> Result<Option<ClockRow>, Error> {
    let operation = "read a clock";
    let key = key::clock(wheel);
    if let Some(known) = open.known_clock(&key) {
        return Ok(Some(known));
    }
    let found = open
        .get(Space::Clock, &key)
        .map_err(|cause| fault(operation, &cause))?;
    let Some(found) = found else { return Ok(None) };
    let row = value::parse_clock(&found).map_err(|cause| corrupt(operation, &cause))?;
    open.note_clock(key, row);
    Ok(Some(row))
}
