//! The servers are what the commands `serve`, `init` and `doctor` know of Cassandra and Kafka.
//!
//! This room is in builds with the feature `cluster`; `no_servers.rs` is in the others. No other command differs.

mod conditions;
mod init;
mod queue_look;
mod settings;
mod store_look;

pub(super) use self::{
    init::init,
    queue_look::look_at_queue,
    settings::{queue, store},
    store_look::look_at_store,
};
