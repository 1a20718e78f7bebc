//! The servers give a node the store and the queue of a cluster: Cassandra or Scylla, and Kafka.
//!
//! This file is in builds with the feature `cluster`; `no_servers.rs` is in the others. Nothing else of the app differs.

use std::sync::Arc;

use crate::{
    model::{ids::NodeId, wheel::Shape},
    queue::{
        self, Publisher, Subscriptions,
        kafka::{KafkaPublisher, KafkaSubscriptions},
    },
    store::{self, Store, cassandra},
    time_source::TimeSource,
};
pub(super) use crate::{
    queue::kafka::Settings as QueueSettings, store::cassandra::Settings as StoreSettings,
};

/// The two sides of a queue.
type Sides = (Arc<dyn Publisher>, Arc<dyn Subscriptions>);

/// Returns the addresses of the store, for the log.
pub(super) fn addresses(settings: &StoreSettings) -> String {
    settings.contact_points.join(",")
}

/// Connects to the store once; returns it with its shape.
pub(super) async fn connect(
    settings: &StoreSettings,
    time: &TimeSource,
) -> Result<(Arc<dyn Store>, Shape), store::Error> {
    let store = cassandra::Store::connect(settings, time).await?;
    let shape = store.shape();
    Ok((store, shape))
}

/// Begins to connect a node to the queue; returns its two sides.
pub(super) fn queue(
    settings: &QueueSettings,
    shape: &Shape,
    time: &TimeSource,
    me: NodeId,
) -> Result<Sides, queue::Error> {
    let mut settings = settings.clone();
    settings.partitions = settings.partitions.min(i32::from(shape.wheels()));
    let subscriptions = KafkaSubscriptions::of_node(settings.clone(), time.clone(), me);
    let publisher = KafkaPublisher::connect(settings, time.clone())?;
    Ok((Arc::new(publisher), Arc::new(subscriptions)))
}
