//! Dead letters for people: [`walk`] reads letters in order, newest first, and [`desk`] redrives or deletes their tasks.

pub mod desk;
pub mod walk;
