//! The consuming side: one member of one group.
//!
//! Deliveries are handled in any order; what is committed is the low-water mark of each partition, one commit on its way at
//! a time, so that commits grow sparser with load. While the worker's pool is full, records are taken in hand up to a
//! bound before the partitions are paused, because pausing throws away what librdkafka fetched ahead.
//!
//! librdkafka's own errors end nothing: it reconnects and rejoins by itself. What it calls fatal, a partition that it
//! has stopped fetching, and half a minute without any answer make the next call begin with a new client.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use async_trait::async_trait;
use futures_util::{FutureExt as _, StreamExt as _, future};
use rdkafka::{
    config::FromClientConfigAndContext,
    consumer::{CommitMode, Consumer as _, StreamConsumer},
    error::{KafkaError, KafkaResult, RDKafkaErrorCode},
    message::BorrowedMessage,
};
use tokio::task::JoinHandle;

use super::{
    Limit, Settings, blocking, discard,
    events::{Events, lock, to_delivery, to_list},
    in_hand::{InHand, Place},
    link::Link,
    stall::{self, Found, Stalls},
    topics::Topics,
    unavailable, unsuitable,
};
use crate::{
    limits,
    queue::{Consumer, Delivery, Error},
    time_source::{Moment, TimeSource},
};

/// Comparisons without an answer, about ten seconds apart, before the client is replaced.
const UNANSWERED_MAX: u32 = 3;

/// While a commit is on its way, how often it is looked whether the next one can begin.
const COMMIT_PAUSE: Duration = Duration::from_millis(20);

/// Wait before a new client is made, so that one that fails at once is not made without end.
const REPLACEMENT_PAUSE: Duration = Duration::from_secs(1);

/// How long leaving the group may hold a shutdown up.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

type Client = StreamConsumer<Events>;

/// A member of a consumer group.
pub struct KafkaConsumer {
    settings: Settings,
    time: TimeSource,
    group: String,
    topics: Vec<String>,
    in_hand: Arc<Mutex<InHand>>,
    /// None after [`Consumer::close`] and, until the next call, after a fatal error.
    client: Option<Arc<Client>>,
    closed: bool,
    watch: Watch,
}

impl fmt::Debug for KafkaConsumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaConsumer")
            .field("group", &self.group)
            .field("topics", &self.topics)
            .finish_non_exhaustive()
    }
}

impl KafkaConsumer {
    /// Subscribes. Topics that do not exist are created first if the cluster allows it; otherwise they are read as soon as
    /// someone creates them. Needs a tokio runtime. A member that does not call [`Consumer::receive`] for a minute
    /// loses its partitions.
    ///
    /// # Errors
    /// [`Error::Unsuitable`] when librdkafka does not accept the settings.
    pub async fn connect(
        settings: Settings,
        time: TimeSource,
        group: &str,
        topics: &[String],
    ) -> Result<Self, Error> {
        let created = Topics::new(settings.clone(), time.clone())
            .ensure(topics)
            .await;
        if let Err(error) = created {
            tracing::warn!(group, %error, "cannot create topics, waiting for them to appear");
        }
        let mut consumer = Self {
            settings,
            time,
            group: group.to_owned(),
            topics: topics.to_vec(),
            in_hand: Arc::default(),
            client: None,
            closed: false,
            watch: Watch::default(),
        };
        consumer.reconnect()?;
        Ok(consumer)
    }

    fn reconnect(&mut self) -> Result<(), Error> {
        let events = Events {
            link: Link::new(&self.group),
            in_hand: Arc::clone(&self.in_hand),
        };
        let client = Client::from_config_and_context(&self.settings.consumer(&self.group), events)
            .map_err(|error| unsuitable(&error))?;
        let topics: Vec<&str> = self.topics.iter().map(String::as_str).collect();
        client
            .subscribe(&topics)
            .map_err(|error| unsuitable(&error))?;
        self.client = Some(Arc::new(client));
        self.watch.begun = Some(self.time.moment());
        Ok(())
    }

