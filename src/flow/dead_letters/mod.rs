//! The dead letter rooms list the tasks that are dead for people, by callback and by error, and redrive or delete them.
//!
//! - [`places`] says in which partitions of the index the letters lie.
//! - `filing` writes and removes letters; the end steps of tasks call it.
//! - [`walk`] reads letters in order, newest first.
//! - [`desk`] answers the calls of people.
//!
//! The row of a task decides; a letter is a hint that is written after the row, and removed after the row has moved on. The
//! end steps and the looks of the task repeat both, so the two agree at rest. A reader that finds a letter whose death is over
//! removes it.

pub mod desk;
pub(in crate::flow) mod filing;
pub mod places;
pub mod walk;
