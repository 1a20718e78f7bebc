//! The embedded queue carries records inside one process for a service that runs without Kafka.
//!
//! It keeps the contract of [`crate::queue`] while the process lives, for Tickwheel's own topics only. Memory
//! is bounded, for each topic and for all together. Records that consumers have not reached yet go to an
//! overflow file and come back in order. So callbacks without workers delay no other and cost disk, not
//! memory. A publication never waits. It fails only when the disk is full up to a reserve: claims and settles
//! of others need that reserve. A task whose record was not taken is published again by its look.
//!
//! **Not durable, on purpose**: nothing is synced, and the files of an earlier life are deleted at start.
//! Every tracked task that was published and not claimed has a look in the store, and it is published again
//! from that look. A topic is meant to have one consumer group; with several, the one that is furthest behind
//! holds up the others (`log.rs`).
//!
//! Files are written and read on the caller's thread: they are in the page cache, and only a backlog touches
//! them.

mod budget;
mod consumer;
mod kept;
mod log;
mod overflow;
mod topic;

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use parking_lot::Mutex;

pub use self::consumer::EmbeddedConsumer;
use self::{budget::Budget, log::Room, topic::Topic};
use super::{Consumer, Error, Probe, PublishError, Publisher, Record, Subscriptions};
use crate::{limits, model::time::Millis, time_source::TimeSource};

/// Bounds of an embedded queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Partitions of each topic. One keeps every topic in order; more share it among several consumers.
    pub partitions: i32,
    /// Records of one topic in memory.
    pub topic_records_max: usize,
    /// Bytes of one topic in memory.
    pub topic_bytes_max: usize,
    /// Bytes of the disk that overflow files leave free. With less, records that do not fit into memory are
    /// refused.
    pub disk_reserve_bytes: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            partitions: 1,
            topic_records_max: limits::EMBEDDED_TOPIC_RECORDS_MAX,
            topic_bytes_max: limits::EMBEDDED_TOPIC_BYTES_MAX,
            disk_reserve_bytes: limits::OVERFLOW_RESERVE_BYTES,
        }
    }
}

/// The queue. Cheap to clone; clones are the same queue.
#[derive(Debug, Clone)]
pub struct EmbeddedQueue {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    time: TimeSource,
    /// No record is older.
    began: Millis,
    settings: Settings,
    dir: PathBuf,
    budget: Arc<Budget>,
    topics: Mutex<Topics>,
    members: AtomicU64,
}

#[derive(Debug, Default)]
struct Topics {
    by_name: HashMap<String, Arc<Topic>>,
    /// Topics made so far. The number names the files of the next one.
    made: u64,
    /// The number of topics from which on unused ones are looked for.
    swept_at: usize,
}

impl Topics {
    /// Forgets topics that are empty and have no holder. Every publisher and consumer holds its topic, and
    /// takes hold of it under the same lock as this call.
    fn sweep(&mut self) {
        if self.by_name.len() >= self.swept_at.max(limits::EMBEDDED_TOPICS_KEPT) {
            self.by_name
                .retain(|_, topic| Arc::strong_count(topic) > 1 || !topic.is_empty());
            self.swept_at = 2 * self.by_name.len();
        }
    }
}

impl EmbeddedQueue {
    /// Opens an empty queue that overflows into a directory, which is made if it does not exist. Overflow
    /// files in it are deleted. Only one process at a time may do so.
    ///
    /// # Errors
    /// [`Error::Unsuitable`] when the directory cannot be used.
    pub fn open(dir: &Path, time: TimeSource, settings: Settings) -> Result<Self, Error> {
        clear(dir).map_err(|error| Error::Unsuitable {
            reason: format!(
                "its overflow directory {} cannot be used: {error}",
                dir.display()
            ),
        })?;
        Ok(Self {
            shared: Arc::new(Shared {
                began: time.now(),
                time,
                settings,
                dir: dir.to_owned(),
                budget: Arc::new(Budget::on_disk(dir.to_owned(), settings.disk_reserve_bytes)),
                topics: Mutex::default(),
                members: AtomicU64::new(0),
            }),
        })
    }

    /// Returns a new member of a group. Dropping it leaves the group.
    #[must_use]
    pub fn consumer(&self, group: &str, topics: &[String]) -> EmbeddedConsumer {
        let member = self.shared.members.fetch_add(1, Ordering::Relaxed);
        let topics = topics.iter().map(|topic| self.topic(topic)).collect();
        EmbeddedConsumer::join(self.shared.time.clone(), group, member, topics)
    }

    fn topic(&self, name: &str) -> Arc<Topic> {
        let Shared {
            settings,
            dir,
            budget,
            topics,
            ..
        } = &*self.shared;
        let mut topics = topics.lock();
        if let Some(topic) = topics.by_name.get(name) {
            return Arc::clone(topic);
        }
        topics.sweep();
        let partitions = usize::try_from(settings.partitions).unwrap_or(1).max(1);
        let room = Room {
            records: (settings.topic_records_max / partitions).max(1),
            bytes: (settings.topic_bytes_max / partitions).max(1),
        };
        let made = Arc::new(Topic::new(
            name,
            settings.partitions,
            room,
            budget,
            &dir.join(topics.made.to_string()),
        ));
        topics.made += 1;
        topics.by_name.insert(name.to_owned(), Arc::clone(&made));
        made
    }