    fn in_hand(&self) -> MutexGuard<'_, InHand> {
        lock(&self.in_hand)
    }

    /// Takes in what is there without waiting, until `enough` records are in hand.
    fn gather(&self, client: &Client, enough: usize) -> Result<(), Error> {
        let mut stream = client.stream();
        while self.in_hand().count() < enough {
            match stream.next().now_or_never().flatten() {
                Some(received) => self.take_in(client, received)?,
                None => break,
            }
        }
        Ok(())
    }

    fn take_in(
        &self,
        client: &Client,
        received: KafkaResult<BorrowedMessage<'_>>,
    ) -> Result<(), Error> {
        let link = &client.context().link;
        match received {
            Ok(message) => {
                link.answered();
                self.in_hand().push(to_delivery(&message));
                Ok(())
            }
            Err(KafkaError::MessageConsumptionFatal(RDKafkaErrorCode::UnsupportedVersion)) => {
                let reason = "the brokers do not know the group protocol `consumer`: use `classic`";
                Err(Error::Unsuitable {
                    reason: reason.to_owned(),
                })
            }
            Err(error @ KafkaError::MessageConsumptionFatal(_)) => {
                Err(unavailable("receive", error))
            }
            Err(error) => {
                link.note(&error, "while receiving");
                Ok(())
            }
        }
    }

    /// Compares the consumer with the ends of its partitions now and then; an error has the client replaced.
    fn watch(&mut self, client: &Arc<Client>) -> Result<(), Error> {
        if let Some(question) = &mut self.watch.question {
            let Some(found) = question.now_or_never() else {
                return Ok(());
            };
            self.watch.question = None;
            let drained = std::mem::take(&mut self.watch.drained);
            let found = match found {
                Ok(Ok(found)) => found,
                Ok(Err(error)) => return self.unanswered(&error.to_string()),
                Err(error) => return self.unanswered(&error.to_string()),
            };
            self.watch.unanswered = 0;
            return match self.watch.stalls.compare(&found, drained) {
                Some((topic, partition)) => {
                    let reason = format!("{topic}/{partition} has records that do not arrive");
                    Err(unavailable("receive", reason))
                }
                None => Ok(()),
            };
        }
        let begun = self.watch.begun.get_or_insert_with(|| self.time.moment());
        if self.time.moment().since(*begun) >= limits::CONSUMER_CHECK {
            self.watch.begun = None;
            let (client, positions) = (Arc::clone(client), self.in_hand().positions());
            let limit = Limit::new(&self.time, limits::QUEUE_QUESTION_TIMEOUT);
            let question = move || stall::ask(&client, &positions, &limit);
            self.watch.question = Some(tokio::task::spawn_blocking(question));
        }
        Ok(())
    }

    /// Notes a comparison without an answer. Several in a row are an outage, or a client that finds no way back from one.
    fn unanswered(&mut self, reason: &str) -> Result<(), Error> {
        tracing::debug!(group = self.group, reason, "cannot compare with the ends");
        self.watch.unanswered += 1;
        if self.watch.unanswered < UNANSWERED_MAX {
            return Ok(());
        }
        self.watch.unanswered = 0;
        Err(unavailable("receive", reason))
    }

    /// Begins a commit if something is handled and none is on its way.
    fn commit(&self, client: &Client) {
        let marks = self.in_hand().begin_commit(self.time.moment());
        if marks.is_empty() {
            return;
        }
        if let Err(error) = client.commit(&to_list(&marks), CommitMode::Async) {
            tracing::debug!(group = self.group, %error, "cannot commit, trying again");
            let places: Vec<Place> = marks.into_iter().map(|(place, _)| place).collect();
            self.in_hand().end_commit(&places);
        }
    }

    /// Pauses or resumes all partitions. New ones are paused as they are assigned.
    fn set_paused(&self, client: &Client, paused: bool) {
        self.in_hand().paused = paused;
        let changed = client.assignment().and_then(|all| {
            if paused {
                client.pause(&all)
            } else {
                client.resume(&all)
            }
        });
        if let Err(error) = changed {
            tracing::debug!(group = self.group, %error, paused, "cannot pause or resume");
        }
    }

    async fn receive_from(
        &mut self,
        client: &Arc<Client>,
        max: usize,
        wait: Duration,
    ) -> Result<Vec<Delivery>, Error> {
        let until = self.time.moment().after(wait);
        loop {
            self.watch(client)?;
            self.commit(client);
            self.gather(client, max)?;
            self.watch.drained |= max > 0 && self.in_hand().count() < max;
            let (taken, full, paused, dirty) = {
                let mut in_hand = self.in_hand();
                let taken = in_hand.take(max);
                let dirty = in_hand.has_commits();
                (taken, in_hand.is_full(), in_hand.paused, dirty)
            };
            if !taken.is_empty() {
                self.watch.unanswered = 0;
                return Ok(taken);
            }
            if paused && max > 0 {
                self.set_paused(client, false);
            } else if !paused && max == 0 && full {
                self.set_paused(client, true);
            }
            let left = until.since(self.time.moment());
            if left.is_zero() {
                return Ok(Vec::new());
            }
            // There is no await between a record's arrival and its place in hand: a call that is dropped loses nothing.
            let slice = if dirty { left.min(COMMIT_PAUSE) } else { left };
            if let Some(received) = self.time.within(slice, client.recv()).await {
                self.take_in(client, received)?;
            }
        }
    }
}

