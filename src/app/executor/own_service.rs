//! The service of the executor's own node, as a worker calls it: without a network, and without the checks that keep clients from
//! the service's own tasks.

use std::{collections::HashMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use parking_lot::{Mutex, MutexGuard};

use crate::{
    api::{
        poll::{LeaveRequest, LeaveResponse, PollRequest, PollResponse},
        worker::{
            ClaimRequest, ClaimResponse, HeartbeatRequest, HeartbeatResponse, HeartbeatResult,
            SettleRequest, SettleResponse, SettleResult, SubscribeRequest, SubscribeResponse,
        },
    },
    client::Error,
    flow::{
        base::api::{self, SettleAnswer},
        stages::{poll, service::Service},
    },
    http::{
        self,
        convert::worker_calls::{heartbeat_request, settle_request},
    },
    model::{event::Outcome, history::Answered, ids::TaskId, task::Spec},
    worker::Server,
};

/// The name under which errors tell of it.
const NAME: &str = "this node";

/// Tasks that are handed out and not begun, and answers that are not reported. Those of a task that lost its lease before
/// stay among them.
const SPECS_MAX: usize = 4096;

/// The service of a node. See the module.
#[derive(Debug)]
pub(super) struct OwnService {
    service: Arc<Service>,
    /// The tasks that were claimed and are not begun. A worker is told no targets.
    specs: Mutex<HashMap<(TaskId, u32), Arc<Spec>>>,
    /// The answers over HTTP to attempts that are not settled.
    answers: Mutex<HashMap<(TaskId, u32), Answered>>,
}

impl OwnService {
    pub(super) fn new(service: Arc<Service>) -> Self {
        Self {
            service,
            specs: Mutex::default(),
            answers: Mutex::default(),
        }
    }

    /// Takes a task that was claimed.
    pub(super) fn take(&self, id: TaskId, attempt: u32) -> Option<Arc<Spec>> {
        let mut specs = self.specs.lock();
        specs.remove(&(id, attempt))
    }

    /// Keeps the answer to an attempt for its report. One of an attempt that is lost before stays among the answers.
    pub(super) fn note(&self, id: TaskId, attempt: u32, answered: Answered) {
        let mut answers = self.answers();
        if answers.len() >= SPECS_MAX {
            answers.clear();
        }
        answers.insert((id, attempt), answered);
    }

    fn answers(&self) -> MutexGuard<'_, HashMap<(TaskId, u32), Answered>> {
        self.answers.lock()
    }
}

fn unavailable(reason: &impl ToString) -> Error {
    Error::Transport {
        server: NAME.to_owned(),
        reason: reason.to_string(),
        sent: false,
    }
}

fn not_called<T>() -> Result<T, Error> {
    Err(Error::Invalid(
        "a worker that polls does not call this".to_owned(),
    ))
}

#[async_trait]
impl Server for OwnService {
    async fn poll(&self, request: &PollRequest, wait: Duration) -> Result<PollResponse, Error> {
        let max = request.max_tasks.unwrap_or(1);
        let polled = self.service.poll_internal(poll::PollRequest {
            worker: request.worker.clone(),
            callbacks: request.callbacks.clone(),
            max: usize::try_from(max).unwrap_or(usize::MAX),
            wait,
            version: None,
        });
        let handout = polled.await.map_err(|refusal| unavailable(&refusal))?;
        let answer = PollResponse::from(&handout);
        let taken = handout
            .tasks()
            .filter(|task| task.spec.queue() != task.spec.callback());
        let taken: Vec<_> = taken
            .map(|task| ((task.id, task.attempt), Arc::clone(&task.spec)))
            .collect();
        let mut specs = self.specs.lock();
        if specs.len() >= SPECS_MAX {
            specs.clear();
        }
        specs.extend(taken);
        drop(specs);
        // Nothing lies between the answer and the worker.
        drop(handout.accept());
        Ok(answer)
    }

    async fn leave(&self, request: &LeaveRequest) -> Result<LeaveResponse, Error> {
        self.service.dismiss(&request.worker, |_| true);
        Ok(LeaveResponse {})
    }

    async fn subscribe(&self, _: &SubscribeRequest) -> Result<SubscribeResponse, Error> {
        not_called()
    }

