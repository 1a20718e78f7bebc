//! The checker lets tasks go for a node that wait for others, once these have ended, or ends them.
//!
//! A check reads the rows of a waiter: up to the first open one after an end that the waiter passes over, all of them after
//! another one. One that comes by a look, by a deadline, or soon after the registration, also asks all dependencies whose rows
//! say nothing. Any number of checks may run at once, on any nodes: one conditional write of the row of
//! the waiter decides. The lists are hints: a node that dies leaves its waiters to their looks.

use std::{future::ready, sync::Arc};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{
    flaw::{self, Flaw},
    flow::{
        base::{
            api::Fault,
            context::Context,
            panics,
            read::find::Finder,
            rows::stored,
            tables::joins::{self, Joined},
        },
        features::join::sweep,
        life::{
            cancel::Canceller,
            door::{Applied, Basis, Door},
            reschedule::Rescheduler,
            unfinished::Finisher,
        },
    },
    limits::{
        FAMILY_RETRY_PAUSE, FAMILY_TRIES_MAX, JOIN_DEADLINE_AHEAD, JOIN_ROWS_KEPT,
        JOIN_ROWS_KEPT_AFTER, JOINS_IN_FLIGHT_MAX,
    },
    model::{
        ids::TaskId,
        join::{self, After, Condition, Seen, Verdict},
        row::TaskRow,
        state::Refusal,
        task::Spec,
        time::Millis,
    },
    schema::DependencyRow,
};

/// How far a check looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Depth {
    /// The rows of the waiter up to the first open one, if one is.
    FirstOpen,
    /// The rows of the waiter.
    Rows,
    /// The dependencies as well.
    Dependencies,
}

/// The waiter of which a check is, and the time of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asking<'a> {
    pub(super) waiter: TaskId,
    pub(super) after: &'a After,
    pub(super) now: Millis,
    /// The deadline has passed.
    pub(super) is_late: bool,
}

/// The answers of dependencies.
#[derive(Debug, Default)]
pub(super) struct Answers {
    pub(super) seen: Vec<(TaskId, Seen)>,
    /// Those of them that have no row, and should have begun some time ago.
    pub(super) awaited: Vec<TaskId>,
}

/// The checker of a node. Cheap to clone.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Checker {
    pub(super) ctx: Arc<Context>,
    pub(super) door: Door,
    pub(super) finder: Finder,
    pub(super) finisher: Finisher,
    rescheduler: Rescheduler,
    canceller: Canceller,
}

impl Checker {
    /// Checks by these.
    #[must_use]
    pub(in crate::flow) const fn new(
        ctx: Arc<Context>,
        door: Door,
        finder: Finder,
        finisher: Finisher,
        rescheduler: Rescheduler,
        canceller: Canceller,
    ) -> Self {
        Self {
            ctx,
            door,
            finder,
            finisher,
            rescheduler,
            canceller,
        }
    }