    fn known(&self, name: &str) -> Option<Arc<Topic>> {
        let topics = self.shared.topics.lock();
        topics.by_name.get(name).cloned()
    }
}

/// Makes the directory and deletes the overflow files of an earlier life. Other files are left alone.
fn clear(dir: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(dir)?;
    for file in std::fs::read_dir(dir)? {
        let path = file?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.ends_with(overflow::SUFFIX) {
            std::fs::remove_file(&path)?;
        }
    }
    Ok(())
}

#[async_trait]
impl Publisher for EmbeddedQueue {
    async fn publish(&self, records: Vec<Record>) -> Vec<Result<(), PublishError>> {
        let now = self.shared.time.now();
        let mut answers: Vec<Result<(), PublishError>> = vec![Ok(()); records.len()];
        let mut batches: Vec<(String, Vec<(usize, Record)>)> = Vec::new();
        for (index, record) in records.into_iter().enumerate() {
            if !record.create_topic {
                if let Some(answer) = answers.get_mut(index) {
                    *answer = Err(not_ours(&record.topic));
                }
                continue;
            }
            match batches.iter_mut().find(|(name, _)| *name == record.topic) {
                Some((_, batch)) => batch.push((index, record)),
                None => batches.push((record.topic.clone(), vec![(index, record)])),
            }
        }
        for (name, batch) in batches {
            let (indices, batch): (Vec<usize>, Vec<Record>) = batch.into_iter().unzip();
            let published = self.topic(&name).publish(batch.into_iter(), now);
            for (index, published) in indices.into_iter().zip(published) {
                if let Some(answer) = answers.get_mut(index) {
                    *answer = published;
                }
            }
        }
        answers
    }

    async fn ensure_topics(&self, topics: &[String]) -> Result<(), Error> {
        for topic in topics {
            self.topic(topic);
        }
        Ok(())
    }

    async fn still_queued(&self, probes: &[Probe]) -> Vec<bool> {
        let ask = |probe: &Probe| {
            // A record that was published before is gone with the process that did it.
            let topic = self
                .known(&probe.topic)
                .filter(|_| probe.since >= self.shared.began);
            topic.is_some_and(|topic| topic.still_queued(&probe.group, probe.wheel, probe.since))
        };
        probes.iter().map(ask).collect()
    }

    fn records_at_once(&self) -> Option<usize> {
        Some(limits::EMBEDDED_RECORDS_AT_ONCE)
    }

    fn leaves_contents(&self) -> bool {
        true
    }

    async fn ping(&self) -> Result<(), Error> {
        Ok(())
    }

    async fn close(&self, _limit: Duration) {
        // Publishing buffers no records, and the queue does not outlive the process.
    }
}

fn not_ours(topic: &str) -> PublishError {
    PublishError::Refused(format!(
        "the embedded queue carries callbacks only: a record to topic {topic:?} needs `queue = \"kafka\"`"
    ))
}

#[async_trait]
impl Subscriptions for EmbeddedQueue {
    async fn subscribe(&self, group: &str, topics: &[String]) -> Result<Box<dyn Consumer>, Error> {
        Ok(Box::new(self.consumer(group, topics)))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::{model::time::Millis, queue::Headers};

    #[tokio::test(start_paused = true)]
    async fn names_that_nobody_uses_any_more_are_forgotten_and_what_is_in_use_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let time = TimeSource::simulated(Millis(0), 1);
        let queue = EmbeddedQueue::open(dir.path(), time, Settings::default()).unwrap();
        let topic = |name: &str| vec![name.to_owned()];
        let mut consumer = queue.consumer("group", &topic("used"));
        let record = |topic: &str| Record {
            topic: topic.to_owned(),
            key: None,
            value: Bytes::from_static(b"x"),
            headers: Headers::new(),
            partition: crate::queue::Partition::ByKey,
            create_topic: true,
        };
        queue.publish(vec![record("waits")]).await[0]
            .clone()
            .unwrap();
        for number in 0..10 * limits::EMBEDDED_TOPICS_KEPT {
            drop(queue.consumer("group", &topic(&format!("made-up-{number}"))));
        }
        let count = queue.shared.topics.lock().by_name.len();
        assert!(count <= limits::EMBEDDED_TOPICS_KEPT + 1, "{count}");
        queue.publish(vec![record("used")]).await[0]
            .clone()
            .unwrap();
        let second = Duration::from_secs(1);
        assert_eq!(consumer.receive(1, second).await.unwrap().len(), 1);
        let mut late = queue.consumer("group", &topic("waits"));
        assert_eq!(late.receive(1, second).await.unwrap().len(), 1);
    }
}
