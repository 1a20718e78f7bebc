//! The other nodes and the wall clock, as one node sees them: [`members`] lists the nodes, and `clock_step` notices steps of the
//! clock.

pub(in crate::flow) mod clock_step;
pub mod members;
