//! From delivery reports to answers: one counter and one wake-up per batch.
//!
//! librdkafka reports each record on its polling thread. Waking a task for each would cost more than sending it, so a
//! batch counts down and wakes its publisher once. A report that comes after the publisher gave up finds nobody; that is
//! no error.

use std::sync::{Arc, Mutex, PoisonError};

use rdkafka::{
    client::ClientContext,
    config::RDKafkaLogLevel,
    error::{KafkaError, RDKafkaErrorCode},
    producer::{DeliveryResult, ProducerContext},
};
use tokio::sync::oneshot;

use super::link::Link;
use crate::queue::PublishError;

/// Why a record was not acknowledged, before it is decided what the caller is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// The caller is told this.
    Final(PublishError),
    /// The broker refused all the records that travelled together; this one may not be to blame.
    Alone(String),
}

pub(super) type Answer = Result<(), Failure>;

/// The open records of one call.
#[derive(Debug)]
pub(super) struct Batch {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    answers: Vec<Option<Answer>>,
    open: usize,
    done: Option<oneshot::Sender<()>>,
}

impl Batch {
    /// Returns a batch of `count` open records, and what resolves when none is open any more.
    pub(super) fn new(count: usize) -> (Arc<Self>, oneshot::Receiver<()>) {
        let (done, wait) = oneshot::channel();
        let state = State {
            answers: vec![None; count],
            open: count,
            done: Some(done).filter(|_| count > 0),
        };
        let batch = Self {
            state: Mutex::new(state),
        };
        (Arc::new(batch), wait)
    }

    /// Answers a record; the first answer counts.
    pub(super) fn settle(&self, index: usize, answer: Answer) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(slot) = state.answers.get_mut(index) else {
            return;
        };
        if slot.replace(answer).is_none() {
            state.open -= 1;
        }
        if state.open == 0
            && let Some(done) = state.done.take()
        {
            // Nobody waits when the publisher gave up before.
            done.send(()).unwrap_or_default();
        }
    }

    /// Takes the answers; what is still open is unconfirmed.
    pub(super) fn take(&self) -> Vec<Answer> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let silent = || PublishError::Unconfirmed("no acknowledgement in time".to_owned());
        state
            .answers
            .iter_mut()
            .map(|answer| {
                answer
                    .take()
                    .unwrap_or_else(|| Err(Failure::Final(silent())))
            })
            .collect()
    }
}

/// What librdkafka carries with each record.
pub(super) type Place = Box<(Arc<Batch>, usize)>;

/// Receives the reports of one producer.
#[derive(Debug)]
pub(super) struct Reports {
    pub(super) link: Link,
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

    fn delivery(&self, report: &DeliveryResult<'_>, place: Place) {
        let (batch, index) = *place;
        let answer = match report {
            Ok(_) => {
                self.link.answered();
                Ok(())
            }
            Err((error, _)) => {
                if error.rdkafka_error_code() == Some(RDKafkaErrorCode::Fatal) {
                    self.link.spend("it failed for good");
                }
                Err(failure(error))
            }
        };
        batch.settle(index, answer);
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

    #[tokio::test]
    async fn a_batch_wakes_once_and_the_first_open_record_is_unconfirmed() {
        let (batch, wait) = Batch::new(2);
        batch.settle(1, Ok(()));
        batch.settle(1, Ok(()));
        let answers = batch.take();
        assert!(matches!(
            answers.as_slice(),
            [Err(Failure::Final(PublishError::Unconfirmed(_))), Ok(())]
        ));
        batch.settle(0, Ok(()));
        wait.await.unwrap();
    }

    #[tokio::test]
    async fn an_empty_batch_waits_for_nothing() {
        let (batch, wait) = Batch::new(0);
        assert!(wait.await.is_err());
        assert_eq!(batch.take(), Vec::new());
    }
}
