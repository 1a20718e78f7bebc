//! The queued part of a worker opens consumers of a queue for its callbacks; a worker that polls does without it.

use std::{collections::BTreeMap, sync::Arc};

use tokio::sync::Semaphore;

use super::{
    Error, Parts, Worker,
    retry::{Retry, is_worth_repeating},
    run::Tools,
    runner::{Progress, Runner},
    server::Server,
};
use crate::{
    api::worker::SubscribeRequest,
    model::task::Priority,
    queue::{Consumer, message},
    time_source::TimeSource,
};

/// Consumers by callback.
pub(super) type Consumers = BTreeMap<String, Box<dyn Consumer>>;

impl Worker {
    /// Opens a consumer for each callback; none for a worker that polls. Waits as long as the service is away.
    pub(super) async fn consumers(&mut self) -> Result<Consumers, Error> {
        let mut consumers = Consumers::new();
        if self.poll_server.is_some() {
            return Ok(consumers);
        }
        let request = SubscribeRequest {
            worker: self.name.clone(),
            callbacks: self.callbacks.keys().cloned().collect(),
        };
        let groups = subscribe(self.server.as_ref(), &request, &self.time).await?;
        for callback in &request.callbacks {
            let own = message::group(callback);
            let group = groups.get(callback).unwrap_or(&own);
            // The group of a service with a topic prefix of its own says how its topics are called.
            let topics = Priority::ALL.map(|priority| message::topic_of_group(group, priority));
            let opened = self.source.open(callback, group, &topics, &self.time).await;
            let consumer = opened.map_err(|source| Error::Queue {
                callback: callback.clone(),
                source: source.into(),
            })?;
            consumers.insert(callback.clone(), consumer);
        }
        Ok(consumers)
    }

    pub(super) fn runner(
        &self,
        callback: String,
        consumer: Box<dyn Consumer>,
        tools: Tools,
        parts: &Parts,
    ) -> Runner {
        Runner {
            callback,
            worker: self.name.clone(),
            consumer,
            server: Arc::clone(&self.server),
            tools: Arc::new(tools),
            slots: Arc::new(Semaphore::new(self.concurrency)),
            concurrency: self.concurrency,
            time: self.time.clone(),
            stop: parts.stop.clone(),
            running: parts.running.clone(),
            progress: Progress::default(),
        }
    }
}

/// Registers interest, so that the topics exist; waits as long as the service is away. Returns groups by callback.
async fn subscribe(
    server: &dyn Server,
    request: &SubscribeRequest,
    time: &TimeSource,
) -> Result<BTreeMap<String, String>, Error> {
    let mut retry = Retry::default();
    loop {
        match server.subscribe(request).await {
            Ok(answer) => return Ok(answer.groups),
            Err(error) if is_worth_repeating(&error) => {
                if retry.failures() == 0 {
                    tracing::warn!(%error, "cannot reach the service: trying again");
                }
                retry.failed(error.retry_after(), time);
                retry.wait(time).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}
