//! The SDK for callbacks: a worker consumes the queue, claims tasks, runs callbacks, keeps them alive and reports.
//!
//! ```no_run
//! use serde::Deserialize;
//! use tickwheel::worker::{Context, Job, Outcome, Source, Worker};
//!
//! #[derive(Deserialize)]
//! struct Reset {
//!     user: u32,
//! }
//!
//! # async fn example(shutdown: impl std::future::Future<Output = ()>) -> Result<(), tickwheel::worker::Error> {
//! Worker::builder()
//!     .callback("send_email", |task: Job<Reset>, ctx: Context| async move {
//!         println!("to {} (attempt {})", task.payload.user, ctx.attempt());
//!         Ok(Outcome::Done)
//!     })
//!     .source(Source::kafka("127.0.0.1:9092"))
//!     .concurrency(64)
//!     .build()?
//!     .run_until(shutdown)
//!     .await
//! # }
//! ```
//!
//! # What it promises
//! - A callback runs **at least once**: after a crash or a lost lease it runs again, with a higher `attempt`. Hand
//!   (`id`, `attempt`) to whatever it changes.
//! - It never runs early, and never at two places at once as long as clocks run at about the same speed: the future is
//!   dropped a margin before the lease ends (a callback that blocks its thread cannot be dropped; the fence holds still).
//! - Heartbeats come from a thread of their own, evenly over time, whatever the callbacks do.
//! - While the server is away, nothing is lost and nothing ends: calls are repeated, messages wait, offsets stay.
//! - When the worker stops, it finishes what runs, and gives back the rest without counting an attempt.
//!
//! # Parts
//! A runner per callback ([`Source`] -> claims -> slots, or polls -> slots), one heart for all, one settler for all.

mod attempt;
mod builder;
#[cfg(feature = "queue")]
mod claims;
mod context;
mod dependency;
mod handler;
mod heartbeater;
#[cfg(feature = "queue")]
mod intake;
mod job;
mod outcome;
mod poller;
mod previous;
#[cfg(feature = "queue")]
mod queued;
mod retry;
mod run;
#[cfg(feature = "queue")]
mod runner;
mod schedule;
mod server;
mod settler;
mod source;

use std::{collections::BTreeMap, pin::pin, sync::Arc, time::Duration};

