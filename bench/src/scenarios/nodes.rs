//! The node handle lets the load of the embedded scenarios drive a node on Cassandra and Kafka, for scenarios that both have.

use std::time::Duration;

use tickwheel::time_source::TimeSource;

use super::Bench;
use crate::{
    embedded::{
        http::Door,
        service::{Host, Usage, usage},
    },
    servers::Server,
};

/// How long a node takes until it has all wheels.
const SETTLES: Duration = Duration::from_secs(2);

/// A running node; killed when it is dropped.
#[derive(Debug)]
pub(super) struct Node {
    server: Server,
    door: Door,
    time: TimeSource,
}

impl Node {
    /// Starts a node of the cluster of this run.
    pub(super) async fn start(bench: &Bench) -> anyhow::Result<Self> {
        let server = bench.servers.serve().await?;
        Ok(Self {
            door: Door::from(server.address()?),
            server,
            time: bench.servers.time.clone(),
        })
    }

    /// Starts the only node of a cluster, and waits until it has its wheels.
    pub(super) async fn start_settled(bench: &Bench) -> anyhow::Result<Self> {
        let node = Self::start(bench).await?;
        node.time.sleep(SETTLES).await;
        Ok(node)
    }

    /// Returns the id of its process.
    pub(super) fn id(&self) -> u32 {
        self.server.id()
    }

    /// Lets it drain.
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        self.server.stop(&self.time).await
    }
}

impl Host for Node {
    fn door(&self) -> Door {
        self.door.clone()
    }

    fn time(&self) -> &TimeSource {
        &self.time
    }

    fn usage(&self) -> anyhow::Result<Usage> {
        usage(&self.server.id().to_string())
    }
}
