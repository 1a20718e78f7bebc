//! The claim stage gives a worker the exclusive right to run an attempt.
//!
//! The claim is the linearisation point of the whole protocol. It is the third check of never-early, it refuses
//! messages of the past, and it raises `attempt`, the fencing token. Claims of slot-mates share one
//! conditional write. A claim whose outcome stays unknown is answered as a fault: the worker forgets the
//! message, and a look comes back to the task.
//!
//! An absent row means a new task, so a first claim reads nothing. This holds as long as rows live, but a
//! queue may hand out an older message: after lost group offsets, from a mirror, or after a reset by hand.
//! The claim of such a message needs an entry or a look of the task. A task that is not terminal has one; a
//! task that has ended long ago has none, and its message is stale. Where the queue is this node's own, the
//! claim of a message that this node has not handed out needs one, too: such a message is made up, or comes
//! again. On a cluster this rule would cost a read for almost every claim, as any node may have published a
//! message.
//!
//! A task of a sequence needs the turn before the conditional write of its row (`flow::features::sequence`).

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures_util::future::join_all;

use super::{
    claim_answers::{Parts, claimed, count_callbacks, event, gate_unknown, name, refused},
    claim_room::{Held, Memory, Room},
    claimed::ClaimedRows,
    door::{Applied, Basis, By, Door, Owing, settle_debts},
};
use crate::{
    flaw::{self, Flaw},
    flow::{
        base::{
            api::{ClaimAnswer, ClaimRequest, Fault},
            context::Context,
            figures::unclaimed::Demand,
            read::find::Finder,
            records::callbacks::Passage,
            rows::stored,
        },
        features::{
            gate::gatekeeper::{Gatekeeper, Holding},
            join::dependencies,
            limit::{
                deadlines::Deadlines,
                limiter::{Entered, Limiter, Permit},
            },
            sequence::turn::{Asked, SequenceLock},
        },
    },
    limits,
    model::{
        dispatch::Dispatch,
        ids::TaskId,
        ordering::{self, Sequence},
        state::{self, Event, Outcome, State, TaskRow},
        task::Spec,
        time::Millis,
    },
    schema, store,
};

/// The meaning of the turn of its sequence for a claim.
#[derive(Debug)]
enum Turn {
    /// The task has the turn of this sequence. None where it is in none, or cannot be claimed anyway.
    Of(Option<Sequence>),
    /// It cannot be claimed now.
    Not(ClaimAnswer),
}

/// The claimer.
#[derive(Debug, Clone)]
pub struct Claimer {
    ctx: Arc<Context>,
    door: Door,
    finder: Finder,
    claimed: Arc<ClaimedRows>,
    deadlines: Deadlines,
    demand: Demand,
    keeper: Gatekeeper,
    limiter: Limiter,
    turns: SequenceLock,
}

impl Claimer {
    /// Claims through these.
    #[must_use]
    pub(in crate::flow) fn new(
        ctx: Arc<Context>,
        door: Door,
        finder: Finder,
        claimed: Arc<ClaimedRows>,
        deadlines: Deadlines,
        demand: Demand,
        (keeper, limiter): (Gatekeeper, Limiter),
    ) -> Self {
        Self {
            turns: SequenceLock::new(Arc::clone(&ctx), finder.clone()),
            ctx,
            door,
            finder,
            claimed,
            deadlines,
            demand,
            keeper,
            limiter,
        }
    }

    /// Claims messages for a worker; one answer per message, in order. A message that would make the answer
    /// longer than that of a poll, or for whose content there is no memory, is not claimed. It is answered as early, and the
    /// next call may claim it.
    pub async fn claim(
        &self,
        worker: &str,
        requests: Vec<ClaimRequest>,
        memory: &Memory,
    ) -> Vec<ClaimAnswer> {
        let rows = self.rows(&requests).await;
        let room = Room::new(memory);
        let claims = requests.iter().map(|request| async {
            let answer = match self.claim_one(worker, request, &rows, &room).await {
                Ok(answer) => answer,
                Err(fault) => ClaimAnswer::Fault(fault),
            };
            if let ClaimAnswer::Claimed(_) | ClaimAnswer::Stale = &answer {
                self.demand.expiries().forget(request.id);
            }
            match &answer {
                ClaimAnswer::Claimed(_)
                | ClaimAnswer::Stale
                | ClaimAnswer::Held
                | ClaimAnswer::Gated
                | ClaimAnswer::Behind => {
                    self.demand.taken(request.id);
                }
                ClaimAnswer::Early { .. } | ClaimAnswer::Limited { .. } | ClaimAnswer::Fault(_) => {
                }
            }
            metrics::counter!("tickwheel_claims_total", "answer" => name(&answer)).increment(1);
            answer
        });
        let answers = join_all(claims).await;
        count_callbacks(&answers);
        answers
    }

