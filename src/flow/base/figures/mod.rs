//! Figures that a node counts in memory: what is pending, what happened lately, what no worker has taken.

pub(in crate::flow) mod callback_lateness;
pub mod pending;
pub mod recent;
pub(in crate::flow) mod retrying;
pub mod second;
pub mod unclaimed;
