//! These tests search small worlds completely: every order of every step, with faults, around the
//! real decision functions.
//!
//! Each model has broken variants in which the search must find an error, as proof that it would see one. The
//! bounds of an ordinary run take a minute; `make prove` searches the full bounds (`tests/model/RESULTS.md`
//! keeps its table).

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test that fails may say so by panicking"
)]

#[path = "model/clock/mod.rs"]
mod clock;
#[path = "model/expiry/mod.rs"]
mod expiry;
#[path = "model/family/mod.rs"]
mod family;
#[path = "model/join/mod.rs"]
mod join;
#[path = "model/key/mod.rs"]
mod key;
#[path = "model/lease.rs"]
mod lease;
#[path = "model/ordering/mod.rs"]
mod ordering;
#[path = "model/schedule/mod.rs"]
mod schedule;
#[path = "model/search.rs"]
mod search;
#[path = "model/task/mod.rs"]
mod task;
