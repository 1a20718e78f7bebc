//! The run tasks make the tasks of runs for the driver, read how they stand, and withdraw those that have not begun.
//!
//! Everything here is the same when it is done twice. A run that was never entered is withdrawn all the same: the row of a
//! cancelled task is written, and an entry that arrives later is void.

use std::{collections::BTreeSet, sync::Arc};

use futures_util::{StreamExt as _, stream};

use super::{records::Schedules, runs::Runs};
use crate::{
    flaw::{self, Flaw},
    flow::{
        base::{
            api::{CancelOutcome, Fault, NewTask},
            context::Context,
            rows::stored,
        },
        life::{
            cancel::Canceller,
            door::{Applied, Basis, Door, Owing},
            existence::ExistenceCheck,
            incoming::Incoming,
            register::Registrar,
        },
    },
    limits::{JOB_ITEMS_IN_FLIGHT_MAX, RECORD_RUN_OVER},
    model::{
        clock::Position,
        ids::TaskId,
        job::{Backfill, JobItem},
        schedule::{
            advance::Seen,
            life::{Schedule, ScheduleSpec},
            missed::is_late,
            run::{Cause, Listed, Run},
        },
        state::{self, Event, Refusal, State, TaskRow},
        task::{CONTENT_WRITTEN, Scheduled, Spec},
        time::Millis,
    },
    store::Freshness,
};

/// Runs whose entries are not known to be acknowledged, and whose start has passed.
#[derive(Debug, Default)]
pub(super) struct Unentered {
    /// Those that the service goes on with by itself.
    pub(super) standing: BTreeSet<TaskId>,
    /// Those of the others that are late: nothing stands for them.
    pub(super) late: BTreeSet<TaskId>,
    /// Late ones of which that cannot be told yet.
    pub(super) unsure: BTreeSet<TaskId>,
}

/// The tasks of runs.
#[derive(Debug, Clone)]
pub(in crate::flow) struct RunTasks {
    ctx: Arc<Context>,
    registrar: Registrar,
    door: Door,
    canceller: Canceller,
    standing: ExistenceCheck,
}

impl RunTasks {
    pub(in crate::flow) fn new(
        ctx: Arc<Context>,
        (registrar, door, canceller): (Registrar, Door, Canceller),
        standing: ExistenceCheck,
    ) -> Self {
        Self {
            ctx,
            registrar,
            door,
            canceller,
            standing,
        }
    }

    /// Makes the task of a run: its callback fills in what the schedule leaves open.
    pub(super) async fn make(
        &self,
        name: &str,
        spec: &ScheduleSpec,
        (id, time): (TaskId, Millis),
    ) -> Result<Incoming, Fault> {
        let mut draft = spec.task.clone();
        draft.create_time = self.ctx.now();
        draft.scheduled = Some(Box::new(Scheduled {
            schedule: name.to_owned(),
            time,
        }));
        let start = id.first_start();
        let mut task = self.registrar.admit(NewTask { start, draft }).await?;
        // Registration has drawn one.
        if !flaw::is(Flaw::RunDrawn) {
            task.id = id;
        }
        task.start = start;
        let covered = id.look_step().duration();
        if task.spec.claim_timeout > covered {
            // Looks that come more often than the claim timeout would publish the task each time.
            task.spec = Arc::new(Spec {
                claim_timeout: covered,
                ..Spec::clone(&task.spec)
            });
        }
        task.content_written = if task.spec.target.is_tracked() {
            CONTENT_WRITTEN
        } else {
            self.ctx.time.stamp()
        };
        Ok(task)
    }

    /// Enters tasks into the wheel: all of them are durable then.
    pub(super) async fn enter(&self, tasks: Vec<Incoming>) -> Result<(), Fault> {
        for entered in self.registrar.enter(tasks).await {
            entered?;
        }
        Ok(())
    }

