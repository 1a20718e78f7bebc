//! Tables of the index, one file for each: which partition and place a row has, and what it says.
//!
//! - `joins`: tasks that wait for others. `trees`: children and the records of parents. `sequences`: members of an ordering key,
//!   and the record of its turn. [`letters`]: dead tasks. `rows_by_id`: lists of tasks by a callback's labels or by their end.

pub(in crate::flow) mod joins;
pub mod letters;
pub(in crate::flow) mod rows_by_id;
pub(in crate::flow) mod sequences;
pub(in crate::flow) mod trees;
