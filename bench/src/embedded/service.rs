//! The service handle runs the real program for the harness on a directory of its own, and reads its costs
//! from the system.

use std::{
    ffi::OsString,
    fs,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, bail};
use tickwheel::time_source::{Moment, TimeSource};

use super::{
    http::{Connection, Door},
    http2,
};

/// Longest time to open the store and become ready.
const START_LIMIT: Duration = Duration::from_secs(120);
/// Clock ticks a second in `/proc`: the same on every Linux on which this runs.
pub(crate) const TICKS_PER_SECOND: f64 = 100.0;

/// The costs of a process so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    pub(crate) cpu_seconds: f64,
    pub(crate) resident_mib: u64,
    pub(crate) peak_mib: u64,
}

/// Reads a process and its files from outside, also while another part drives the service.
#[derive(Debug, Clone)]
pub(crate) struct Probe {
    process: String,
    data: PathBuf,
}

impl Probe {
    pub(crate) fn usage(&self) -> anyhow::Result<Usage> {
        usage(&self.process)
    }

    /// Returns the size of the files of the store and the queue.
    pub(crate) fn disk_bytes(&self) -> u64 {
        bytes_below(&self.data)
    }

    /// Returns the bytes that the process has written to the disk so far.
    pub(super) fn written_bytes(&self) -> anyhow::Result<u64> {
        let io = fs::read_to_string(format!("/proc/{}/io", self.process))?;
        let line = io
            .lines()
            .find_map(|line| line.strip_prefix("write_bytes: "));
        Ok(line.context("a field of io")?.parse()?)
    }
}

/// A service that takes requests, here or on servers.
pub(crate) trait Host {
    fn door(&self) -> Door;

    fn time(&self) -> &TimeSource;

    /// Returns what its process has cost so far.
    fn usage(&self) -> anyhow::Result<Usage>;

    async fn open(&self, count: usize) -> anyhow::Result<Vec<Connection>> {
        let mut open = Vec::with_capacity(count);
        for _ in 0..count {
            open.push(Connection::open(self.door()).await?);
        }
        Ok(open)
    }
}

impl Host for Service {
    fn door(&self) -> Door {
        self.door.clone()
    }

    fn time(&self) -> &TimeSource {
        &self.time
    }

    fn usage(&self) -> anyhow::Result<Usage> {
        self.probe().usage()
    }
}

/// A running service; killed when it is dropped.
#[derive(Debug)]
pub(crate) struct Service {
    child: Child,
    pub(crate) address: SocketAddr,
    /// The same, with what callers need beside it.
    pub(crate) door: Door,
    pub(crate) time: TimeSource,
    directory: PathBuf,
    program: PathBuf,
    /// Its further options, beside its data directory.
    extra: Vec<OsString>,
}

impl Service {
    /// Starts `tickwheel serve` on a directory and waits until it is ready; returns how long that took.
    pub(crate) async fn start(
        program: &Path,
        directory: &Path,
        time: &TimeSource,
    ) -> anyhow::Result<(Self, Duration)> {
        Self::start_with(program, directory, time, Vec::new()).await
    }

    /// Starts it with further options.
    pub(crate) async fn start_with(
        program: &Path,
        directory: &Path,
        time: &TimeSource,
        extra: Vec<OsString>,
    ) -> anyhow::Result<(Self, Duration)> {
        Self::start_behind(program, directory, time, extra, Door::from).await
    }

    /// Starts it behind a door of its own.
    pub(crate) async fn start_behind(
        program: &Path,
        directory: &Path,
        time: &TimeSource,
        extra: Vec<OsString>,
        door: impl FnOnce(SocketAddr) -> Door,
    ) -> anyhow::Result<(Self, Duration)> {
        fs::create_dir_all(directory)?;
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let begun = time.moment();
        let mut service = Self {
            child: spawn(program, directory, address, &extra)?,
            address,
            door: door(address),
            time: time.clone(),
            directory: directory.to_owned(),
            program: program.to_owned(),
            extra,
        };
        service.wait_ready(begun).await?;
        let took = time.moment().since(begun);
        Ok((service, took))
    }

