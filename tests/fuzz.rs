//! These tests give every decoder of outside bytes valid samples that were damaged. No decoder may panic or
//! take memory out of proportion, and an accepted value is written and read again as the same.
//!
//! An ordinary run has a fixed seed and a few seconds for each target. `make fuzz MINUTES=10` continues from
//! a random seed, which it prints. An input that breaks a rule is kept under `tests/fuzz/corpus/` and tried
//! first from then on.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test that fails may say so by panicking"
)]

#[path = "fuzz/access.rs"]
mod access;
#[path = "fuzz/callbacks.rs"]
mod callbacks;
#[path = "fuzz/config.rs"]
mod config;
#[path = "fuzz/disk.rs"]
mod disk;
#[path = "fuzz/features.rs"]
mod features;
#[path = "fuzz/http.rs"]
mod http;
#[path = "fuzz/mutate.rs"]
mod mutate;
#[path = "fuzz/records.rs"]
mod records;
#[path = "fuzz/requests.rs"]
mod requests;
#[path = "fuzz/rows.rs"]
mod rows;
#[path = "fuzz/run.rs"]
mod run;
#[path = "fuzz/samples.rs"]
mod samples;
