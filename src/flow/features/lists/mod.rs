//! Rows of the index by which lists find tasks: `label_rows` by an indexed label, `ended_rows` those that have ended.

pub(in crate::flow) mod ended_rows;
pub(in crate::flow) mod label_rows;
