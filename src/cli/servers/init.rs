//! The set-up creates or checks keyspace and tables for `tickwheel init`, and proves that the servers can do what is needed.

use std::io::Write as _;

use super::settings;
use crate::{
    cli::Failure,
    config::Settings,
    queue::{Publisher as _, kafka::KafkaPublisher},
    store::cassandra::{self, Initialized},
    time_source::TimeSource,
};

/// Copies of every row where there are enough servers: a quorum survives the loss of one.
const COPIES: usize = 3;

/// Sets the servers up, and prints what was found.
pub(in crate::cli) async fn init(settings: &Settings) -> Result<(), Failure> {
    let time = TimeSource::real();
    let mut store = settings::cassandra(settings)?;
    let shape = settings.shape()?;
    if settings.replication_factor.is_none() {
        let servers = cassandra::servers(&store, &time).await?;
        store.replication_factor = u8::try_from(servers.min(COPIES)).unwrap_or(1);
    }
    let initialized = cassandra::init(&store, shape, &time).await?;
    let found = match initialized {
        Initialized::Created => "is ready",
        Initialized::AlreadyThere => "was ready already",
    };
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "keyspace {} {found}: {} wheels, ticks of {} ms, {} slots; conditional writes and claim groups work",
        store.keyspace,
        shape.wheels(),
        shape.tick().millis(),
        shape.slots(),
    )?;
    if store.replication_factor == 1 && initialized == Initialized::Created {
        writeln!(
            out,
            "note: one copy of every row: what its server loses is lost"
        )?;
    }
    drop(out);
    if !settings.kafka.is_empty() {
        let queue = KafkaPublisher::connect(settings::kafka(settings)?, time)?;
        queue.ping().await?;
        writeln!(
            std::io::stdout().lock(),
            "kafka answers; topics of callbacks are created when they are first used, with {} partitions",
            settings.partitions
        )?;
    }
    Ok(())
}
