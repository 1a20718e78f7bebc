//! The settle stage: records how attempts ended, and their signs of life while they run.
//!
//! A report counts only for the attempt that is alive: `attempt` is the fence. A report that is repeated, because its answer
//! was lost, is answered as the first one. A retry's due entry makes it punctual; the task's look makes it safe, so a crash
//! between the two costs time, not the retry.

use std::{collections::HashMap, sync::Arc};

use futures_util::future::join_all;

use super::{
    TASK_EVENTS,
    api::{
        Fault, HeartbeatAnswer, HeartbeatRequest, LostReason, SettleAnswer, SettleRequest,
        VisibleState,
    },
    claimed::ClaimedRows,
    context::Context,
    end,
    hand::Hands,
    near::{Near, NearTask},
    place::{Placed, Placer},
    send::Sending,
    swap::{Moved, Mover},
};
use crate::{
    flaw::{self, Flaw},
    model::{
        entry::{DoneReason, Entry},
        ids::TaskId,
        state::{self, Event, Outcome, State, TaskRow},
        time::Millis,
    },
    store::Heartbeat,
};

/// The settler.
#[derive(Debug, Clone)]
pub struct Settler {
    ctx: Arc<Context>,
    mover: Mover,
    hands: Hands,
    placer: Placer,
    near: Near,
    claimed: Arc<ClaimedRows>,
}

impl Settler {
    /// Settles through these.
    #[must_use]
    pub const fn new(
        ctx: Arc<Context>,
        mover: Mover,
        hands: Hands,
        placer: Placer,
        near: Near,
        claimed: Arc<ClaimedRows>,
    ) -> Self {
        Self {
            ctx,
            mover,
            hands,
            placer,
            near,
            claimed,
        }
    }

    /// Records how attempts ended; one answer per report, in order.
    pub async fn settle(&self, requests: Vec<SettleRequest>) -> Vec<SettleAnswer> {
        let remembered: Vec<Option<TaskRow>> = requests
            .iter()
            .map(|request| self.claimed.take(request.id))
            .collect();
        let unknown: Vec<TaskId> = requests
            .iter()
            .zip(&remembered)
            .filter(|(_, row)| row.is_none())
            .map(|(request, _)| request.id)
            .collect();
        let read = match self.mover.rows(&unknown).await {
            Ok(rows) => rows,
            Err(fault) => {
                return requests
                    .iter()
                    .map(|_| SettleAnswer::Fault(fault.clone()))
                    .collect();
            }
        };
        let read: HashMap<TaskId, TaskRow> = read
            .into_iter()
            .flatten()
            .map(|row| (row.id, row))
            .collect();
        let settles = requests.into_iter().zip(remembered).map(|(request, row)| {
            let (row, fresh) = match row {
                Some(row) => (Some(row), false),
                None => (read.get(&request.id).cloned(), true),
            };
            self.settle_one(request, row, fresh)
        });
        join_all(settles).await
    }

    async fn settle_one(
        &self,
        request: SettleRequest,
        row: Option<TaskRow>,
        fresh: bool,
    ) -> SettleAnswer {
        let outcome = outcome_name(&request.outcome);
        let (id, attempt) = (request.id, request.attempt);
        let answer = match self.try_settle(request, row, fresh).await {
            Ok(answer) => answer,
            Err(fault) => SettleAnswer::Fault(fault),
        };
        let counted = if matches!(answer, SettleAnswer::Ok) {
            outcome
        } else {
            "refused"
        };
        metrics::counter!("tickwheel_settles_total", "outcome" => counted).increment(1);
        tracing::debug!(target: TASK_EVENTS, task = %id, attempt, outcome = counted, "settled");
        answer
    }

