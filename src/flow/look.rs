//! The look stage: examines tasks whose looks have come up, and does what each needs.
//!
//! The order is the promise: read the rows, write the successors (durable), then publish. So a look that is repeated after a
//! crash finds its successor there already, under the same key, and at worst publishes once more. A look whose task is
//! terminal repeats the end steps and is dropped; every other look has a successor.

use std::{collections::HashMap, sync::Arc};

use futures_util::future::join_all;

use super::{
    api::Fault,
    context::Context,
    end,
    place::Placer,
    send::{Sender, Sending},
    swap::{Moved, Mover},
    turns::Turns,
};
use crate::{
    flaw::{self, Flaw},
    model::{
        entry::{self, Decision, Entry, Known, Publish},
        ids::TaskId,
        state::{self, Event, Refusal, State, TaskRow},
        time::Millis,
    },
    queue::{Probe, message},
    store::Heartbeat,
};

/// The examiner of tasks.
#[derive(Debug, Clone)]
pub struct Looker {
    ctx: Arc<Context>,
    placer: Placer,
    sender: Sender,
    mover: Mover,
    turns: Arc<Turns>,
}

impl Looker {
    /// Examines through these.
    #[must_use]
    pub(super) const fn new(
        ctx: Arc<Context>,
        placer: Placer,
        sender: Sender,
        mover: Mover,
        turns: Arc<Turns>,
    ) -> Self {
        Self {
            ctx,
            placer,
            sender,
            mover,
            turns,
        }
    }

    /// Examines a batch of looks; one result per look, in order. An error means that the look is not done.
    pub async fn look(&self, looks: &[&Entry]) -> Vec<Result<(), Fault>> {
        let ids: Vec<TaskId> = looks.iter().map(|look| look.key.id).collect();
        let turn = self.turns.look().await;
        // Before the reads: a heartbeat that comes behind them must not find its lease ended by the time of the decision.
        let now = self.ctx.now();
        let (rows, heartbeats) = match self.known(&ids).await {
            Ok(known) => known,
            Err(fault) => return looks.iter().map(|_| Err(fault.clone())).collect(),
        };
        // Writes of many wheels share a sync.
        drop(turn);
        let mut decisions: Vec<Decision> = looks
            .iter()
            .zip(&rows)
            .map(|(look, row)| {
                let heartbeat = heartbeats.get(&look.key.id).map(|beat| beat.at);
                let heartbeat = self.ctx.sign_of_life(heartbeat);
                let retrying = row.as_ref().is_some_and(|row| row.state == State::Retrying);
                if flaw::is(Flaw::LookDroppedAtUnclaimed) && row.is_none()
                    || flaw::is(Flaw::LookDroppedAtRetrying) && retrying
                {
                    return Decision::Drop;
                }
                entry::decide(
                    look,
                    Known {
                        row: row.as_ref(),
                        heartbeat,
                    },
                    now,
                    self.ctx.shape(),
                )
            })
            .collect();
        self.hold_queued(looks, &mut decisions).await;
        let mut results = self.put_successors(looks, &decisions, now).await;
        self.publish(looks, &decisions, &results).await;
        let ends = looks.iter().zip(&decisions).zip(rows).map(
            |((look, decision), row)| async move {
                metrics::counter!("tickwheel_looks_total", "decision" => name(decision))
                    .increment(1);
                match (decision, row) {
                    (Decision::End { event }, row) => {
                        Some(self.end(look, row, event.clone(), now).await)
                    }
                    (Decision::EndSteps, Some(row)) => Some(end::steps(&self.ctx, &row).await),
                    (Decision::EndSteps, None)
                    | (Decision::Drop | Decision::Publish(_) | Decision::LookAgain { .. }, _) => {
                        None
                    }
                }
            },
        );
        for (result, ended) in results.iter_mut().zip(join_all(ends).await) {
            if let Some(ended) = ended {
                *result = ended;
            }
        }
        results
    }

    /// Reads the rows of tasks, none for those that have none.
    pub(super) async fn rows(&self, ids: &[TaskId]) -> Result<Vec<Option<TaskRow>>, Fault> {
        self.mover.rows(ids).await
    }

    pub(super) async fn known(
        &self,
        ids: &[TaskId],
    ) -> Result<(Vec<Option<TaskRow>>, HashMap<TaskId, Heartbeat>), Fault> {
        let rows = self.mover.rows(ids).await?;
        let running: Vec<(TaskId, u32)> = rows
            .iter()
            .flatten()
            .filter(|row| row.state == State::Claimed)
            .map(|row| (row.id, row.attempt))
            .collect();
        if running.is_empty() {
            return Ok((rows, HashMap::new()));
        }
        let heartbeats = self.ctx.store.heartbeats(&running).await?;
        Ok((
            rows,
            heartbeats
                .into_iter()
                .flatten()
                .map(|beat| (beat.id, beat))
                .collect(),
        ))
    }

