//! Tickwheel: a durable, distributed, hashed timing-wheel timer service.

pub mod app;
pub mod cli;
pub mod client;
pub mod config;
pub mod failpoint;
pub mod flaw;
pub mod flow;
pub mod http;
pub mod limits;
pub mod model;
pub mod queue;
pub mod schema;
pub mod store;
pub mod telemetry;
pub mod time_source;
pub mod worker;
