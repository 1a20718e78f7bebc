//! The publishing side: one idempotent producer.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use rdkafka::{
    config::FromClientConfigAndContext,
    error::RDKafkaErrorCode,
    producer::{Producer, ThreadedProducer},
};

use super::{
    Limit, QUESTION_TOPIC, Settings, blocking,
    delivery::{Answer, Batch, Failure, Place, Reports},
    discard,
    link::Link,
    outgoing::{choose, is_unconfirmed, measure, not_accepted, to_kafka},
    progress::Progress,
    topics::{self, Topics},
    unavailable, unsuitable,
};
use crate::{
    limits,
    queue::{Error, Probe, PublishError, Publisher, Record},
    time_source::{Moment, TimeSource},
};

/// How much longer than librdkafka's own limit an answer is waited for: its timeouts are a scan once a second.
const GRACE: Duration = Duration::from_secs(2);

type Client = ThreadedProducer<Reports>;

/// Publishes to Kafka.
pub struct KafkaPublisher {
    settings: Settings,
    time: TimeSource,
    topics: Topics,
    progress: Progress,
    /// None before the first use after a client was given up, and at the end.
    client: RwLock<Option<Arc<Client>>>,
    closed: AtomicBool,
    replacements: AtomicU64,
    /// Held while topics are asked for: when the last question ended without an answer, and why.
    question: tokio::sync::Mutex<Option<(Moment, String)>>,
}

