//! The NATS peer schedules messages in a stream on disk for the comparison, with one subject each.
//!
//! When a message is due, the server publishes it to the subject from which workers pull. The text protocol
//! is implemented as far as it is needed.

use std::{
    collections::VecDeque,
    net::SocketAddr,
    path::PathBuf,
    process::Command,
    sync::atomic::{AtomicU64, Ordering},
};

use anyhow::{Context as _, bail, ensure};
use async_trait::async_trait;
use memchr::memmem;

use super::{
    Consumer, Manner, Peer, Place, Producer, Settled, Task,
    adapter::fetched,
    process::{Process, free_address},
    wire::{Wire, line},
};
use crate::{
    embedded::check::Arrival,
    payload,
    report::setting::{Kind, MILLISECOND, Setting},
};

use tickwheel::{model::time::rfc3339, time_source::TimeSource};

const SETTING: Setting = Setting {
    kind: Kind::Nats,
    name: "nats, sync always",
    variant: "always",
    delivery: "at least once",
    synced: "yes",
    resolution: "1 ms",
    batches: "100 pipelined",
    step: MILLISECOND,
    grid: MILLISECOND,
};
pub(super) const SETTINGS: [Setting; 2] = [
    SETTING,
    Setting {
        name: "nats, sync 2m",
        variant: "2m",
        synced: "no, every 2 min",
        ..SETTING
    },
];

/// Connections that pull.
const CONSUMERS: usize = 8;
/// Messages of a pull.
const PULL: usize = 256;
/// Acknowledgements that are sent at once; the last of them asks whether it was accepted.
const ACKNOWLEDGED_MAX: usize = 100;

/// The stream; it removes acknowledged messages.
const STREAM: &str = r#"{"name":"TIMERS","subjects":["schedule.*","due"],"retention":"workqueue","storage":"file","num_replicas":1,"max_consumers":-1,"max_msgs":-1,"max_bytes":-1,"max_age":0,"allow_msg_schedules":true,"allow_direct":true}"#;
const WORKERS: &str = r#"{"stream_name":"TIMERS","config":{"durable_name":"workers","filter_subject":"due","ack_policy":"explicit","deliver_policy":"all","replay_policy":"instant","ack_wait":600000000000,"max_deliver":-1,"max_ack_pending":1000000,"max_waiting":512}}"#;

struct Nats {
    name: &'static str,
    process: Process,
    address: SocketAddr,
    place: Place,
}

pub(super) async fn start(setting: &Setting, place: Place) -> anyhow::Result<impl Peer + use<>> {
    let program = fetched(&place, "nats")?.join("nats-server");
    let address = free_address()?;
    let data = place.directory.join("data");
    std::fs::create_dir(&data)?;
    let file = place.directory.join("nats.conf");
    let (store, sync) = (data.display(), setting.variant);
    let settings = format!(
        "listen: \"{address}\"\njetstream {{ store_dir: \"{store}\", sync_interval: \"{sync}\", \
         max_mem: 1G, max_file: 20G }}\n"
    );
    std::fs::write(&file, settings)?;
    let mut command = Command::new(program);
    command.arg("-c").arg(&file).env("GOMEMLIMIT", "4GiB");
    let mut process = Process::start("nats-server", &mut command, &place.directory)?;
    process.listens(&place.time, address).await?;
    let mut client = Client::open(setting.name, address, &place.time).await?;
    client.ask("$JS.API.STREAM.CREATE.TIMERS", STREAM).await?;
    client
        .ask("$JS.API.CONSUMER.DURABLE.CREATE.TIMERS.workers", WORKERS)
        .await?;
    Ok(Nats {
        name: setting.name,
        process,
        address,
        place,
    })
}

impl Nats {
    async fn connect(&self) -> anyhow::Result<Client> {
        Client::open(self.name, self.address, &self.place.time).await
    }
}

#[async_trait]
impl Peer for Nats {
    async fn producer(&mut self) -> anyhow::Result<Box<dyn Producer>> {
        Ok(Box::new(self.connect().await?))
    }

    async fn consumers(&mut self) -> anyhow::Result<Vec<Box<dyn Consumer>>> {
        let mut consumers: Vec<Box<dyn Consumer>> = Vec::new();
        for _ in 0..CONSUMERS {
            consumers.push(Box::new(Puller {
                client: self.connect().await?,
                left: 0,
                acknowledging: Vec::new(),
                asked: VecDeque::new(),
                settled: Settled::default(),
                time: self.place.time.clone(),
            }));
        }
        Ok(consumers)
    }

