//! The worker calls of the client serve workers: most take and answer a list, in order, and all may be
//! repeated.

use std::time::Duration;

use reqwest::Method;
use serde::{Serialize, de::DeserializeOwned};

use super::{Client, Error, json, transport::Call};
use crate::api::{
    poll::{LeaveRequest, LeaveResponse, PollRequest, PollResponse},
    tree::ReopenResponse,
    worker::{
        ClaimRequest, ClaimResponse, HeartbeatRequest, HeartbeatResponse, SettleRequest,
        SettleResponse, SubscribeRequest, SubscribeResponse, WorkerReopenRequest,
    },
};

impl Client {
    /// Makes sure that the topics of callbacks exist, and learns the names of the topics and groups.
    ///
    /// # Errors
    /// See [`Error`]; repeating does no harm.
    pub async fn subscribe(&self, request: &SubscribeRequest) -> Result<SubscribeResponse, Error> {
        self.worker_call("subscribe", request, self.limit).await
    }

    /// Waits for due tasks and claims them. The service may take `wait` longer than the ordinary limit; pass
    /// the wait of the request. Dropping the call, or losing its answer on the way, releases the claimed
    /// tasks.
    ///
    /// # Errors
    /// See [`Error`]; repeating does no harm.
    pub async fn poll(&self, request: &PollRequest, wait: Duration) -> Result<PollResponse, Error> {
        self.worker_call("poll", request, self.limit + wait).await
    }

    /// Ends the waiting polls of a worker; they are answered at once.
    ///
    /// # Errors
    /// See [`Error`]; repeating does no harm.
    pub async fn leave(&self, request: &LeaveRequest) -> Result<LeaveResponse, Error> {
        self.worker_call("leave", request, self.limit).await
    }

    /// Claims messages. A repeated claim whose first answer was lost gets `held`: the service comes back to
    /// the task.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, Error> {
        self.worker_call("claim", request, self.limit).await
    }

    /// Sends signs of life; each server has `limit` to answer.
    ///
    /// # Errors
    /// See [`Error`]; repeating does no harm.
    pub async fn heartbeat(
        &self,
        request: &HeartbeatRequest,
        limit: Duration,
    ) -> Result<HeartbeatResponse, Error> {
        self.worker_call("heartbeat", request, limit.min(self.limit))
            .await
    }

    /// Reports how attempts ended.
    ///
    /// # Errors
    /// See [`Error`]; repeating does no harm: the attempt is a fence.
    pub async fn settle(&self, request: &SettleRequest) -> Result<SettleResponse, Error> {
        self.worker_call("settle", request, self.limit).await
    }

    /// Takes up a task of a tree again that this worker had, and that has succeeded: it begins a new round, and is handed out as
    /// any other.
    ///
    /// # Errors
    /// [`Error::Refused`] when the attempt is not its last one, or was another worker's; as [`Client::reopen`].
    pub async fn reopen_own(&self, request: &WorkerReopenRequest) -> Result<ReopenResponse, Error> {
        self.worker_call("reopen", request, self.limit).await
    }

    async fn worker_call<T: DeserializeOwned>(
        &self,
        verb: &str,
        request: &impl Serialize,
        limit: Duration,
    ) -> Result<T, Error> {
        let call = Call {
            method: Method::POST,
            path: format!("/v1/worker/{verb}"),
            body: Some(json(request)?),
            repeatable: true,
            limit,
        };
        self.transport.call(call).await
    }
}
