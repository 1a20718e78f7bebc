//! Handlers answer the routes of the API, one file for each resource, over the service of the node.

pub(in crate::http) mod api_keys;
pub(in crate::http) mod backup;
pub(in crate::http) mod batch;
pub(in crate::http) mod by_key;
pub(in crate::http) mod callbacks;
pub(in crate::http) mod configuration;
pub(in crate::http) mod dead_letters;
pub mod docs;
pub(in crate::http) mod events;
pub(in crate::http) mod forecast;
pub mod health;
pub(in crate::http) mod ids;
pub(in crate::http) mod jobs;
pub(in crate::http) mod list;
pub(in crate::http) mod metrics;
pub(in crate::http) mod poll;
mod registered;
pub(in crate::http) mod schedule_preview;
mod schedule_query;
pub(in crate::http) mod schedule_transfer;
pub(in crate::http) mod schedules;
pub(in crate::http) mod stats;
pub(in crate::http) mod tasks;
pub(in crate::http) mod test_clock;
pub(in crate::http) mod trees;
pub(in crate::http) mod why;
pub(in crate::http) mod worker;
