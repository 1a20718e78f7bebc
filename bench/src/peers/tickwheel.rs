//! The Tickwheel peer runs this service for the comparison: the real program on the embedded store, over its
//! public HTTP API.

use std::path::PathBuf;

use ::tickwheel::{
    model::{
        ids::TaskId,
        time::{Millis, rfc3339},
    },
    time_source::TimeSource,
};
use anyhow::{Context as _, ensure};
use async_trait::async_trait;
use memchr::memmem;
use serde::Deserialize;
use tokio::{
    sync::mpsc::{Receiver, Sender, channel},
    task::JoinHandle,
};
use uuid::Uuid;

use super::{Consumer, Manner, Peer, Place, Producer, Settled, Task, wire::owed};
use crate::{
    embedded::{check::Arrival, http::Connection, service::Service, wire},
    payload,
    report::setting::{Kind, MILLISECOND, Setting},
};

const NAME: &str = "tickwheel";

pub(super) const SETTINGS: [Setting; 1] = [Setting {
    kind: Kind::Tickwheel,
    name: NAME,
    variant: "",
    delivery: "at least once",
    synced: "yes",
    resolution: "1 ms",
    batches: "100 a request",
    step: MILLISECOND,
    grid: MILLISECOND,
}];

/// Connections that poll, each with one that settles.
const CONSUMERS: usize = 8;
/// Tasks of a poll, and of a settle.
const TASKS_MAX: usize = 1000;
/// Batches between polling and settling.
const BATCHES_MAX: usize = 4;

struct Tickwheel {
    service: Service,
    place: Place,
}

pub(super) async fn start(place: Place) -> anyhow::Result<impl Peer> {
    let started = Service::start(&place.program, &place.directory, &place.time);
    let (service, _) = started.await?;
    Ok(Tickwheel { service, place })
}

#[async_trait]
impl Peer for Tickwheel {
    async fn producer(&mut self) -> anyhow::Result<Box<dyn Producer>> {
        Ok(Box::new(Registrar {
            connection: self.service.connect().await?,
            request: String::new(),
            time: self.place.time.clone(),
        }))
    }

    async fn consumers(&mut self) -> anyhow::Result<Vec<Box<dyn Consumer>>> {
        let mut consumers: Vec<Box<dyn Consumer>> = Vec::new();
        for number in 0..CONSUMERS {
            let (sender, receiver) = channel(BATCHES_MAX);
            let settles = self.service.connect().await?;
            let time = self.place.time.clone();
            consumers.push(Box::new(Worker {
                number,
                connection: self.service.connect().await?,
                queue: sender,
                settler: tokio::spawn(settle(number, settles, receiver, time.clone())),
                time,
            }));
        }
        Ok(consumers)
    }

    async fn pending(&mut self) -> anyhow::Result<Option<u64>> {
        let mut connection = self.service.connect().await?;
        let stats: Stats = serde_json::from_slice(connection.get("/v1/stats").await?)?;
        // The service does not count beyond a bound.
        let complete = stats.pending.iter().all(|part| part.complete);
        Ok(complete.then(|| stats.pending.iter().map(|part| part.tasks).sum()))
    }

    fn servers(&self) -> Vec<u32> {
        vec![self.service.id()]
    }

    fn directory(&self) -> PathBuf {
        self.place.directory.join("data")
    }
}

/// The part of the service's statistics that is read.
#[derive(Deserialize)]
struct Stats {
    pending: Vec<Pending>,
}

#[derive(Deserialize)]
struct Pending {
    tasks: u64,
    complete: bool,
}

struct Registrar {
    connection: Connection,
    request: String,
    time: TimeSource,
}

impl Registrar {
    fn push(&mut self, task: &Task) {
        let (callback, start, body) = (wire::CALLBACK, rfc3339(task.due), payload::of(task.id));
        // Longer than any measurement, because a worker that is slow under load has not died.
        self.request.push_str(&format!(
            r#"{{"callback":"{callback}","start_time":"{start}","heartbeat_timeout":"10m","payload":{body}}}"#
        ));
    }
}

