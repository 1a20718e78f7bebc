//! The memory publisher sends records for a simulated process, which can be killed.

use std::time::Duration;

use async_trait::async_trait;

use super::{
    Fault, MemoryConsumer, MemoryQueue, State,
    process::{Hook, Process},
};
use crate::{
    limits,
    model::{ids::NodeId, time::Millis},
    queue::{Consumer, Error, Probe, PublishError, Publisher, Record, Subscriptions, message},
    time_source::Moment,
};

/// A process's access to a [`MemoryQueue`]. Clones are the same process.
#[derive(Debug, Clone)]
pub struct MemoryPublisher {
    queue: MemoryQueue,
    process: Process,
    at_once: Option<usize>,
}

impl MemoryPublisher {
    pub(super) fn new(queue: MemoryQueue) -> Self {
        Self {
            process: Process::new(queue.clone()),
            queue,
            at_once: None,
        }
    }

    /// Says of itself that the queue is in the process of its node, and takes so many records of a wheel at once.
    #[must_use]
    pub fn in_process(self, at_once: usize) -> Self {
        Self {
            at_once: Some(at_once),
            ..self
        }
    }

    /// Returns a new member of a group that lives and dies with this process.
    #[must_use]
    pub fn consumer(&self, group: &str, topics: &[String]) -> MemoryConsumer {
        MemoryConsumer::new(self.queue.clone(), self.process.clone(), group, topics)
    }

    /// Says which node the process is, so that others can take its members out of groups.
    pub fn name_node(&self, node: NodeId) {
        self.process.name(node);
    }

    /// Tells the queue that the process is stopped until an instant.
    pub fn pause(&self, until: Millis) {
        self.process.pause(until);
    }

    /// Kills the process: no call on it completes from now on, and its consumers are heard of no more.
    pub fn kill(&self) {
        self.process.kill();
    }

    /// Tells whether the process was killed.
    #[must_use]
    pub fn is_killed(&self) -> bool {
        self.process.is_killed()
    }

    /// Sets the hook that sees every operation: `publish`, `ensure_topics`, `still_queued`, `ping`, `take_out`, `close`, and of
    /// its consumers `receive` and `leave`.
    pub fn set_hook(&self, hook: Hook) {
        self.process.set_hook(hook);
    }

    /// Waits until there is neither an outage nor a full topic. Returns false when that takes too long.
    async fn writable(&self, topic: &str, until: Moment) -> bool {
        let queue = &self.queue;
        let mut changes = queue.shared.changes.watcher();
        loop {
            let blocked = {
                let state = queue.state();
                state.plan.outage || state.broker.is_full(topic)
            };
            if !blocked {
                return true;
            }
            let left = until.since(queue.shared.time.moment());
            let changed = queue.shared.time.within(left, changes.changed()).await;
            if changed.is_none() {
                return false;
            }
        }
    }
}

#[async_trait]
impl Publisher for MemoryPublisher {
    async fn publish(&self, records: Vec<Record>) -> Vec<Result<(), PublishError>> {
        self.process.pass("publish", false).await;
        let time = &self.queue.shared.time;
        let until = time.moment().after(limits::PUBLISH_TIMEOUT);
        let mut answers = Vec::with_capacity(records.len());
        let mut unheard = false;
        for record in &records {
            if let Some(known) = self.queue.state().swallow(record) {
                unheard |= !known;
                answers.push(Err(unconfirmed("its topic does not answer")));
                continue;
            }
            let answer = if self.writable(&record.topic, until).await && !self.is_killed() {
                self.queue.state().publish(record, time.now())
            } else {
                Err(unconfirmed("no answer"))
            };
            answers.push(answer);
        }
        self.queue.wake();
        if unheard {
            // The first batches find out that the topic is silent.
            time.sleep(limits::TOPIC_PATIENCE).await;
            self.queue.state().notice_silence(&records);
        }
        self.process.pass("publish", true).await;
        answers
    }

    fn records_at_once(&self) -> Option<usize> {
        self.at_once
    }

    fn leaves_contents(&self) -> bool {
        self.at_once.is_some()
    }

