//! This file stands for `servers/` in builds without the feature `cluster`: it tells the user what the build lacks.
//!
//! Most settings that name servers are refused with the same sentence when they are loaded.

use super::{Failure, finding::Finding};
use crate::{
    app::{QueueOptions, StoreOptions},
    config::{NEEDS_CLUSTER, Settings},
    time_source::TimeSource,
};

fn refused<T>() -> Result<T, Failure> {
    Err(Failure::usage(NEEDS_CLUSTER))
}

/// Refuses to use a shared store.
pub(super) fn store(_settings: &Settings) -> Result<StoreOptions, Failure> {
    refused()
}

/// Refuses to use a shared queue.
pub(super) fn queue(_settings: &Settings) -> Result<QueueOptions, Failure> {
    refused()
}

/// Refuses to set servers up.
pub(super) async fn init(_settings: &Settings) -> Result<(), Failure> {
    refused()
}

/// Refuses to look at a shared store.
pub(super) async fn look_at_store(
    _settings: &Settings,
    _time: &TimeSource,
) -> Result<Vec<Finding>, Failure> {
    refused()
}

/// Refuses to look at a shared queue.
pub(super) async fn look_at_queue(
    _settings: &Settings,
    _time: &TimeSource,
) -> Result<Vec<Finding>, Failure> {
    refused()
}
