//! The batch turns delivery reports into answers for its publisher, with one counter and one wake-up per
//! batch.
//!
//! librdkafka reports each record on its polling thread. To wake a task for each would cost more than sending
//! it, so a batch counts down and wakes its publisher once. A batch may be answered while records of it are
//! still open, because their topic is sick. Their outcome is remembered (`abandoned.rs`), so that a
//! repetition does not send them again.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use rdkafka::{
    client::ClientContext,
    config::RDKafkaLogLevel,
    error::{KafkaError, RDKafkaErrorCode},
    producer::{DeliveryResult, ProducerContext},
};
use tokio::sync::oneshot;

use super::{
    abandoned::Abandoned,
    lanes::{By, Lane, Outcome},
    link::Link,
};
use crate::{
    queue::PublishError,
    time_source::{Moment, TimeSource},
};

/// The reason why a record was not acknowledged, before the answer to the caller is decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// The caller gets this answer.
    Final(PublishError),
    /// The broker refused all the records that travelled together; this one may not be to blame.
    Alone(String),
}

impl Failure {
    /// Returns the final answer to the caller.
    pub(super) fn told(self) -> PublishError {
        match self {
            Self::Final(error) => error,
            Self::Alone(reason) => PublishError::Refused(reason),
        }
    }
}

pub(super) type Answer = Result<(), Failure>;

/// Returns the answer to a record that may or may not be published.
pub(super) const fn unconfirmed(reason: String) -> Answer {
    Err(Failure::Final(PublishError::Unconfirmed(reason)))
}

/// The records of one call.
#[derive(Debug)]
pub(super) struct Batch {
    state: Mutex<State>,
    abandoned: Arc<Abandoned>,
}

#[derive(Debug)]
struct State {
    answers: Vec<Option<Answer>>,
    /// The lane in which each record waits, once it was sent.
    lanes: Vec<Option<(Arc<Lane>, By, Moment)>>,
    open: usize,
    acknowledged: usize,
    done: Option<oneshot::Sender<()>>,
    /// Records without an answer yet, by place.
    left_open: HashMap<usize, String>,
}

impl Batch {
    /// Returns a batch of `count` open records, and a future that resolves when none is open any more.
    pub(super) fn new(
        count: usize,
        abandoned: &Arc<Abandoned>,
    ) -> (Arc<Self>, oneshot::Receiver<()>) {
        let (done, wait) = oneshot::channel();
        let state = State {
            answers: vec![None; count],
            lanes: vec![None; count],
            open: count,
            acknowledged: 0,
            done: Some(done).filter(|_| count > 0),
            left_open: HashMap::new(),
        };
        let batch = Self {
            state: Mutex::new(state),
            abandoned: Arc::clone(abandoned),
        };
        (Arc::new(batch), wait)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Notes the lane in which a record waits for its answer from now on.
    pub(super) fn sent(&self, index: usize, lane: &Arc<Lane>, by: By, at: Moment) {
        if let Some(slot) = self.lock().lanes.get_mut(index) {
            *slot = Some((Arc::clone(lane), by, at));
        }
    }

    /// Answers a record; the first answer counts.
    pub(super) fn settle(&self, index: usize, answer: Answer) {
        let mut state = self.lock();
        if let Some(identity) = state.left_open.remove(&index) {
            self.abandoned.settle(identity, answer.is_ok());
            return;
        }
        let acknowledged = answer.is_ok();
        let Some(slot) = state.answers.get_mut(index) else {
            return;
        };
        if slot.replace(answer).is_none() {
            state.open -= 1;
            state.acknowledged += usize::from(acknowledged);
        }
        if state.open == 0
            && let Some(done) = state.done.take()
        {
            // If the publisher gave up before, the message has no receiver.
            done.send(()).unwrap_or_default();
        }
    }

    /// Tells whether something was acknowledged.
    pub(super) fn has_acknowledged(&self) -> bool {
        self.lock().acknowledged > 0
    }

    /// Tells whether no record could be sent, and one would be sent again at once.
    pub(super) fn was_turned_away(&self) -> bool {
        let state = self.lock();
        let unconfirmed = |answer: &Option<Answer>| {
            matches!(
                answer,
                Some(Err(Failure::Final(PublishError::Unconfirmed(_))))
            )
        };
        state.acknowledged == 0
            && state.lanes.iter().all(Option::is_none)
            && state.answers.iter().any(unconfirmed)
    }

    /// Tells whether all open records wait only for sick lanes, so that they should be waited for no longer.
    /// A record that left by the spare producer counts only after it has waited for `probe`.
    pub(super) fn waits_for_sick_alone(&self, now: Moment, probe: Duration) -> bool {
        let state = self.lock();
        let open = state.answers.iter().zip(&state.lanes);
        let sick = |lane: &Option<(Arc<Lane>, By, Moment)>| match lane {
            Some((lane, By::Main, _)) => lane.is_sick(now),
            Some((lane, By::Spare, at)) => now.since(*at) >= probe && lane.is_sick(now),
            // It waits for room in the producer's buffer.
            None => false,
        };
        open.filter(|(answer, _)| answer.is_none())
            .all(|(_, lane)| sick(lane))
    }

    /// Takes the answers. A record that is still open is unconfirmed, and is remembered under its identity if
    /// it has one.
    pub(super) fn take(&self, identity: impl Fn(usize) -> Option<String>) -> Vec<Answer> {
        let mut state = self.lock();
        let mut answers = Vec::with_capacity(state.answers.len());
        for index in 0..state.answers.len() {
            let answer = state.answers.get_mut(index).and_then(Option::take);
            if answer.is_none()
                && state.lanes.get(index).is_some_and(Option::is_some)
                && let Some(identity) = identity(index)
            {
                self.abandoned.open(&identity);
                state.left_open.insert(index, identity);
            }
            answers.push(answer.unwrap_or_else(|| {
                let silent = "no acknowledgement in time".to_owned();
                unconfirmed(silent)
            }));
        }
        answers
    }
}

/// The ticket of a record on its way, which librdkafka carries with the record. However the record ends, its
/// lane and its batch learn of it.
#[derive(Debug)]
pub(super) struct Ticket {
    pub(super) batch: Arc<Batch>,
    pub(super) index: usize,
    pub(super) lane: Arc<Lane>,
    pub(super) by: By,
    /// The number of its producer.
    pub(super) producer: u64,
    /// When it entered its lane.
    pub(super) since: Moment,
    pub(super) time: TimeSource,
    /// None until it is known.
    pub(super) answer: Option<(Answer, Outcome)>,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let lost = || {
            let reason = "its producer was given up".to_owned();
            (unconfirmed(reason), Outcome::GivenUp)
        };
        let (answer, outcome) = self.answer.take().unwrap_or_else(lost);
        let now = self.time.moment();
        let by = (self.by, self.producer);
        self.lane.leave(by, self.since, now, outcome);
        self.batch.settle(self.index, answer);
    }
}