#[async_trait]
impl Consumer for KafkaConsumer {
    async fn receive(&mut self, max: usize, wait: Duration) -> Result<Vec<Delivery>, Error> {
        if self.closed {
            return Err(unavailable("receive", "the consumer is closed"));
        }
        if self.client.is_none() {
            self.reconnect()?;
        }
        let Some(client) = self.client.clone() else {
            return Ok(Vec::new());
        };
        let received = self.receive_from(&client, max, wait).await;
        let error = match received {
            Err(error @ Error::Unavailable { .. }) => error,
            other => return other,
        };
        tracing::warn!(group = self.group, %error, "consumer is replaced");
        self.client = None;
        discard(client);
        // The new member begins at the committed offsets; what is in hand comes again.
        self.in_hand = Arc::default();
        self.time.sleep(wait.min(REPLACEMENT_PAUSE)).await;
        Ok(Vec::new())
    }

    fn handled(&mut self, deliveries: &[(String, i32, i64)]) {
        self.in_hand().handled(deliveries);
        if let Some(client) = &self.client {
            self.commit(client);
        }
    }

    async fn close(&mut self) {
        self.closed = true;
        let Some(client) = self.client.take() else {
            return;
        };
        // A comparison on its way holds the client too. It has its own time limit, and its answer does not matter any more.
        if let Some(Err(error)) = future::OptionFuture::from(self.watch.question.take()).await {
            tracing::debug!(%error, "a comparison was given up");
        }
        // Dropping the client revokes its partitions, which commits what is handled, and leaves the group.
        let left = self
            .time
            .within(CLOSE_TIMEOUT, blocking(move || drop(client)))
            .await;
        if left.is_none() {
            tracing::warn!(
                group = self.group,
                "leaving the group takes too long, going on without"
            );
        }
    }
}

impl Drop for KafkaConsumer {
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            discard(client);
        }
    }
}

/// Looks for partitions that are not fetched any more.
#[derive(Default)]
struct Watch {
    stalls: Stalls,
    /// When the last comparison ended.
    begun: Option<Moment>,
    question: Option<JoinHandle<KafkaResult<Found>>>,
    /// Comparisons without an answer, one after the other.
    unanswered: u32,
    /// Everything fetched was taken at some time since the last comparison.
    drained: bool,
}
