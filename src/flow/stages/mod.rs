//! Stages are the loops of a node, and the calls of its clients that need more than one task.
//!
//! A stage is made of what it needs. Its `step` does one bounded batch and says whether more remains. Its `run` waits, steps,
//! logs and stops. [`node`] runs the loops, [`service`] has the calls, and `makers` puts both together.

pub(in crate::flow) mod claim_calls;
pub mod cluster;
pub mod ends;
pub mod jobs;
pub(in crate::flow) mod join;
pub mod letters;
pub(in crate::flow) mod makers;
pub(in crate::flow) mod messages;
pub mod node;
pub mod poll;
pub mod query;
pub mod schedules;
pub(in crate::flow) mod sequence;
pub mod service;
mod settling;
pub mod tree;
pub mod walk;
pub mod wheel;
pub(in crate::flow) mod why_calls;
