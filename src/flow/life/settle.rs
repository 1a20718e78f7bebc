//! The settle stage records for workers how their attempts ended.
//!
//! A report counts only for the attempt that is alive: `attempt` is the fence. A report may be repeated because its answer
//! was lost. It is answered as the first one, and repeats what the first may have left undone. The due entry of a retry makes
//! it punctual, and the task's look makes it safe: a crash between the two writes costs time, not the retry. A retry that
//! goes out from memory has a look about one claim timeout later. If the task's look lies further ahead, another is written.

use std::{collections::HashMap, sync::Arc};

use futures_util::future::join_all;

use super::{
    claimed::ClaimedRows,
    door::{Applied, Basis, By, Door, settle_debts},
    near::{Near, NearTask},
    sending::Sending,
};
use crate::{
    flaw::{self, Flaw},
    flow::{
        TASK_EVENTS,
        base::{
            api::{Fault, LostReason, SettleAnswer, SettleRequest, VisibleState},
            context::Context,
            entries::{
                entry_writer::{EntryWriter, Placed},
                near_record::near_record,
                watermarks::Watermarks,
            },
            figures::retrying::Retrying,
            labels,
            rows::{messages, results, run_to_completion::run_to_completion, stored},
        },
        features::{limit::deadlines::Deadlines, sequence::leave},
    },
    limits::LOGGED_ERROR_CHARS_MAX,
    model::{
        attempts,
        dispatch::Dispatch,
        entry::{DoneReason, Entry},
        ids::TaskId,
        retry_look,
        state::{self, Event, Outcome, State, TaskRow},
        time::Millis,
    },
    store,
};

/// The settler.
#[derive(Debug, Clone)]
pub struct Settler {
    pub(super) ctx: Arc<Context>,
    pub(super) door: Door,
    watermarks: Watermarks,
    entry_writer: EntryWriter,
    near: Near,
    pub(super) claimed: Arc<ClaimedRows>,
    pub(super) deadlines: Deadlines,
    retrying: Retrying,
    pub(super) told: Arc<messages::Memory>,
}

impl Settler {
    /// Settles through these.
    #[must_use]
    pub(in crate::flow) fn new(
        ctx: Arc<Context>,
        door: Door,
        (watermarks, entry_writer, near): (Watermarks, EntryWriter, Near),
        claimed: Arc<ClaimedRows>,
        deadlines: Deadlines,
        retrying: Retrying,
    ) -> Self {
        Self {
            retrying,
            told: Arc::default(),
            ctx,
            door,
            watermarks,
            entry_writer,
            near,
            claimed,
            deadlines,
        }
    }

    /// Records how attempts ended; one answer per report, in order.
    ///
    /// It runs to its end even if its caller is cancelled: a broken connection must not separate the write of
    /// a row from the write of the retry that the row asks for.
    pub async fn settle(&self, requests: Vec<SettleRequest>) -> Vec<SettleAnswer> {
        let count = requests.len();
        let settler = self.clone();
        let settled = run_to_completion(async move { settler.settle_all(requests).await }).await;
        settled.unwrap_or_else(|fault| vec![SettleAnswer::Fault(fault); count])
    }

    async fn settle_all(&self, requests: Vec<SettleRequest>) -> Vec<SettleAnswer> {
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
        let read = stored::rows_each(&self.ctx, &unknown).await;
        // A row that cannot be read fails its own report only.
        let read: HashMap<TaskId, Result<Option<TaskRow>, store::Error>> =
            unknown.into_iter().zip(read).collect();
        let settles = requests.into_iter().zip(remembered).map(|(request, row)| {
            let (row, fresh) = match row {
                Some(row) => (Ok(Some(row)), false),
                None => (read.get(&request.id).cloned().unwrap_or(Ok(None)), true),
            };
            self.settle_one(request, row, fresh)
        });
        join_all(settles).await
    }