    /// Lists and enters runs that a backfill makes up for.
    pub(in crate::flow) async fn backfill(
        &self,
        backfill: &Backfill,
        items: &[JobItem],
    ) -> Result<(), Fault> {
        let Backfill { schedule, spec, .. } = backfill;
        let (mut rows, mut tasks) = (Vec::new(), Vec::new());
        for item in items {
            let row = listed(backfill, item, false);
            let made = self.make(schedule, spec, (item.id, row.run.time)).await?;
            rows.push(row);
            tasks.push(made);
        }
        Runs::new(Arc::clone(&self.ctx))
            .put(schedule, &rows)
            .await?;
        self.enter(tasks).await
    }

    /// Lists runs that a backfill leaves out.
    pub(in crate::flow) async fn skipped(
        &self,
        backfill: &Backfill,
        items: &[JobItem],
    ) -> Result<(), Fault> {
        let listed: Vec<Listed> = items
            .iter()
            .map(|item| listed(backfill, item, true))
            .collect();
        let runs = Runs::new(Arc::clone(&self.ctx));
        runs.put(&backfill.schedule, &listed).await
    }

    /// Returns the runs of a schedule itself that are due and have not ended, as far as its record has them in sight.
    pub(in crate::flow) async fn begun(&self, name: &str) -> Result<Vec<TaskId>, Fault> {
        let (_, schedule) = Schedules::new(Arc::clone(&self.ctx)).read(name).await?;
        let Some(schedule) = schedule.filter(Schedule::is_there) else {
            return Ok(Vec::new());
        };
        let now = self.ctx.now();
        let due = schedule.ahead.iter().copied();
        let due: Vec<Run> = due.filter(|run| run.id.first_start() <= now).collect();
        let seen = self.seen(&schedule, &due).await?.into_iter();
        let goes_on = |seen: &Seen| matches!(seen, Seen::Unstarted | Seen::Active);
        Ok(seen
            .filter(|(_, seen)| goes_on(seen))
            .map(|(id, _)| id)
            .collect())
    }

    /// Reads how runs stand.
    pub(super) async fn seen(
        &self,
        schedule: &Schedule,
        runs: &[Run],
    ) -> Result<Vec<(TaskId, Seen)>, Fault> {
        if !schedule.spec.task.target.is_tracked() {
            let now = self.ctx.now();
            let seen = |run: &Run| {
                let over = run.entered && now.since(run.id.first_start()) > RECORD_RUN_OVER;
                let seen = if over {
                    Seen::Ended { failed: false }
                } else {
                    Seen::Unstarted
                };
                (run.id, seen)
            };
            return Ok(runs.iter().map(seen).collect());
        }
        let ids: Vec<TaskId> = runs.iter().map(|run| run.id).collect();
        let rows = stored::rows_each(&self.ctx, &ids).await.into_iter();
        ids.iter()
            .zip(rows)
            .map(|(id, row)| Ok((*id, row?.as_ref().map_or(Seen::Unstarted, seen_of))))
            .collect()
    }

    /// Tells how runs stand in the wheel whose start has passed, that have not begun, and whose entries are not known to be
    /// acknowledged.
    pub(super) async fn unentered(&self, runs: &[Run]) -> Result<Unentered, Fault> {
        let mut told = Unentered::default();
        for run in runs {
            if self.standing.one(run.id).await?.is_some() {
                told.standing.insert(run.id);
            } else if is_late(run.id.first_start(), self.ctx.now()) {
                if self.is_passed(run.id).await? {
                    told.late.insert(run.id);
                } else {
                    told.unsure.insert(run.id);
                }
            }
        }
        Ok(told)
    }

    /// Tells whether the wheel of a run has handed over all that was due at its start: the run would have a look then.
    async fn is_passed(&self, id: TaskId) -> Result<bool, Fault> {
        let clock = self.ctx.store.clock(id.wheel(), Freshness::Serial).await?;
        let due = id.first_start();
        Ok(clock.fired >= (Position { due, id }))
    }