/// The value that librdkafka carries with each record.
pub(super) type Place = Box<Ticket>;

/// Receives the reports of one producer.
#[derive(Debug)]
pub(super) struct Reports {
    /// The number of the producer: a later one has a greater number.
    pub(super) number: u64,
    pub(super) link: Link,
    pub(super) time: TimeSource,
    /// When a record was acknowledged last, by either producer.
    pub(super) acknowledged: Arc<Mutex<Option<Moment>>>,
}

impl ClientContext for Reports {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.link.write_log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.link.note(&error, reason);
    }
}

impl ProducerContext for Reports {
    type DeliveryOpaque = Place;

    fn delivery(&self, report: &DeliveryResult<'_>, mut place: Place) {
        place.answer = Some(match report {
            Ok(_) => {
                self.link.answered();
                let now = Some(self.time.moment());
                *self.acknowledged.lock() = now;
                (Ok(()), Outcome::Acknowledged)
            }
            Err((error, _)) => {
                if error.rdkafka_error_code() == Some(RDKafkaErrorCode::Fatal) {
                    self.link.spend("it failed for good");
                }
                (Err(failure(error)), outcome(error))
            }
        });
    }
}

/// Decides what an error says about the partition it came from.
pub(super) fn outcome(error: &KafkaError) -> Outcome {
    use RDKafkaErrorCode as Code;
    match error.rdkafka_error_code() {
        Some(Code::PurgeQueue | Code::PurgeInflight | Code::Fatal | Code::QueueFull) => {
            Outcome::GivenUp
        }
        _ => match failure(error) {
            Failure::Final(PublishError::Unconfirmed(_)) => Outcome::TimedOut,
            Failure::Final(PublishError::Refused(_) | PublishError::NoSuchTopic(_))
            | Failure::Alone(_) => Outcome::Answered,
        },
    }
}

