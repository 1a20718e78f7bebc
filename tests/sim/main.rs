//! The simulation runs the whole service in one process and in virtual time, for scenarios written by hand and scenarios drawn
//! from seeds.
//!
//! It is a binary of its own, so that `make sim` can build it optimised. There it needs the feature `flaws`, for the deliberate
//! bugs that it proves itself with; debug builds have them.

#![cfg(any(debug_assertions, feature = "flaws"))]
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::large_futures,
    clippy::await_holding_lock,
    reason = "a test that fails may say so by panicking"
)]

mod drafts;
mod invariants;
#[allow(dead_code, reason = "tests of the API use the rest")]
pub(crate) mod letters;
mod replicas;
mod scenarios;
mod seeded;
mod workload;
pub(crate) mod world;
