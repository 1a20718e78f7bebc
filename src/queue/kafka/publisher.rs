//! The Kafka publisher sends records for the service, and no sick topic delays another.
//!
//! A batch is answered when its records are, with two exceptions. It does not wait for records of partitions that are sick
//! (`lanes.rs`), and it waits only a moment for a topic that is not known yet (`topics.rs`). A record without a wait is
//! unconfirmed: it may be published. A repetition while it is open, or after it was acknowledged, sends nothing (`abandoned.rs`).
//!
//! While the whole queue is silent (`lanes.rs`), some batches wait as long as a record may, because they delay nobody. The others
//! come back after a second, so that records due for a topic that is well find a place.

use std::{
    collections::BTreeMap,
    fmt,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use parking_lot::Mutex;
use rdkafka::{error::RDKafkaErrorCode, producer::Producer};
use tokio::sync::{Semaphore, oneshot};

use super::{
    QUESTION_TOPIC, Settings,
    abandoned::Abandoned,
    access, blocking,
    call::{Call, Sent},
    delivery::{Answer, Batch, Failure, Place, Ticket, outcome, unconfirmed},
    lanes::{By, Entry, Lanes},
    outgoing::{self, Choice, choose, measure, not_accepted, to_kafka},
    ping,
    producers::{Client, Producers},
    progress::Progress,
    topics::{Known, Topics},
};
use crate::{
    limits,
    queue::{Error, Probe, PublishError, Publisher, Record, message},
    time_source::{Moment, TimeSource},
};

/// Time to wait for an answer beyond librdkafka's own limit, since its timeouts are a scan once a second.
const GRACE: Duration = Duration::from_secs(2);

/// How often a waiting batch checks whether it waits for sick topics alone.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// Publishes to Kafka.
pub struct KafkaPublisher {
    settings: Settings,
    time: TimeSource,
    topics: Topics,
    progress: Progress,
    producers: Arc<Producers>,
    lanes: Lanes,
    abandoned: Arc<Abandoned>,
    /// When the main producer was found stuck and replaced last.
    replaced: Mutex<Option<Moment>>,
    /// Places of batches that may wait long while nothing is acknowledged.
    patient: Semaphore,
    closed: AtomicBool,
}

impl fmt::Debug for KafkaPublisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaPublisher")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl KafkaPublisher {
    /// Begins to connect, without waiting for the cluster. Use [`Publisher::ping`] to find out whether it
    /// answers.
    ///
    /// # Errors
    /// [`Error::Unsuitable`] when librdkafka does not accept the settings, or a file of them cannot be read.
    pub fn connect(settings: Settings, time: TimeSource) -> Result<Self, Error> {
        access::check(&settings.access)?;
        Ok(Self {
            topics: Topics::new(settings.clone(), time.clone()),
            progress: Progress::new(settings.clone(), time.clone()),
            producers: Arc::new(Producers::new(settings.clone(), time.clone())?),
            lanes: Lanes::new(settings.patience),
            abandoned: Arc::new(Abandoned::new(time.clone())),
            replaced: Mutex::default(),
            patient: Semaphore::new(limits::SILENT_BATCHES_MAX),
            closed: AtomicBool::new(false),
            settings,
            time,
        })
    }

    /// Returns how often the producer was replaced, because it had failed for good or was stuck.
    #[must_use]
    pub fn replacements(&self) -> u64 {
        self.producers.replacements()
    }

    /// Finds out how many partitions topics have, and creates our own where they are missing. Topics that are
    /// not known by `until` are not in the answer.
    async fn partitions(
        &self,
        wanted: &BTreeMap<String, bool>,
        until: Moment,
    ) -> BTreeMap<String, i32> {
        let known = self.topics.settled(wanted, until).await;
        let count = |(topic, known)| match known {
            Known::Partitions(count) => Some((topic, count)),
            Known::Not(_) | Known::Asked(_) => None,
        };
        known.into_iter().filter_map(count).collect()
    }

    /// Sends a record, or settles it at once, unless it has to wait for something.
    async fn send(&self, call: &Call<'_>, index: usize) -> Sent {
        let Some(record) = call.records.get(index) else {
            return Sent::Done;
        };
        let settle = |error| call.batch.settle(index, Err(Failure::Final(error)));
        if !record.create_topic && self.settings.names.is_own(&record.topic) {
            settle(PublishError::Refused(format!(
                "{} is a topic of the service's own: use another one",
                record.topic
            )));
            return Sent::Done;
        }
        let count = match self.topics.known(&record.topic, record.create_topic) {
            Known::Partitions(count) => count,
            Known::Not(error) => {
                settle(error);
                return Sent::Done;
            }
            Known::Asked(since) if self.time.moment().since(since) < self.settings.patience => {
                return Sent::TopicUnknown;
            }
            Known::Asked(_) => {
                let reason = format!("{} is not known yet", record.topic);
                settle(PublishError::Unconfirmed(reason));
                return Sent::Done;
            }
        };
        let partition = match choose(record, count, &self.settings) {
            Ok(Choice::Of(partition)) => Some(partition),
            Ok(Choice::Any) => {
                let now = self.time.moment();
                Some(self.lanes.choose(&record.topic, count, now))
            }
            Ok(Choice::Operators) => None,
            Err(error) => {
                // The topic may have more partitions by now.
                self.topics.doubt(&record.topic);
                settle(error);
                return Sent::Done;
            }
        };
        self.enter(call, index, record, partition).await
    }

    fn is_queue_silent(&self, now: Moment) -> bool {
        let lanes = &self.lanes;
        lanes.is_queue_silent(now, self.producers.acknowledged_at())
    }

    /// Tells, once in [`limits::PRODUCER_STALL`], that a stuck producer may be replaced. Its records stay open until its client
    /// has ended, and each record that comes meanwhile finds its lane as stuck as before.
    fn may_replace(&self, now: Moment) -> bool {
        let mut replaced = self.replaced.lock();
        let may = replaced.is_none_or(|at| now.since(at) >= limits::PRODUCER_STALL);
        if may {
            *replaced = Some(now);
        }
        may
    }

    /// Returns the answer to a record that an earlier batch has left open.
    fn remembered(&self, record: &Record) -> Option<Answer> {
        if self.abandoned.is_empty() {
            return None;
        }
        let identity = message::identity(record)?;
        let kept = if record.create_topic {
            limits::ABANDONED_TRACKED_KEPT
        } else {
            limits::ABANDONED_KEPT
        };
        let acknowledged = self.abandoned.ask(&identity, kept)?;
        Some(if acknowledged {
            Ok(())
        } else {
            unconfirmed("it is under way".to_owned())
        })
    }

    /// Sends a record by the lane of its partition.
    async fn enter(
        &self,
        call: &Call<'_>,
        index: usize,
        record: &Record,
        partition: Option<i32>,
    ) -> Sent {
        let settle = |answer| {
            call.batch.settle(index, answer);
            Sent::Done
        };
        if let Some(answer) = self.remembered(record) {
            return settle(answer);
        }
        let now = self.time.moment();
        let lane = self.lanes.of(&record.topic, partition.unwrap_or(-1), now);
        if call.held().iter().any(|held| Arc::ptr_eq(held, &lane)) {
            return Sent::First;
        }
        let by = lane.by(now);
        let client = match self.producers.get(by) {
            Ok(client) => client,
            Err(error) => return settle(unconfirmed(error.to_string())),
        };
        let producer = client.context().number;
        let (entry, stuck) = lane.enter(now, by, producer);
        if stuck && self.may_replace(now) {
            let reason = "another producer gets through where this one does not";
            self.producers.replace_main(reason);
        }
        match entry {
            Entry::Open(_) => {}
            Entry::Wait => {
                call.held().push(lane);
                return Sent::First;
            }
            Entry::Full => {
                return settle(unconfirmed(format!("{} does not answer", record.topic)));
            }
        }
        let place = Box::new(Ticket {
            batch: Arc::clone(&call.batch),
            index,
            lane: Arc::clone(&lane),
            by,
            producer,
            since: now,
            time: self.time.clone(),
            answer: None,
        });
        call.batch.sent(index, &lane, by, now);
        self.offer(&client, record, partition, place, call.until)
            .await;
        Sent::Done
    }

    /// Puts a record into the producer's buffer. Waits while that is full.
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
                place.answer = Some((Err(not_accepted(&error)), outcome(&error)));
                return;
            }
            self.time.sleep(limits::PRODUCER_FULL_PAUSE).await;
        }
    }

    /// Sends the records at `indexes` and waits for their answers, as long as the wait is worth it.
    async fn send_all(&self, records: &[Record], indexes: &[usize], until: Moment) -> Vec<Answer> {
        let chosen: Vec<Record>;
        let records = if indexes.len() == records.len() {
            records
        } else {
            let picked = indexes.iter().filter_map(|index| records.get(*index));
            chosen = picked.cloned().collect();
            &chosen
        };
        let (batch, wait) = Batch::new(records.len(), &self.abandoned);
        let call = Call {
            records,
            batch,
            begun: self.time.moment(),
            until,
            held: Mutex::default(),
        };
        let (mut unknown, mut behind) = (Vec::new(), Vec::new());
        for index in 0..records.len() {
            match self.send(&call, index).await {
                Sent::Done => {}
                Sent::TopicUnknown => unknown.push(index),
                Sent::First => behind.push(index),
            }
        }
        if !unknown.is_empty() {
            let named = unknown.iter().filter_map(|index| records.get(*index));
            let wanted = named
                .map(|record| (record.topic.clone(), record.create_topic))
                .collect();
            let until = call.begun.after(self.settings.patience).min(until);
            self.topics.settled(&wanted, until).await;
            for index in unknown {
                match self.send(&call, index).await {
                    Sent::Done => {}
                    Sent::First => behind.push(index),
                    Sent::TopicUnknown => {
                        let reason = "its topic is not known yet".to_owned();
                        call.batch.settle(index, unconfirmed(reason));
                    }
                }
            }
        }
        self.wait(&call, wait, behind).await;
        call.batch.take(|index| {
            let record = records.get(index)?;
            message::identity(record)
        })
    }

    /// Sends the records that waited for the first one of their partition, where it has come back.
    async fn send_behind(&self, call: &Call<'_>, behind: &mut Vec<usize>) {
        call.held().clear();
        for index in std::mem::take(behind) {
            match self.send(call, index).await {
                Sent::Done => {}
                // A topic that was known may be asked for again.
                Sent::TopicUnknown | Sent::First => behind.push(index),
            }
        }
    }

    /// Waits for the answers of a batch, but not for those of sick topics, unless nothing is acknowledged
    /// anywhere. Sends what waits behind the first record of its partition.
    async fn wait(&self, call: &Call<'_>, wait: oneshot::Receiver<()>, mut behind: Vec<usize>) {
        let mut wait = pin!(wait);
        let mut patient = None;
        let last = call.until.after(GRACE);
        loop {
            let left = last.since(self.time.moment());
            if left.is_zero() {
                return;
            }
            let mut changed = pin!(self.lanes.changed());
            if !behind.is_empty() && left > GRACE {
                // Enabled before the lanes are asked, so that no change is missed.
                changed.as_mut().enable();
                self.send_behind(call, &mut behind).await;
            }
            let waited = async {
                tokio::select! {
                    biased;
                    _ = &mut wait => true,
                    () = changed, if !behind.is_empty() => false,
                }
            };
            if self.time.within(left.min(LOOK_EVERY), waited).await == Some(true) {
                return self.hold_turned_away(call).await;
            }
            let now = self.time.moment();
            let probe = limits::SICK_PROBE_WAIT;
            if !call.batch.waits_for_sick_alone(now, probe) {
                continue;
            }
            if call.batch.has_acknowledged() || !self.is_queue_silent(now) {
                return;
            }
            if patient.is_none() {
                patient = self.patient.try_acquire().ok();
            }
            if patient.is_none() && now.since(call.begun) >= limits::QUEUE_SILENT {
                return;
            }
        }
    }

    /// Holds a batch of which no record could be sent. It would come again at once, which is useless while
    /// nothing is acknowledged anywhere.
    async fn hold_turned_away(&self, call: &Call<'_>) {
        let until = call.begun.after(limits::QUEUE_SILENT);
        while call.batch.was_turned_away() {
            let now = self.time.moment();
            if now >= until || !self.is_queue_silent(now) {
                return;
            }
            self.time.sleep(LOOK_EVERY).await;
        }
    }

    /// Decides the answers to the caller. Records that were refused in company are sent once more, alone.
    /// They may then lie behind later ones of their batch: the only case in which its order is not kept.
    async fn publish_all(&self, records: &[Record]) -> Vec<Result<(), PublishError>> {
        let until = self.time.moment().after(self.settings.publish_timeout);
        let all: Vec<usize> = (0..records.len()).collect();
        let answers = self.send_all(records, &all, until).await;
        let mut told = Vec::with_capacity(answers.len());
        for (index, answer) in answers.into_iter().enumerate() {
            let answer = match answer {
                Err(Failure::Alone(_)) if records.len() > 1 && self.time.moment() < until => {
                    let answers = self.send_all(records, &[index], until).await;
                    answers.into_iter().next().unwrap_or(Ok(()))
                }
                answer => answer,
            };
            told.push(answer.map_err(Failure::told));
        }
        told
    }
}

