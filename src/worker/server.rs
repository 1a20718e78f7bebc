//! The server trait is the seam between a worker and the service: the calls of a worker.
//!
//! Over HTTP it is the [`Client`]; tests put a script in its place.

use std::time::Duration;

use async_trait::async_trait;

use crate::{
    api::{
        poll::{LeaveRequest, LeaveResponse, PollRequest, PollResponse},
        worker::{
            ClaimRequest, ClaimResponse, HeartbeatRequest, HeartbeatResponse, SettleRequest,
            SettleResponse, SubscribeRequest, SubscribeResponse,
        },
    },
    client::{Client, Error},
};

/// The calls of a worker to the service. Every call ends within a time limit of its own, and answers item by
/// item.
#[async_trait]
pub trait Server: Send + Sync + std::fmt::Debug {
    /// Waits for due tasks and claims them; the service waits for `wait`, as the request says.
    async fn poll(&self, request: &PollRequest, wait: Duration) -> Result<PollResponse, Error>;
    /// Has the worker's waiting polls answered at once.
    async fn leave(&self, request: &LeaveRequest) -> Result<LeaveResponse, Error>;
    /// Makes sure that the topics of callbacks exist.
    async fn subscribe(&self, request: &SubscribeRequest) -> Result<SubscribeResponse, Error>;
    /// Claims messages.
    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, Error>;
    /// Sends signs of life; each server may take `limit`.
    async fn heartbeat(
        &self,
        request: &HeartbeatRequest,
        limit: Duration,
    ) -> Result<HeartbeatResponse, Error>;
    /// Reports how attempts ended.
    async fn settle(&self, request: &SettleRequest) -> Result<SettleResponse, Error>;
}

#[async_trait]
impl Server for Client {
    async fn poll(&self, request: &PollRequest, wait: Duration) -> Result<PollResponse, Error> {
        Self::poll(self, request, wait).await
    }

    async fn leave(&self, request: &LeaveRequest) -> Result<LeaveResponse, Error> {
        Self::leave(self, request).await
    }

    async fn subscribe(&self, request: &SubscribeRequest) -> Result<SubscribeResponse, Error> {
        Self::subscribe(self, request).await
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, Error> {
        Self::claim(self, request).await
    }

    async fn heartbeat(
        &self,
        request: &HeartbeatRequest,
        limit: Duration,
    ) -> Result<HeartbeatResponse, Error> {
        Self::heartbeat(self, request, limit).await
    }

    async fn settle(&self, request: &SettleRequest) -> Result<SettleResponse, Error> {
        Self::settle(self, request).await
    }
}
