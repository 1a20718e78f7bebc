//! Small worlds searched exhaustively: every order of every step, with faults, around the real decision functions.
//!
//! Each model comes with broken variants that must be found: the proof that the search would see the hole. The bounds of an
//! ordinary run take a minute; `make prove` searches the whole ones (`tests/model/RESULTS.md` keeps its table).

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
#[path = "model/lease.rs"]
mod lease;
#[path = "model/search.rs"]
mod search;
#[path = "model/task/mod.rs"]
mod task;
