//! The settings of a node become those of Cassandra and of Kafka, for `serve`, `init` and `doctor`.

use crate::{
    app::{QueueOptions, StoreOptions},
    cli::Failure,
    config::Settings,
    queue::kafka,
    store::cassandra,
};

/// Returns the settings of the store.
pub(in crate::cli) fn store(settings: &Settings) -> Result<StoreOptions, Failure> {
    Ok(StoreOptions::Cassandra(Box::new(cassandra(settings)?)))
}

/// Returns the settings of the queue.
pub(in crate::cli) fn queue(settings: &Settings) -> Result<QueueOptions, Failure> {
    Ok(QueueOptions::Kafka(Box::new(kafka(settings)?)))
}

/// Returns the settings of Cassandra. The number of copies is set for `init`, which may not know it yet.
pub(super) fn cassandra(settings: &Settings) -> Result<cassandra::Settings, Failure> {
    if settings.cassandra.is_empty() {
        return Err(Failure::usage(
            "cassandra: no contact point is set: add --cassandra HOST:PORT",
        ));
    }
    let mut store = cassandra::Settings::new(settings.cassandra.clone(), settings.keyspace.clone());
    store
        .local_datacenter
        .clone_from(&settings.cassandra_datacenter);
    store.local_rack.clone_from(&settings.cassandra_rack);
    store.access = settings.cassandra_access();
    if let Some(copies) = settings.replication_factor {
        store.replication_factor = u8::try_from(copies).map_err(|_| {
            Failure::usage(format!(
                "replication_factor: {copies} copies are too many: use 1 to 5"
            ))
        })?;
    }
    Ok(store)
}

/// Returns the settings of Kafka.
pub(super) fn kafka(settings: &Settings) -> Result<kafka::Settings, Failure> {
    if settings.kafka.is_empty() {
        return Err(Failure::usage(
            "kafka: no bootstrap server is set: add --kafka HOST:PORT",
        ));
    }
    let mut queue = kafka::Settings::new(&settings.kafka.join(","));
    queue.access = settings.kafka_access();
    queue.mechanism = settings.kafka_sasl_mechanism;
    queue.signing = settings.kafka_signing.signing.clone();
    queue.names = settings.kafka_names.clone();
    queue.partitions = i32::from(settings.partitions);
    queue.replication_factor = settings.replication_factor.map(i32::from);
    Ok(queue)
}