impl fmt::Debug for KafkaPublisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaPublisher")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl KafkaPublisher {
    /// Begins to connect. It does not wait for the cluster: use [`Publisher::ping`] to find out whether it answers.
    ///
    /// # Errors
    /// [`Error::Unsuitable`] when librdkafka does not accept the settings.
    pub fn connect(settings: Settings, time: TimeSource) -> Result<Self, Error> {
        let client = RwLock::new(Some(Arc::new(new_client(&settings)?)));
        Ok(Self {
            topics: Topics::new(settings.clone(), time.clone()),
            progress: Progress::new(settings.clone(), time.clone()),
            client,
            settings,
            time,
            closed: AtomicBool::new(false),
            replacements: AtomicU64::new(0),
            question: tokio::sync::Mutex::new(None),
        })
    }

    /// Returns the producer; one that librdkafka has given up is replaced first.
    fn client(&self) -> Result<Arc<Client>, Error> {
        let usable = |client: &Arc<Client>| !client.context().link.is_spent();
        let read = self.client.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = read.as_ref().filter(|client| usable(client)) {
            return Ok(Arc::clone(client));
        }
        drop(read);
        let mut write = self.client.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = write.as_ref().filter(|client| usable(client)) {
            return Ok(Arc::clone(client));
        }
        let client = Arc::new(new_client(&self.settings)?);
        if let Some(old) = write.replace(Arc::clone(&client)) {
            drop(discard(old));
            self.replacements.fetch_add(1, Ordering::Relaxed);
        }
        Ok(client)
    }

    /// Returns how often the producer was replaced, because it had failed for good or was stuck.
    #[must_use]
    pub fn replacements(&self) -> u64 {
        self.replacements.load(Ordering::Relaxed)
    }

    /// Finds out how many partitions the topics of a batch have, creating our own where they are missing.
    async fn partitions(
        &self,
        client: &Arc<Client>,
        wanted: &BTreeMap<String, bool>,
    ) -> BTreeMap<String, Result<i32, PublishError>> {
        let mut found = BTreeMap::new();
        let mut open = Vec::new();
        for topic in wanted.keys() {
            match self.topics.known(topic) {
                Some(count) => drop(found.insert(topic.clone(), Ok(count))),
                None => open.push(topic.clone()),
            }
        }
        if open.is_empty() {
            return found;
        }
        let answers = self.look_up(client, open.clone()).await;
        let missing: Vec<String> = answers
            .iter()
            .filter(|(topic, answer)| **answer == topics::Answer::Missing && own(wanted, topic))
            .map(|(topic, _)| topic.clone())
            .collect();
        let created = self.topics.ensure(&missing).await;
        for (topic, answer) in answers {
            let result = match (&created, self.topics.known(&topic)) {
                (_, Some(count)) => Ok(count),
                (Err(error), None) if missing.contains(&topic) => {
                    Err(PublishError::NoSuchTopic(format!("{topic}: {error}")))
                }
                _ => self.topics.resolve(&topic, answer),
            };
            found.insert(topic, result);
        }
        found
    }

    /// Asks for topics; one question at a time, so that an outage does not use up the blocking threads. Those who waited
    /// for a question that nobody answered share its outcome.
    async fn look_up(
        &self,
        client: &Arc<Client>,
        open: Vec<String>,
    ) -> BTreeMap<String, topics::Answer> {
        let asked = self.time.moment();
        let mut silence = self.question.lock().await;
        if let Some((since, reason)) = silence.as_ref()
            && *since >= asked
        {
            let silent = |topic| (topic, topics::Answer::Silent(reason.clone()));
            return open.into_iter().map(silent).collect();
        }
        let limit = Limit::new(&self.time, limits::QUEUE_QUESTION_TIMEOUT);
        let (asker, question) = (Arc::clone(client), open.clone());
        let answers = blocking(move || topics::look_up(asker.client(), &question, &limit)).await;
        let answers = answers.unwrap_or_else(|reason| {
            let silent = |topic| (topic, topics::Answer::Silent(reason.clone()));
            open.into_iter().map(silent).collect()
        });
        *silence = None;
        for (topic, answer) in &answers {
            self.topics.learn(topic, answer);
            if let topics::Answer::Silent(reason) = answer {
                *silence = Some((self.time.moment(), reason.clone()));
            }
        }
        answers
    }

    /// Sends the records at `indexes` and waits for their answers.
    async fn send(
        &self,
        client: &Arc<Client>,
        records: &[Record],
        indexes: &[usize],
        counts: &BTreeMap<String, Result<i32, PublishError>>,
        until: Moment,
    ) -> Vec<Answer> {
        let (batch, wait) = Batch::new(indexes.len());
        for (place, index) in indexes.iter().enumerate() {
            let Some(record) = records.get(*index) else {
                continue;
            };
            let partition = match counts.get(&record.topic) {
                Some(Ok(count)) => choose(record, *count),
                Some(Err(error)) => Err(error.clone()),
                None => Err(PublishError::Unconfirmed(
                    "its topic is not known".to_owned(),
                )),
            };
            match partition {
                Ok(partition) => {
                    let place = Box::new((Arc::clone(&batch), place));
                    self.offer(client, record, partition, place, until).await;
                }
                Err(error) => batch.settle(place, Err(Failure::Final(error))),
            }
        }
        let mut wait = std::pin::pin!(wait);
        let until = until.after(GRACE);
        loop {
            let left = until.since(self.time.moment());
            let slice = left.min(limits::PRODUCER_STALL);
            if self.time.within(slice, &mut wait).await.is_some() || left <= slice {
                let answers = batch.take();
                if !answers.is_empty() && answers.iter().all(is_unconfirmed) {
                    // In an outage a new client does no harm, and this one may be all that is wrong.
                    client
                        .context()
                        .link
                        .spend("nothing was acknowledged in time");
                }
                return answers;
            }
            self.suspect(client, records.iter().map(|record| &record.topic))
                .await;
        }
    }

    /// Has the producer replaced when records stay open although the brokers answer. What is open stays with the old one.
    async fn suspect(&self, client: &Arc<Client>, topics: impl Iterator<Item = &String>) {
        let link = &client.context().link;
        // One batch asks for all that are open.
        if link.is_spent() || self.question.try_lock().is_err() {
            return;
        }
        let topics: BTreeSet<&String> = topics.collect();
        let question = topics.into_iter().cloned().collect();
        let answers = self.look_up(client, question).await;
        let led = |answer| matches!(answer, &topics::Answer::Exists { led: true, .. });
        if answers.values().any(led) {
            link.spend("records stay open although the brokers answer");
        }
    }

    /// Puts a record into the producer's buffer; while that is full, waits.
    async fn offer(
        &self,
        client: &Client,
        record: &Record,
        partition: Option<i32>,
        mut place: Place,
        until: Moment,
    ) {
        loop {
            let (error, returned) = match client.send(to_kafka(record, partition, place)) {
                Ok(()) => return,
                Err((error, returned)) => (error, returned.delivery_opaque),
            };
            place = returned;
            let full = error.rdkafka_error_code() == Some(RDKafkaErrorCode::QueueFull);
            if !full || self.time.moment() >= until {
                if error.rdkafka_error_code() == Some(RDKafkaErrorCode::Fatal) {
                    client.context().link.spend("it failed for good");
                }
                return place.0.settle(place.1, Err(not_accepted(&error)));
            }
            self.time.sleep(limits::PRODUCER_FULL_PAUSE).await;
        }
    }

    /// Decides what the caller is told; records that were refused in company are sent once more, alone. They may then
    /// lie behind later ones of their batch: the only case in which its order is not kept.
    async fn publish_all(&self, records: &[Record]) -> Vec<Result<(), PublishError>> {
        let until = self.time.moment().after(self.settings.publish_timeout);
        let client = match self.client() {
            Ok(client) => client,
            Err(error) => {
                let failed = || Err(PublishError::Unconfirmed(error.to_string()));
                return records.iter().map(|_| failed()).collect();
            }
        };
        let mut wanted = BTreeMap::new();
        for record in records {
            *wanted.entry(record.topic.clone()).or_insert(false) |= record.create_topic;
        }
        let counts = self.partitions(&client, &wanted).await;
        let all: Vec<usize> = (0..records.len()).collect();
        let answers = self.send(&client, records, &all, &counts, until).await;
        let mut told = Vec::with_capacity(answers.len());
        for (index, answer) in answers.into_iter().enumerate() {
            let answer = match answer {
                Err(Failure::Alone(_)) if records.len() > 1 && self.time.moment() < until => {
                    let answers = self.send(&client, records, &[index], &counts, until).await;
                    answers.into_iter().next().unwrap_or(Ok(()))
                }
                answer => answer,
            };
            told.push(answer.map_err(|failure| match failure {
                Failure::Final(error) => error,
                Failure::Alone(reason) => PublishError::Refused(reason),
            }));
        }
        if client.context().link.is_spent() {
            // Ours may be the last hold on it.
            drop(discard(client));
        }
        told
    }
}

