//! The job work changes the tasks of a page for the runner. Doing it twice is the same as once.
//!
//! A page may be worked on again after a crash, or by two nodes at once. So a task that is already as the job wants it is done,
//! and one that somebody has changed since it was found is skipped: its generation or its state says so.

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt, stream};
use tokio_util::sync::CancellationToken;

use super::{changers::Changers, search::fits};
use crate::{
    flow::{
        base::{
            api::{CancelOutcome, Fault, RescheduleOutcome, TaskView, View, VisibleState},
            context::Context,
        },
        life::{
            erase::{Erased, Of},
            reschedule::Condition,
        },
    },
    limits::JOB_ITEMS_IN_FLIGHT_MAX,
    model::{
        ids::TaskId,
        job::{Backfill, Job, JobItem, JobKind, Tally},
        reopen::NotReopened,
        time::Millis,
    },
};

/// How the work on a task ended.
enum End {
    /// It is as the job wants it.
    Done,
    /// It has ended, or does not match any more.
    Skipped,
    /// It cannot be changed.
    Failed(String),
    /// It may be changed later.
    Again(String),
}

impl From<Fault> for End {
    fn from(fault: Fault) -> Self {
        Self::Again(fault.to_string())
    }
}

/// The worker of pages.
#[derive(Debug, Clone)]
pub(super) struct Work {
    ctx: Arc<Context>,
    by: Changers,
}

impl Work {
    pub(super) const fn new(ctx: Arc<Context>, by: Changers) -> Self {
        Self { ctx, by }
    }

    /// Works on the page of a job, at its rate; none when the node stops before its end.
    pub(super) async fn page(&self, job: &Job, stop: &CancellationToken) -> Option<Tally> {
        let mut tally = Tally::default();
        let began = self.ctx.time.moment();
        let mut worked = 0;
        for part in job.items.chunks(job.part_items()) {
            self.ctx
                .time
                .sleep_until(began.after(job.span(worked)))
                .await;
            if stop.is_cancelled() {
                return None;
            }
            worked += part.len();
            for (item, end) in part.iter().zip(self.part(job, part).await) {
                match end {
                    End::Done => tally.done += 1,
                    End::Skipped => tally.skipped += 1,
                    End::Failed(error) => {
                        tally.failed += 1;
                        tally.error = Some(format!("{}: {error}", item.id));
                    }
                    End::Again(error) => {
                        tally.again.push(*item);
                        tally.error = Some(format!("{}: {error}", item.id));
                    }
                }
            }
        }
        Some(tally)
    }

    async fn part(&self, job: &Job, items: &[JobItem]) -> Vec<End> {
        if job.kind == JobKind::Cancel {
            return self.cancel(job, items).await;
        }
        if let Some(backfill) = &job.backfill {
            return self.backfill(backfill, items).await;
        }
        stream::iter(items.to_vec())
            .map(|item| async move {
                match job.kind {
                    JobKind::Reschedule | JobKind::Run => self.reschedule(job, item).await,
                    JobKind::Redrive => self.redrive(item).await,
                    JobKind::Reopen => self.reopen(item).await,
                    JobKind::Delete | JobKind::Cancel if job.by_rows => self.erase(item).await,
                    JobKind::Delete | JobKind::Cancel => self.delete(item).await,
                    // A record of another version.
                    JobKind::Backfill => End::Failed("the job names no schedule".to_owned()),
                }
            })
            .buffered(JOB_ITEMS_IN_FLIGHT_MAX)
            .collect()
            .await
    }

    /// Registers runs of a schedule. One that is there already is written once more as it is.
    async fn backfill(&self, backfill: &Backfill, items: &[JobItem]) -> Vec<End> {
        let entered = self.by.runs.backfill(backfill, items).await;
        let end = |_: &JobItem| match &entered {
            Ok(()) => End::Done,
            Err(fault) => End::Again(fault.to_string()),
        };
        items.iter().map(end).collect()
    }

    /// Cancels tasks. Those whose state or start was asked for are looked at once more, right before.
    async fn cancel(&self, job: &Job, items: &[JobItem]) -> Vec<End> {
        let filter = &job.filter;
        let looks = filter.state.is_some() || filter.from.is_some() || filter.to.is_some();
        let looked: Vec<Option<End>> = stream::iter(items.to_vec())
            .map(|item| async move {
                if !looks {
                    return None;
                }
                match self.by.finder.get(item.id, View::Basic).await {
                    Err(fault) => Some(fault.into()),
                    Ok(None) => Some(End::Skipped),
                    Ok(Some(task)) if is_cancelled(&task) => Some(End::Done),
                    Ok(Some(task)) => (!fits(filter, &task)).then_some(End::Skipped),
                }
            })
            .buffered(JOB_ITEMS_IN_FLIGHT_MAX)
            .collect()
            .await;
        let left = items.iter().zip(&looked);
        let left: Vec<TaskId> = left
            .filter(|(_, end)| end.is_none())
            .map(|(item, _)| item.id)
            .collect();
        let mut answers = self.by.canceller.cancel(&left).await.into_iter();
        let end = |looked: Option<End>| {
            looked.unwrap_or_else(|| match answers.next() {
                Some(Ok(Some((CancelOutcome::TooLate, _)) | None)) | None => End::Skipped,
                Some(Ok(Some(_))) => End::Done,
                Some(Err(fault)) => fault.into(),
            })
        };
        looked.into_iter().map(end).collect()
    }

