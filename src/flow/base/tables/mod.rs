//! Tables of the index, one file for each: its key, its order, what its rows say, and how long they live. [`crate::store::kinds`]
//! lists them all.
//!
//! - `joins`: tasks that wait for others. `trees`: children and the records of parents. `sequences`: members of an ordering key,
//!   and the record of its turn. [`letters`]: dead tasks. `held`: tasks that a gate holds.
//! - `labels` and `ended`: tasks by a label, and tasks that have ended. `rows_by_id` reads both.
//! - `schedules`: when to look at which, and their runs. `audit`: calls. `levels`: programs of nodes. `shares`: the activity of
//!   callbacks.

pub(in crate::flow) mod audit;
pub(in crate::flow) mod ended;
pub(in crate::flow) mod held;
pub(in crate::flow) mod joins;
pub(in crate::flow) mod labels;
pub mod letters;
pub(in crate::flow) mod levels;
pub(in crate::flow) mod rows_by_id;
pub(in crate::flow) mod schedules;
pub(in crate::flow) mod sequences;
pub(in crate::flow) mod shares;
pub(in crate::flow) mod trees;