    /// Writes the successors of a batch, as one batch.
    async fn put_successors(
        &self,
        looks: &[&Entry],
        decisions: &[Decision],
        now: Millis,
    ) -> Vec<Result<(), Fault>> {
        let mut results: Vec<Result<(), Fault>> = looks.iter().map(|_| Ok(())).collect();
        let mut indices = Vec::new();
        let mut successors = Vec::new();
        for (index, (look, decision)) in looks.iter().zip(decisions).enumerate() {
            if let Some(successor) = self.successor(look, decision, now) {
                indices.push(index);
                successors.push(successor);
            }
        }
        if successors.is_empty() || flaw::is(Flaw::LookWithoutSuccessor) {
            return results;
        }
        for (index, placed) in indices.into_iter().zip(self.placer.place(successors).await) {
            if let Some(result) = results.get_mut(index) {
                *result = placed.map(|_| ());
            }
        }
        results
    }

    fn successor(&self, look: &Entry, decision: &Decision, now: Millis) -> Option<Entry> {
        let entry::Kind::Look { published } = look.kind else {
            return None;
        };
        let (at, generation, published, start) = match decision {
            Decision::LookAgain { at, generation } => (*at, *generation, published, look.start),
            Decision::Publish(publish) => (
                publish.look_at?,
                publish.generation,
                Some(now),
                publish.start,
            ),
            Decision::Drop | Decision::End { .. } | Decision::EndSteps => return None,
        };
        let stamp = self.ctx.time.stamp();
        Some(Entry::look(
            look.key.id,
            generation,
            at,
            published,
            start,
            Arc::clone(&look.spec),
            stamp,
        ))
    }

    /// Publishes what the looks ask for, where the successor is durable. A failure is left to the successor.
    async fn publish(
        &self,
        looks: &[&Entry],
        decisions: &[Decision],
        results: &[Result<(), Fault>],
    ) {
        let mut wanted: Vec<(&Entry, Publish)> = Vec::new();
        for ((look, decision), result) in looks.iter().zip(decisions).zip(results) {
            if let (Decision::Publish(publish), Ok(())) = (decision, result) {
                wanted.push((look, *publish));
            }
        }
        if wanted.is_empty() {
            return;
        }
        let sendings: Vec<Sending> = wanted
            .iter()
            .map(|(look, publish)| Sending {
                id: look.key.id,
                generation: publish.generation,
                expected_attempt: publish.expected_attempt,
                start: publish.start,
                spec: Arc::clone(&look.spec),
            })
            .collect();
        let failed = self
            .sender
            .send(&sendings)
            .await
            .into_iter()
            .filter(Result::is_err)
            .count();
        if failed > 0 {
            tracing::debug!(failed, "publications were left to the next look");
        }
    }

    /// Holds back what is certainly still waiting in the queue: consumers that are merely slow must not be sent their whole
    /// backlog again at every look. Such a task is looked at again, and keeps the time of the publication that waits: if it
    /// were taken for published now, a message that is lost behind a backlog would look queued for ever.
    async fn hold_queued(&self, looks: &[&Entry], decisions: &mut [Decision]) {
        let probe = |(look, decision): (&&Entry, &Decision)| {
            let Decision::Publish(publish) = decision else {
                return None;
            };
            let callback = look.spec.callback()?;
            Some(Probe {
                topic: message::topic(callback, look.spec.priority),
                group: message::group(callback),
                wheel: look.key.wheel(),
                since: publish.unless_queued_since?,
            })
        };
        let probes: Vec<Option<Probe>> = looks.iter().zip(decisions.iter()).map(probe).collect();
        let asked: Vec<Probe> = probes.iter().flatten().cloned().collect();
        if asked.is_empty() {
            return;
        }
        let mut queued = self.ctx.publisher.still_queued(&asked).await.into_iter();
        for (decision, probe) in decisions.iter_mut().zip(probes) {
            let waits = probe.is_some() && queued.next().unwrap_or(false);
            if let (
                true,
                Decision::Publish(Publish {
                    look_at: Some(at),
                    generation,
                    ..
                }),
            ) = (waits, &*decision)
            {
                *decision = Decision::LookAgain {
                    at: *at,
                    generation: *generation,
                };
            }
        }
    }

    /// Moves a task to its end, as of `noted`: the time before what the event says of it was read.
    async fn end(
        &self,
        look: &Entry,
        row: Option<TaskRow>,
        event: Event,
        noted: Millis,
    ) -> Result<(), Fault> {
        let (id, spec) = (look.key.id, Arc::clone(&look.spec));
        let moved = self
            .mover
            .apply(id, row, false, |row, now, nonce| {
                state::next(id, row, &spec, event.clone(), now.min(noted), nonce)
            })
            .await?;
        match moved {
            Moved::To(row) => end::steps(&self.ctx, &row).await,
            Moved::Refused(Refusal::Ended { .. }, Some(row)) => end::steps(&self.ctx, &row).await,
            // It moved on since it was read: look again at once, with what it is now.
            Moved::Refused(refusal, _) => Err(Fault::Unavailable {
                reason: format!("task {id} moved on while it was looked at: {refusal:?}"),
                retry_after: crate::limits::STEP_PAUSE,
            }),
        }
    }
}

const fn name(decision: &Decision) -> &'static str {
    match decision {
        Decision::Drop => "drop",
        Decision::Publish(_) => "publish",
        Decision::LookAgain { .. } => "look_again",
        Decision::End { .. } => "end",
        Decision::EndSteps => "end_steps",
    }
}
