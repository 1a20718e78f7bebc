//! The checker lets tasks go for a node that wait for others, once these have ended, or ends them.
//!
//! A check reads the rows of a waiter. One that comes by a look, by a deadline, or soon after the registration, also asks all
//! dependencies whose rows say nothing. Any number of checks may run at once, on any nodes: one conditional write of the row of
//! the waiter decides. The lists are hints: a node that dies leaves its waiters to their looks.

use std::sync::Arc;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::rows;
use crate::{
    flaw::{self, Flaw},
    flow::{
        api::Fault,
        context::Context,
        query::find::Finder,
        tasks::{cancel::Canceller, reschedule::Changer, transition::Mover},
    },
    limits::{
        FAMILY_RETRY_PAUSE, FAMILY_TRIES_MAX, JOIN_DEADLINE_AHEAD, JOINS_IN_FLIGHT_MAX, JOINS_PAGE,
    },
    model::{
        family::Outcome,
        ids::TaskId,
        join::{self, After, KEPT_MIN, Seen, Verdict},
        row::TaskRow,
        time::Millis,
    },
    schema::DependencyRow,
};

/// How far a check asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Depth {
    /// The rows of the waiter.
    Rows,
    /// The dependencies as well.
    Dependencies,
}

/// The checker of a node. Cheap to clone.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Checker {
    ctx: Arc<Context>,
    mover: Mover,
    finder: Finder,
    changer: Changer,
    canceller: Canceller,
}

impl Checker {
    /// Checks by these.
    #[must_use]
    pub(in crate::flow) const fn new(
        ctx: Arc<Context>,
        mover: Mover,
        finder: Finder,
        changer: Changer,
        canceller: Canceller,
    ) -> Self {
        Self {
            ctx,
            mover,
            finder,
            changer,
            canceller,
        }
    }