    async fn pending(&mut self) -> anyhow::Result<Option<u64>> {
        let mut client = self.connect().await?;
        let answer = client.ask("$JS.API.STREAM.INFO.TIMERS", "").await?;
        let answer: serde_json::Value = serde_json::from_slice(&answer)?;
        let count = answer.pointer("/state/messages");
        Ok(count.and_then(serde_json::Value::as_u64))
    }

    fn servers(&self) -> Vec<u32> {
        vec![self.process.id()]
    }

    fn directory(&self) -> PathBuf {
        self.place.directory.join("data")
    }
}

/// A message of the server that a client waits for.
#[derive(Debug, PartialEq, Eq)]
struct Message {
    subject: String,
    reply: String,
    /// Empty, except for the status when a pull has ended.
    headers: Vec<u8>,
    body: Vec<u8>,
}

/// A connection with an inbox of its own.
struct Client {
    wire: Wire,
    inbox: String,
    request: String,
}

impl Client {
    async fn open(
        peer: &'static str,
        address: SocketAddr,
        time: &TimeSource,
    ) -> anyhow::Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let inbox = format!("_INBOX.{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let mut wire = Wire::open(peer, address, time).await?;
        let hello = r#"CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true,"lang":"bench","version":"1"}"#;
        wire.send(format!("{hello}\r\nSUB {inbox}.* 1\r\nPING\r\n").as_bytes())
            .await?;
        // All lines before the answer to the ping are the greeting.
        while !wire.next("PONG", is_pong).await? {}
        Ok(Self {
            wire,
            inbox,
            request: String::new(),
        })
    }

    /// Returns the next message; answers questions of the server meanwhile.
    async fn next(&mut self, what: &str) -> anyhow::Result<Message> {
        loop {
            if let Some(message) = self.wire.next(what, message).await? {
                return Ok(message);
            }
            self.wire.send(b"PONG\r\n").await?;
        }
    }

    /// Asks the server itself; an error answer becomes an error.
    async fn ask(&mut self, subject: &str, text: &str) -> anyhow::Result<Vec<u8>> {
        let (inbox, length) = (&self.inbox, text.len());
        let request = format!("PUB {subject} {inbox}.api {length}\r\n{text}\r\n");
        self.wire.send(request.as_bytes()).await?;
        let answer = self.next(subject).await?;
        stored(&answer)?;
        Ok(answer.body)
    }

    fn push(&mut self, task: &Task) {
        let (id, due, inbox) = (task.id, rfc3339(task.due), &self.inbox);
        let headers =
            format!("NATS/1.0\r\nNats-Schedule: @at {due}\r\nNats-Schedule-Target: due\r\n\r\n");
        let (head, all) = (headers.len(), headers.len() + payload::BYTES);
        let body = payload::of(id);
        self.request.push_str(&format!(
            "HPUB schedule.{id} {inbox}.put {head} {all}\r\n{headers}{body}\r\n"
        ));
    }
}

#[async_trait]
impl Producer for Client {
    async fn register(&mut self, tasks: &mut [Task], manner: Manner) -> anyhow::Result<()> {
        let at_once = manner.at_once(tasks.len());
        for part in tasks.chunks(at_once) {
            self.request.clear();
            for task in part {
                self.push(task);
            }
            self.wire.send(self.request.as_bytes()).await?;
            for _ in part {
                stored(&self.next("acknowledged publish").await?)?;
            }
        }
        Ok(())
    }
}

/// Pulls, and acknowledges messages together.
struct Puller {
    client: Client,
    /// Messages that the pull under way may still bring.
    left: usize,
    /// Subjects of acknowledgements that are still to be sent.
    acknowledging: Vec<String>,
    /// How many acknowledgements each unanswered question covers.
    asked: VecDeque<u64>,
    settled: Settled,
    time: TimeSource,
}