    async fn ensure_topics(&self, topics: &[String]) -> Result<(), Error> {
        self.process.pass("ensure_topics", false).await;
        let result = self.answer("create topics").map(|()| {
            for topic in topics {
                self.queue.create_topic(topic, None);
            }
        });
        self.process.pass("ensure_topics", true).await;
        result
    }

    async fn still_queued(&self, probes: &[Probe]) -> Vec<bool> {
        self.process.pass("still_queued", false).await;
        let answers = {
            let mut state = self.queue.state();
            let now = self.queue.shared.time.now();
            state.broker.expire(now);
            let ask = |probe| !state.plan.outage && state.broker.still_queued(probe);
            probes.iter().map(ask).collect()
        };
        self.process.pass("still_queued", true).await;
        answers
    }

    async fn ping(&self) -> Result<(), Error> {
        self.process.pass("ping", false).await;
        let result = self.answer("ask for its state");
        self.process.pass("ping", true).await;
        result
    }

    async fn close(&self, _limit: Duration) {
        // A publication is applied before it is answered, so nothing is buffered.
        self.process.pass("close", false).await;
        self.process.pass("close", true).await;
    }
}

impl MemoryPublisher {
    fn answer(&self, operation: &'static str) -> Result<(), Error> {
        if self.queue.state().plan.outage {
            return Err(Error::Unavailable {
                operation,
                reason: "no answer".to_owned(),
            });
        }
        Ok(())
    }
}

/// The queue itself publishes as a process that nobody kills.
#[async_trait]
impl Publisher for MemoryQueue {
    async fn publish(&self, records: Vec<Record>) -> Vec<Result<(), PublishError>> {
        self.handle().publish(records).await
    }

    async fn ensure_topics(&self, topics: &[String]) -> Result<(), Error> {
        self.handle().ensure_topics(topics).await
    }

    async fn still_queued(&self, probes: &[Probe]) -> Vec<bool> {
        self.handle().still_queued(probes).await
    }

    async fn ping(&self) -> Result<(), Error> {
        self.handle().ping().await
    }

    async fn close(&self, limit: Duration) {
        self.handle().close(limit).await;
    }
}

#[async_trait]
impl Subscriptions for MemoryPublisher {
    async fn subscribe(&self, group: &str, topics: &[String]) -> Result<Box<dyn Consumer>, Error> {
        for topic in topics {
            self.queue.create_topic(topic, None);
        }
        Ok(Box::new(self.consumer(group, topics)))
    }

    async fn take_out(&self, dead: NodeId) -> Result<(), Error> {
        self.process.pass("take_out", false).await;
        self.process.take_out(dead);
        self.process.pass("take_out", true).await;
        Ok(())
    }
}

impl State {
    /// Takes a record of a silent topic; tells whether it was known to be silent. None for a topic that answers.
    fn swallow(&mut self, record: &Record) -> Option<bool> {
        let silence = self.plan.silent.get_mut(&record.topic)?;
        let identity = message::identity(record);
        let mut open = silence.open.iter();
        let repeated = identity.is_some() && open.any(|one| message::identity(one) == identity);
        if !repeated && silence.open.len() < limits::SICK_LANE_RECORDS_MAX {
            silence.open.push(record.clone());
        }
        Some(silence.known)
    }

    fn notice_silence(&mut self, records: &[Record]) {
        for record in records {
            if let Some(silence) = self.plan.silent.get_mut(&record.topic) {
                silence.known = true;
            }
        }
    }

    fn publish(&mut self, record: &Record, at: Millis) -> Result<(), PublishError> {
        if self.plan.missing.contains(&record.topic) {
            return Err(PublishError::NoSuchTopic(record.topic.clone()));
        }
        match self.plan.next.pop_front().unwrap_or(Fault::None) {
            Fault::None => self.broker.append(record, at),
            Fault::Duplicate => self
                .broker
                .append(record, at)
                .and_then(|()| self.broker.append(record, at)),
            Fault::UnconfirmedApplied => {
                self.broker.append(record, at)?;
                Err(unconfirmed("the acknowledgement was lost"))
            }
            Fault::UnconfirmedLost => Err(unconfirmed("the record was lost")),
            Fault::Refuse => Err(PublishError::Refused("as planned".to_owned())),
        }
    }
}

fn unconfirmed(reason: &str) -> PublishError {
    PublishError::Unconfirmed(reason.to_owned())
}