    async fn try_settle(
        &self,
        request: SettleRequest,
        row: Option<TaskRow>,
        fresh: bool,
    ) -> Result<SettleAnswer, Fault> {
        let SettleRequest {
            id,
            attempt,
            outcome,
        } = request;
        // Only a task that was claimed can be settled: it has a row, or had one.
        let Some(spec) = row.as_ref().map(|row| Arc::clone(&row.detail.spec)) else {
            return Ok(SettleAnswer::Lost(LostReason::Unknown));
        };
        let chance = self.ctx.time.random();
        let decide = |row: Option<&TaskRow>, now: Millis, nonce| {
            let event = Event::Settle {
                attempt,
                outcome: outcome.clone(),
                chance,
            };
            state::next(id, row, &spec, event, now, nonce)
        };
        match self.mover.apply(id, row, fresh, decide).await? {
            Moved::To(row) if row.state.is_terminal() => {
                // The look repeats the end steps if they fail here.
                if let Err(fault) = end::steps(&self.ctx, &row).await {
                    tracing::debug!(task = %id, %fault, "end steps were left to the look");
                }
                Ok(SettleAnswer::Ok)
            }
            Moved::To(row) => {
                self.put_retry(&row).await;
                Ok(SettleAnswer::Ok)
            }
            Moved::Refused(_, row) => {
                let last = row.as_deref();
                let repeated =
                    last.is_some_and(|row| row.attempt == attempt && is_result_of(row, &outcome));
                Ok(if repeated {
                    SettleAnswer::Ok
                } else {
                    SettleAnswer::Lost(why_lost(last, attempt))
                })
            }
        }
    }

    /// Makes the next attempt punctual. A failure is left to the look.
    async fn put_retry(&self, row: &TaskRow) {
        if flaw::is(Flaw::RetryNotPut) {
            return;
        }
        let spec = Arc::clone(&row.detail.spec);
        let near = self.ctx.tick().tick_of(row.next) <= self.hands.guess(row.id.wheel());
        if !near {
            let stamp = self.ctx.time.stamp();
            let entry = Entry::due(
                row.id,
                row.generation,
                row.attempt,
                row.next,
                Arc::clone(&spec),
                stamp,
            );
            match self
                .placer
                .write(std::slice::from_ref(&entry))
                .await
                .into_iter()
                .next()
            {
                Some(Ok(Placed::Open)) if self.hands.will_be_late(row.id.wheel(), row.next) => {}
                Some(Ok(Placed::Open)) => return,
                Some(Ok(Placed::Closed(_))) if flaw::is(Flaw::LateRetryLeft) => {}
                // Nobody erases what its slot's reader has not seen.
                Some(Ok(Placed::Closed(_))) => self.withdraw(&entry).await,
                Some(Err(fault)) => {
                    tracing::debug!(task = %row.id, %fault, "a retry was left to the look");
                    return;
                }
                None => return,
            }
        }
        let sending = Sending {
            id: row.id,
            generation: row.generation,
            expected_attempt: row.attempt,
            start: row.next,
            spec,
        };
        if !self.near.hold(NearTask {
            sending,
            backup: None,
        }) {
            tracing::debug!(task = %row.id, "no room for a near retry: left to the look");
        }
    }

    /// Marks an entry that stands in a closed slot: the retry goes out from memory.
    async fn withdraw(&self, entry: &Entry) {
        let reason = DoneReason::Moved { to: entry.start };
        let mark = entry.marked_done(reason, self.ctx.now(), self.ctx.time.stamp());
        self.placer.mark(vec![mark]).await;
    }

    /// Records signs of life; one answer per attempt, in order. Those of attempts that are not alive leave nothing behind.
    pub async fn heartbeat(&self, requests: Vec<HeartbeatRequest>) -> Vec<HeartbeatAnswer> {
        let at = self.ctx.now();
        let lost = self.lost(&requests).await;
        let kept: Vec<&HeartbeatRequest> = requests
            .iter()
            .zip(&lost)
            .filter(|(_, lost)| matches!(lost, Ok(None)))
            .map(|(request, _)| request)
            .collect();
        let beats: Vec<Heartbeat> = kept
            .iter()
            .map(|request| Heartbeat {
                id: request.id,
                attempt: request.attempt,
                at,
                progress: request.progress.clone(),
            })
            .collect();
        // Recorded first, then the row is read: whoever reads the row as live after this has a sign of life to see.
        let written = if flaw::is(Flaw::HeartbeatIgnored) || beats.is_empty() {
            beats.iter().map(|_| Ok(())).collect()
        } else {
            self.ctx.store.put_heartbeats(&beats).await
        };
        let ids: Vec<TaskId> = kept.iter().map(|request| request.id).collect();
        let rows = self.mover.rows(&ids).await;
        let recorded = kept.iter().enumerate().map(|(index, request)| {
            if let Some(Err(error)) = written.get(index) {
                return HeartbeatAnswer::Fault(error.clone().into());
            }
            match &rows {
                Err(fault) => HeartbeatAnswer::Fault(fault.clone()),
                Ok(rows) => answer(request, rows.get(index).and_then(Option::as_ref)),
            }
        });
        let mut recorded = recorded.collect::<Vec<_>>().into_iter();
        let answers = lost.into_iter().map(|lost| match lost {
            Ok(None) => recorded
                .next()
                .unwrap_or(HeartbeatAnswer::Lost(LostReason::Unknown)),
            Ok(Some(lost)) => HeartbeatAnswer::Lost(lost),
            Err(fault) => HeartbeatAnswer::Fault(fault),
        });
        answers.inspect(count).collect()
    }

