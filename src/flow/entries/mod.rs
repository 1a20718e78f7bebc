//! The entry rooms write entries for every stage that puts a task into a wheel, so that no task is lost.
//!
//! [`entry_writer`] writes an entry and proves by the clock that its slot was still open. [`watermarks`] shares the reads of
//! that clock among callers. `content` reads contents that are kept apart.
//! [`leftovers`] keeps the old places of cancelled and moved tasks out of the counts and the queue.

pub(in crate::flow) mod content;
pub(in crate::flow) mod ended_rows;
pub mod entry_writer;
pub(in crate::flow) mod label_rows;
pub mod leftovers;
pub(in crate::flow) mod near_record;
mod rows_by_id;
pub mod watermarks;