impl Puller {
    async fn pull(&mut self) -> anyhow::Result<()> {
        let text = format!(r#"{{"batch":{PULL},"expires":1000000000}}"#);
        let (inbox, length) = (&self.client.inbox, text.len());
        let request = format!(
            "PUB $JS.API.CONSUMER.MSG.NEXT.TIMERS.workers {inbox}.pull {length}\r\n{text}\r\n"
        );
        self.left = PULL;
        self.client.wire.send(request.as_bytes()).await
    }

    async fn acknowledge(&mut self) -> anyhow::Result<()> {
        let Some(last) = self.acknowledging.pop() else {
            return Ok(());
        };
        let count = self.acknowledging.len() as u64 + 1;
        let mut request = String::new();
        for subject in self.acknowledging.drain(..) {
            request.push_str(&format!("PUB {subject} 4\r\n+ACK\r\n"));
        }
        let inbox = &self.client.inbox;
        request.push_str(&format!("PUB {last} {inbox}.ack 4\r\n+ACK\r\n"));
        self.asked.push_back(count);
        self.client.wire.send(request.as_bytes()).await
    }

    fn answered(&mut self) -> anyhow::Result<()> {
        let count = self.asked.pop_front().context("an answer to nothing")?;
        self.settled.add(Settled {
            count,
            last_us: self.time.stamp(),
        });
        Ok(())
    }
}

#[async_trait]
impl Consumer for Puller {
    async fn take(&mut self, arrivals: &mut Vec<Arrival>) -> anyhow::Result<()> {
        if self.left == 0 {
            self.pull().await?;
        }
        loop {
            let message = self.client.next("end of a pull").await?;
            let seen_us = self.time.stamp();
            if message.subject.ends_with(".ack") {
                self.answered()?;
                continue;
            }
            if message.body.is_empty() {
                // The time of the pull is over, which the server says by a status number.
                let status = String::from_utf8_lossy(&message.headers).into_owned();
                ensure!(
                    status.starts_with("NATS/1.0 408"),
                    "a pull ended with {status}"
                );
                self.left = 0;
                return self.acknowledge().await;
            }
            let id = u128::from(payload::number(&message.body)?);
            arrivals.push(Arrival { id, seen_us });
            self.acknowledging.push(message.reply);
            self.left -= 1;
            let many = self.acknowledging.len() >= ACKNOWLEDGED_MAX;
            if self.left == 0 || many || !self.client.wire.has_more() {
                return self.acknowledge().await;
            }
        }
    }

    async fn end(mut self: Box<Self>) -> anyhow::Result<Settled> {
        self.acknowledge().await?;
        while !self.asked.is_empty() {
            let answer = self.client.next("answer to +ACK").await?;
            if answer.subject.ends_with(".ack") {
                self.answered()?;
            }
        }
        Ok(self.settled)
    }
}

/// Makes sure that an answer of the server is not an error.
fn stored(answer: &Message) -> anyhow::Result<()> {
    if memmem::find(&answer.body, br#""error":"#).is_some() || answer.body.is_empty() {
        bail!(
            "the server says {}{}",
            String::from_utf8_lossy(&answer.headers),
            String::from_utf8_lossy(&answer.body)
        );
    }
    Ok(())
}

fn is_pong(bytes: &[u8]) -> anyhow::Result<Option<(bool, usize)>> {
    let Some((text, used)) = line(bytes)? else {
        return Ok(None);
    };
    ensure!(!text.starts_with("-ERR"), "the server says {text}");
    Ok(Some((text == "PONG", used)))
}

/// Reads a message, or none for a ping.
fn message(bytes: &[u8]) -> anyhow::Result<Option<(Option<Message>, usize)>> {
    let Some((text, used)) = line(bytes)? else {
        return Ok(None);
    };
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let (subject, reply, headers, all) = match words.as_slice() {
        ["PING"] => return Ok(Some((None, used))),
        ["MSG", subject, _, all] => (*subject, "", "0", *all),
        ["MSG", subject, _, reply, all] => (*subject, *reply, "0", *all),
        ["HMSG", subject, _, headers, all] => (*subject, "", *headers, *all),
        ["HMSG", subject, _, reply, headers, all] => (*subject, *reply, *headers, *all),
        _ => bail!("the server says {text}"),
    };
    let (headers, all): (usize, usize) = (headers.parse()?, all.parse()?);
    if bytes.len() < used + all + 2 {
        return Ok(None);
    }
    let whole = bytes.get(used..used + all).unwrap_or_default();
    let (headers, body) = whole.split_at_checked(headers).context("cut headers")?;
    let message = Message {
        subject: subject.to_owned(),
        reply: reply.to_owned(),
        headers: headers.to_vec(),
        body: body.to_vec(),
    };
    Ok(Some((Some(message), used + all + 2)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_when_it_is_whole() {
        let text = b"HMSG due 1 $JS.ACK.x 5 6\r\nh\r\n\r\nb\r\nPING\r\n";
        let whole = text.len() - 6;
        for end in 0..whole {
            assert!(message(&text[..end]).unwrap().is_none(), "{end}");
        }
        let (found, used) = message(text).unwrap().unwrap();
        let found = found.unwrap();
        assert_eq!((found.reply.as_str(), used), ("$JS.ACK.x", whole));
        assert_eq!(found.headers.len() + found.body.len(), 6);
        assert!(message(&text[whole..]).unwrap().unwrap().0.is_none());
        assert!(message(b"-ERR 'no'\r\n").is_err());
    }
}