    async fn wait_ready(&mut self, begun: Moment) -> anyhow::Result<()> {
        while !self.is_ready().await {
            if let Some(status) = self.child.try_wait()? {
                bail!("the service ended with {status}: {}", self.log());
            }
            if self.time.moment().since(begun) > START_LIMIT {
                bail!("the service was not ready in time: {}", self.log());
            }
            self.time.sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    async fn is_ready(&self) -> bool {
        match self.connect().await {
            Ok(mut connection) => connection.get("/readyz").await.is_ok(),
            Err(_) => false,
        }
    }

    pub(crate) async fn connect(&self) -> anyhow::Result<Connection> {
        Connection::open(self.door.clone()).await
    }

    pub(crate) async fn connections(&self, count: usize) -> anyhow::Result<Vec<Connection>> {
        self.open(count).await
    }

    /// Opens a connection over HTTP/2 that so many callers share.
    pub(crate) async fn callers(&self, count: usize) -> anyhow::Result<Vec<http2::Caller>> {
        http2::Caller::open(self.address, count).await
    }

    /// Returns its log, which has warnings and errors only.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.directory.join("bench.log")).unwrap_or_default()
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn probe(&self) -> Probe {
        Probe {
            process: self.child.id().to_string(),
            data: self.directory.join("data"),
        }
    }

    /// Returns the size of the files of the store and the queue.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.probe().disk_bytes()
    }

    /// Kills the process at once and starts it anew on its data. Returns the time until it was ready.
    pub(super) async fn kill_and_restart(mut self) -> anyhow::Result<(Self, Duration)> {
        self.kill()?;
        let took = self.start_again().await?;
        Ok((self, took))
    }

    /// Kills the process at once.
    pub(crate) fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Starts a killed service on its data, at the same address. Returns the time until it was ready.
    pub(super) async fn start_again(&mut self) -> anyhow::Result<Duration> {
        let begun = self.time.moment();
        self.child = spawn(&self.program, &self.directory, self.address, &self.extra)?;
        self.wait_ready(begun).await?;
        Ok(self.time.moment().since(begun))
    }
}

fn spawn(
    program: &Path,
    directory: &Path,
    address: SocketAddr,
    extra: &[OsString],
) -> anyhow::Result<Child> {
    let log = fs::File::options()
        .create(true)
        .append(true)
        .open(directory.join("bench.log"))?;
    Command::new(program)
        .args(["serve", "--store", "embedded", "--log", "warn"])
        .arg("--data-dir")
        .arg(directory.join("data"))
        .args(["--listen", &address.to_string()])
        .args(extra)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .with_context(|| format!("cannot start {}", program.display()))
}

impl Drop for Service {
    fn drop(&mut self) {
        // It may have ended already; then there is no work left.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Returns the costs of this process.
pub(crate) fn own_usage() -> anyhow::Result<Usage> {
    usage("self")
}

/// Returns the load of the machine over the last minute.
pub(crate) fn load_average() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}

pub(crate) fn usage(process: &str) -> anyhow::Result<Usage> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name may have any characters; the numbered fields come behind it, from the third on.
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    let ticks = |field: usize| -> anyhow::Result<f64> {
        Ok(fields.get(field - 3).context("a field of stat")?.parse()?)
    };
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let mib = |name: &str| -> anyhow::Result<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let text = line.and_then(|line| line.split_whitespace().next());
        Ok(text.context("a field of status")?.parse::<u64>()? / 1024)
    };
    Ok(Usage {
        cpu_seconds: (ticks(14)? + ticks(15)?) / TICKS_PER_SECOND,
        resident_mib: mib("VmRSS:")?,
        peak_mib: mib("VmHWM:")?,
    })
}

/// Sums the allocated size, not the length, because journals are made with their full length.
pub(crate) fn bytes_below(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let Ok(entries) = fs::read_dir(directory) else {
        return 0;
    };
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => bytes_below(&entry.path()),
        Ok(found) => found.blocks() * 512,
        // Compaction has removed the file meanwhile.
        Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}
