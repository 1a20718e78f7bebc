//! The RocketMQ 5 peer delays timer messages for the comparison: a broker holds them in a wheel on disk,
//! beside a name server.

use std::{fs, net::TcpListener, time::Duration};

use anyhow::{Context as _, bail};

use super::{
    Place,
    adapted::Adapted,
    adapter::{Adapter, java},
    process::{Process, free_address},
};
use crate::report::setting::{Kind, Setting};

const SETTING: Setting = Setting {
    kind: Kind::Rocketmq,
    name: "rocketmq sync, 100 ms",
    variant: "SYNC_FLUSH",
    delivery: "at least once",
    synced: "yes",
    resolution: "100 ms",
    batches: "",
    step: Duration::from_millis(100),
    grid: Duration::from_millis(100),
};
pub(super) const SETTINGS: [Setting; 3] = [
    SETTING,
    Setting {
        name: "rocketmq async, 100 ms",
        variant: "ASYNC_FLUSH",
        synced: "no, every 500 ms",
        ..SETTING
    },
    Setting {
        name: "rocketmq async, 1 s",
        variant: "ASYNC_FLUSH",
        synced: "no, every 500 ms",
        resolution: "1 s",
        step: Duration::from_secs(1),
        grid: Duration::from_secs(1),
        ..SETTING
    },
];

pub(super) async fn start(setting: &Setting, place: Place) -> anyhow::Result<Adapted> {
    let (time, directory) = (&place.time, &place.directory);
    let data = directory.join("data");
    fs::create_dir(&data)?;
    let home = format!("-Drocketmq.home.dir={}", directory.display());
    let (names_at, broker_at) = (free_address()?, brokers_address()?);
    let file = directory.join("names.conf");
    let port = names_at.port();
    fs::write(&file, format!("listenPort={port}\nbindAddress=127.0.0.1\n"))?;
    let mut command = java(&place)?;
    command
        .args(["-Xmx256m", &home])
        .args(["org.apache.rocketmq.namesrv.NamesrvStartup", "-c"])
        .arg(&file);
    let mut names = Process::start("names", &mut command, directory)?;
    names.listens(time, names_at).await?;
    let file = directory.join("broker.conf");
    let (port, precision) = (broker_at, setting.step.as_millis());
    let (flush, data_at) = (setting.variant, data.display());
    let settings = format!(
        "namesrvAddr={names_at}\nbrokerIP1=127.0.0.1\nbindAddress=127.0.0.1\nlistenPort={port}\n\
         haListenPort={}\nstorePathRootDir={data_at}\nstorePathCommitLog={data_at}/commitlog\n\
         flushDiskType={flush}\ntimerPrecisionMs={precision}\ntimerWheelEnable=true\n\
         autoCreateTopicEnable=true\nmappedFileSizeCommitLog=134217728\ndiskMaxUsedSpaceRatio=95\n\
         waitTimeMillsInSendQueue=10000\n",
        port + 1
    );
    fs::write(&file, settings)?;
    let mut command = java(&place)?;
    // The whole heap from the beginning; otherwise its garbage would look like memory of the waiting tasks.
    command
        .args(["-Xms1g", "-Xmx1g", "-XX:+AlwaysPreTouch"])
        .args(["-XX:MaxDirectMemorySize=1g", &home])
        .args(["Broker", "-c"])
        .arg(&file);
    let mut broker = Process::start("broker", &mut command, directory)?;
    broker.listens(time, ([127, 0, 0, 1], port).into()).await?;
    let adapter = Adapter::java(setting.name, "RocketMq", &names_at.to_string(), &place).await?;
    Ok(Adapted {
        adapter,
        servers: vec![broker, names],
        directory: data,
    })
}

/// Returns a port that is free with its neighbours, since the broker also takes the one two below and the
/// next one.
fn brokers_address() -> anyhow::Result<u16> {
    for _ in 0..100 {
        let port = free_address()?.port();
        let low = port.checked_sub(2).context("a port of the system")?;
        let free = |port| TcpListener::bind(("127.0.0.1", port)).is_ok();
        if port < u16::MAX && (low..=port + 1).all(free) {
            return Ok(port);
        }
    }
    bail!("there are no free ports");
}
