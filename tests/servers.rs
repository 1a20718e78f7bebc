//! Every integration test on a real Cassandra and a real Kafka, in one binary. `tests/stack/stack run` starts the servers.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::large_futures,
    reason = "a test that fails may say so by panicking"
)]

mod cluster;
mod conformance;
mod conforms_on_servers;
mod end_to_end;
mod failover;
mod kept_data;
mod kept_keyspace;
#[allow(
    dead_code,
    unused_imports,
    reason = "the queues without a server use the rest"
)]
mod queue_contract;
mod queue_on_kafka;
mod readme_block;
mod rolling;
mod secured;
mod server;
#[allow(dead_code, reason = "the stores without a server use the rest")]
mod store_contract;
mod store_on_cassandra;