    /// Tells which attempts do not live, and why. Those that were claimed through this node are not looked up: a read for each
    /// sign of life would double its cost, for what hardly ever happens. Whoever sends others may have made them up.
    async fn lost(&self, requests: &[HeartbeatRequest]) -> Vec<Result<Option<LostReason>, Fault>> {
        let known: Vec<bool> = requests
            .iter()
            .map(|request| self.claimed.has(request.id, request.attempt))
            .collect();
        let unknown: Vec<TaskId> = requests
            .iter()
            .zip(&known)
            .filter(|(_, known)| !**known)
            .map(|(request, _)| request.id)
            .collect();
        let rows = match self.mover.rows(&unknown).await {
            Ok(rows) => rows,
            Err(fault) => {
                let of = |known: bool| if known { Ok(None) } else { Err(fault.clone()) };
                return known.into_iter().map(of).collect();
            }
        };
        let mut rows = rows.into_iter();
        let judged = requests.iter().zip(known).map(|(request, known)| {
            if known {
                return Ok(None);
            }
            let row = rows.next().flatten();
            let is_alive = row
                .as_ref()
                .is_some_and(|row| is_alive(row, request.attempt));
            Ok((!is_alive).then(|| why_lost(row.as_ref(), request.attempt)))
        });
        judged.collect()
    }
}

fn is_alive(row: &TaskRow, attempt: u32) -> bool {
    row.state == State::Claimed && row.attempt == attempt
}

/// Says why an attempt does not live, or did not when this row was read.
fn why_lost(row: Option<&TaskRow>, attempt: u32) -> LostReason {
    let Some(row) = row else {
        return LostReason::Unknown;
    };
    match row.state {
        State::Succeeded => LostReason::Ended(VisibleState::Succeeded),
        State::Failed => LostReason::Ended(VisibleState::Failed),
        State::Cancelled => LostReason::Ended(VisibleState::Cancelled),
        State::Expired => LostReason::Ended(VisibleState::Expired),
        State::Dead => LostReason::Ended(VisibleState::Dead),
        State::New | State::Retrying if row.attempt == attempt => LostReason::Waits,
        State::New | State::Retrying | State::Claimed => LostReason::Attempt(row.attempt),
    }
}

fn answer(request: &HeartbeatRequest, row: Option<&TaskRow>) -> HeartbeatAnswer {
    match row {
        Some(row) if is_alive(row, request.attempt) => {
            if row.cancel_requested {
                HeartbeatAnswer::CancelRequested
            } else {
                HeartbeatAnswer::Ok
            }
        }
        row => HeartbeatAnswer::Lost(why_lost(row, request.attempt)),
    }
}

fn count(answer: &HeartbeatAnswer) {
    let name = match answer {
        HeartbeatAnswer::Ok => "ok",
        HeartbeatAnswer::Lost(_) => "lost",
        HeartbeatAnswer::CancelRequested => "cancel_requested",
        HeartbeatAnswer::Fault(_) => "fault",
    };
    metrics::counter!("tickwheel_heartbeats_total", "answer" => name).increment(1);
}

/// Tells whether a row is what this outcome of its last attempt made of it.
fn is_result_of(row: &TaskRow, outcome: &Outcome) -> bool {
    match (outcome, row.state) {
        (Outcome::Succeeded { .. }, State::Succeeded)
        | (Outcome::Failed { .. }, State::Failed)
        | (Outcome::Retry { .. }, State::Retrying | State::Dead | State::Cancelled)
        | (Outcome::Snoozed { .. }, State::Retrying | State::Cancelled) => true,
        (
            Outcome::Succeeded { .. }
            | Outcome::Failed { .. }
            | Outcome::Retry { .. }
            | Outcome::Snoozed { .. },
            _,
        ) => false,
    }
}

const fn outcome_name(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Succeeded { .. } => "succeeded",
        Outcome::Retry { .. } => "retry",
        Outcome::Failed { .. } => "failed",
        Outcome::Snoozed { .. } => "snoozed",
    }
}