    async fn settle_one(
        &self,
        request: SettleRequest,
        row: Result<Option<TaskRow>, store::Error>,
        fresh: bool,
    ) -> SettleAnswer {
        let outcome = request.outcome.name();
        let (id, attempt) = (request.id, request.attempt);
        // The end of a task has a line of its own, with its error.
        let error = match &request.outcome {
            Outcome::Retry { error, .. } | Outcome::RetryNoSooner { error, .. } => {
                Some(shortened(error).to_owned())
            }
            Outcome::Succeeded { .. } | Outcome::Failed { .. } | Outcome::Snoozed { .. } => None,
        };
        // Successes are counted where tasks end.
        let failing = match &request.outcome {
            Outcome::Retry { .. } | Outcome::RetryNoSooner { .. } | Outcome::Failed { .. } => {
                row.as_ref().ok().and_then(Option::as_ref)
            }
            Outcome::Succeeded { .. } | Outcome::Snoozed { .. } => None,
        };
        let failing = failing.and_then(|row| row.detail.spec.callback().map(labels::label));
        let mut died = false;
        let settled = match row {
            Ok(row) => self.try_settle(request, row, fresh, &mut died).await,
            Err(error) => Err(error.into()),
        };
        let answer = settled.unwrap_or_else(SettleAnswer::Fault);
        let counted = if died {
            "dead"
        } else if matches!(answer, SettleAnswer::Ok) {
            outcome
        } else {
            "refused"
        };
        metrics::counter!("tickwheel_settles_total", "outcome" => counted).increment(1);
        if let (SettleAnswer::Ok, Some(callback)) = (&answer, failing) {
            metrics::counter!("tickwheel_callback_failed_total", "callback" => callback)
                .increment(1);
        }
        tracing::debug!(target: TASK_EVENTS, task = %id, attempt, outcome = counted, error, "settled");
        answer
    }

    async fn try_settle(
        &self,
        request: SettleRequest,
        row: Option<TaskRow>,
        fresh: bool,
        died: &mut bool,
    ) -> Result<SettleAnswer, Fault> {
        let SettleRequest {
            id,
            attempt,
            outcome,
            answered,
        } = request;
        // Only a task that was claimed can be settled: it has a row, or had one.
        let Some(there) = &row else {
            return Ok(SettleAnswer::Lost(LostReason::Unknown));
        };
        let spec = Arc::clone(&there.detail.spec);
        // A report of another attempt has no effect. A row that was remembered may be of an earlier one.
        let outcome = if fresh && !is_alive(there, attempt) {
            outcome
        } else {
            results::keep_apart(&self.ctx, there, attempt, outcome).await?
        };
        let chance = self.ctx.time.random();
        let decide = |row: Option<&TaskRow>, now: Millis, nonce| {
            let event = Event::Settle {
                attempt,
                outcome: outcome.clone(),
                answered: answered.clone(),
                chance,
            };
            state::next(id, row, &spec, event, now, nonce)
        };
        let basis = Basis::read_if(fresh, row);
        match self.door.apply(id, basis, decide).await? {
            Applied::To(owing) => {
                self.deadlines.forget(id);
                *died = owing.row().state == State::Dead;
                let row = owing.pay_or_leave(&self.ctx).await;
                if row.state.is_terminal() {
                    return Ok(SettleAnswer::Ok);
                }
                self.goes_on(&row).await
            }
            Applied::Refused(_, row) => self.refused(row.as_deref(), attempt, &outcome).await,
        }
    }

    /// Sees to the next attempt of a task that goes on.
    async fn goes_on(&self, row: &TaskRow) -> Result<SettleAnswer, Fault> {
        let callback = row.detail.spec.callback().unwrap_or_default();
        if !attempts::was_given_back(row) {
            let now = self.ctx.now();
            self.retrying.note(row.id, callback, row.next, now);
        }
        self.put_retry(row).await?;
        self.lets_go(row).await;
        Ok(SettleAnswer::Ok)
    }

    /// Lets the sequence of a task go on that waits for its next attempt, if it does so meanwhile.
    async fn lets_go(&self, row: &TaskRow) {
        if row.detail.spec.ordering_key.is_some() {
            // Apart, so that the report of other tasks is as small as it can be.
            Box::pin(leave::lets_go(&self.ctx, row)).await;
        }
    }

    /// Answers a report that had no effect: it is repeated, or its attempt does not live.
    async fn refused(
        &self,
        row: Option<&TaskRow>,
        attempt: u32,
        outcome: &Outcome,
    ) -> Result<SettleAnswer, Fault> {
        let is_repeated = |row: &&TaskRow| row.attempt == attempt && is_result_of(row, outcome);
        let Some(repeated) = row.filter(is_repeated) else {
            return Ok(SettleAnswer::Lost(why_lost(row, attempt)));
        };
        // The first report may have ended between its two writes.
        if repeated.state == State::Retrying {
            self.put_retry(repeated).await?;
            self.lets_go(repeated).await;
        }
        if repeated.state.is_terminal()
            && self.is_ended_lately(repeated)
            && let Err(fault) = settle_debts(&self.ctx, repeated, By::First).await
        {
            tracing::debug!(task = %repeated.id, %fault, "what an end owes was left to its look");
        }
        Ok(SettleAnswer::Ok)
    }

