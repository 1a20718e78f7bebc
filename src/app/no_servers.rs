//! This file stands for `servers.rs` in builds without the feature `cluster`: settings of servers cannot be made there.
//!
//! The types have no values, so the compiler knows that nothing here is called. The command line says which feature is missing.

use std::sync::Arc;

use crate::{
    model::{ids::NodeId, wheel::Shape},
    queue::{self, Publisher, Subscriptions},
    store::{self, Store},
    time_source::TimeSource,
};

/// The settings of a shared store: there are none.
#[derive(Debug, Clone)]
pub enum StoreSettings {}

/// The settings of a shared queue: there are none.
#[derive(Debug, Clone)]
pub enum QueueSettings {}

/// The two sides of a queue.
type Sides = (Arc<dyn Publisher>, Arc<dyn Subscriptions>);

/// Returns the addresses of the store.
pub(super) fn addresses(settings: &StoreSettings) -> String {
    match *settings {}
}

/// Connects to the store.
pub(super) async fn connect(
    settings: &StoreSettings,
    _time: &TimeSource,
) -> Result<(Arc<dyn Store>, Shape), store::Error> {
    match *settings {}
}

/// Connects to the queue.
pub(super) fn queue(
    settings: &QueueSettings,
    _shape: &Shape,
    _time: &TimeSource,
    _me: NodeId,
) -> Result<Sides, queue::Error> {
    match *settings {}
}
