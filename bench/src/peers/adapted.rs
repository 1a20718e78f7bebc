//! A peer that is driven by an adapter: its servers, the adapter, and where its data lies.

use std::path::PathBuf;

use async_trait::async_trait;

use super::{
    Consumer, Lanes, Manner, Peer, Producer,
    adapter::{self, Adapter},
    process::Process,
};

/// See the module.
pub(super) struct Adapted {
    // In the order in which they end.
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