    /// Tells whether the look that repeats the end steps of a task may still lie ahead.
    fn is_ended_lately(&self, row: &TaskRow) -> bool {
        let ended = row.detail.end_time;
        ended.is_some_and(|ended| self.ctx.now().since(ended) < row.detail.spec.claim_timeout)
    }

    /// Makes the next attempt punctual. A failure to do so is left to the look. An error means that a needed
    /// look was not written; repeating the report is safe.
    async fn put_retry(&self, row: &TaskRow) -> Result<(), Fault> {
        if flaw::is(Flaw::RetryNotPut) {
            return Ok(());
        }
        let spec = Arc::clone(&row.detail.spec);
        let near = self.ctx.tick().tick_of(row.next) <= self.watermarks.guess(row.id.wheel());
        if !near {
            let stamp = self.ctx.time.stamp();
            let entry = Dispatch::next_of(row).entry(Arc::clone(&spec), stamp);
            match self
                .entry_writer
                .write(std::slice::from_ref(&entry))
                .await
                .into_iter()
                .next()
            {
                Some(Ok(Placed::Open))
                    if self.watermarks.will_be_late(row.id.wheel(), row.next) => {}
                Some(Ok(Placed::Open)) => return Ok(()),
                Some(Ok(Placed::Closed(_))) if flaw::is(Flaw::LateRetryLeft) => {}
                // The eraser keeps every entry that its slot's reader has not seen.
                Some(Ok(Placed::Closed(_))) => self.withdraw(&entry).await,
                Some(Err(fault)) => {
                    // Its own look may lie at the end of a lease of hours.
                    tracing::debug!(task = %row.id, %fault, "a retry was left to a look");
                    return self.put_look(row).await;
                }
                None => return Ok(()),
            }
        }
        let looked = self.put_look(row).await;
        let sending = Sending::new(Dispatch::next_of(row), spec, false);
        self.near.hold_or_leave(NearTask::with_look(sending));
        looked
    }

    /// Writes a look about one claim timeout behind a retry that goes out from memory, or whose entry was not written, unless
    /// the task's own look comes as soon. The memory may be lost, or the queue may not answer.
    async fn put_look(&self, row: &TaskRow) -> Result<(), Fault> {
        if retry_look::comes_soon(row) {
            return Ok(());
        }
        let opened = self.watermarks.closing(row.id.wheel());
        let spec = &row.detail.spec;
        let look = near_record(&self.ctx, Dispatch::next_of(row), spec, opened);
        let placed = self.entry_writer.place(vec![look]).await.into_iter().next();
        placed.unwrap_or(Err(Fault::Unknown {
            reason: "the look of a retry was not written".to_owned(),
        }))?;
        Ok(())
    }

    /// Marks an entry that stands in a closed slot: the retry goes out from memory.
    async fn withdraw(&self, entry: &Entry) {
        let reason = DoneReason::Moved { to: entry.start };
        let mark = entry.marked_done(reason, self.ctx.now(), self.ctx.time.stamp());
        self.entry_writer.mark(vec![mark]).await;
    }
}

/// Tells whether this attempt of a task runs.
pub(super) fn is_alive(row: &TaskRow, attempt: u32) -> bool {
    row.state == State::Claimed && row.attempt == attempt
}

/// Says why an attempt does not live, or did not when this row was read.
pub(super) fn why_lost(row: Option<&TaskRow>, attempt: u32) -> LostReason {
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

/// Tells whether a row is what this outcome of its last attempt made of it.
fn is_result_of(row: &TaskRow, outcome: &Outcome) -> bool {
    match (outcome, row.state) {
        (Outcome::Succeeded { .. }, State::Succeeded)
        | (Outcome::Failed { .. }, State::Failed)
        | (
            Outcome::Retry { .. } | Outcome::RetryNoSooner { .. },
            State::Retrying | State::Dead | State::Cancelled,
        )
        | (Outcome::Snoozed { .. }, State::Retrying | State::Cancelled) => true,
        (
            Outcome::Succeeded { .. }
            | Outcome::Failed { .. }
            | Outcome::Retry { .. }
            | Outcome::RetryNoSooner { .. }
            | Outcome::Snoozed { .. },
            _,
        ) => false,
    }
}

/// Returns the beginning of an error for a line of the log.
fn shortened(error: &str) -> &str {
    let end = error.char_indices().nth(LOGGED_ERROR_CHARS_MAX);
    let end = end.map_or(error.len(), |(end, _)| end);
    error.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_error_is_cut_at_a_character() {
        assert_eq!(shortened("no such user"), "no such user");
        let long = "é".repeat(2 * LOGGED_ERROR_CHARS_MAX);
        assert_eq!(shortened(&long), "é".repeat(LOGGED_ERROR_CHARS_MAX));
    }
}