    async fn reschedule(&self, job: &Job, item: JobItem) -> End {
        let target = job.start.unwrap_or_else(|| self.ctx.now());
        let filter = job.filter.clone();
        let holds: Condition =
            Box::new(move |task| task.generation == item.generation && fits(&filter, task));
        let moved = self
            .by
            .rescheduler
            .reschedule(item.id, target, Some(holds))
            .await;
        match moved {
            Err(fault) => fault.into(),
            Ok(Some((RescheduleOutcome::Rescheduled, _))) => End::Done,
            // An earlier try of this page may have moved it.
            Ok(Some((RescheduleOutcome::Mismatch, task)))
                if follows(&task, item) && task.start >= target =>
            {
                End::Done
            }
            Ok(
                Some((
                    RescheduleOutcome::Mismatch
                    | RescheduleOutcome::TooLate
                    | RescheduleOutcome::InTree,
                    _,
                ))
                | None,
            ) => End::Skipped,
        }
    }

    async fn redrive(&self, item: JobItem) -> End {
        let holds: Condition = Box::new(move |task| is_dead_since(task, item));
        match self.by.rescheduler.run(item.id, Some(holds)).await {
            Err(fault) => fault.into(),
            Ok(Some((RescheduleOutcome::Rescheduled, _))) => End::Done,
            // An earlier try of this page may have redriven it.
            Ok(Some((RescheduleOutcome::Mismatch, task))) if follows(&task, item) => End::Done,
            Ok(Some((RescheduleOutcome::TooLate, task))) if is_dead_since(&task, item) => {
                let why = "it stays dead: its key names another live task, or its payload is gone";
                End::Failed(why.to_owned())
            }
            Ok(Some((RescheduleOutcome::InTree, _))) => {
                let why = "its end counts in its tree: run the failed part of that again with retry-failed";
                End::Failed(why.to_owned())
            }
            Ok(Some((RescheduleOutcome::Mismatch | RescheduleOutcome::TooLate, _)) | None) => {
                End::Skipped
            }
        }
    }

    /// Reopens a task of a tree. It is asked for by the number of its last attempt, so that a page that is repeated begins no
    /// second round behind one that has ended meanwhile.
    async fn reopen(&self, item: JobItem) -> End {
        let task = match self.by.finder.get(item.id, View::Basic).await {
            Err(fault) => return fault.into(),
            Ok(None) => return End::Skipped,
            Ok(Some(task)) => task,
        };
        // An earlier try of this page may have reopened it.
        if follows(&task, item) {
            return End::Done;
        }
        if task.generation != item.generation || task.state != VisibleState::Succeeded {
            return End::Skipped;
        }
        match self
            .by
            .retrier
            .reopen(item.id, Some(task.attempt), None)
            .await
        {
            Err(fault) => fault.into(),
            Ok(Some(Ok(()))) => End::Done,
            Ok(
                Some(Err(
                    NotReopened::OtherAttempt(_) | NotReopened::OtherWorker | NotReopened::State(_),
                ))
                | None,
            ) => End::Skipped,
            Ok(Some(Err(NotReopened::NoTree))) => End::Failed(
                "it is in no tree: a copy of it runs by `task redeliver`, or as a new task"
                    .to_owned(),
            ),
            Ok(Some(Err(NotReopened::Cancelled))) => {
                End::Failed("it, or a tree that it is in, was cancelled as a whole".to_owned())
            }
            Ok(Some(Err(NotReopened::KeyTaken))) => {
                End::Failed("another live task has the key of its tree".to_owned())
            }
            Ok(Some(Err(NotReopened::Gone))) => {
                End::Failed("a task above it is not kept any more".to_owned())
            }
        }
    }

    async fn delete(&self, item: JobItem) -> End {
        match self.by.finder.get(item.id, View::Basic).await {
            Err(fault) => return fault.into(),
            // An earlier try of this page may have deleted it.
            Ok(None) => return End::Done,
            Ok(Some(task)) if !is_dead_since(&task, item) => return End::Skipped,
            Ok(Some(_)) => {}
        }
        match self.by.letters.delete(item.id).await {
            Err(fault) => fault.into(),
            Ok(Erased::Done | Erased::Unknown) => End::Done,
            Ok(Erased::Left(_)) => End::Skipped,
        }
    }

    /// Deletes a task that had ended when it was found. One that is deleted already has its end steps repeated: an earlier try of
    /// this page may have died before them.
    async fn erase(&self, item: JobItem) -> End {
        let generation = item.generation;
        match self
            .by
            .eraser
            .erase(item.id, Of::Ended { generation })
            .await
        {
            Err(fault) => fault.into(),
            Ok(Erased::Done | Erased::Unknown) => End::Done,
            Ok(Erased::Left(_)) => End::Skipped,
        }
    }
}

const fn is_cancelled(task: &TaskView) -> bool {
    task.cancel_requested || matches!(task.state, VisibleState::Cancelled)
}

fn is_dead_since(task: &TaskView, item: JobItem) -> bool {
    task.state == VisibleState::Dead && task.generation == item.generation
}

/// Tells whether a task was changed once since it was found.
const fn follows(task: &TaskView, item: JobItem) -> bool {
    task.generation == item.generation.saturating_add(1)
}

/// Returns how long a node may rest until then.
pub(super) fn rest_until(now: Millis, until: Millis, most: Duration) -> Duration {
    now.until(until).min(most)
}
