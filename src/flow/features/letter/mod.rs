//! Letters stand for dead tasks in the lists of dead letters: `filing` writes and removes them.
//!
//! The row of a task decides; a letter is a hint that is written after the row, and removed after the row has moved on. The
//! end steps and the looks of the task repeat both, so the two agree at rest. A reader that finds a letter whose death is over
//! removes it.

pub(in crate::flow) mod filing;