#[async_trait]
impl Publisher for KafkaPublisher {
    async fn publish(&self, records: Vec<Record>) -> Vec<Result<(), PublishError>> {
        if self.closed.load(Ordering::Relaxed) {
            let closed = || {
                Err(PublishError::Unconfirmed(
                    "the publisher is closed".to_owned(),
                ))
            };
            return records.iter().map(|_| closed()).collect();
        }
        let begun = self.time.moment();
        let mut told = self.publish_all(&records).await;
        let mut again = Vec::new();
        for (index, (record, answer)) in records.iter().zip(&told).enumerate() {
            if let Err(PublishError::NoSuchTopic(_)) = answer {
                // It was there when it was asked for, or the number of partitions has changed.
                self.topics.forget(&record.topic);
                if record.create_topic {
                    again.push(index);
                }
            }
        }
        if !again.is_empty() {
            let repeated: Vec<Record> = again
                .iter()
                .filter_map(|index| records.get(*index))
                .cloned()
                .collect();
            for (index, answer) in again.into_iter().zip(self.publish_all(&repeated).await) {
                if let Some(slot) = told.get_mut(index) {
                    *slot = answer;
                }
            }
        }
        measure(self.time.moment().since(begun), &told);
        told
    }

    async fn ensure_topics(&self, topics: &[String]) -> Result<(), Error> {
        self.topics.ensure(topics).await
    }

    async fn still_queued(&self, probes: &[Probe]) -> Vec<bool> {
        let Ok(client) = self.client() else {
            return vec![false; probes.len()];
        };
        let names = probes
            .iter()
            .map(|probe| (probe.topic.clone(), false))
            .collect();
        let counts = self.partitions(&client, &names).await;
        self.progress.still_queued(probes, &counts).await
    }

    async fn ping(&self) -> Result<(), Error> {
        let client = self.client()?;
        let question = vec![QUESTION_TOPIC.to_owned()];
        let limit = Limit::new(&self.time, limits::QUEUE_QUESTION_TIMEOUT);
        let asker = Arc::clone(&client);
        let answers = blocking(move || topics::look_up(asker.client(), &question, &limit)).await;
        let answers = answers.map_err(|reason| unavailable("ask for its state", reason))?;
        match answers.into_values().next() {
            Some(topics::Answer::Silent(reason)) => {
                client.context().link.failed(&reason);
                Err(unavailable("ask for its state", reason))
            }
            _ => {
                client.context().link.answered();
                Ok(())
            }
        }
    }

    async fn close(&self, limit: Duration) {
        self.closed.store(true, Ordering::Relaxed);
        let Ok(client) = self.client() else { return };
        match blocking(move || client.flush(limit)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "closed with records not acknowledged"),
            Err(reason) => tracing::warn!(reason, "closed with records not acknowledged"),
        }
    }
}

impl Drop for KafkaPublisher {
    fn drop(&mut self) {
        let client = self
            .client
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        drop(discard(client.take()));
    }
}

fn new_client(settings: &Settings) -> Result<Client, Error> {
    let reports = Reports {
        link: Link::new("producer"),
    };
    Client::from_config_and_context(&settings.producer(), reports)
        .map_err(|error| unsuitable(&error))
}

fn own(wanted: &BTreeMap<String, bool>, topic: &str) -> bool {
    wanted.get(topic).copied().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_producer_that_was_given_up_is_replaced() {
        let settings = Settings::new("127.0.0.1:1");
        let publisher = KafkaPublisher::connect(settings, TimeSource::real()).unwrap();
        let first = publisher.client().unwrap();
        assert!(Arc::ptr_eq(&first, &publisher.client().unwrap()));
        first.context().link.spend("as a test");
        let second = publisher.client().unwrap();
        assert!(!Arc::ptr_eq(&first, &second));
        assert!(Arc::ptr_eq(&second, &publisher.client().unwrap()));
    }
}
