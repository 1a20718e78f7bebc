//! The command `tickwheel init` creates or checks the schema for operators, and proves that the servers can
//! do what is needed.

use std::io::Write as _;

use super::{Exit, Failure, node, variables};
use crate::{
    config::{Settings, SettingsArgs, StoreKind},
    queue::{Publisher as _, kafka::KafkaPublisher},
    store::cassandra::{self, Initialized},
    time_source::TimeSource,
};

/// Copies of every row where there are enough servers: a quorum survives the loss of one.
const COPIES: usize = 3;

/// Runs the command.
pub(super) async fn run(args: SettingsArgs) -> Result<Exit, Failure> {
    variables::warn();
    let settings = Settings::load(&args, |name| std::env::var(name).ok())?;
    if settings.store == StoreKind::Embedded && settings.cassandra.is_empty() {
        return Err(Failure::usage(
            "an embedded store needs no init: `tickwheel serve` creates it; for a cluster add --store cassandra \
             --cassandra HOST:PORT",
        ));
    }
    let time = TimeSource::real();
    let mut store = node::cassandra(&settings)?;
    let shape = settings.shape()?;
    if settings.replication_factor.is_none() {
        let servers = cassandra::servers(&store, &time).await?;
        store.replication_factor = u8::try_from(servers.min(COPIES)).unwrap_or(1);
    }
    let initialized = cassandra::init(&store, shape, &time).await?;
    let found = match initialized {
        Initialized::Created => "is ready",
        Initialized::AlreadyThere => "was ready already",
        Initialized::Migrated => "was of an earlier version and has the present one now",
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
        let queue = KafkaPublisher::connect(node::kafka(&settings)?, time)?;
        queue.ping().await?;
        writeln!(
            std::io::stdout().lock(),
            "kafka answers; topics of callbacks are created when they are first used, with {} partitions",
            settings.partitions
        )?;
    }
    Ok(Exit::Ok)
}