    /// Checks what is on the lists until `stop`.
    pub(in crate::flow) async fn run(self, stop: CancellationToken) {
        let mut checks = JoinSet::new();
        let joins = &self.ctx.joins;
        let (ended, failed, asked) = (&joins.ended, &joins.failed, &joins.asked);
        while !stop.is_cancelled() {
            let mut room = JOINS_IN_FLIGHT_MAX.saturating_sub(checks.len());
            for (list, depth) in [
                (ended, Depth::FirstOpen),
                (failed, Depth::Rows),
                (asked, Depth::Dependencies),
            ] {
                let taken = list.take(self.ctx.time.moment(), room);
                room -= taken.len();
                for (waiter, tries) in taken {
                    let checker = self.clone();
                    checks.spawn(async move { checker.tend(waiter, depth, tries).await });
                }
            }
            let next = [ended.next(), failed.next(), asked.next()];
            let next = next.into_iter().flatten().min().filter(|_| room > 0);
            let until = self.ctx.time.sleep_until_next(next);
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = ended.added(), if room > 0 => {}
                () = failed.added(), if room > 0 => {}
                () = asked.added(), if room > 0 => {}
                Some(_) = checks.join_next() => {}
                () = until => {}
            }
        }
    }

    /// Checks one waiter; what fails is repeated, then left to its look.
    async fn tend(&self, waiter: TaskId, depth: Depth, tries: u32) {
        if let Err(fault) = panics::caught("join", self.check(waiter, depth)).await {
            tracing::debug!(task = %waiter, %fault, "what it waits for could not be checked");
            if tries < FAMILY_TRIES_MAX {
                let at = self.ctx.time.moment().after(FAMILY_RETRY_PAUSE);
                self.ctx.joins.asked.at(waiter, at, tries + 1);
            }
        }
    }

    async fn check(&self, waiter: TaskId, depth: Depth) -> Result<(), Fault> {
        // One that nobody has entered is dropped: it is not registered, or its look enters it.
        let row = stored::row(&self.ctx, waiter).await?;
        let Some(row) = row.filter(TaskRow::waits_for_tasks) else {
            self.ctx.joins.leave(waiter);
            return Ok(());
        };
        let spec = Arc::clone(&row.detail.spec);
        let Some(after) = spec.after.as_deref() else {
            return Ok(());
        };
        if flaw::is(Flaw::WaiterLeft) {
            return Ok(());
        }
        let now = self.ctx.now();
        let of = Asking {
            waiter,
            after,
            now,
            is_late: after.deadline.is_some_and(|deadline| now >= deadline),
        };
        if self.waits_still(of, depth).await? {
            self.come_back(of, &spec);
            return Ok(());
        }
        let rows = joins::dependencies(&self.ctx, waiter).await?;
        let Answers { seen, awaited } = if of.is_late || depth == Depth::Dependencies {
            self.ask(of, &rows).await?
        } else {
            let seen = |one: &Joined| (one.id, seen_by_row(after, one.row));
            Answers {
                seen: rows.iter().map(seen).collect(),
                ..Answers::default()
            }
        };
        let verdict = verdict(of, &spec, &seen);
        if let Some((fails, error)) = verdict.end() {
            return Box::pin(self.canceller.wait_over(waiter, &spec, fails, error)).await;
        }
        let ended = match verdict {
            Verdict::Goes(ended) => ended,
            _ if flaw::is(Flaw::WaiterTooSoon) => None,
            _ => {
                sweep::remember(&self.ctx, waiter, after, &seen);
                if depth == Depth::Dependencies {
                    self.keep(of, &spec, &rows).await?;
                    self.keep_ended(of, &rows).await?;
                    self.finish(waiter, &spec, awaited).await;
                }
                self.come_back(of, &spec);
                return Ok(());
            }
        };
        self.ctx.joins.leave(waiter);
        let start = waiter.first_start().max(ended.unwrap_or(now));
        Box::pin(self.rescheduler.release(waiter, &spec, start)).await
    }

    /// Tells whether a dependency is open, so that nothing is to be done, where a check need not look further than that.
    async fn waits_still(&self, of: Asking<'_>, depth: Depth) -> Result<bool, Fault> {
        // However one has ended, those that wait for all ends pass over it.
        let is_any = of.after.condition == Condition::AllEnded;
        let suffices = match depth {
            Depth::FirstOpen => true,
            Depth::Rows => is_any,
            Depth::Dependencies => false,
        };
        if of.is_late || !suffices || flaw::is(Flaw::WaiterTooSoon) {
            return Ok(false);
        }
        sweep::finds_open(&self.ctx, of.waiter, of.after).await
    }

    /// Lets the rows of a wait that lasts long stay for as long as it does.
    async fn keep(&self, of: Asking<'_>, spec: &Spec, rows: &[Joined]) -> Result<(), Fault> {
        if of.now < spec.create_time.after(JOIN_ROWS_KEPT_AFTER) {
            return Ok(());
        }
        let left = rows.iter().filter_map(|one| match one.row {
            DependencyRow::Open { known } if !one.is_kept => Some((one.id, known)),
            DependencyRow::Open { .. } | DependencyRow::Ended(_) => None,
        });
        joins::keep(&self.ctx, of.waiter, &left.collect::<Vec<_>>()).await
    }

    /// Lets the rows of dependencies that have ended stay for as long as the wait: their results are read at its end.
    async fn keep_ended(&self, of: Asking<'_>, rows: &[Joined]) -> Result<(), Fault> {
        let old = rows.iter().filter(|one| match one.row {
            DependencyRow::Ended(outcome) => join::is_kept_longer(outcome.at, of.now),
            DependencyRow::Open { .. } => false,
        });
        let writes = old.map(|one| {
            let decide = |row: Option<&TaskRow>, now: Millis, nonce| {
                join::kept_longer(row.ok_or(Refusal::Stale)?, now, nonce)
            };
            async move {
                match self
                    .door
                    .apply(one.id, Basis::guessed(None), decide)
                    .await?
                {
                    Applied::To(owing) => owing.pay(&self.ctx).await.1,
                    Applied::Refused(..) => Ok(()),
                }
            }
        });
        let writes: Vec<_> = writes.collect();
        let written = stream::iter(writes).buffered(JOINS_IN_FLIGHT_MAX);
        written.try_for_each(|()| ready(Ok(()))).await
    }

    /// Counts a waiter that goes on waiting, and remembers its deadline if it is near.
    fn come_back(&self, of: Asking<'_>, spec: &Spec) {
        let (joins, moment) = (&self.ctx.joins, self.ctx.time.moment());
        joins.goes_on(of.waiter, spec.callback().unwrap_or_default(), moment);
        let Some(deadline) = of.after.deadline else {
            return;
        };
        let wait = deadline.since(of.now);
        if wait <= JOIN_DEADLINE_AHEAD {
            joins.asked.at(of.waiter, moment.after(wait), 0);
        }
    }
}

/// Tells what the row of a waiter says of a dependency.
pub(super) fn seen_by_row(after: &After, row: DependencyRow) -> Seen {
    match row {
        DependencyRow::Open { known } if join::was_known(after, known) => Seen::Open,
        DependencyRow::Open { .. } => Seen::Unknown,
        DependencyRow::Ended(outcome) => Seen::Ended(outcome),
    }
}

/// Decides about a waiter. Rows that are not there come no more once its registration would have ended long ago.
fn verdict(of: Asking<'_>, spec: &Spec, seen: &[(TaskId, Seen)]) -> Verdict {
    let verdict = join::decide(of.after, seen, of.now);
    let has_rows = seen.len() >= of.after.tasks as usize;
    let are_gone = !has_rows && of.now >= spec.create_time.after(JOIN_ROWS_KEPT);
    if verdict == Verdict::Waits && are_gone {
        return Verdict::Lost;
    }
    verdict
}
