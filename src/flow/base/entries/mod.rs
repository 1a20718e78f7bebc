//! Entries of tasks in the slots of wheels, written so that no task is lost.
//!
//! [`entry_writer`] writes an entry and proves by the clock that its slot was still open. [`watermarks`] shares the reads of
//! that clock among callers. [`leftovers`] keeps the old places of cancelled and moved tasks out of the counts and the queue.

pub mod entry_writer;
pub mod leftovers;
pub(in crate::flow) mod near_record;
pub mod watermarks;
