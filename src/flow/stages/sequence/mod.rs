//! Stages of sequences: `dispatcher` publishes the task that has come to its turn, `reminder` looks after sequences whose tasks
//! have waited for long.

pub(in crate::flow) mod dispatcher;
pub(in crate::flow) mod reminder;
