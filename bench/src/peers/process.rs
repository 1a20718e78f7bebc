//! The process handle finds, starts, measures and ends the processes of peers for the harness.
//!
//! They run on the loopback, are measured through the system, and are killed by id when dropped.

use std::{
    fs,
    net::{SocketAddr, TcpListener},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tickwheel::time_source::TimeSource;

/// Longest time until a process answers: a Java server on a busy machine.
const START_LIMIT: Duration = Duration::from_secs(120);
/// Directories of programs beside `PATH`: Debian puts servers where only root's path looks.
const PLACES: [&str; 4] = ["/usr/local/bin", "/usr/bin", "/usr/sbin", "/sbin"];
/// Clock ticks of `/proc`, a second.
const TICKS_PER_SECOND: f64 = 100.0;

/// A program that runs for a peer, as the leader of a process group of its own.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    name: &'static str,
    log: PathBuf,
    stop: Signal,
}

impl Process {
    /// Starts a command whose output goes to `NAME.log` in a directory.
    pub(super) fn start(
        name: &'static str,
        command: &mut Command,
        directory: &Path,
    ) -> anyhow::Result<Self> {
        let log = directory.join(format!("{name}.log"));
        let file = fs::File::options().create(true).append(true).open(&log)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        Ok(Self {
            child,
            name,
            log,
            stop: Signal::KILL,
        })
    }

    /// Ends it by a signal of its own, within a time limit of its own.
    pub(super) fn stopped_by(mut self, stop: Signal) -> Self {
        self.stop = stop;
        self
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until a question gets the answer yes.
    pub(super) async fn ready<F: Future<Output = bool>>(
        &mut self,
        time: &TimeSource,
        answers: impl Fn() -> F,
    ) -> anyhow::Result<()> {
        let begun = time.moment();
        while !answers().await {
            let name = self.name;
            if let Some(status) = self.child.try_wait()? {
                bail!("{name} ended with {status}: {}", self.complaint());
            }
            if time.moment().since(begun) > START_LIMIT {
                bail!("{name} was not ready in time: {}", self.complaint());
            }
            time.sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    /// Waits until a port takes connections.
    pub(super) async fn listens(
        &mut self,
        time: &TimeSource,
        address: SocketAddr,
    ) -> anyhow::Result<()> {
        let connects = || async move { tokio::net::TcpStream::connect(address).await.is_ok() };
        self.ready(time, connects).await
    }

    /// Returns the end of its output.
    fn complaint(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let end = text.get(text.len().saturating_sub(1500)..);
        String::from_utf8_lossy(end.unwrap_or_default()).into_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let id = Pid::from_child(&self.child);
        let told = if self.stop == Signal::KILL {
            kill_process_group(id, Signal::KILL)
        } else {
            kill_process(id, self.stop)
        };
        // It may have ended already; then there is no work left.
        told.unwrap_or_default();
        drop(self.child.wait());
    }
}

/// Returns the path of a program; otherwise says what to install.
pub(super) fn find(program: &str, advice: &str) -> anyhow::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(PLACES.iter().map(PathBuf::from));
    let mut found = places.map(|place| place.join(program));
    found
        .find(|file| file.is_file())
        .with_context(|| format!("there is no {program}: {advice}"))
}

/// Returns an address of the loopback that is free.
pub(super) fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// The costs of processes so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Usage {
    pub(super) cpu_seconds: f64,
    /// Resident memory; a page that several processes share counts once.
    pub(super) memory_bytes: u64,
}

/// Sums over processes and the children that they have.
pub(super) fn usage(ids: &[u32]) -> anyhow::Result<Usage> {
    let mut sum = Usage::default();
    for id in ids {
        // The parent knows the time of children that have ended.
        let stat = Stat::read(*id)?;
        sum.cpu_seconds += stat.seconds + stat.seconds_of_ended_children;
        sum.memory_bytes += memory(*id)?;
        for child in children(*id) {
            // It may have ended meanwhile.
            sum.cpu_seconds += Stat::read(child).map_or(0.0, |stat| stat.seconds);
            sum.memory_bytes += memory(child).unwrap_or(0);
        }
    }
    Ok(sum)
}

struct Stat {
    parent: u32,
    seconds: f64,
    seconds_of_ended_children: f64,
}

impl Stat {
    fn read(id: u32) -> anyhow::Result<Self> {
        let text = fs::read_to_string(format!("/proc/{id}/stat"))?;
        // The name may have any characters; the numbered fields come behind it, from the third on.
        let fields: Vec<&str> = text
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .collect();
        let field = |number: usize| fields.get(number - 3).context("a field of stat");
        let seconds = |number| -> anyhow::Result<f64> {
            Ok(field(number)?.parse::<f64>()? / TICKS_PER_SECOND)
        };
        Ok(Self {
            parent: field(4)?.parse()?,
            seconds: seconds(14)? + seconds(15)?,
            seconds_of_ended_children: seconds(16)? + seconds(17)?,
        })
    }
}

fn memory(id: u32) -> anyhow::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{id}/smaps_rollup"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    Ok(kib.context("a field of smaps")?.parse::<u64>()? * 1024)
}

fn children(of: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let ids = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter(|id| Stat::read(*id).is_ok_and(|stat| stat.parent == of))
        .collect()
}