#[async_trait]
impl Producer for Registrar {
    async fn register(&mut self, tasks: &mut [Task], manner: Manner) -> anyhow::Result<()> {
        self.request.clear();
        if manner == Manner::Singly {
            for task in tasks {
                self.request.clear();
                self.push(task);
                let request = self.request.as_bytes();
                let answer = self.connection.post("/v1/tasks", request);
                let answer = owed(&self.time, NAME, "answer", answer).await?;
                let id = wire::ids(answer).next().context("an id")??;
                task.due = held(id, task.due)?;
            }
            return Ok(());
        }
        self.request.push_str(r#"{"tasks":["#);
        for (index, task) in tasks.iter().enumerate() {
            if index > 0 {
                self.request.push(',');
            }
            self.push(task);
        }
        self.request.push_str("]}");
        let request = self.request.as_bytes();
        let answer = self.connection.post("/v1/tasks:batchCreate", request);
        let answer = owed(&self.time, NAME, "answer", answer).await?;
        let ids: Vec<u128> = wire::ids(answer).collect::<anyhow::Result<_>>()?;
        let (count, wanted) = (ids.len(), tasks.len());
        ensure!(count == wanted, "{count} of {wanted} were registered");
        for (id, task) in ids.into_iter().zip(tasks) {
            task.due = held(id, task.due)?;
        }
        Ok(())
    }
}

/// Returns when a task is due by its id: at the time that was asked for, or at its registration if that was
/// later.
fn held(id: u128, due: Millis) -> anyhow::Result<Millis> {
    let start = TaskId::from_uuid(Uuid::from_u128(id)).map(TaskId::first_start);
    let start = start.context("an id without a start")?;
    ensure!(start >= due, "asked for {due}, the id says {start}");
    Ok(start)
}

/// Polls, while another connection settles, so that polling never waits for a settle.
struct Worker {
    number: usize,
    connection: Connection,
    queue: Sender<Vec<wire::Attempt>>,
    settler: JoinHandle<anyhow::Result<Settled>>,
    time: TimeSource,
}

#[async_trait]
impl Consumer for Worker {
    async fn take(&mut self, arrivals: &mut Vec<Arrival>) -> anyhow::Result<()> {
        let request = wire::poll(self.number, TASKS_MAX, "1s");
        let answer = self.connection.post("/v1/worker/poll", request.as_bytes());
        let answer = owed(&self.time, NAME, "answer to a poll", answer).await?;
        // Before any of it is read: lateness ends here.
        let seen_us = self.time.stamp();
        let attempts: Vec<wire::Attempt> = wire::attempts(answer).collect::<anyhow::Result<_>>()?;
        if attempts.is_empty() {
            return Ok(());
        }
        let before = arrivals.len();
        for id in payloads(answer) {
            let id = u128::from(id?);
            arrivals.push(Arrival { id, seen_us });
        }
        ensure!(
            arrivals.len() - before == attempts.len(),
            "a task without payload"
        );
        Ok(self.queue.send(attempts).await?)
    }

    async fn end(self: Box<Self>) -> anyhow::Result<Settled> {
        drop(self.queue);
        self.settler.await?
    }
}

/// Returns the ids in the payloads of an answer.
fn payloads(answer: &[u8]) -> impl Iterator<Item = anyhow::Result<u64>> + '_ {
    const NAME: &[u8] = br#""payload":"#;
    memmem::find_iter(answer, NAME).map(|at| {
        let at = at + NAME.len();
        let text = answer.get(at..at + payload::BYTES);
        payload::number(text.context("a cut payload")?)
    })
}

/// Settles the gathered attempts in one call.
async fn settle(
    number: usize,
    mut connection: Connection,
    mut queue: Receiver<Vec<wire::Attempt>>,
    time: TimeSource,
) -> anyhow::Result<Settled> {
    let (mut request, mut settled) = (String::new(), Settled::default());
    while let Some(mut attempts) = queue.recv().await {
        while attempts.len() < TASKS_MAX
            && let Ok(more) = queue.try_recv()
        {
            attempts.extend(more);
        }
        for attempts in attempts.chunks(TASKS_MAX) {
            wire::settle(&mut request, number, attempts);
            let answer = connection.post("/v1/worker/settle", request.as_bytes());
            let answer = owed(&time, NAME, "answer to a settle", answer).await?;
            wire::all_settled(answer, attempts.len())?;
            settled.add(Settled {
                count: attempts.len() as u64,
                last_us: time.stamp(),
            });
        }
    }
    Ok(settled)
}
