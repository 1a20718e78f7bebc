//! This binary links all integration tests that need no server, which is faster than many links. (`servers.rs` has the others.)

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
mod command_line;
mod command_repeats;
// The suite also reads topics of Kafka.
#[cfg(feature = "cluster")]
#[allow(dead_code, unused_imports, reason = "the servers use the rest")]
mod conformance;
#[cfg(feature = "cluster")]
mod conforms_on_one_process;
mod embedded_store;
mod examples;
mod golden;
mod golden_embedded;
mod golden_ordering;
mod golden_rows;
mod golden_schedules;
mod golden_trees;
mod guarantees;
mod http_targets;
mod kept_data;
mod kept_directory;
mod local;
mod local_queues;
mod local_stores;
mod look;
mod near_timer;
mod one_process;
mod operations;
mod program_words;
mod programs;
#[allow(dead_code, unused_imports, reason = "the servers use the rest")]
mod queue_contract;
mod readme;
mod readme_block;
#[path = "sim/replicas/mod.rs"]
#[allow(dead_code, reason = "the seeds of the simulation use the rest")]
mod replicas;
mod server;
/// Tests of the API run on the simulation's world; its scenarios are a binary of their own (`tests/sim`).
mod sim {
    #[allow(dead_code, reason = "the scenarios use the rest")]
    mod drafts;
    pub(crate) mod letters;
    #[allow(dead_code, unused_imports, reason = "the scenarios use the rest")]
    pub(crate) mod world;
}
mod smtp;
mod store_contract;
mod test_kit;
mod tls;
mod worker;
