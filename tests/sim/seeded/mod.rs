//! Scenarios drawn from seeds: the real service over a simulated store, queue and network, one thread, virtual time. What
//! happens is a function of the seed alone.
//!
//! `make sim` runs any number of seeds, `make sim-replay SEED=..` one of them, with its trace.

pub(crate) mod chance;
mod client;
pub(crate) mod draw;
pub(crate) mod faults;
pub(crate) mod history;
mod many;
mod network;
pub(crate) mod plan;
mod process;
mod queue;
mod run;
mod shrink;
mod store;
mod tests;
mod trace;
mod worker;
pub(crate) mod world;
