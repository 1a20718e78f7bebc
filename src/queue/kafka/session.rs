//! The session runs one client for a consumer, from its subscription until it is closed or replaced.
//!
//! It receives, commits and watches itself. librdkafka reconnects and rejoins, but after faults of the
//! cluster it can stay without a coordinator, or without the leader of a partition, for good and in silence.
//! [`Session::step`] then returns an error, and the consumer goes on with a new session.
//!
//! One commit is on its way at a time, made on a thread of its own: the binding does not report the outcome
//! of asynchronous commits, and an outcome that is unknown may have to be made again.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures_util::{FutureExt as _, StreamExt as _};
use parking_lot::{Mutex, MutexGuard};
use rdkafka::{
    config::FromClientConfigAndContext,
    consumer::{CommitMode, Consumer as _, StreamConsumer},
    error::{KafkaError, KafkaResult, RDKafkaErrorCode},
    message::BorrowedMessage,
};
use tokio::sync::oneshot;

use super::{
    GroupProtocol, Limit, Settings, discard,
    events::{Events, lock, to_delivery, to_list},
    in_hand::{InHand, Place},
    on_thread, signature,
    stall::{self, Found, Stalls},
    unavailable, unsuitable,
};
use crate::{
    limits,
    model::signing::Signing,
    queue::{Delivery, Error},
    time_source::{Moment, TimeSource},
};

/// Comparisons without an answer, about ten seconds apart, before the client is replaced.
const UNANSWERED_MAX: u32 = 3;

/// The most doublings of the patience with a client. In a long outage a new one is made every hour.
const DOUBLINGS_MAX: u32 = 7;

type Client = StreamConsumer<Events>;

/// A client and what is known about it.
pub(super) struct Session {
    client: Arc<Client>,
    group: String,
    time: TimeSource,
    signing: Signing,
    /// When a record without a signature was told of last.
    said_unsigned: Mutex<Option<Moment>>,
    in_hand: Arc<Mutex<InHand>>,
    history: History,
    checks_joins: bool,
    /// The member has a name: librdkafka does not take it out of the group when the client ends.
    is_named: bool,
    /// When it was last known to be a member of the group.
    member_at: Moment,
    commit: Option<Commit>,
    committed_at: Moment,
    question: Option<oneshot::Receiver<KafkaResult<Found>>>,
    compared_at: Moment,
    unanswered: u32,
    /// Everything fetched was taken at least once since the last comparison.
    drained: bool,
}

/// The history that a session leaves to the next one.
#[derive(Default)]
pub(super) struct History {
    /// How many clients were replaced in a row. Each gets twice the patience of the one before.
    replaced: u32,
    stalls: Stalls,
}

/// A commit on its way.
struct Commit {
    marks: BTreeMap<Place, i64>,
    outcome: oneshot::Receiver<KafkaResult<()>>,
}

impl Session {
    /// Subscribes. Up to `ahead_bytes` are received before they are asked for.
    pub(super) fn begin(
        settings: &Settings,
        time: &TimeSource,
        (group, name): (&str, Option<&str>),
        topics: &[String],
        ahead_bytes: usize,
        history: History,
    ) -> Result<Self, Error> {
        let in_hand: Arc<Mutex<InHand>> = Arc::default();
        let events = Events::new(group, Arc::clone(&in_hand));
        let mut config = settings.consumer(group, ahead_bytes);
        if let Some(name) = name {
            config.set("group.instance.id", name);
        }
        let client =
            Client::from_config_and_context(&config, events).map_err(|error| unsuitable(&error))?;
        let topics: Vec<&str> = topics.iter().map(String::as_str).collect();
        client
            .subscribe(&topics)
            .map_err(|error| unsuitable(&error))?;
        let now = time.moment();
        Ok(Self {
            client: Arc::new(client),
            group: group.to_owned(),
            signing: settings.signing.clone(),
            said_unsigned: Mutex::default(),
            time: time.clone(),
            in_hand,
            history,
            // It is not certain that the other protocol tells a member that it has no partitions.
            checks_joins: settings.group_protocol == GroupProtocol::Classic,
            is_named: name.is_some(),
            member_at: now,
            commit: None,
            committed_at: now,
            question: None,
            compared_at: now,
            unanswered: 0,
            drained: false,
        })
    }

