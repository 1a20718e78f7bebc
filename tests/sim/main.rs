//! The whole service in one process, in virtual time: scenarios written by hand, and scenarios drawn from seeds.
//!
//! A binary of its own, so that `make sim` can build it in release, and so that the deliberate bugs it proves itself with
//! (`--features flaws`) are in no other build.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::large_futures,
    clippy::await_holding_lock,
    reason = "a test that fails may say so by panicking"
)]

mod invariants;
mod replicas;
mod scenarios;
mod seeded;
mod workload;
pub(crate) mod world;
