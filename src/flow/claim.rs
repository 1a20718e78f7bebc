//! The claim stage: gives a worker the exclusive right to run an attempt.
//!
//! The claim is the linearisation point of everything: it is the third check of never-early, it refuses messages of the past,
//! it raises `attempt`, the fencing token. Claims of slot-mates share one conditional write. A claim whose outcome stays
//! unknown is answered as a fault: the worker forgets the message, a look comes back to the task.

use std::{collections::HashMap, sync::Arc};

use futures_util::future::join_all;

use super::{
    api::{ClaimAnswer, ClaimRequest, ClaimedTask, Fault},
    claim_room::{Held, Room},
    claimed::ClaimedRows,
    context::Context,
    end,
    find::Finder,
    swap::{Moved, Mover},
};
use crate::{
    model::{
        ids::TaskId,
        state::{self, Event, Refusal, State, TaskRow},
        task::{Content, Spec},
        time::Millis,
    },
    schema,
};

/// The claimer.
#[derive(Debug, Clone)]
pub struct Claimer {
    ctx: Arc<Context>,
    mover: Mover,
    finder: Finder,
    claimed: Arc<ClaimedRows>,
}

impl Claimer {
    /// Claims through these.
    #[must_use]
    pub const fn new(
        ctx: Arc<Context>,
        mover: Mover,
        finder: Finder,
        claimed: Arc<ClaimedRows>,
    ) -> Self {
        Self {
            ctx,
            mover,
            finder,
            claimed,
        }
    }

    /// Claims messages for a worker; one answer per message, in order. What would make the answer longer than that of a poll is
    /// not claimed, and answered as early: the next call may claim it.
    pub async fn claim(&self, worker: &str, requests: Vec<ClaimRequest>) -> Vec<ClaimAnswer> {
        let rows = match self.rows(&requests).await {
            Ok(rows) => rows,
            Err(fault) => {
                return requests
                    .iter()
                    .map(|_| ClaimAnswer::Fault(fault.clone()))
                    .collect();
            }
        };
        let room = Room::new();
        let claims = requests.iter().map(|request| async {
            let answer = match self.claim_one(worker, request, &rows, &room).await {
                Ok(answer) => answer,
                Err(fault) => ClaimAnswer::Fault(fault),
            };
            metrics::counter!("tickwheel_claims_total", "answer" => name(&answer)).increment(1);
            answer
        });
        join_all(claims).await
    }

    /// Reads the rows that must be there: those of tasks that were claimed or rescheduled before. A first claim expects
    /// none, and its conditional write says so if there is one.
    async fn rows(&self, requests: &[ClaimRequest]) -> Result<HashMap<TaskId, TaskRow>, Fault> {
        let ids: Vec<TaskId> = requests
            .iter()
            .filter(|r| r.expected_attempt > 0 || r.generation > 0)
            .map(|r| r.id)
            .collect();
        Ok(self
            .mover
            .rows(&ids)
            .await?
            .into_iter()
            .flatten()
            .map(|row| (row.id, row))
            .collect())
    }

    async fn claim_one(
        &self,
        worker: &str,
        request: &ClaimRequest,
        rows: &HashMap<TaskId, TaskRow>,
        room: &Room,
    ) -> Result<ClaimAnswer, Fault> {
        let row = rows.get(&request.id).cloned();
        // Before the heartbeat is read: one that comes behind that must not find its lease ended by the time of the claim.
        let noted = self.ctx.now();
        let heartbeat = self.heartbeat(row.as_ref()).await?;
        let Some(spec) = self.spec(request, row.as_ref()).await? else {
            return Ok(ClaimAnswer::Stale);
        };
        let fresh = row.is_some();
        if spec.is_expired(
            row.as_ref()
                .map_or_else(|| request.id.first_start(), |row| row.detail.start),
            self.ctx.now(),
        ) && row.as_ref().is_none_or(|row| row.state != State::Claimed)
        {
            return self.expire(request.id, row, &spec).await;
        }
        let Held::Content(content) = room.content(&self.ctx, request, &spec).await? else {
            let not_before = self.ctx.now();
            return Ok(ClaimAnswer::Early { not_before });
        };
        let decide = |row: Option<&TaskRow>, now: Millis, nonce| {
            let event = Event::Claim {
                generation: request.generation,
                expected_attempt: request.expected_attempt,
                worker: worker.to_owned(),
                heartbeat,
                published: request.published,
            };
            let held = row.is_some_and(|row| row.state == State::Claimed);
            let now = if held { now.min(noted) } else { now };
            state::next(request.id, row, &spec, event, now, nonce)
        };
        match self.mover.apply(request.id, row, fresh, decide).await? {
            Moved::To(row) => {
                let lag = self.ctx.now().since(row.detail.start);
                metrics::histogram!("tickwheel_claim_lag_seconds").record(lag.as_secs_f64());
                let answer = claimed(&row, content);
                self.claimed.remember(*row);
                Ok(answer)
            }
            Moved::Refused(refusal, _) => Ok(match refusal {
                Refusal::Early { not_before } => ClaimAnswer::Early { not_before },
                Refusal::Held { .. } | Refusal::Running => ClaimAnswer::Held,
                Refusal::Stale | Refusal::Ended { .. } => ClaimAnswer::Stale,
            }),
        }
    }

    /// An attempt that was published again because its lease had ended may have given a sign of life since.
    async fn heartbeat(&self, row: Option<&TaskRow>) -> Result<Option<Millis>, Fault> {
        let Some(row) = row.filter(|row| row.state == State::Claimed) else {
            return Ok(None);
        };
        let beats = self.ctx.store.heartbeats(&[(row.id, row.attempt)]).await?;
        Ok(beats.into_iter().flatten().next().map(|beat| beat.at))
    }

    /// The task: from its row, from the message, or from its entry. What travels in the row is bounded, so a content that
    /// came inside a message and would not fit is left where it is kept.
    async fn spec(
        &self,
        request: &ClaimRequest,
        row: Option<&TaskRow>,
    ) -> Result<Option<Arc<Spec>>, Fault> {
        if let Some(row) = row {
            return Ok(Some(Arc::clone(&row.detail.spec)));
        }
        match &request.spec {
            Some(spec) => Ok(Some(schema::without_large_content(spec))),
            None => Ok(self
                .finder
                .registered(request.id)
                .await?
                .map(|found| found.spec)),
        }
    }

    async fn expire(
        &self,
        id: TaskId,
        row: Option<TaskRow>,
        spec: &Arc<Spec>,
    ) -> Result<ClaimAnswer, Fault> {
        let decide = |row: Option<&TaskRow>, now: Millis, nonce| {
            state::next(id, row, spec, Event::Expire, now, nonce)
        };
        if let Moved::To(row) = self.mover.apply(id, row, false, decide).await? {
            end::steps(&self.ctx, &row).await?;
        }
        Ok(ClaimAnswer::Stale)
    }
}

fn claimed(row: &TaskRow, content: Option<Content>) -> ClaimAnswer {
    ClaimAnswer::Claimed(Box::new(ClaimedTask {
        id: row.id,
        attempt: row.attempt,
        generation: row.generation,
        spec: Arc::clone(&row.detail.spec),
        content,
        start: row.detail.start,
        expires: row.next,
    }))
}

const fn name(answer: &ClaimAnswer) -> &'static str {
    match answer {
        ClaimAnswer::Claimed(_) => "claimed",
        ClaimAnswer::Stale => "stale",
        ClaimAnswer::Held => "held",
        ClaimAnswer::Early { .. } => "early",
        ClaimAnswer::Fault(_) => "fault",
    }
}
