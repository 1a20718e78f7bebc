//! The columns that name the partition of a task's rows, as every statement gives them.

use crate::model::{ids::TaskId, wheel::Shape};

/// Returns the wheel of a task as stored. It has 12 bits, so it fits.
pub(super) fn wheel_column(id: TaskId) -> i16 {
    id.wheel().get().cast_signed()
}

/// Returns the partition of a task's row and heartbeats.
pub(super) fn home(id: TaskId, shape: &Shape) -> (i16, i64) {
    (wheel_column(id), id.home_slot(shape).0)
}
