//! Reads of tasks: [`find`] looks a task up by its id, `views` shows its row, and `places` bounds the reads at one time.

pub mod find;
pub(in crate::flow) mod places;
pub(in crate::flow) mod views;