    /// Withdraws runs that have not begun, and tells how each of them stands.
    pub(super) async fn withdraw(
        &self,
        name: &str,
        schedule: &Schedule,
        runs: Vec<Run>,
    ) -> Result<Vec<(TaskId, Seen)>, Fault> {
        let withdrawn = stream::iter(runs)
            .map(|run| async move {
                let seen = self.withdraw_one(name, schedule, run).await?;
                Ok((run.id, seen))
            })
            .buffered(JOB_ITEMS_IN_FLIGHT_MAX);
        let all: Vec<Result<_, Fault>> = withdrawn.collect().await;
        all.into_iter().collect()
    }

    async fn withdraw_one(&self, name: &str, schedule: &Schedule, run: Run) -> Result<Seen, Fault> {
        let id = run.id;
        let (row, spec) = if schedule.spec.task.target.is_tracked() {
            let made = self.make(name, &schedule.spec, (id, run.time)).await?;
            (None, made.spec)
        } else {
            // The target is that of a change. A task with attempts that was decided on before it goes on if it has begun.
            let row = stored::row(&self.ctx, id).await?;
            let Some(row) = row.filter(|row| row.detail.spec.target.is_tracked()) else {
                return self.withdraw_record(run).await;
            };
            let spec = Arc::clone(&row.detail.spec);
            (Some(row), spec)
        };
        let decide = |row: Option<&TaskRow>, now: Millis, nonce| {
            if row.is_some_and(|row| row.state != State::New || row.attempt > 0) {
                return Err(Refusal::Running);
            }
            state::next(id, row, &spec, Event::Cancel, now, nonce)
        };
        let basis = Basis::read_if(row.is_some(), row);
        Ok(match self.door.apply(id, basis, decide).await? {
            Applied::To(owing) => {
                self.canceller.replaced(owing, true).await;
                Seen::Withdrawn
            }
            // An earlier try of this may have done it, and have died before its end steps.
            Applied::Refused(_, Some(row)) if row.state == State::Cancelled && row.attempt == 0 => {
                self.canceller.replaced(Owing::found(row), true).await;
                Seen::Withdrawn
            }
            Applied::Refused(_, row) => row.as_deref().map_or(Seen::Unstarted, seen_of),
        })
    }

    async fn withdraw_record(&self, run: Run) -> Result<Seen, Fault> {
        let (id, is_late) = (run.id, run.late && !run.entered);
        let answer = self.canceller.cancel(&[id]).await.pop();
        Ok(match answer.unwrap_or(Ok(None))? {
            Some((CancelOutcome::Cancelled | CancelOutcome::AlreadyCancelled, _)) => {
                Seen::Withdrawn
            }
            Some((CancelOutcome::CancelRequested | CancelOutcome::TooLate, _)) => {
                Seen::Ended { failed: false }
            }
            None if id.first_start() > self.ctx.now() => Seen::Withdrawn,
            // Nothing stands for it: it was never entered.
            None if is_late => Seen::Withdrawn,
            None => Seen::Ended { failed: false },
        })
    }

    /// Tells runs to stop, and ends those that have not begun.
    pub(super) async fn stop(&self, runs: &[Run]) -> Result<(), Fault> {
        let ids: Vec<TaskId> = runs.iter().map(|run| run.id).collect();
        for answer in self.canceller.cancel(&ids).await {
            answer?;
        }
        Ok(())
    }
}

/// The row of a run that a backfill makes up for.
fn listed(backfill: &Backfill, item: &JobItem, skipped: bool) -> Listed {
    Listed {
        run: Run {
            id: item.id,
            generation: backfill.generation,
            seq: 0,
            time: item.time.unwrap_or_else(|| item.id.first_start()),
            entered: true,
            late: false,
        },
        cause: Cause::Backfill,
        skipped,
    }
}

fn seen_of(row: &TaskRow) -> Seen {
    match row.state {
        State::New if row.attempt == 0 => Seen::Unstarted,
        State::New | State::Claimed | State::Retrying => Seen::Active,
        State::Succeeded | State::Cancelled => Seen::Ended { failed: false },
        State::Failed | State::Expired | State::Dead => Seen::Ended { failed: true },
    }
}
