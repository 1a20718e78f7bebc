//! The calls of the service that claim, for workers that have their messages from the queue.

use super::service::Service;
use crate::flow::{
    base::api::{ClaimAnswer, ClaimRequest},
    life::claim_room::Memory,
};

impl Service {
    /// Claims messages for a worker; one answer per message, in order.
    pub async fn claim(&self, worker: &str, requests: Vec<ClaimRequest>) -> Vec<ClaimAnswer> {
        let memory = self.memory_to_claim(requests.iter()).await;
        self.claim_within(worker, requests, &memory).await
    }

    /// Waits for the memory of the contents that a claim of these messages reads.
    pub async fn memory_to_claim(&self, requests: impl Iterator<Item = &ClaimRequest>) -> Memory {
        Memory::take(&self.ctx, requests).await
    }

    /// Claims as [`Self::claim`] does, within memory that the caller holds until its answer is made.
    pub async fn claim_within(
        &self,
        worker: &str,
        requests: Vec<ClaimRequest>,
        memory: &Memory,
    ) -> Vec<ClaimAnswer> {
        let specs = || requests.iter().filter_map(|request| request.spec.as_ref());
        let callbacks = || specs().filter_map(|spec| spec.callback());
        self.demand.asked(callbacks());
        self.shares.pollers().claims(worker, callbacks());
        self.claimer.claim(worker, requests, memory).await
    }
}