#[async_trait]
impl Publisher for KafkaPublisher {
    async fn publish(&self, mut records: Vec<Record>) -> Vec<Result<(), PublishError>> {
        if self.closed.load(Ordering::Relaxed) {
            let closed = || PublishError::Unconfirmed("the publisher is closed".to_owned());
            return records.iter().map(|_| Err(closed())).collect();
        }
        let begun = self.time.moment();
        for record in &mut records {
            outgoing::address(&self.settings, record);
        }
        let mut told = self.publish_all(&records).await;
        self.producers.tidy();
        let mut again = Vec::new();
        for (index, (record, answer)) in records.iter().zip(&told).enumerate() {
            if let Err(PublishError::NoSuchTopic(_)) = answer
                && record.create_topic
            {
                // The topic existed when it was asked for, or the number of its partitions has changed.
                self.topics.forget(&record.topic);
                again.push(index);
            }
        }
        if !again.is_empty() {
            let until = begun.after(self.settings.publish_timeout);
            let answers = self.send_all(&records, &again, until).await;
            for (index, answer) in again.into_iter().zip(answers) {
                if let Some(slot) = told.get_mut(index) {
                    *slot = answer.map_err(Failure::told);
                }
            }
        }
        measure(self.time.moment().since(begun), &told);
        told
    }