    /// Reads the rows that must be there: those of tasks that were claimed or rescheduled before. A first claim expects
    /// none, and its conditional write says so if there is one.
    async fn rows(&self, requests: &[ClaimRequest]) -> HashMap<TaskId, Result<TaskRow, Fault>> {
        let ids: Vec<TaskId> = requests
            .iter()
            .filter(|r| r.expected_attempt > 0 || r.generation > 0)
            .map(|r| r.id)
            .collect();
        // A row that cannot be read fails its own claim only.
        let rows = stored::rows_each(&self.ctx, &ids).await;
        let found = |(id, row): (TaskId, Result<Option<TaskRow>, store::Error>)| {
            Some((id, row.map_err(Fault::from).transpose()?))
        };
        ids.iter().copied().zip(rows).filter_map(found).collect()
    }

    async fn claim_one(
        &self,
        worker: &str,
        request: &ClaimRequest,
        rows: &HashMap<TaskId, Result<TaskRow, Fault>>,
        room: &Room<'_>,
    ) -> Result<ClaimAnswer, Fault> {
        let row = rows.get(&request.id).cloned().transpose()?;
        // Taken before the heartbeat is read: a later heartbeat must not find its lease ended by the time of the claim.
        let noted = self.ctx.now();
        let heartbeat = self.heartbeat(row.as_ref()).await?;
        let Some(spec) = self.spec(request, row.as_ref()).await? else {
            return Ok(ClaimAnswer::Stale);
        };
        if self.is_gated(request, row.as_ref(), &spec).await? {
            return Ok(ClaimAnswer::Gated);
        }
        let first = request.id.first_start();
        let start = row.as_ref().map_or(first, |row| row.detail.start);
        if spec.is_expired(start, self.ctx.now())
            && row.as_ref().is_none_or(|row| row.state != State::Claimed)
        {
            return self.expire(request.id, row, &spec).await;
        }
        let sequence = match self.turn(request, row.as_ref(), &spec).await? {
            Turn::Not(answer) => return Ok(answer),
            Turn::Of(sequence) => sequence,
        };
        let Some((content, dependencies)) = self.parts(request, &spec, room).await? else {
            let not_before = self.ctx.now();
            return Ok(ClaimAnswer::Early { not_before });
        };
        if request.with_content && content.is_none() {
            return self.content_gone(request, sequence).await;
        }
        let permit = match self.enter(request, &spec).await {
            Entered::May(permit) => permit,
            Entered::Later(wait) => {
                let not_before = self.ctx.now().after(wait);
                return Ok(ClaimAnswer::Limited { not_before });
            }
        };
        let decide = |row: Option<&TaskRow>, now: Millis, nonce| {
            let event = event(request, worker, heartbeat);
            let held = row.is_some_and(|row| row.state == State::Claimed);
            let now = if held { now.min(noted) } else { now };
            state::next(request.id, row, &spec, event, now, nonce)
        };
        let basis = Basis::read_if(row.is_some(), row);
        match self.door.apply(request.id, basis, decide).await? {
            Applied::To(owing) => {
                let parts = (content, dependencies);
                self.begin(owing, parts, permit).await
            }
            Applied::Refused(refusal, row) => {
                self.give_back(sequence, request, row).await?;
                Ok(refused(&refusal))
            }
        }
    }

    /// Reads what the answer has beside the task: its content, and the tasks that it waited for. None where there is no room.
    async fn parts(
        &self,
        request: &ClaimRequest,
        spec: &Spec,
        room: &Room<'_>,
    ) -> Result<Option<Parts>, Fault> {
        let Held::Content(content) = room.content(&self.ctx, request, spec).await? else {
            return Ok(None);
        };
        if spec.after.is_none() {
            return Ok(Some((content, Arc::default())));
        }
        // Before the claim: an attempt must not be used up because they cannot be read. Apart, so that the claim of other tasks
        // is as small as it can be.
        let read = Box::pin(dependencies::read(&self.ctx, request.id)).await?;
        let fits = room.takes(dependencies::bytes(&read));
        Ok(fits.then_some((content, read)))
    }

