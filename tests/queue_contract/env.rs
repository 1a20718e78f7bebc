//! `Env` gives a case of the contract a queue, names of its own, and clocks.

pub(crate) use tickwheel::{
    doubles::queue::memory::{Keep, MemoryQueue},
    queue::{
        Subscriptions,
        embedded::{self, EmbeddedQueue},
    },
};

use super::*;

pub(crate) const PARTITIONS: i32 = 4;

pub(crate) enum Queue {
    Memory(MemoryQueue),
    /// Brokers at these addresses.
    Kafka(String),
    /// The embedded queue, with the directory that it overflows into.
    Embedded(tempfile::TempDir),
}

pub(crate) struct Env {
    pub(crate) time: TimeSource,
    pub(crate) publisher: Arc<dyn Publisher>,
    pub(crate) subscriptions: Arc<dyn Subscriptions>,
    pub(crate) queue: Queue,
    pub(crate) prefix: String,
}

impl Env {
    pub(crate) fn memory() -> Self {
        let time = TimeSource::simulated(tickwheel::model::time::Millis(1_800_000_000_000), 1);
        let queue = MemoryQueue::new(time.clone(), PARTITIONS, Keep::Everything);
        Self::of_memory(time, queue)
    }

    pub(crate) fn of_memory(time: TimeSource, queue: MemoryQueue) -> Self {
        Self {
            publisher: Arc::new(queue.clone()),
            subscriptions: Arc::new(queue.handle()),
            queue: Queue::Memory(queue),
            prefix: "test".to_owned(),
            time,
        }
    }

    /// A window of a few records, so that all cases overflow.
    pub(crate) fn embedded(topic_records_max: usize) -> Self {
        let time = TimeSource::simulated(tickwheel::model::time::Millis(1_800_000_000_000), 1);
        let dir = tempfile::tempdir().unwrap();
        let settings = embedded::Settings {
            partitions: PARTITIONS,
            topic_records_max,
            ..embedded::Settings::default()
        };
        let queue = EmbeddedQueue::open(dir.path(), time.clone(), settings).unwrap();
        Self {
            publisher: Arc::new(queue.clone()),
            subscriptions: Arc::new(queue),
            queue: Queue::Embedded(dir),
            prefix: "test".to_owned(),
            time,
        }
    }

    /// Whether the queue takes records of topics that are not Tickwheel's own.
    pub(crate) fn takes_others(&self) -> bool {
        !matches!(self.queue, Queue::Embedded(_))
    }

    /// Whether a handled message comes again when a message before it was not handled.
    pub(crate) fn repeats_handled(&self) -> bool {
        !matches!(self.queue, Queue::Embedded(_))
    }

    pub(crate) fn name(&self, name: &str) -> String {
        format!("{}.{name}", self.prefix)
    }

    /// A topic of ours: created with the first record.
    pub(crate) fn record(
        &self,
        topic: &str,
        partition: Partition,
        value: impl Into<Bytes>,
    ) -> Record {
        Record {
            topic: self.name(topic),
            create_topic: true,
            partition,
            key: None,
            value: value.into(),
            headers: Vec::new(),
        }
    }

    pub(crate) async fn consumer(&self, group: &str, topics: &[&str]) -> Box<dyn Consumer> {
        let (group, topics) = (self.name(group), self.names(topics));
        self.subscriptions.subscribe(&group, &topics).await.unwrap()
    }

    pub(crate) fn names(&self, topics: &[&str]) -> Vec<String> {
        topics.iter().map(|topic| self.name(topic)).collect()
    }

    pub(crate) async fn publish(&self, records: Vec<Record>) {
        for answer in self.publisher.publish(records).await {
            answer.unwrap();
        }
    }

    /// Receives until `count` deliveries are there.
    pub(crate) async fn receive(&self, consumer: &mut dyn Consumer, count: usize) -> Vec<Delivery> {
        let until = self.time.moment().after(LIMIT);
        let mut received = Vec::new();
        while received.len() < count {
            received.extend(
                consumer
                    .receive(count - received.len(), STEP)
                    .await
                    .unwrap(),
            );
            let seen = received.len();
            assert!(
                self.time.moment() < until,
                "{seen} of {count} deliveries in time"
            );
        }
        received
    }

    /// Handles what was received and leaves the group, so that the commit is done when this returns.
    pub(crate) async fn finish(&self, mut consumer: Box<dyn Consumer>, deliveries: &[Delivery]) {
        consumer.handled(&places(deliveries));
        consumer.close().await;
    }
}
