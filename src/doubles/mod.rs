//! The doubles of store and queue, for tests and for the test kit ([`crate::testing`]).
//!
//! They keep the contracts of [`crate::store`] and [`crate::queue`], and show the faults of real ones on demand. Builds for users
//! have none of them (decision 60).

pub mod queue;
pub mod store;
