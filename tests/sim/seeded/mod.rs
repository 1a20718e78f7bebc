//! These scenarios are drawn from seeds and test the real service on a simulated store, queue and network,
//! with one thread, in virtual time. A run is a function of its seed alone.
//!
//! `make sim` runs any number of seeds, `make sim-replay SEED=..` one of them, with its trace.

pub(crate) mod chance;
mod client;
pub(crate) mod draw;
pub(crate) mod faults;
mod flaws;
pub(crate) mod history;
mod many;
mod network;
mod operator;
pub(crate) mod plan;
mod process;
mod queue;
mod records;
mod run;
pub(crate) mod scene;
mod scene_client;
mod shrink;
mod store;
mod tests;
mod trace;
mod worker;
pub(crate) mod world;