    async fn claim(&self, _: &ClaimRequest) -> Result<ClaimResponse, Error> {
        not_called()
    }

    async fn heartbeat(
        &self,
        request: &HeartbeatRequest,
        _: Duration,
    ) -> Result<HeartbeatResponse, Error> {
        let read = request.tasks.iter().map(heartbeat_request).collect();
        let heartbeat = async |items| {
            let answers = self.service.heartbeat(&request.worker, items).await;
            answers.into_iter().map(HeartbeatResult::from).collect()
        };
        Ok(HeartbeatResponse {
            results: one_by_one(read, heartbeat).await,
        })
    }

    async fn settle(&self, request: &SettleRequest) -> Result<SettleResponse, Error> {
        let read = request.tasks.iter().map(settle_request).collect();
        let settle = async |mut items: Vec<api::SettleRequest>| {
            for item in &mut items {
                // It was given back before it began.
                self.take(item.id, item.attempt);
                item.answered = self.answers().get(&(item.id, item.attempt)).cloned();
                item.outcome = no_sooner(std::mem::replace(&mut item.outcome, UNSET));
            }
            let attempts: Vec<_> = items.iter().map(|item| (item.id, item.attempt)).collect();
            let answers = self.service.settle(&request.worker, items).await;
            for (attempt, answer) in attempts.iter().zip(&answers) {
                // A report without an answer is repeated.
                if !matches!(answer, SettleAnswer::Fault(_)) {
                    self.answers().remove(attempt);
                }
            }
            answers.into_iter().map(SettleResult::from).collect()
        };
        Ok(SettleResponse {
            results: one_by_one(read, settle).await,
        })
    }
}

/// Takes the place of an outcome that is moved.
const UNSET: Outcome = Outcome::Succeeded { result: None };

/// Makes the wait of a retry a least one. All waits of the executor are those that receivers ask for, and a receiver may ask for
/// none: the rule of the task holds as well.
fn no_sooner(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Retry {
            error,
            after: Some(least),
        } => Outcome::RetryNoSooner { error, least },
        other => other,
    }
}

/// Does something with the items of a batch that could be read, and answers each of the others with its own error: a bad item
/// must not hold up the reports beside it.
async fn one_by_one<T, R: From<http::error::Error>>(
    read: Vec<Result<T, http::error::Error>>,
    work: impl AsyncFnOnce(Vec<T>) -> Vec<R>,
) -> Vec<R> {
    let (mut items, mut errors) = (Vec::with_capacity(read.len()), Vec::new());
    for one in read {
        match one {
            Ok(item) => {
                items.push(item);
                errors.push(None);
            }
            Err(error) => errors.push(Some(error)),
        }
    }
    let mut results = work(items).await.into_iter();
    let answered = errors.into_iter().filter_map(|error| match error {
        Some(error) => Some(R::from(error)),
        None => results.next(),
    });
    answered.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::error::{Code, Error};

    #[test]
    fn the_wait_of_a_receiver_is_a_least_one() {
        let retry = |after| Outcome::Retry {
            error: "e".to_owned(),
            after,
        };
        let least = Outcome::RetryNoSooner {
            error: "e".to_owned(),
            least: Duration::ZERO,
        };
        assert_eq!(no_sooner(retry(Some(Duration::ZERO))), least);
        assert_eq!(no_sooner(retry(None)), retry(None));
    }

    #[tokio::test]
    async fn a_bad_item_has_an_error_of_its_own() {
        let bad = || Err(Error::new(Code::InvalidRequest, "bad"));
        let read = vec![Ok(1), bad(), Ok(2), bad()];
        let work = async |items: Vec<i32>| {
            assert_eq!(items, [1, 2]);
            vec![
                SettleResult::from(SettleAnswer::Ok),
                SettleResult::from(SettleAnswer::Ok),
            ]
        };
        let results: Vec<SettleResult> = one_by_one(read, work).await;
        let bad: Vec<bool> = results.iter().map(|one| one.error.is_some()).collect();
        assert_eq!(bad, [false, true, false, true]);
        assert!(
            results
                .iter()
                .flat_map(|one| &one.error)
                .all(|error| !error.retryable)
        );
    }
}