    /// Asks for the turn of a task of a sequence. The claim of a task without ordering key asks nothing.
    async fn turn(
        &self,
        request: &ClaimRequest,
        row: Option<&TaskRow>,
        spec: &Spec,
    ) -> Result<Turn, Fault> {
        let Some(sequence) = Sequence::of(spec) else {
            return Ok(Turn::Of(None));
        };
        let version = (request.generation, request.expected_attempt);
        let (start, due) = match row {
            // The claim is refused: its row was just read.
            Some(row) if (row.generation, row.attempt) != version => return Ok(Turn::Of(None)),
            Some(row) => (row.detail.start, row.detail.start.max(row.next)),
            None if version == (0, 0) => {
                let first = request.id.first_start();
                (first, first)
            }
            // Its row is gone, or cannot be seen yet: a look comes back to it.
            None => return Ok(Turn::Not(ClaimAnswer::Stale)),
        };
        let alive = row.is_some_and(|row| row.state == State::Claimed);
        // No task is given a turn in the future, and the claim must not find the task due without its turn.
        if !alive && due > self.ctx.now() {
            return Ok(Turn::Not(ClaimAnswer::Early { not_before: due }));
        }
        let task = (request.id, request.generation);
        // Apart, so that the claim of other tasks is as small as it can be.
        let attempt = request.expected_attempt.saturating_add(1);
        let asked = Box::pin(self.turns.ask(&sequence, task, start, attempt)).await?;
        Ok(match asked {
            Asked::Mine => Turn::Of(Some(sequence)),
            Asked::Behind => Turn::Not(ClaimAnswer::Behind),
        })
    }

    /// Passes the turn on of a task whose claim was refused, if the task is over. Otherwise the turn stays where it is: another
    /// attempt may be alive.
    async fn give_back(
        &self,
        sequence: Option<Sequence>,
        request: &ClaimRequest,
        row: Option<Box<TaskRow>>,
    ) -> Result<(), Fault> {
        let (Some(sequence), Some(row)) = (sequence, row) else {
            return Ok(());
        };
        if row.state.is_terminal() {
            settle_debts(&self.ctx, &row, By::Again).await
        } else if ordering::is_over(&row, request.generation) {
            let task = (request.id, request.generation);
            self.turns.give_back(&sequence, task).await
        } else {
            Ok(())
        }
    }

    /// Answers the claim of a task whose content is not there: it has ended, or was damaged. No worker runs it without its
    /// content, and its look comes back to it.
    async fn content_gone(
        &self,
        request: &ClaimRequest,
        sequence: Option<Sequence>,
    ) -> Result<ClaimAnswer, Fault> {
        let row = stored::rows_each(&self.ctx, &[request.id]).await.pop();
        let row = row.transpose()?.flatten();
        if row.as_ref().is_none_or(|row| !row.state.is_terminal()) {
            tracing::error!(task = %request.id, "the content of a due task is gone");
        }
        self.give_back(sequence, request, row.map(Box::new)).await?;
        Ok(ClaimAnswer::Stale)
    }

    /// Hands out an attempt that is claimed.
    async fn begin(
        &self,
        owing: Owing,
        parts: Parts,
        permit: Option<Permit>,
    ) -> Result<ClaimAnswer, Fault> {
        let row = owing.pay_or_leave(&self.ctx).await;
        if self.is_given_back(&row).await? {
            return Ok(ClaimAnswer::Gated);
        }
        let lag = self.ctx.now().since(row.detail.start);
        metrics::histogram!("tickwheel_claim_lag_seconds").record(lag.as_secs_f64());
        let answer = claimed(&row, parts);
        self.deadlines.watch(&row, None);
        if let Some(permit) = permit {
            permit.spend();
        }
        self.claimed.remember(*row);
        Ok(answer)
    }

    /// Asks the limits of its callback for a message that did not come with the right to be claimed.
    async fn enter(&self, request: &ClaimRequest, spec: &Spec) -> Entered {
        if request.admitted {
            return Entered::May(None);
        }
        let callback = spec.callback().unwrap_or_default();
        self.limiter.enter(callback).await
    }

