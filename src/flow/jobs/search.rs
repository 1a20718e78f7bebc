//! The job search finds the tasks of a job's next page for the runner, in the wheels or among the dead letters.
//!
//! Tasks that have not ended are found by the walk of the lists ([`crate::flow::query::list`]), dead ones by that of the dead
//! letters. Those of a backfill are times of its schedule. All else is looked at here. Nothing of a filter is ignored.

use std::sync::Arc;

use crate::{
    flow::{
        api::{Fault, TaskView, VisibleState},
        context::Context,
        dead_letters::{
            desk,
            places::{Scope, Spot},
            walk::Wanted,
        },
        query::{
            filter::{Filter, has_labels},
            find::Finder,
            list::{Cursor, Lister},
        },
        schedules::plans::plan,
    },
    limits::JOB_PAGE_READS_MAX,
    model::{
        job::{Backfill, Found, Job, JobFilter, JobItem, JobKind, Place},
        schedule::{life::ScheduleSpec, run::Namer},
        time::Millis,
    },
    store,
};

/// The search.
#[derive(Debug, Clone)]
pub(super) struct Search {
    ctx: Arc<Context>,
    /// Its places are apart from those of the lists that people ask for.
    lister: Arc<Lister>,
    letters: desk::Desk,
    finder: Finder,
}

impl Search {
    pub(super) fn new(ctx: Arc<Context>, letters: desk::Desk, finder: Finder) -> Self {
        Self {
            // The place of a job is one in the wheels.
            lister: Arc::new(Lister::new(Arc::clone(&ctx), finder.clone(), None)),
            ctx,
            letters,
            finder,
        }
    }

    /// Finds the next page.
    pub(super) async fn next(&self, job: &Job) -> Found {
        let found = if let Some(backfill) = &job.backfill {
            self.times(job, backfill)
        } else if job.kind.is_of_dead() {
            self.dead(job).await
        } else {
            self.waiting(job).await
        };
        found.unwrap_or_else(|fault| Found::Failed(fault.to_string()))
    }

    /// Finds tasks that have not ended.
    async fn waiting(&self, job: &Job) -> Result<Found, Fault> {
        let JobFilter {
            callback,
            state,
            from,
            to,
            collection,
            labels,
            error,
        } = &job.filter;
        let filter = Filter {
            callback: callback.clone(),
            collection: collection.clone(),
            state: state.as_deref().and_then(state_named),
            labels: labels.clone(),
            error: error.clone(),
            from: *from,
            to: *to,
            pending: true,
            ..Filter::default()
        };
        let mut cursor = match job.place {
            Place::Wheels {
                behind,
                through,
                to,
            } => Some(Cursor::in_wheels(behind, through, to)),
            Place::Start | Place::Letters { .. } | Place::Times { .. } | Place::End => None,
        };
        let (mut items, items_max) = (Vec::new(), job.page_items());
        for _ in 0..JOB_PAGE_READS_MAX {
            let room = items_max.saturating_sub(items.len());
            let page = self.lister.list(&filter, cursor, room).await?;
            for task in &page.tasks {
                if self.has_work(job, task) {
                    items.push(item(task));
                }
            }
            cursor = page.next;
            if cursor.is_none() || items.len() >= items_max {
                break;
            }
        }
        let place = cursor.map_or(Place::End, |at| Place::Wheels {
            behind: at.behind,
            through: at.through,
            to: at.to,
        });
        Ok(Found::Page {
            items,
            place,
            unread: 0,
        })
    }

    /// Finds the next times of a backfill.
    fn times(&self, job: &Job, backfill: &Backfill) -> Result<Found, Fault> {
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
            Place::Start | Place::Wheels { .. } | Place::Letters { .. } | Place::End => {
                Millis(from.0.saturating_sub(1))
            }
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
        Ok(Found::Page {
            items: times.iter().map(item).collect(),
            place,
            unread: 0,
        })
    }

    /// Finds dead tasks, the newest first.
    async fn dead(&self, job: &Job) -> Result<Found, Fault> {
        let wanted = Wanted {
            scope: Scope::of(job.filter.callback.as_deref()),
            error: job.filter.error.clone(),
        };
        let mut behind = match job.place {
            Place::Letters { time, id } => Some(Spot { time, id }),
            Place::Start | Place::Wheels { .. } | Place::Times { .. } | Place::End => None,
        };
        let (mut items, mut unread, items_max) = (Vec::new(), 0, job.page_items());
        for _ in 0..JOB_PAGE_READS_MAX {
            let room = items_max.saturating_sub(items.len());
            let page = self.letters.list(&wanted, behind, room).await?;
            for listed in &page.letters {
                match &listed.task {
                    // The page is searched again: the task may be one of the job's.
                    None if listed.is_away => {
                        return Err(store::Error::Unavailable {
                            operation: "read the row of a dead letter",
                            reason: "the store did not answer".to_owned(),
                        }
                        .into());
                    }
                    None => unread += 1,
                    Some(task) if self.is_wanted(job, task).await? => items.push(item(task)),
                    Some(_) => {}
                }
            }
            behind = page.next;
            if behind.is_none() || items.len() >= items_max {
                break;
            }
        }
        let place = behind.map_or(Place::End, |Spot { time, id }| Place::Letters { time, id });
        Ok(Found::Page {
            items,
            place,
            unread,
        })
    }

    /// Tells whether a dead task is one of the job's.
    async fn is_wanted(&self, job: &Job, task: &TaskView) -> Result<bool, Fault> {
        let filter = &job.filter;
        let of_collection = filter.collection.as_deref();
        let fits = of_collection.is_none_or(|name| task.spec.collection == name)
            && fits(filter, task)
            && self.has_work(job, task);
        Ok(fits && has_labels(&self.finder, task, &filter.labels).await?)
    }

    /// Tells whether a job has something to do with a task that its filter names: one that moves tasks leaves those that
    /// start then already.
    fn has_work(&self, job: &Job, task: &TaskView) -> bool {
        let now = self.ctx.now();
        job.kind != JobKind::Reschedule || job.moves(task.start, task.effective_start, now)
    }
}

/// Tells whether a task is as a filter wants it in what may change: its state and its start.
pub(super) fn fits(filter: &JobFilter, task: &TaskView) -> bool {
    filter
        .state
        .as_deref()
        .is_none_or(|state| task.state.name() == state)
        && filter.from.is_none_or(|from| task.start >= from)
        && filter.to.is_none_or(|to| task.start < to)
}

fn state_named(name: &str) -> Option<VisibleState> {
    VisibleState::ALL
        .into_iter()
        .find(|state| state.name() == name)
}

const fn item(task: &TaskView) -> JobItem {
    JobItem {
        id: task.id,
        generation: task.generation,
        time: None,
    }
}
