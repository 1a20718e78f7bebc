//! The cluster rooms watch the other nodes and the wall clock for one node: [`members`] lists the other
//! nodes, `levels` knows what their programs know, and `clock_step` notices steps of the wall clock.

pub(in crate::flow) mod clock_step;
pub mod level_memory;
pub(in crate::flow) mod levels;
pub mod members;
