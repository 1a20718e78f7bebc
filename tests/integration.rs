//! Every integration test, in one binary: one link instead of many.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::large_futures,
    clippy::await_holding_lock,
    reason = "a test that fails may say so by panicking"
)]

mod abuse;
mod api;
mod client;
mod cluster;
mod command_line;
mod end_to_end;
mod golden;
mod golden_embedded;
mod golden_rows;
mod guarantees;
mod local;
mod one_process;
mod program_words;
mod programs;
mod queue_contract;
mod readme;
#[path = "sim/replicas/mod.rs"]
mod replicas;
mod server;
/// Tests of the API run on the simulation's world; its scenarios are a binary of their own (`tests/sim`).
mod sim {
    #[allow(dead_code, reason = "the scenarios use the rest")]
    pub(crate) mod world;
}
mod store_contract;
mod worker;