    async fn ensure_topics(&self, topics: &[String]) -> Result<(), Error> {
        let topics = topics.iter().map(|topic| self.name(topic));
        self.topics.ensure(&topics.collect::<Vec<_>>()).await
    }

    fn name(&self, own: &str) -> String {
        self.settings.names.outer(own).into_owned()
    }

    async fn still_queued(&self, probes: &[Probe]) -> Vec<bool> {
        let outer = |probe: &Probe| Probe {
            topic: self.name(&probe.topic),
            group: self.name(&probe.group),
            ..probe.clone()
        };
        let probes: Vec<Probe> = probes.iter().map(outer).collect();
        let names = probes.iter().map(|probe| (probe.topic.clone(), false));
        let until = self.time.moment().after(limits::TOPIC_PATIENCE);
        let counts = self.partitions(&names.collect(), until).await;
        self.progress.still_queued(&probes, &counts).await
    }

    async fn ping(&self) -> Result<(), Error> {
        let client = self.producers.get(By::Main)?;
        ping::ask(client, self.name(QUESTION_TOPIC), &self.time).await
    }

    async fn close(&self, limit: Duration) {
        self.closed.store(true, Ordering::Relaxed);
        let producers = Arc::clone(&self.producers);
        match blocking(move || producers.flush(limit)).await {
            Ok(Ok(())) => {}
            Ok(Err(reason)) | Err(reason) => {
                tracing::warn!(reason, "closed with records not acknowledged");
            }
        }
    }
}

#[cfg(test)]
#[path = "publisher_tests.rs"]
mod tests;