    /// Tells whether a gate keeps a task from being claimed; then it is held. The row of the held task is durable before the
    /// worker forgets the message.
    async fn is_gated(
        &self,
        request: &ClaimRequest,
        row: Option<&TaskRow>,
        spec: &Arc<Spec>,
    ) -> Result<bool, Fault> {
        let gate = match self.keeper.gates().passage(spec) {
            Passage::Open => return Ok(false),
            Passage::Held(gate) => gate,
            Passage::Unknown => return Err(gate_unknown()),
        };
        let start = match row {
            None => request.id.first_start(),
            Some(row) if row.state == State::Claimed => row.detail.start,
            Some(row) => row.next,
        };
        let holding = Holding {
            dispatch: Dispatch {
                id: request.id,
                generation: request.generation,
                expected_attempt: request.expected_attempt,
                start,
            },
            spec: Arc::clone(spec),
            gate,
        };
        self.keeper
            .hold(&[holding])
            .await
            .into_iter()
            .collect::<Result<(), Fault>>()?;
        Ok(true)
    }

    /// Gives an attempt back, which does not count then, when a gate was closed while the claim was written: the write may have
    /// taken long. A crash before it is held leaves the task to its look.
    async fn is_given_back(&self, row: &TaskRow) -> Result<bool, Fault> {
        let gate = match self.keeper.gates().passage(&row.detail.spec) {
            Passage::Open => return Ok(false),
            Passage::Held(gate) => Some(gate),
            Passage::Unknown => None,
        };
        let decide = |there: Option<&TaskRow>, now: Millis, nonce| {
            let event = Event::Settle {
                attempt: row.attempt,
                outcome: Outcome::Snoozed {
                    after: Duration::ZERO,
                },
                answered: None,
                chance: 0,
            };
            state::next(row.id, there, &row.detail.spec, event, now, nonce)
        };
        let basis = Basis::guessed(Some(row.clone()));
        let Applied::To(owing) = self.door.apply(row.id, basis, decide).await? else {
            return Err(gate_unknown());
        };
        let (waits, paid) = owing.pay(&self.ctx).await;
        let gate = gate.ok_or_else(gate_unknown)?;
        if waits.state.is_terminal() {
            // A cancel came meanwhile: the attempt that was given back is its last one.
            paid?;
            return Ok(true);
        }
        let holding = Holding {
            dispatch: Dispatch::next_of(&waits),
            spec: Arc::clone(&waits.detail.spec),
            gate,
        };
        self.keeper
            .hold(&[holding])
            .await
            .into_iter()
            .collect::<Result<(), Fault>>()?;
        Ok(true)
    }

    /// An attempt that was published again because its lease had ended may have given a sign of life since.
    async fn heartbeat(&self, row: Option<&TaskRow>) -> Result<Option<Millis>, Fault> {
        let Some(row) = row.filter(|row| row.state == State::Claimed) else {
            return Ok(None);
        };
        let beats = self.ctx.store.heartbeats(&[(row.id, row.attempt)]).await?;
        let last = beats.into_iter().flatten().next().map(|beat| beat.at);
        Ok(self.ctx.sign_of_life(last))
    }

    /// Returns the task from its row, from the message if that is young, or from its entry; none when there is no
    /// such task. A row holds a bounded content: a larger one that came inside a message is left where it is kept.
    async fn spec(
        &self,
        request: &ClaimRequest,
        row: Option<&TaskRow>,
    ) -> Result<Option<Arc<Spec>>, Fault> {
        if let Some(row) = row {
            return Ok(Some(Arc::clone(&row.detail.spec)));
        }
        let now = self.ctx.now();
        let is_young = |at: Millis| {
            now.since(at) < limits::MESSAGE_TRUSTED_MAX || flaw::is(Flaw::OldMessageTrusted)
        };
        let young = request.published.is_some_and(is_young);
        // The message may be forged or repeated, or there was no room to note it: a read tells.
        let young = young && self.demand.may_have_published(request.id);
        match request.spec.as_ref().filter(|_| young) {
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
        let basis = Basis::guessed(row);
        if let Applied::To(owing) = self.door.apply(id, basis, decide).await? {
            owing.pay(&self.ctx).await.1?;
        }
        Ok(ClaimAnswer::Stale)
    }
}
