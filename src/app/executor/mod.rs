//! The executor runs the service's own tasks for a node with the role `executor`.
//!
//! It is a worker of the SDK that asks the service of its own node, without a network: tasks are claimed, kept alive by
//! heartbeats and settled as those of any worker. Executors of several nodes share the work, and the tasks of a node that
//! dies are run by another one once their leases have ended. When its node stops, the executor takes no more tasks, waits
//! for those that run, and gives back the rest.

mod actions;
mod dead_letter_topic;
mod done;
mod http;
pub mod mail;
mod notify;
mod own_service;

use std::{sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use self::{actions::Doer, http::Delivery, mail::Mailer, own_service::OwnService};
use crate::{
    flow::stages::service::Service,
    limits,
    model::{
        action_task::CALLBACK as ACTION, address::Allowed,
        dead_letter_record::CALLBACK as DEAD_LETTER_TOPIC, http_call::QUEUE as HTTP,
        notice::CALLBACK as NOTIFY,
    },
    time_source::TimeSource,
    worker::{Context, Error, Job, Raw, Source, Worker},
};

/// How long an attempt may take: a delivery has time limits of its own, which are shorter.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(90);

/// An executor.
#[derive(Debug, Clone)]
pub struct Executor {
    /// The service of its node.
    pub service: Arc<Service>,
    /// The name of its node, for people.
    pub node: String,
    /// Its clocks.
    pub time: TimeSource,
    /// How long tasks that run may take when it stops; then they are given back.
    pub drain_limit: Duration,
    /// The addresses that it may deliver to, beside those of the public internet.
    pub allowed: Allowed,
    /// The sender of e-mails, if there is one.
    pub mail: Option<Arc<dyn Mailer>>,
}

impl Executor {
    /// Runs tasks until `stop`, and returns once it has let go of all. One that fails is started again.
    pub async fn run(self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let running = match self.worker() {
                Ok(worker) => tokio::spawn(worker.run_until(stop.clone().cancelled_owned())),
                Err(error) => {
                    tracing::error!(%error, "the executor cannot start");
                    return;
                }
            };
            match running.await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::error!(%error, "the executor failed; it is started again")
                }
                Err(error) => tracing::error!(%error, "the executor failed; it is started again"),
            }
            if !stop.is_cancelled() {
                self.time.sleep(limits::STEP_PAUSE).await;
            }
        }
    }

    fn worker(&self) -> Result<Worker, Error> {
        let own = Arc::new(OwnService::new(Arc::clone(&self.service)));
        let (service, time) = (Arc::clone(&self.service), self.time.clone());
        let delivery = Delivery::new(service, time, self.allowed.clone());
        let delivery = delivery.map_err(|error| Error::Setup(error.to_string()))?;
        let doer = Doer {
            service: Arc::clone(&self.service),
            delivery: delivery.clone(),
            mail: self.mail.clone(),
            time: self.time.clone(),
        };
        let action = move |job: Job<Raw>, _: Context| {
            let doer = doer.clone();
            async move { doer.run(&job).await }
        };
        let specs = Arc::clone(&own);
        let told = delivery.clone();
        let http = move |job: Job<Raw>, _: Context| {
            let (delivery, own) = (delivery.clone(), Arc::clone(&specs));
            async move {
                let spec = own.take(job.id, job.attempt);
                let delivered = delivery.deliver(&job, spec.as_deref()).await?;
                if let Some(answered) = delivered.answered {
                    own.note(job.id, job.attempt, answered);
                }
                Ok(delivered.outcome)
            }
        };
        let (service, time) = (Arc::clone(&self.service), self.time.clone());
        let notify = move |job: Job<Raw>, _: Context| {
            let (service, delivery, time) = (Arc::clone(&service), told.clone(), time.clone());
            async move { notify::deliver(&service, &delivery, &time, &job).await }
        };
        let (service, time) = (Arc::clone(&self.service), self.time.clone());
        let letter = move |job: Job<Raw>, _: Context| {
            let (service, time) = (Arc::clone(&service), time.clone());
            async move { dead_letter_topic::publish(&service, &time, &job).await }
        };
        let address = "this node";
        Worker::builder()
            .callback(NOTIFY, notify)
            .callback(DEAD_LETTER_TOPIC, letter)
            .callback(HTTP, http)
            .callback(ACTION, action)
            .source(Source::poll(address))
            .calls(own)
            .name(format!("executor of {}", self.node))
            .concurrency(limits::EXECUTOR_TASKS_MAX)
            .attempt_timeout(Some(ATTEMPT_TIMEOUT))
            .drain_limit(self.drain_limit)
            .time(self.time.clone())
            .build()
    }
}
