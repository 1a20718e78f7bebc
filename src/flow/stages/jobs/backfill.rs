//! The times of a backfill are found for the job search: the next times of its schedule, and whether the run of one may begin.
//!
//! Where runs may not overlap, the end of one decides about the next. The decision is in the record of the job before the run
//! is entered ([`crate::model::job_life`]). So a crash repeats the entry of the same run, and two leaders at once cannot both
//! decide: only one of their pages counts. Runs that have not ended are the last one of the backfill, and those of the schedule
//! itself that are due.

use std::{sync::Arc, time::Duration};

use super::changers::Changers;
use crate::{
    flow::{
        base::{
            api::{Fault, View},
            context::Context,
            read::find::Finder,
        },
        life::cancel::Canceller,
        stages::schedules::{plans::plan, tasks::RunTasks},
    },
    model::{
        ids::TaskId,
        job::{Backfill, Found, Job, JobItem, Place},
        schedule::{
            life::{Overlap, ScheduleSpec},
            run::Namer,
        },
        time::Millis,
    },
};

/// How soon is looked again whether a run has ended.
const AGAIN_AFTER: Duration = Duration::from_secs(2);

/// The times.
#[derive(Debug, Clone)]
pub(super) struct Times {
    ctx: Arc<Context>,
    finder: Finder,
    canceller: Canceller,
    runs: RunTasks,
}

impl Times {
    pub(super) fn new(ctx: Arc<Context>, by: &Changers) -> Self {
        Self {
            ctx,
            finder: by.finder.clone(),
            canceller: by.canceller.clone(),
            runs: by.runs.clone(),
        }
    }

    /// Finds the next times.
    pub(super) async fn next(&self, job: &Job, backfill: &Backfill) -> Result<Found, Fault> {
        let (items, place) = self.times(job, backfill)?;
        let waits = job.decides_each() && !items.is_empty();
        let others = if waits {
            self.others(backfill).await?
        } else {
            Vec::new()
        };
        if others.is_empty() {
            return Ok(Found::Page {
                items,
                place,
                unread: Vec::new(),
            });
        }
        match backfill.overlap {
            Overlap::Skip => {
                // A hint for the list of runs: if this decision is made anew and otherwise, the row is written anew.
                self.runs.skipped(backfill, &items).await?;
                return Ok(Found::Passed(place));
            }
            Overlap::CancelOther => {
                for told in self.canceller.cancel(&others).await {
                    told?;
                }
            }
            Overlap::Allow | Overlap::BufferOne | Overlap::OneByOne => {}
        }
        Ok(Found::Wait(self.ctx.now().after(AGAIN_AFTER)))
    }

    /// Returns the next times, and where the search goes on behind them.
    fn times(&self, job: &Job, backfill: &Backfill) -> Result<(Vec<JobItem>, Place), Fault> {
        let Backfill { from, to, spec, .. } = backfill;
        // A backfill is also for times before the schedule was to begin.
        let spec = ScheduleSpec {
            start: None,
            end: None,
            ..spec.clone()
        };
        let zones = self.ctx.settings.zones;
        let plan = plan(zones, &backfill.schedule, &spec, backfill.anchor)?;
        let behind = match job.place {
            Place::Times { behind } => behind,
            Place::Start
            | Place::Wheels { .. }
            | Place::Letters { .. }
            | Place::Rows { .. }
            | Place::End => Millis(from.0.saturating_sub(1)),
        };
        let mut times = plan.times(behind, job.page_items().saturating_add(1));
        times.retain(|time| time <= to);
        let more = times.len() > job.page_items();
        times.truncate(job.page_items());
        let namer = Namer {
            name: &backfill.schedule,
            incarnation: backfill.incarnation,
            step: backfill.step,
            shape: self.ctx.shape(),
        };
        let item = |time: &Millis| JobItem {
            id: namer.backfilled(backfill.seed, *time, job.created),
            generation: 0,
            time: Some(*time),
        };
        let place = match times.last() {
            Some(last) if more => Place::Times { behind: *last },
            Some(_) | None => Place::End,
        };
        Ok((times.iter().map(item).collect(), place))
    }

    /// Returns the runs that have not ended. One of the backfill that was never entered, or that can be read no more, has ended.
    async fn others(&self, backfill: &Backfill) -> Result<Vec<TaskId>, Fault> {
        let mut others = self.runs.begun(&backfill.schedule).await?;
        if let Some(last) = backfill.last {
            let task = self.finder.get(last, View::Basic).await?;
            // The runs below a run are tasks of their own.
            let goes_on =
                task.is_some_and(|task| task.run_state.is_none() && !task.state.is_terminal());
            others.extend(goes_on.then_some(last));
        }
        Ok(others)
    }
}
