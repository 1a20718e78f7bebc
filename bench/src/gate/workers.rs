//! The workers take and settle the tasks of one service for the gate, and tell when so many are settled.
//!
//! They stay connected. While nothing is due they wait in a poll, which costs the service nothing.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, bail, ensure};
use tickwheel::time_source::TimeSource;
use tokio::{sync::watch, task::JoinSet};

use crate::embedded::{
    http::Connection,
    service::Service,
    wire::{self, Attempt},
};

/// Connections, each with a worker that polls and then settles.
const WORKERS: usize = 8;
/// Tasks of a poll: a slice takes several, as workers that keep up do.
const TASKS_MAX: usize = 500;
/// How long a poll waits: longer than most scenarios take.
const POLL_WAIT: &str = "60s";
/// How long a task that does not come is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// The work that is done.
#[derive(Debug, Clone, Copy, Default)]
struct Done {
    settled: u64,
    /// When the last settle was acknowledged, in microseconds of the wall clock.
    last_us: i64,
}

/// The workers of one service; they stop when it is dropped.
#[derive(Debug)]
pub(super) struct Workers {
    tasks: JoinSet<anyhow::Result<()>>,
    done: watch::Receiver<Done>,
    time: TimeSource,
    expected: u64,
}

impl Workers {
    pub(super) async fn start(service: &Service) -> anyhow::Result<Self> {
        let (sender, done) = watch::channel(Done::default());
        let (sender, mut tasks) = (Arc::new(sender), JoinSet::new());
        let connections = service.connections(WORKERS).await?;
        for (number, connection) in connections.into_iter().enumerate() {
            let (time, sender) = (service.time.clone(), Arc::clone(&sender));
            tasks.spawn(work(number, connection, time, sender));
        }
        Ok(Self {
            tasks,
            done,
            time: service.time.clone(),
            expected: 0,
        })
    }

    /// Waits until so many further tasks are settled. Returns when the last one was, in microseconds of the wall clock.
    ///
    /// # Errors
    ///
    /// When a task does not come, or is not settled.
    pub(super) async fn settled(&mut self, tasks: u64) -> anyhow::Result<i64> {
        self.expected += tasks;
        let expected = self.expected;
        let waited = async {
            tokio::select! {
                done = self.done.wait_for(|done| done.settled >= expected) => Ok(done?.last_us),
                ended = self.tasks.join_next() => {
                    ended.context("no workers")???;
                    bail!("a worker has ended")
                }
            }
        };
        let Some(last_us) = self.time.within(PATIENCE, waited).await else {
            let settled = self.done.borrow().settled;
            bail!("{settled} of {expected} tasks came, and no other within {PATIENCE:?}");
        };
        last_us
    }

    /// Makes sure that no task came twice, once all that were registered have come.
    pub(super) fn ensure_once(&self) -> anyhow::Result<()> {
        let (settled, expected) = (self.done.borrow().settled, self.expected);
        ensure!(
            settled == expected,
            "{settled} tasks came, {expected} were registered"
        );
        Ok(())
    }
}

async fn work(
    number: usize,
    mut connection: Connection,
    time: TimeSource,
    done: Arc<watch::Sender<Done>>,
) -> anyhow::Result<()> {
    let (poll, mut body) = (wire::poll(number, TASKS_MAX, POLL_WAIT), String::new());
    loop {
        let answer = connection.post("/v1/worker/poll", poll.as_bytes()).await?;
        let attempts: Vec<Attempt> = wire::attempts(answer).collect::<anyhow::Result<_>>()?;
        if attempts.is_empty() {
            continue;
        }
        wire::settle(&mut body, number, &attempts);
        let answer = connection
            .post("/v1/worker/settle", body.as_bytes())
            .await?;
        wire::all_settled(answer, attempts.len())?;
        let last_us = time.stamp();
        done.send_modify(|done| {
            done.settled += attempts.len() as u64;
            done.last_us = last_us;
        });
    }
}
