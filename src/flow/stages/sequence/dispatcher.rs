//! The dispatcher publishes the tasks of sequences that have come to their turn, for the nodes on which the tasks before them
//! ended.
//!
//! Such a task was published when it was due, and its message was forgotten because it was not its turn. Its look would publish
//! it again after about a claim timeout; the dispatcher does it at once. All that it does is a hint: the claim decides.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;

use crate::{
    flow::{
        base::{
            api::Fault,
            context::{Context, Stepped},
            panics,
            read::find::Finder,
        },
        features::sequence::{
            leave,
            turn::{First, Hold, Search, SequenceLock},
        },
        life::{
            near::{Near, NearTask},
            sending::Sending,
        },
    },
    limits,
    model::{
        dispatch::Dispatch,
        ids::TaskId,
        ordering::{self, Bound, Sequence},
        row::{State, TaskRow},
        task::Spec,
        time::Millis,
    },
};

/// How the dispatcher left a sequence.
#[derive(Debug, PartialEq, Eq)]
enum Served {
    /// Nothing is to be done, or it was done.
    Done,
    /// Look again then.
    Later(Duration),
}

/// The dispatcher of a node.
#[derive(Debug, Clone)]
pub(in crate::flow) struct TurnDispatcher {
    ctx: Arc<Context>,
    turns: SequenceLock,
    finder: Finder,
    near: Near,
}

impl TurnDispatcher {
    /// Publishes through this.
    #[must_use]
    pub(in crate::flow) const fn new(
        ctx: Arc<Context>,
        turns: SequenceLock,
        finder: Finder,
        near: Near,
    ) -> Self {
        Self {
            ctx,
            turns,
            finder,
            near,
        }
    }

    /// Serves what is on the list until `stop`.
    pub(in crate::flow) async fn run(self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            if self.step().await == Stepped::More {
                continue;
            }
            let next = self.ctx.turn_queue.passed().next();
            let until = self.ctx.time.sleep_until_next(next);
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = self.ctx.turn_queue.passed().added() => {}
                () = until => {}
            }
        }
    }

    /// Serves one batch.
    async fn step(&self) -> Stepped {
        let batch = self
            .ctx
            .turn_queue
            .passed()
            .take(self.ctx.time.moment(), limits::TURNS_IN_FLIGHT_MAX);
        if batch.is_empty() {
            return Stepped::Idle;
        }
        join_all(
            batch
                .into_iter()
                .map(|(sequence, tries)| self.serve_one(sequence, tries)),
        )
        .await;
        Stepped::More
    }

    async fn serve_one(&self, sequence: Sequence, tries: u32) {
        let wait = match panics::caught("turn", self.serve(&sequence)).await {
            Ok(Served::Done) => return,
            Ok(Served::Later(wait)) => wait,
            Err(fault) => {
                tracing::debug!(%fault, "a turn could not be looked at");
                limits::STEP_PAUSE
            }
        };
        if tries < limits::DISPATCHER_TRIES_MAX {
            let at = self.ctx.time.moment().after(wait);
            self.ctx.turn_queue.again(sequence, at, tries + 1);
        }
    }

    async fn serve(&self, sequence: &Sequence) -> Result<Served, Fault> {
        let turn = self.turns.read(sequence).await?.turn;
        if let Some(holder) = turn.holder {
            let row = self.turns.row(holder.id, holder.generation).await?;
            return match self.turns.hold_of(&holder, row.as_ref()).await? {
                Hold::Stands => self.publish(holder.id, row).await,
                Hold::Registered(spec) => {
                    let (id, start) = (holder.id, holder.id.first_start());
                    self.hold(Dispatch::first(id, start), spec);
                    Ok(Served::Done)
                }
                Hold::Over => {
                    // Both put the sequence on the list again.
                    match row.filter(|row| !ordering::is_over(row, holder.generation)) {
                        Some(waits) => leave::retries(&self.ctx, &waits).await?,
                        None => {
                            let over = (holder.id, holder.generation);
                            leave::pass_on(&self.ctx, sequence, over).await?;
                        }
                    }
                    Ok(Served::Done)
                }
            };
        }
        let until = Bound::at(Millis(self.ctx.now().0 + 1));
        let search = Search {
            from: turn.from,
            until,
            but: None,
            skips: leave::skips(&self.ctx, sequence).await?,
        };
        match self.turns.first(sequence, search).await?.first {
            First::None => Ok(Served::Done),
            First::Open(until) => Ok(Served::Later(
                until.since(self.ctx.now()).max(limits::STEP_PAUSE),
            )),
            First::Member(member, row) => self.publish(member.rank.id, row.map(|row| *row)).await,
        }
    }

    /// Publishes a task that waits and is due.
    async fn publish(&self, id: TaskId, row: Option<TaskRow>) -> Result<Served, Fault> {
        let Some(row) = row else {
            // Its entry may be about to be written.
            let Some(found) = self.finder.registered(id).await? else {
                return Ok(Served::Later(limits::DISPATCHER_PAUSE));
            };
            let dispatch = Dispatch::first(id, id.first_start());
            self.hold(dispatch, found.spec);
            return Ok(Served::Done);
        };
        let waits = matches!(row.state, State::New | State::Retrying);
        if waits && row.next <= self.ctx.now() {
            self.hold(Dispatch::next_of(&row), row.detail.spec);
        }
        Ok(Served::Done)
    }

    fn hold(&self, dispatch: Dispatch, spec: Arc<Spec>) {
        metrics::counter!("tickwheel_turns_passed_total").increment(1);
        let sending = Sending::new(dispatch, spec, false);
        self.near.hold_or_leave(NearTask::with_look(sending));
    }
}
