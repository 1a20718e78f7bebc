//! A side is one of the two programs that the gate compares: a service on a fresh directory, its connections, its
//! workers, and the account of its CPU.

use std::{path::Path, time::Duration};

use anyhow::ensure;
use futures_util::future::try_join_all;
use tickwheel::{model::time::Millis, time_source::TimeSource};

use super::{account::Account, workers::Workers};
use crate::embedded::{
    flat,
    http::Connection,
    load::{MANY, ONE},
    service::{Host as _, Service},
    wire::{self, Form},
};

/// Connections that register one task a request.
const SINGLE_CONNECTIONS: usize = 64;
/// Connections that register a batch a request.
const BATCH_CONNECTIONS: usize = 8;
/// Time between two looks whether a service has more to do.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// A service that uses less of a core between two looks is quiet: an idle one uses a two-hundredth.
const QUIET_CORE: f64 = 0.05;
/// Looks at most, a second: a merge of tables that takes longer is left to the slices after it.
const LOOKS_MAX: u32 = 100;

/// A program that runs.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) service: Service,
    pub(super) workers: Workers,
    account: Account,
    singles: Vec<Connection>,
    batches: Vec<Connection>,
}

impl Side {
    pub(super) async fn start(
        program: &Path,
        directory: &Path,
        time: &TimeSource,
    ) -> anyhow::Result<Self> {
        let (service, _) = Service::start(program, directory, time).await?;
        Ok(Self {
            workers: Workers::start(&service).await?,
            account: Account::new(service.id()),
            singles: service.connections(SINGLE_CONNECTIONS).await?,
            batches: service.connections(BATCH_CONNECTIONS).await?,
            service,
        })
    }

    /// Returns the CPU that the service has used so far.
    pub(super) fn spent(&mut self) -> anyhow::Result<Duration> {
        self.account.spent()
    }

    /// Returns the same once the service has done the work that requests leave behind.
    pub(super) async fn spent_when_quiet(&mut self) -> anyhow::Result<Duration> {
        let mut before = self.spent()?;
        for _ in 0..LOOKS_MAX {
            self.service.time.sleep(LOOK_EVERY).await;
            let spent = self.spent()?;
            if spent - before <= LOOK_EVERY.mul_f64(QUIET_CORE) {
                return Ok(spent);
            }
            before = spent;
        }
        Ok(before)
    }

    /// Returns the CPU of the service by the coarse account that is that of the whole machine, too, in seconds.
    pub(super) fn ticks(&self) -> anyhow::Result<f64> {
        Ok(self.service.usage()?.cpu_seconds)
    }

    /// Registers flat out what was written before; returns how long it took.
    pub(super) async fn register(&mut self, load: &Load) -> anyhow::Result<Duration> {
        let (path, open) = match load.batch {
            1 => (ONE, &mut self.singles),
            _ => (MANY, &mut self.batches),
        };
        let body = |index: u64| {
            let body = usize::try_from(index)
                .ok()
                .and_then(|at| load.bodies.get(at));
            (path, body.map_or("", String::as_str))
        };
        let mut answered = 0;
        let count = |_, answer: &[u8]| {
            answered += wire::ids(answer).count() as u64;
            Ok(())
        };
        let requests = load.bodies.len() as u64;
        let sent = flat::post_over(&self.service.time, open, requests, body, count).await?;
        load.ensure_registered(answered)?;
        Ok(sent.took)
    }

    /// Registers at even intervals what was written before, in batches.
    pub(super) async fn register_evenly(
        &mut self,
        load: &Load,
        interval: Duration,
    ) -> anyhow::Result<()> {
        let (time, connections) = (&self.service.time, self.batches.len());
        let begin = time.moment();
        let callers = self.batches.iter_mut().enumerate();
        let callers = callers.map(async |(first, connection)| {
            let mut answered = 0;
            let own = (0_u32..).zip(&load.bodies).skip(first).step_by(connections);
            for (index, body) in own {
                time.sleep_until(begin.after(interval * index)).await;
                let answer = connection.post(MANY, body.as_bytes()).await?;
                answered += wire::ids(answer).count() as u64;
            }
            anyhow::Ok(answered)
        });
        load.ensure_registered(try_join_all(callers).await?.into_iter().sum())
    }
}

/// Requests that register tasks, written beforehand, so that the generator is light while it is measured.
#[derive(Debug)]
pub(super) struct Load {
    /// Tasks of a request; 1 means the call for a single task.
    batch: u64,
    bodies: Vec<String>,
}

impl Load {
    pub(super) fn new(batch: u64, requests: u64, due: impl Fn(u64) -> Millis) -> Self {
        let body = |request: u64| match batch {
            1 => wire::task(due(request)),
            _ => {
                let first = request * batch;
                wire::batch_of(&Form::USUAL, first..first + batch, &due)
            }
        };
        Self {
            batch,
            bodies: (0..requests).map(body).collect(),
        }
    }

    pub(super) fn tasks(&self) -> u64 {
        self.batch * self.bodies.len() as u64
    }

    fn ensure_registered(&self, answered: u64) -> anyhow::Result<()> {
        let tasks = self.tasks();
        ensure!(
            answered == tasks,
            "{answered} of {tasks} tasks were registered"
        );
        Ok(())
    }
}
