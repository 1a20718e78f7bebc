//! The forms act: each makes calls of the API and says what came of it, a file for each screen.
//!
//! A form comes from a page of this origin, or it is refused: a browser sends the cookie of the key by itself.

pub(super) mod callback;
pub(super) mod job;
pub(super) mod keys;
pub(super) mod letters;
mod posted;
pub(super) mod schedule;
pub(super) mod schedule_change;
pub(super) mod sign;
pub(super) mod task;
pub(super) mod tasks;

pub(super) use posted::{Done, Posted};
