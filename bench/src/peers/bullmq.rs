//! The BullMQ peer runs delayed jobs of Node on Redis for the comparison, with a worker that takes many at
//! once.

use std::process::Command;

use super::{
    Place,
    adapted::Adapted,
    adapter::{Adapter, fetched},
    process::find,
    resp,
};
use crate::report::setting::{Kind, MILLISECOND, Setting};

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

pub(super) async fn start(setting: &Setting, place: Place) -> anyhow::Result<Adapted> {
    let program = find("node", "apt-get install nodejs npm")?;
    let fetched = fetched(&place, "bullmq")?;
    let started = resp::server(setting.variant, &place.directory, &place.time);
    let (redis, address) = started.await?;
    let mut command = Command::new(program);
    command
        .arg("--max-old-space-size=1024")
        .arg(fetched.join("adapter.mjs"))
        .arg(address.port().to_string());
    let adapter = Adapter::start(setting.name, &mut command, &place.directory, &place.time).await?;
    Ok(Adapted {
        adapter,
        servers: vec![redis],
        directory: place.directory.join("data"),
    })
}
