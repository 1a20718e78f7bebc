//! This adapter takes every queue operation through its process ([`super::process`]), and notes
//! it for the history.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use tickwheel::{
    doubles::queue::memory::MemoryConsumer,
    model::ids::NodeId,
    queue::{Consumer, Delivery, Error, Probe, PublishError, Publisher, Record, Subscriptions},
};

use super::process::Process;

/// A process's queue.
#[derive(Clone)]
pub(crate) struct ProcessQueue {
    pub(crate) process: Arc<Process>,
}

#[async_trait]
impl Publisher for ProcessQueue {
    async fn publish(&self, records: Vec<Record>) -> Vec<Result<(), PublishError>> {
        let (process, count) = (&self.process, records.len());
        let out = process
            .outside("publish", process.publisher.publish(records))
            .await;
        let failed = out.iter().filter(|one| one.is_err()).count();
        let sim = &process.sim;
        sim.note(format_args!(
            "{} publish: {failed} of {count} failed",
            process.name
        ));
        out
    }

    async fn ensure_topics(&self, topics: &[String]) -> Result<(), Error> {
        let act = self.process.publisher.ensure_topics(topics);
        self.process.outside("topics", act).await
    }

    async fn still_queued(&self, probes: &[Probe]) -> Vec<bool> {
        let out = self
            .process
            .outside("queued", self.process.publisher.still_queued(probes))
            .await;
        let sim = &self.process.sim;
        sim.note(format_args!("{} still queued: {out:?}", self.process.name));
        out
    }

    async fn ping(&self) -> Result<(), Error> {
        self.process
            .outside("ping", self.process.publisher.ping())
            .await
    }

    async fn close(&self, limit: Duration) {
        self.process
            .outside("close", self.process.publisher.close(limit))
            .await;
    }
}

#[async_trait]
impl Subscriptions for ProcessQueue {
    async fn subscribe(&self, group: &str, topics: &[String]) -> Result<Box<dyn Consumer>, Error> {
        // A process that died in this instant must not become a member that stays for ever.
        self.process.time.running().await;
        for topic in topics {
            self.process.sim.queue.create_topic(topic, None);
        }
        Ok(Box::new(ProcessConsumer {
            process: Arc::clone(&self.process),
            inner: self.process.publisher.consumer(group, topics),
            received: Vec::new(),
        }))
    }

    async fn take_out(&self, dead: NodeId) -> Result<(), Error> {
        let act = self.process.publisher.take_out(dead);
        self.process.outside("take out", act).await
    }
}

/// A process's member of a group.
struct ProcessConsumer {
    process: Arc<Process>,
    inner: MemoryConsumer,
    /// Messages that were received and not returned: the call was cancelled on the way back.
    received: Vec<Delivery>,
}

#[async_trait]
impl Consumer for ProcessConsumer {
    async fn receive(&mut self, max: usize, wait: Duration) -> Result<Vec<Delivery>, Error> {
        self.process.time.running().await;
        // A caller that wants no message waits, even with messages here: else it would ask again in the same
        // instant, for ever.
        if self.received.is_empty() || max == 0 {
            let more = self.inner.receive(max, wait).await?;
            self.received.extend(more);
        }
        self.process.travel(Duration::ZERO).await;
        self.process.time.running().await;
        let rest = self.received.split_off(max.min(self.received.len()));
        let returned = std::mem::replace(&mut self.received, rest);
        if !returned.is_empty() {
            let (name, count) = (&self.process.name, returned.len());
            self.process
                .sim
                .note(format_args!("{name} receives {count}"));
        }
        Ok(returned)
    }

    fn handled(&mut self, deliveries: &[(String, i32, i64)]) {
        self.inner.handled(deliveries);
    }

    async fn close(&mut self) {
        self.process.time.running().await;
        self.inner.close().await;
    }
}
