//! Stages of sequences: `usher` publishes the task that has come to its turn, `reminder` looks after sequences whose tasks have
//! waited for long.

pub(in crate::flow) mod reminder;
pub(in crate::flow) mod usher;