use tokio::{
    sync::{Semaphore, mpsc},
    task::JoinSet,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

#[doc(hidden)]
pub use self::server::Server;
#[cfg(feature = "kafka")]
pub use self::source::{KafkaSettings, SaslMechanism};
pub use self::{
    builder::Builder,
    context::Context,
    dependency::Dependency,
    job::{Job, Payload, Raw},
    outcome::{Failure, Outcome},
    previous::Previous,
    source::Source,
};
use self::{
    handler::Handler,
    heartbeater::{Heartbeater, Place},
    poller::PollRunner,
    run::Tools,
    settler::Settler,
};
pub use crate::api::{TaskId, task_request::Priority};
use crate::{client, limits::BATCH_ITEMS_MAX, time_source::TimeSource};

/// How long the last reports may take when the worker stops.
const LAST_REPORTS_LIMIT: Duration = Duration::from_secs(10);

/// How long it may take to drop callbacks that did not finish; only one that blocks its thread needs longer.
const DROP_LIMIT: Duration = Duration::from_secs(2);

/// Why a worker cannot be built, or cannot go on. An outage of the service is no such reason.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It was put together wrongly: fix the program.
    #[error("{0}")]
    Setup(String),
    /// The service refuses the worker: fix its callbacks' names, or the address.
    #[error("the service refuses the worker: {0}")]
    Client(#[from] client::Error),
    /// The queue cannot be used.
    #[cfg(feature = "queue")]
    #[error("cannot consume callback {callback:?}: {source}")]
    Queue {
        /// The callback.
        callback: String,
        /// The error of the queue.
        source: Failure,
    },
    /// The heartbeats' thread could not be started.
    #[error("cannot start the heartbeats: {0}")]
    Heartbeats(#[source] std::io::Error),
}

/// A worker, ready to run.
pub struct Worker {
    name: String,
    version: Option<String>,
    callbacks: BTreeMap<String, Handler>,
    source: Source,
    server: Arc<dyn Server>,
    /// Where tasks are polled; none when they come through a queue.
    poll_server: Option<Arc<dyn Server>>,
    heart_server: Arc<dyn Server>,
    place: Place,
    concurrency: usize,
    drain_limit: Duration,
    attempt_timeout: Option<Duration>,
    time: TimeSource,
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker")
            .field("name", &self.name)
            .field("callbacks", &self.callbacks.keys())
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

/// The parts of a running worker.
struct Parts {
    stop: CancellationToken,
    drained: CancellationToken,
    running: TaskTracker,
    runners: JoinSet<()>,
    settler: tokio::task::JoinHandle<()>,
    heart: Arc<Heartbeater>,
}

impl Worker {
    /// Begins to put a worker together.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Runs until `shutdown` is ready, then ends gracefully: stops receiving, leaves the group, lets callbacks finish up
    /// to the drain limit, reports, and gives back the rest.
    ///
    /// # Errors
    /// [`Error`] when it cannot begin. Once it runs, outages are waited out.
    pub async fn run_until(
        #[cfg_attr(
            not(feature = "queue"),
            expect(unused_mut, reason = "consumers need it")
        )]
        mut self,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), Error> {
        #[cfg_attr(
            not(feature = "queue"),
            expect(unused_mut, reason = "consumers need it")
        )]
        let mut shutdown = pin!(shutdown);
        let time = self.time.clone();
        let names: Vec<String> = self.callbacks.keys().cloned().collect();
        #[cfg(feature = "queue")]
        let consumers = tokio::select! {
            biased;
            () = &mut shutdown => return Ok(()),
            consumers = self.consumers() => consumers?,
        };
        tracing::info!(worker = self.name, callbacks = ?names, "worker started");
        let mut parts = self.start(
            #[cfg(feature = "queue")]
            consumers,
        )?;
        let ended = tokio::select! {
            () = shutdown => None,
            ended = parts.runners.join_next() => ended,
        };
        tracing::info!(worker = self.name, "worker stops");
        parts.end(&time, self.drain_limit).await;
        // Runners end only when told to: one that ended by itself has panicked, and the worker with it.
        if let Some(Err(error)) = ended
            && let Ok(panic) = error.try_into_panic()
        {
            std::panic::resume_unwind(panic);
        }
        Ok(())
    }

    fn start(
        &self,
        #[cfg(feature = "queue")] mut consumers: queued::Consumers,
    ) -> Result<Parts, Error> {
        let (name, time) = (self.name.clone(), self.time.clone());
        let heart_server = Arc::clone(&self.heart_server);
        let heart =
            Heartbeater::start(self.place, name, heart_server, time).map_err(Error::Heartbeats)?;
        let heart = Arc::new(heart);
        let (reports, receiver) = mpsc::channel(BATCH_ITEMS_MAX);
        let settler = Settler {
            reports: receiver,
            worker: self.name.clone(),
            server: Arc::clone(&self.server),
            heart: Arc::clone(&heart),
            time: self.time.clone(),
        };
        let mut parts = Parts {
            stop: CancellationToken::new(),
            drained: CancellationToken::new(),
            running: TaskTracker::new(),
            runners: JoinSet::new(),
            settler: tokio::spawn(settler.run()),
            heart,
        };
        for (callback, handler) in &self.callbacks {
            let tools = Tools {
                handler: Arc::clone(handler),
                heart: Arc::clone(&parts.heart),
                reports: reports.clone(),
                time: self.time.clone(),
                attempt_timeout: self.attempt_timeout,
                drained: parts.drained.clone(),
            };
            let callback = callback.clone();
            if let Some(server) = &self.poll_server {
                let runner = self.poll_runner(callback, Arc::clone(server), tools, &parts);
                parts.runners.spawn(runner.run());
                continue;
            }
            #[cfg(feature = "queue")]
            if let Some(consumer) = consumers.remove(&callback) {
                let runner = self.runner(callback, consumer, tools, &parts);
                parts.runners.spawn(runner.run());
            }
        }
        Ok(parts)
    }

    fn poll_runner(
        &self,
        callback: String,
        server: Arc<dyn Server>,
        tools: Tools,
        parts: &Parts,
    ) -> PollRunner {
        PollRunner {
            callback,
            worker: self.name.clone(),
            version: self.version.clone(),
            server,
            tools: Arc::new(tools),
            slots: Arc::new(Semaphore::new(self.concurrency)),
            time: self.time.clone(),
            stop: parts.stop.clone(),
            running: parts.running.clone(),
        }
    }
}

impl Parts {
    /// Ends gracefully. The consumers are closed before the callbacks have finished: their messages were handled when
    /// they were claimed, and what is unclaimed should not wait for slow callbacks.
    async fn end(mut self, time: &TimeSource, drain_limit: Duration) {
        self.stop.cancel();
        while self.runners.join_next().await.is_some() {}
        self.running.close();
        let finished = self.running.wait();
        if time.within(drain_limit, finished).await.is_none() {
            let callbacks = self.running.len();
            tracing::warn!(
                callbacks,
                "callbacks did not finish in time: giving their tasks back"
            );
            self.drained.cancel();
            let dropped = self.running.wait();
            if time.within(DROP_LIMIT, dropped).await.is_none() {
                tracing::error!("callbacks block their threads and cannot be dropped");
            }
        }
        // The senders of reports are gone by now, so the settler ends once all are answered.
        let settled = time.within(LAST_REPORTS_LIMIT, &mut self.settler).await;
        if settled.is_none() {
            tracing::warn!("could not report every outcome: the service comes back to the tasks");
            self.settler.abort();
        }
        self.heart.stop().await;
    }
}
