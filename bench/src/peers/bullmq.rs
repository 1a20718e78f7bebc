//! BullMQ on Redis: delayed jobs of Node, with a worker that takes many at once.

use std::{path::PathBuf, process::Command};

use async_trait::async_trait;

use super::{
    Consumer, Lanes, Manner, Peer, Place, Producer,
    adapter::{self, Adapter, fetched},
    process::{Process, find},
    resp,
    setting::{Kind, MILLISECOND, Setting},
};

const SETTING: Setting = Setting {
    kind: Kind::Bullmq,
    name: "bullmq, redis always",
    variant: "always",
    delivery: "at least once",
    synced: "yes",
    resolution: "1 ms",
    batches: "256 a call",
    step: MILLISECOND,
    grid: MILLISECOND,
};
pub(super) const SETTINGS: [Setting; 2] = [
    SETTING,
    Setting {
        name: "bullmq, redis everysec",
        variant: "everysec",
        synced: "no, every second",
        ..SETTING
    },
];

struct BullMq {
    // In the order in which they end.
    adapter: Adapter,
    redis: Process,
    directory: PathBuf,
}

pub(super) async fn start(setting: &Setting, place: Place) -> anyhow::Result<impl Peer + use<>> {
    let program = find("node", "apt-get install nodejs npm")?;
    let fetched = fetched(&place, "bullmq")?;
    let started = resp::server(setting.variant, &place.directory, &place.time);
    let (redis, address) = started.await?;
    let mut command = Command::new(program);
    command
        .arg("--max-old-space-size=1024")
        .arg(fetched.join("adapter.mjs"))
        .arg(address.port().to_string());
    let adapter = Adapter::start(&mut command, &place.directory, &place.time).await?;
    Ok(BullMq {
        adapter,
        redis,
        directory: place.directory.join("data"),
    })
}

#[async_trait]
impl Peer for BullMq {
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
        vec![self.redis.id()]
    }

    fn adapters(&self) -> Vec<u32> {
        vec![self.adapter.id()]
    }

    fn directory(&self) -> PathBuf {
        self.directory.clone()
    }
}