    fn in_hand(&self) -> MutexGuard<'_, InHand> {
        lock(&self.in_hand)
    }

    /// Hands out the records in hand and those that have arrived.
    pub(super) fn take(&mut self, max: usize) -> Result<Vec<Delivery>, Error> {
        let mut stream = self.client.stream();
        while lock(&self.in_hand).count() < max {
            match stream.next().now_or_never().flatten() {
                Some(received) => self.take_in(received)?,
                None => break,
            }
        }
        drop(stream);
        let now = self.time.moment();
        let (taken, turn) = {
            let mut in_hand = self.in_hand();
            let taken = in_hand.take(max);
            let turn = in_hand.turn(max, taken.len(), now);
            (taken, turn)
        };
        self.drained |= taken.len() < max;
        if !taken.is_empty() {
            self.unanswered = 0;
            self.history.replaced = 0;
        }
        if let Some(paused) = turn {
            self.set_paused(paused);
        }
        Ok(taken)
    }

    /// Waits until a record is in hand, but not longer than `limit`. Dropping the future loses nothing: there
    /// is no await between a record's arrival and its place in hand.
    ///
    /// While the pool is full and the partitions are not paused yet, no records are taken in. Requests of the
    /// group to its member wait with them, for [`limits::FULL_BEFORE_PAUSE`] at most.
    pub(super) async fn wait(&self, limit: Duration) -> Result<(), Error> {
        let (busy, shut_until) = {
            let in_hand = self.in_hand();
            let busy = self.commit.is_some() || in_hand.has_marks();
            (busy, in_hand.shut_until())
        };
        let limit = if busy {
            limit.min(limits::COMMIT_INTERVAL)
        } else {
            limit
        };
        if let Some(until) = shut_until {
            let left = until.since(self.time.moment());
            self.time.sleep(limit.min(left)).await;
            return Ok(());
        }
        match self.time.within(limit, self.client.recv()).await {
            Some(received) => self.take_in(received),
            None => Ok(()),
        }
    }

    fn take_in(&self, received: KafkaResult<BorrowedMessage<'_>>) -> Result<(), Error> {
        let link = &self.client.context().link;
        match received {
            Ok(message) => {
                link.answered();
                let delivery = to_delivery(&message);
                if signature::is_believed(&self.signing, &delivery) {
                    self.in_hand().push(delivery);
                } else {
                    self.pass_over(&delivery);
                }
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

    /// Passes over a record that was not signed with a key of the service, and says so now and then.
    fn pass_over(&self, forged: &Delivery) {
        self.in_hand().pass_over(forged);
        metrics::counter!("tickwheel_unsigned_messages_total").increment(1);
        let now = self.time.moment();
        let is_due = {
            let mut said = self.said_unsigned.lock();
            let is_due = said.is_none_or(|at| now.since(at) >= limits::UNSIGNED_SAID_EVERY);
            if is_due {
                *said = Some(now);
            }
            is_due
        };
        if is_due {
            let Delivery {
                topic,
                partition,
                offset,
                ..
            } = forged;
            tracing::warn!(
                topic,
                partition,
                offset,
                "a message without a signature of the service was passed over"
            );
        }
    }

    /// Pauses or resumes all partitions. New ones are paused when they are assigned.
    fn set_paused(&self, paused: bool) {
        self.in_hand().paused = paused;
        let changed = self.client.assignment().and_then(|all| {
            if paused {
                self.client.pause(&all)
            } else {
                self.client.resume(&all)
            }
        });
        if let Err(error) = changed {
            tracing::debug!(group = self.group, %error, paused, "cannot pause or resume");
        }
    }

    /// Notes handled deliveries and begins a commit, if none is on its way.
    pub(super) fn handled(&mut self, deliveries: &[(String, i32, i64)]) {
        self.in_hand().handled(deliveries);
        self.commit();
    }

    /// Ends and begins a commit and a comparison when they are due.
    ///
    /// # Errors
    /// The client is to be replaced.
    pub(super) fn step(&mut self) -> Result<(), Error> {
        self.commit();
        self.compare()
    }

    fn commit(&mut self) {
        let now = self.time.moment();
        if let Some(mut commit) = self.commit.take() {
            match commit.outcome.try_recv() {
                Ok(Ok(())) => {}
                Err(oneshot::error::TryRecvError::Empty) => {
                    self.commit = Some(commit);
                    return;
                }
                outcome @ (Ok(Err(_)) | Err(_)) => {
                    tracing::debug!(group = self.group, ?outcome, "commit failed, trying again");
                    self.in_hand().not_committed(&commit.marks);
                }
            }
        }
        if now.since(self.committed_at) < limits::COMMIT_INTERVAL {
            return;
        }
        let marks = self.in_hand().take_marks(None);
        if !marks.is_empty() {
            self.committed_at = now;
            let (client, list) = (Arc::clone(&self.client), to_list(&marks));
            let outcome = on_thread(move || client.commit(&list, CommitMode::Sync));
            self.commit = Some(Commit { marks, outcome });
        }
    }

    /// Compares the consumer with the ends of its partitions now and then.
    fn compare(&mut self) -> Result<(), Error> {
        let now = self.time.moment();
        if self.client.context().is_joined() {
            self.member_at = now;
        }
        if let Some(question) = &mut self.question {
            let found = match question.try_recv() {
                Err(oneshot::error::TryRecvError::Empty) => return Ok(()),
                Err(error) => Err(error.to_string()),
                Ok(found) => found.map_err(|error| error.to_string()),
            };
            self.question = None;
            self.compared_at = now;
            return match found {
                Ok(found) => self.judge(&found, now),
                Err(reason) => self.unanswered(&reason),
            };
        }
        if now.since(self.compared_at) >= limits::CONSUMER_CHECK {
            let (client, positions) = (Arc::clone(&self.client), self.in_hand().positions());
            let limit = Limit::new(&self.time, limits::QUEUE_QUESTION_TIMEOUT);
            self.question = Some(on_thread(move || stall::ask(&client, &positions, &limit)));
        }
        Ok(())
    }

    fn judge(&mut self, found: &Found, now: Moment) -> Result<(), Error> {
        self.unanswered = 0;
        let drained = std::mem::take(&mut self.drained);
        if let Some((topic, partition)) = self.history.stalls.compare(found, drained) {
            let reason = format!("{topic}/{partition} has records that do not arrive");
            return Err(unavailable("receive", reason));
        }
        if self.checks_joins && now.since(self.member_at) >= self.patience(limits::JOIN_TIMEOUT) {
            return Err(unavailable("receive", "the group does not let it join"));
        }
        Ok(())
    }

    /// Notes a comparison without an answer. Several in a row mean an outage, or a client that finds no way
    /// back from one.
    fn unanswered(&mut self, reason: &str) -> Result<(), Error> {
        tracing::debug!(group = self.group, reason, "cannot compare with the ends");
        self.unanswered += 1;
        if limits::CONSUMER_CHECK * self.unanswered
            < self.patience(limits::CONSUMER_CHECK * UNANSWERED_MAX)
        {
            return Ok(());
        }
        Err(unavailable("receive", reason))
    }

    fn patience(&self, first: Duration) -> Duration {
        first * (1 << self.history.replaced.min(DOUBLINGS_MAX))
    }

    /// Gives the client up; the next session learns from it.
    pub(super) fn replace(self) -> History {
        drop(discard(self.client));
        History {
            replaced: self.history.replaced + 1,
            stalls: self.history.stalls,
        }
    }

    /// Commits the handled deliveries and leaves the group, within about `limit`.
    pub(super) async fn close(mut self, limit: Duration) {
        let until = self.time.moment().after(limit);
        // The outcome matters: deliveries that are handled and not committed come again.
        while self.commit.is_some() || self.in_hand().has_marks() {
            self.committed_at = self.time.moment().before(limits::COMMIT_INTERVAL);
            self.commit();
            let Some(commit) = &mut self.commit else {
                continue;
            };
            let left = until.since(self.time.moment());
            let outcome = self.time.within(left, &mut commit.outcome).await;
            let marks = std::mem::take(&mut commit.marks);
            self.commit = None;
            match outcome {
                Some(Ok(Ok(()))) => {}
                Some(_) => {
                    self.in_hand().not_committed(&marks);
                    self.time.sleep(limits::COMMIT_INTERVAL).await;
                }
                None => break,
            }
            if self.time.moment() >= until {
                break;
            }
        }
        self.question = None;
        if self.is_named {
            let left = until.since(self.time.moment());
            self.leave(left.min(limits::LEAVE_TIMEOUT)).await;
        }
        let gone = discard(self.client);
        let left = until.since(self.time.moment());
        if self.time.within(left, gone).await.is_none() {
            tracing::warn!(
                group = self.group,
                "leaving the group takes too long, going on without"
            );
        }
    }

    /// Takes a member with a name out of its group. A client that is only dropped leaves such a member to its session.
    async fn leave(&self, limit: Duration) {
        let until = self.time.moment().after(limit);
        // One that is about to join leaves once it has.
        self.poll_until(until, || self.client.context().is_joined())
            .await;
        self.client.unsubscribe();
        let has_none = || {
            let assigned = self.client.assignment();
            assigned.map_or(true, |assigned| assigned.count() == 0)
        };
        self.poll_until(until, || !self.client.context().is_joined() || has_none())
            .await;
        // The client leaves once its partitions are closed, and one that ends before that does not leave.
        let settled = self.time.moment().after(limits::LEAVE_SETTLES);
        self.poll_until(settled, || false).await;
    }

    /// Serves the callbacks until something is so. Records that come meanwhile are left to others.
    async fn poll_until(&self, until: Moment, is_so: impl Fn() -> bool) {
        while !is_so() {
            let left = until.since(self.time.moment());
            if left.is_zero() {
                return;
            }
            let step = left.min(limits::LEAVE_STEP);
            if let Some(Err(KafkaError::MessageConsumptionFatal(_))) =
                self.time.within(step, self.client.recv()).await
            {
                return;
            }
        }
    }
}
