//! The beanstalkd peer delays jobs for the comparison by whole seconds from the moment when the server reads
//! them.
//!
//! The server keeps the jobs in memory and in a log on disk.

use std::{net::SocketAddr, path::PathBuf, process::Command, time::Duration};

use anyhow::{bail, ensure};
use async_trait::async_trait;
use tickwheel::{model::time::Millis, time_source::TimeSource};

use super::{
    Consumer, Manner, Peer, Place, Producer, Settled, Task,
    process::{Process, find, free_address},
    wire::{Wire, line},
};
use crate::{
    embedded::check::Arrival,
    payload,
    report::setting::{Kind, MILLISECOND, Setting},
};

const SETTING: Setting = Setting {
    kind: Kind::Beanstalkd,
    name: "beanstalkd -f 0",
    variant: "0",
    delivery: "at least once",
    synced: "yes",
    resolution: "1 s after the put",
    batches: "100 pipelined",
    step: Duration::from_secs(1),
    // The seconds of the server begin with the put, not with those of the clock.
    grid: MILLISECOND,
};
pub(super) const SETTINGS: [Setting; 2] = [
    SETTING,
    Setting {
        name: "beanstalkd -f 50",
        variant: "50",
        synced: "no, every 50 ms",
        ..SETTING
    },
];

/// Connections that reserve and delete.
const CONSUMERS: usize = 32;
/// Seconds until a job that was reserved and not deleted comes again: longer than any measurement.
const TIME_TO_RUN: u64 = 600;

struct Beanstalkd {
    name: &'static str,
    process: Process,
    address: SocketAddr,
    place: Place,
}

impl Beanstalkd {
    async fn connect(&self) -> anyhow::Result<Wire> {
        Wire::open(self.name, self.address, &self.place.time).await
    }
}

pub(super) async fn start(setting: &Setting, place: Place) -> anyhow::Result<impl Peer + use<>> {
    let program = find("beanstalkd", "apt-get install beanstalkd")?;
    let address = free_address()?;
    let data = place.directory.join("data");
    std::fs::create_dir(&data)?;
    let mut command = Command::new(program);
    command
        .args(["-l", &address.ip().to_string()])
        .args(["-p", &address.port().to_string()])
        .args(["-f", setting.variant])
        .arg("-b")
        .arg(&data);
    let mut process = Process::start("beanstalkd", &mut command, &place.directory)?;
    process.listens(&place.time, address).await?;
    Ok(Beanstalkd {
        name: setting.name,
        process,
        address,
        place,
    })
}

#[async_trait]
impl Peer for Beanstalkd {
    async fn producer(&mut self) -> anyhow::Result<Box<dyn Producer>> {
        Ok(Box::new(Putter {
            wire: self.connect().await?,
            request: String::new(),
            time: self.place.time.clone(),
        }))
    }

    async fn consumers(&mut self) -> anyhow::Result<Vec<Box<dyn Consumer>>> {
        let mut consumers: Vec<Box<dyn Consumer>> = Vec::new();
        for _ in 0..CONSUMERS {
            let mut wire = self.connect().await?;
            wire.send(RESERVE.as_bytes()).await?;
            consumers.push(Box::new(Reserver {
                wire,
                settled: Settled::default(),
                time: self.place.time.clone(),
            }));
        }
        Ok(consumers)
    }

    async fn pending(&mut self) -> anyhow::Result<Option<u64>> {
        const NAME: &str = "current-jobs-delayed: ";
        let mut wire = self.connect().await?;
        wire.send(b"stats\r\n").await?;
        let stats = wire.next("statistics", data).await?;
        let stats = String::from_utf8(stats.1)?;
        let count = stats.lines().find_map(|line| line.strip_prefix(NAME));
        Ok(count.map(str::parse::<u64>).transpose()?)
    }

    fn servers(&self) -> Vec<u32> {
        vec![self.process.id()]
    }

    fn directory(&self) -> PathBuf {
        self.place.directory.join("data")
    }
}

struct Putter {
    wire: Wire,
    request: String,
    time: TimeSource,
}

