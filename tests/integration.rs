//! Every integration test, in one binary: one link instead of many.

mod api;
mod queue_contract;
mod sim;
mod store_contract;
mod worker;
