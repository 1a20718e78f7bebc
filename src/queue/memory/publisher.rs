//! The publishing side, and the simulated process behind it.

use std::{
    fmt,
    future::pending,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;

use super::{Fault, MemoryConsumer, MemoryQueue, State};
use crate::{
    limits,
    model::time::Millis,
    queue::{Consumer, Error, Probe, PublishError, Publisher, Record, Subscriptions, message},
    time_source::Moment,
};

/// Called before and after each operation with its name and whether it is over; `true` kills the process there.
pub type Hook = Arc<dyn Fn(&'static str, bool) -> bool + Send + Sync>;

/// A process's access to a [`MemoryQueue`]. Clones are the same process.
#[derive(Debug, Clone)]
pub struct MemoryPublisher {
    queue: MemoryQueue,
    process: Arc<Process>,
}

#[derive(Default)]
struct Process {
    killed: AtomicBool,
    hook: Mutex<Option<Hook>>,
    members: Mutex<Vec<(String, u64)>>,
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process")
            .field("killed", &self.killed)
            .finish_non_exhaustive()
    }
}

impl MemoryPublisher {
    pub(super) fn new(queue: MemoryQueue) -> Self {
        Self {
            queue,
            process: Arc::default(),
        }
    }

    /// Returns a new member of a group that lives and dies with this process.
    #[must_use]
    pub fn consumer(&self, group: &str, topics: &[String]) -> MemoryConsumer {
        let member = self.queue.state().broker.join(group, topics);
        lock(&self.process.members).push((group.to_owned(), member));
        self.queue.wake();
        MemoryConsumer::new(self.queue.clone(), self.clone(), group, member)
    }

    /// Kills the process: no call on it completes from now on, and its consumers leave their groups.
    pub fn kill(&self) {
        if self.process.killed.swap(true, Ordering::SeqCst) {
            return;
        }
        let members = std::mem::take(&mut *lock(&self.process.members));
        let mut state = self.queue.state();
        for (group, member) in members {
            state.broker.leave(&group, member);
        }
        drop(state);
        self.queue.wake();
    }

    /// Tells whether the process was killed.
    #[must_use]
    pub fn is_killed(&self) -> bool {
        self.process.killed.load(Ordering::SeqCst)
    }

    /// Sets the hook that sees every operation: `publish`, `ensure_topics`, `still_queued`, `ping`, `close`, and of its
    /// consumers `receive` and `leave`.
    pub fn set_hook(&self, hook: Hook) {
        *lock(&self.process.hook) = Some(hook);
    }

    /// Passes one side of an operation, or stays here for ever when the process is dead.
    pub(super) async fn pass(&self, operation: &'static str, over: bool) {
        if !self.is_killed() {
            let hook = lock(&self.process.hook).clone();
            if hook.is_some_and(|hook| hook(operation, over)) {
                self.kill();
            }
        }
        if self.is_killed() {
            pending::<()>().await;
        }
    }

    /// Waits until there is neither an outage nor a full topic; false when that takes too long.
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
        self.pass("publish", false).await;
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
            // The first batches find out.
            time.sleep(limits::TOPIC_PATIENCE).await;
            self.queue.state().notice_silence(&records);
        }
        self.pass("publish", true).await;
        answers
    }

    async fn ensure_topics(&self, topics: &[String]) -> Result<(), Error> {
        self.pass("ensure_topics", false).await;
        let result = self.answer("create topics").map(|()| {
            for topic in topics {
                self.queue.create_topic(topic, None);
            }
        });
        self.pass("ensure_topics", true).await;
        result
    }

    async fn still_queued(&self, probes: &[Probe]) -> Vec<bool> {
        self.pass("still_queued", false).await;
        let answers = {
            let mut state = self.queue.state();
            let now = self.queue.shared.time.now();
            state.broker.expire(now);
            let ask = |probe| !state.plan.outage && state.broker.still_queued(probe);
            probes.iter().map(ask).collect()
        };
        self.pass("still_queued", true).await;
        answers
    }

    async fn ping(&self) -> Result<(), Error> {
        self.pass("ping", false).await;
        let result = self.answer("ask for its state");
        self.pass("ping", true).await;
        result
    }

    async fn close(&self, _limit: Duration) {
        // Nothing is buffered: a publication is applied before it is answered.
        self.pass("close", false).await;
        self.pass("close", true).await;
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

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