impl Putter {
    /// Adds a put. Its due time is now plus as many seconds as reach the wanted one.
    fn push(&mut self, task: &mut Task) {
        let now_us = self.time.stamp();
        let wait_us = (task.due.0 * 1000 - now_us).max(0);
        let seconds = wait_us.div_euclid(1_000_000) + i64::from(wait_us % 1_000_000 > 0);
        task.due = Millis(now_us / 1000 + seconds * 1000);
        let (bytes, body) = (payload::BYTES, payload::of(task.id));
        self.request.push_str(&format!(
            "put 0 {seconds} {TIME_TO_RUN} {bytes}\r\n{body}\r\n"
        ));
    }

    async fn send(&mut self, count: usize) -> anyhow::Result<()> {
        self.wire.send(self.request.as_bytes()).await?;
        for _ in 0..count {
            self.wire
                .next("INSERTED", |bytes| starts_with(bytes, "INSERTED"))
                .await?;
        }
        Ok(())
    }
}

#[async_trait]
impl Producer for Putter {
    async fn register(&mut self, tasks: &mut [Task], manner: Manner) -> anyhow::Result<()> {
        let at_once = manner.at_once(tasks.len());
        for part in tasks.chunks_mut(at_once) {
            self.request.clear();
            for task in &mut *part {
                self.push(task);
            }
            self.send(part.len()).await?;
        }
        Ok(())
    }
}

const RESERVE: &str = "reserve-with-timeout 1\r\n";

/// Always has a reserve under way, and asks for the next job together with the delete of the last.
struct Reserver {
    wire: Wire,
    settled: Settled,
    time: TimeSource,
}

#[async_trait]
impl Consumer for Reserver {
    async fn take(&mut self, arrivals: &mut Vec<Arrival>) -> anyhow::Result<()> {
        let (job, found) = self.wire.next("RESERVED or TIMED_OUT", data).await?;
        let seen_us = self.time.stamp();
        let Some(job) = job else {
            return self.wire.send(RESERVE.as_bytes()).await;
        };
        let id = u128::from(payload::number(&found)?);
        arrivals.push(Arrival { id, seen_us });
        let request = format!("delete {job}\r\n{RESERVE}");
        self.wire.send(request.as_bytes()).await?;
        self.wire
            .next("DELETED", |bytes| starts_with(bytes, "DELETED"))
            .await?;
        self.settled.add(Settled {
            count: 1,
            last_us: self.time.stamp(),
        });
        Ok(())
    }

    async fn end(self: Box<Self>) -> anyhow::Result<Settled> {
        Ok(self.settled)
    }
}

fn starts_with(bytes: &[u8], wanted: &str) -> anyhow::Result<Option<((), usize)>> {
    let Some((answer, used)) = line(bytes)? else {
        return Ok(None);
    };
    ensure!(answer.starts_with(wanted), "answered {answer}");
    Ok(Some(((), used)))
}

/// The id of a job, and its payload.
type Data = (Option<u64>, Vec<u8>);

/// Reads `RESERVED id bytes` or `OK bytes` and the payload. Returns no id and nothing when a reserve has
/// timed out.
fn data(bytes: &[u8]) -> anyhow::Result<Option<(Data, usize)>> {
    let Some((answer, head)) = line(bytes)? else {
        return Ok(None);
    };
    let words: Vec<&str> = answer.split(' ').collect();
    let (job, length) = match words.as_slice() {
        ["RESERVED", job, length] => (Some(job.parse()?), length.parse::<usize>()?),
        ["OK", length] => (None, length.parse()?),
        ["TIMED_OUT" | "DEADLINE_SOON"] => return Ok(Some(((None, Vec::new()), head))),
        _ => bail!("answered {answer}"),
    };
    let whole = bytes.get(head..head + length);
    Ok(whole
        .filter(|_| bytes.len() >= head + length + 2)
        .map(|body| ((job, body.to_vec()), head + length + 2)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_read_when_it_is_whole() {
        let text = b"RESERVED 7 3\r\nabc\r\nDELETED\r\n";
        for end in 0..19 {
            assert!(data(&text[..end]).unwrap().is_none(), "{end}");
        }
        let ((job, body), used) = data(text).unwrap().unwrap();
        assert_eq!(
            (job, body.as_slice(), used),
            (Some(7), b"abc".as_slice(), 19)
        );
        assert!(data(b"TIMED_OUT\r\n").unwrap().unwrap().0.0.is_none());
        assert!(data(b"NOT_FOUND\r\n").is_err());
    }
}