/// Decides what an error means for the record it was reported for.
pub(super) fn failure(error: &KafkaError) -> Failure {
    use RDKafkaErrorCode as Code;
    let reason = match error.rdkafka_error_code() {
        Some(code) => code.to_string(),
        None => error.to_string(),
    };
    match error.rdkafka_error_code() {
        Some(
            Code::MessageSizeTooLarge
            | Code::MessageBatchTooLarge
            | Code::InvalidRecord
            | Code::InvalidDifferentRecord,
        ) => Failure::Alone(reason),
        Some(
            Code::TopicAuthorizationFailed
            | Code::ClusterAuthorizationFailed
            | Code::InvalidTopic
            | Code::PolicyViolation
            | Code::InvalidArgument,
        ) => Failure::Final(PublishError::Refused(reason)),
        Some(Code::UnknownTopic | Code::UnknownPartition | Code::UnknownTopicOrPartition) => {
            Failure::Final(PublishError::NoSuchTopic(reason))
        }
        _ if matches!(error, KafkaError::Nul(_)) => Failure::Final(PublishError::Refused(reason)),
        _ => Failure::Final(PublishError::Unconfirmed(reason)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(code: RDKafkaErrorCode) -> Failure {
        failure(&KafkaError::MessageProduction(code))
    }

    #[test]
    fn doubt_is_unconfirmed() {
        for code in [
            RDKafkaErrorCode::MessageTimedOut,
            RDKafkaErrorCode::NotEnoughReplicasAfterAppend,
            RDKafkaErrorCode::PurgeInflight,
            RDKafkaErrorCode::Fatal,
        ] {
            let failure = of(code);
            let unconfirmed = matches!(failure, Failure::Final(PublishError::Unconfirmed(_)));
            assert!(unconfirmed, "{code:?} became {failure:?}");
        }
    }

    #[test]
    fn a_refused_companion_is_tried_alone() {
        let failure = of(RDKafkaErrorCode::InvalidDifferentRecord);
        assert!(matches!(failure, Failure::Alone(_)), "{failure:?}");
    }

    #[test]
    fn only_silence_speaks_against_a_partition() {
        let of = |code| outcome(&KafkaError::MessageProduction(code));
        assert_eq!(of(RDKafkaErrorCode::MessageTimedOut), Outcome::TimedOut);
        assert_eq!(of(RDKafkaErrorCode::NotEnoughReplicas), Outcome::TimedOut);
        assert_eq!(of(RDKafkaErrorCode::PurgeQueue), Outcome::GivenUp);
        assert_eq!(of(RDKafkaErrorCode::MessageSizeTooLarge), Outcome::Answered);
    }

    fn batch(count: usize) -> (Arc<Batch>, oneshot::Receiver<()>, Arc<Abandoned>) {
        let abandoned = Arc::new(Abandoned::new(TimeSource::real()));
        let (batch, wait) = Batch::new(count, &abandoned);
        (batch, wait, abandoned)
    }

    #[tokio::test]
    async fn a_batch_wakes_once_and_the_first_open_record_is_unconfirmed() {
        let (batch, wait, _) = batch(2);
        batch.settle(1, Ok(()));
        batch.settle(1, Ok(()));
        let answers = batch.take(|_| None);
        assert!(matches!(
            answers.as_slice(),
            [Err(Failure::Final(PublishError::Unconfirmed(_))), Ok(())]
        ));
        batch.settle(0, Ok(()));
        wait.await.unwrap();
    }

    #[tokio::test]
    async fn an_empty_batch_waits_for_nothing() {
        let (batch, wait, _) = batch(0);
        assert!(wait.await.is_err());
        assert_eq!(batch.take(|_| None), Vec::new());
    }

    #[test]
    fn what_is_acknowledged_after_its_batch_was_answered_is_remembered() {
        let (batch, _wait, abandoned) = batch(2);
        let time = TimeSource::real();
        let lane =
            super::super::lanes::Lanes::new(Duration::from_secs(1)).of("t", 0, time.moment());
        let send = |index| {
            let since = time.moment();
            lane.enter(since, By::Main, 1);
            batch.sent(index, &lane, By::Main, since);
            Ticket {
                batch: Arc::clone(&batch),
                index,
                lane: Arc::clone(&lane),
                by: By::Main,
                producer: 1,
                since,
                time: time.clone(),
                answer: None,
            }
        };
        let (mut first, second) = (send(0), send(1));
        batch.take(|index| Some(index.to_string()));
        let ask = |name| abandoned.ask(name, crate::limits::ABANDONED_KEPT);
        assert_eq!(ask("0"), Some(false));
        first.answer = Some((Ok(()), Outcome::Acknowledged));
        drop((first, second));
        assert_eq!(ask("0"), Some(true));
        assert_eq!(ask("0"), None, "it is told once");
        assert_eq!(ask("1"), None, "a lost one may be sent again");
    }
}
