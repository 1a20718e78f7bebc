//! The adapted peer holds the servers, the adapter and the data directory of a peer for the harness.

use std::path::PathBuf;

use async_trait::async_trait;

use super::{
    Consumer, Lanes, Manner, Peer, Producer,
    adapter::{self, Adapter},
    process::Process,
};

/// See the module.
pub(super) struct Adapted {
    // The fields end in this order.
    pub(super) adapter: Adapter,
    pub(super) servers: Vec<Process>,
    pub(super) directory: PathBuf,
}

#[async_trait]
impl Peer for Adapted {
    fn lanes(&self, _: Manner) -> Lanes {
        adapter::LANES
    }

    async fn producer(&mut self) -> anyhow::Result<Box<dyn Producer>> {
        self.adapter.producer().await
    }

    async fn consumers(&mut self) -> anyhow::Result<Vec<Box<dyn Consumer>>> {
        self.adapter.consumers().await
    }

    async fn pending(&mut self) -> anyhow::Result<Option<u64>> {
        self.adapter.pending().await
    }

    fn servers(&self) -> Vec<u32> {
        self.servers.iter().map(Process::id).collect()
    }

    fn adapters(&self) -> Vec<u32> {
        vec![self.adapter.id()]
    }

    fn directory(&self) -> PathBuf {
        self.directory.clone()
    }
}