    /// Checks what is on the lists until `stop`.
    pub(in crate::flow) async fn run(self, stop: CancellationToken) {
        let mut checks = JoinSet::new();
        let (ended, asked) = (&self.ctx.joins.ended, &self.ctx.joins.asked);
        while !stop.is_cancelled() {
            let mut room = JOINS_IN_FLIGHT_MAX.saturating_sub(checks.len());
            for (list, depth) in [(ended, Depth::Rows), (asked, Depth::Dependencies)] {
                let taken = list.take(self.ctx.time.moment(), room);
                room -= taken.len();
                for (waiter, tries) in taken {
                    let checker = self.clone();
                    checks.spawn(async move { checker.tend(waiter, depth, tries).await });
                }
            }
            let next = [ended.next(), asked.next()].into_iter().flatten().min();
            let next = next.filter(|_| room > 0);
            let until = async {
                match next {
                    Some(at) => self.ctx.time.sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = stop.cancelled() => {}
                () = ended.added(), if room > 0 => {}
                () = asked.added(), if room > 0 => {}
                Some(_) = checks.join_next() => {}
                () = until => {}
            }
        }
    }

    /// Checks one waiter; what fails is repeated, then left to its look.
    async fn tend(&self, waiter: TaskId, depth: Depth, tries: u32) {
        if let Err(fault) = self.check(waiter, depth).await {
            tracing::debug!(task = %waiter, %fault, "what it waits for could not be checked");
            if tries < FAMILY_TRIES_MAX {
                let at = self.ctx.time.moment().after(FAMILY_RETRY_PAUSE);
                self.ctx.joins.asked.at(waiter, at, tries + 1);
            }
        }
    }

    async fn check(&self, waiter: TaskId, depth: Depth) -> Result<(), Fault> {
        // One that nobody has entered is dropped: it is not registered, or its look enters it.
        let row = self.mover.row(waiter).await?;
        let Some(row) = row.filter(TaskRow::waits_for_tasks) else {
            return Ok(());
        };
        let spec = Arc::clone(&row.detail.spec);
        let Some(after) = spec.after.as_deref() else {
            return Ok(());
        };
        if flaw::is(Flaw::WaiterLeft) {
            return Ok(());
        }
        let rows = rows::dependencies(&self.ctx, waiter).await?;
        let now = self.ctx.now();
        let is_late = after.deadline.is_some_and(|deadline| now >= deadline);
        let seen = if is_late || depth == Depth::Dependencies {
            self.ask(waiter, rows, (now, is_late)).await?
        } else {
            let seen = |(id, row)| (id, seen_by_row(row));
            rows.into_iter().map(seen).collect()
        };
        let verdict = join::decide(after, &seen, now);
        if let Some((fails, error)) = verdict.end() {
            return Box::pin(self.canceller.wait_over(waiter, &spec, fails, error)).await;
        }
        let ended = match verdict {
            Verdict::Goes(ended) => ended,
            _ if flaw::is(Flaw::WaiterTooSoon) => None,
            _ => {
                self.come_back(waiter, after, now);
                return Ok(());
            }
        };
        let start = waiter.first_start().max(ended.unwrap_or(now));
        Box::pin(self.changer.release(waiter, &spec, start)).await
    }

    /// Asks those dependencies whose rows do not say how they ended, and notes what they say.
    async fn ask(
        &self,
        waiter: TaskId,
        rows: Vec<(TaskId, DependencyRow)>,
        at: (Millis, bool),
    ) -> Result<Vec<(TaskId, Seen)>, Fault> {
        let mut all = Vec::with_capacity(rows.len());
        for some in rows.chunks(JOINS_PAGE) {
            let is_open =
                |(_, row): &&(TaskId, DependencyRow)| matches!(row, DependencyRow::Open { .. });
            let ids: Vec<TaskId> = some.iter().filter(is_open).map(|(id, _)| *id).collect();
            let mut found = self.mover.rows_each(&ids).await.into_iter();
            let mut ended = Vec::new();
            for (id, row) in some {
                let DependencyRow::Open { known } = row else {
                    all.push((*id, seen_by_row(*row)));
                    continue;
                };
                let there = found.next().unwrap_or(Ok(None))?;
                let outcome = there.as_ref().and_then(Outcome::of);
                ended.extend(outcome.map(|outcome| (waiter, *id, outcome)));
                all.push(match (outcome, there) {
                    (Some(outcome), _) => (*id, Seen::Ended(outcome)),
                    (None, Some(_)) => (*id, Seen::Open),
                    (None, None) => (*id, self.without_row(*id, *known, at).await?),
                });
            }
            if ended.is_empty() {
                continue;
            }
            // So that the next check need not ask again. It comes soon: another check may have read the rows before this.
            rows::put_outcomes(&self.ctx, ended.into_iter()).await?;
            let joins = &self.ctx.joins;
            joins.ended.add(waiter, self.ctx.time.moment());
        }
        Ok(all)
    }

    /// Looks for a dependency that has no row: it has not begun, or was never there, or was forgotten.
    async fn without_row(
        &self,
        id: TaskId,
        known: bool,
        (now, is_late): (Millis, bool),
    ) -> Result<Seen, Fault> {
        if known && now < id.first_start().after(KEPT_MIN) {
            return Ok(Seen::Open);
        }
        if !known && !is_late {
            // Whether it is there matters at the deadline only.
            return Ok(Seen::Unknown);
        }
        let found = self.finder.registered(id).await?;
        Ok(match (found, known) {
            (Some(_), _) => Seen::Open,
            (None, true) => Seen::Gone,
            (None, false) => Seen::Unknown,
        })
    }

    /// Remembers the deadline of a waiter that goes on waiting, if it is near.
    fn come_back(&self, waiter: TaskId, after: &After, now: Millis) {
        let Some(deadline) = after.deadline else {
            return;
        };
        let wait = deadline.since(now);
        if wait <= JOIN_DEADLINE_AHEAD {
            let at = self.ctx.time.moment().after(wait);
            self.ctx.joins.asked.at(waiter, at, 0);
        }
    }
}

const fn seen_by_row(row: DependencyRow) -> Seen {
    match row {
        DependencyRow::Open { known: true } => Seen::Open,
        DependencyRow::Open { known: false } => Seen::Unknown,
        DependencyRow::Ended(outcome) => Seen::Ended(outcome),
    }
}
