//! The adapter registers and consumes for the harness at peers whose client is not written in Rust.
//!
//! It is a small program of `bench/peers/`. The harness exchanges frames with it on a Unix socket, many tasks
//! at once. The messages are described in `Adapter.java`.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, bail, ensure};
use async_trait::async_trait;
use tickwheel::time_source::TimeSource;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
};

use super::{
    Consumer, Lanes, Manner, Place, Producer, Settled, Task,
    process::{Process, find},
    wire::owed,
};
use crate::{embedded::check::Arrival, payload};

/// Largest frame: far more than an adapter sends at once.
const FRAME_BYTES_MAX: usize = 16 << 20;
/// Bytes of an arrival: id, received, settled.
const ARRIVAL_BYTES: usize = 24;

/// It gets so many tasks at once, and registers them singly over 64 connections or places of its own.
pub(super) const LANES: Lanes = Lanes {
    producers: 4,
    chunk: 256,
};

/// A running adapter.
#[derive(Debug)]
pub(super) struct Adapter {
    peer: &'static str,
    process: Process,
    socket: PathBuf,
    time: TimeSource,
}

impl Adapter {
    /// Starts an adapter; the socket is its last argument.
    pub(super) async fn start(
        peer: &'static str,
        command: &mut Command,
        directory: &Path,
        time: &TimeSource,
    ) -> anyhow::Result<Self> {
        let socket = directory.join("adapter.socket");
        let mut process = Process::start("adapter", command.arg(&socket), directory)?;
        process
            .ready(time, || async {
                UnixStream::connect(&socket).await.is_ok()
            })
            .await?;
        Ok(Self {
            peer,
            process,
            socket,
            time: time.clone(),
        })
    }

    /// Starts an adapter that is written in Java.
    pub(super) async fn java(
        peer: &'static str,
        class: &str,
        server: &str,
        place: &Place,
    ) -> anyhow::Result<Self> {
        let mut command = java(place)?;
        command.args(["-Xmx512m", class, server]);
        Self::start(peer, &mut command, &place.directory, &place.time).await
    }

    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }

    pub(super) async fn producer(&self) -> anyhow::Result<Box<dyn Producer>> {
        Ok(Box::new(self.connect().await?))
    }

    /// Returns one consumer, because the many are in the adapter.
    pub(super) async fn consumers(&self) -> anyhow::Result<Vec<Box<dyn Consumer>>> {
        let mut connection = self.connect().await?;
        connection.send(b"C").await?;
        Ok(vec![Box::new(Told {
            connection,
            settled: Settled::default(),
        })])
    }

    pub(super) async fn pending(&self) -> anyhow::Result<Option<u64>> {
        let mut connection = self.connect().await?;
        connection.send(b"P").await?;
        let answer = connection.receive("count of pending tasks").await?;
        let count = i64::from_le_bytes(answer.as_slice().try_into()?);
        // A number below 0 means that it is unknown.
        Ok(u64::try_from(count).ok())
    }

    async fn connect(&self) -> anyhow::Result<Connection> {
        Ok(Connection {
            peer: self.peer,
            time: self.time.clone(),
            stream: UnixStream::connect(&self.socket).await?,
            request: Vec::new(),
        })
    }
}

/// Returns a command that runs a class which `setup` has fetched and compiled.
pub(super) fn java(place: &Place) -> anyhow::Result<Command> {
    let program = find("java", "apt-get install openjdk-17-jdk-headless")?;
    let directory = fetched(place, "java")?;
    let mut path = directory.join("classes").into_os_string();
    path.push(":");
    path.push(directory.join("lib").join("*"));
    let mut command = Command::new(program);
    let home = place.directory.display();
    command
        .arg("-cp")
        .arg(path)
        .args([format!("-Duser.home={home}"), "-XX:+UseG1GC".to_owned()])
        .current_dir(&place.directory);
    Ok(command)
}

/// Returns where `setup` has put a thing of this name.
pub(super) fn fetched(place: &Place, name: &str) -> anyhow::Result<PathBuf> {
    let directory = place.peers_dir.join(name);
    let found = directory.canonicalize();
    found.with_context(|| {
        let place = directory.display();
        format!("there is no {place}: run bench/peers/setup {name}")
    })
}

struct Connection {
    peer: &'static str,
    time: TimeSource,
    stream: UnixStream,
    request: Vec<u8>,
}

impl Connection {
    async fn send(&mut self, frame: &[u8]) -> anyhow::Result<()> {
        let length = u32::try_from(frame.len())?.to_le_bytes();
        let (whole, stream) = ([&length, frame].concat(), &mut self.stream);
        let sending = async { Ok(stream.write_all(&whole).await?) };
        owed(&self.time, self.peer, "room for what is sent", sending).await
    }

    /// Returns an answer without its first byte; an answer that reports a failure becomes an error.
    async fn receive(&mut self, what: &str) -> anyhow::Result<Vec<u8>> {
        let answer = frame(&mut self.stream);
        let mut frame = owed(&self.time, self.peer, what, answer).await?;
        let text = frame.split_off(1);
        if frame != [0] {
            let (peer, text) = (self.peer, String::from_utf8_lossy(&text));
            bail!("{peer}: no {what}, the adapter failed: {text}");
        }
        Ok(text)
    }
}

/// Reads a frame.
async fn frame(stream: &mut UnixStream) -> anyhow::Result<Vec<u8>> {
    let length = stream.read_u32_le().await? as usize;
    ensure!(
        (1..=FRAME_BYTES_MAX).contains(&length),
        "a frame of {length} bytes"
    );
    let mut frame = vec![0; length];
    stream.read_exact(&mut frame).await?;
    Ok(frame)
}

#[async_trait]
impl Producer for Connection {
    async fn register(&mut self, tasks: &mut [Task], manner: Manner) -> anyhow::Result<()> {
        let mut request = std::mem::take(&mut self.request);
        request.clear();
        request.push(match manner {
            Manner::Singly => b'S',
            Manner::Batched => b'B',
        });
        request.extend_from_slice(&u32::try_from(tasks.len())?.to_le_bytes());
        for task in tasks {
            request.extend_from_slice(&task.due.0.to_le_bytes());
            request.extend_from_slice(&task.id.to_le_bytes());
            request.extend_from_slice(payload::of(task.id).as_bytes());
        }
        self.send(&request).await?;
        self.request = request;
        self.receive("acknowledgement of registrations").await?;
        Ok(())
    }
}

/// The receiver of arrivals, which gets them at least once a second.
struct Told {
    connection: Connection,
    settled: Settled,
}

#[async_trait]
impl Consumer for Told {
    async fn take(&mut self, arrivals: &mut Vec<Arrival>) -> anyhow::Result<()> {
        let answer = self.connection.receive("frame of arrivals").await?;
        for item in answer.chunks(ARRIVAL_BYTES) {
            let mut numbers = item.chunks_exact(8).map(|bytes| {
                let bytes = bytes.try_into().unwrap_or_default();
                i64::from_le_bytes(bytes)
            });
            let mut next = || numbers.next().context("a cut arrival");
            let (id, seen_us, last_us) = (u128::try_from(next()?)?, next()?, next()?);
            arrivals.push(Arrival { id, seen_us });
            self.settled.add(Settled { count: 1, last_us });
        }
        Ok(())
    }

    async fn end(self: Box<Self>) -> anyhow::Result<Settled> {
        Ok(self.settled)
    }
}
