//! The job search finds the tasks of a job's next page for the runner, in the wheels, among rows or among the dead letters.
//!
//! Tasks that have not ended are found by the walk of the lists ([`crate::flow::stages::query::list`]), or by a label that
//! their callback has named. Dead ones are found by the walk of the dead letters, others that have ended by their rows. All
//! else is looked at here. Nothing of a filter is ignored. A task whose row cannot be understood is told to the job, which
//! counts it as failed.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    backfill::Times,
    changers::Changers,
    places::{cursor, first_labelled, place},
};
use crate::{
    flow::{
        base::{
            api::{Fault, TaskView, VisibleState},
            context::Context,
            read::find::Finder,
            tables::letters::{Scope, Spot},
        },
        stages::{
            letters::{desk, walk::Wanted},
            query::{
                filter::{Filter, has_labels},
                list::{Cursor, Lister},
            },
        },
    },
    limits::{JOB_PAGE_READS_MAX, RACED_RETRY_AFTER},
    model::job::{Found, Job, JobFilter, JobItem, JobKind, Place},
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
    times: Times,
}

impl Search {
    pub(super) fn new(ctx: Arc<Context>, by: &Changers) -> Self {
        let callbacks = Some(by.callbacks.clone());
        Self {
            lister: Arc::new(Lister::new(Arc::clone(&ctx), by.finder.clone(), callbacks)),
            times: Times::new(Arc::clone(&ctx), by),
            ctx,
            letters: by.letters.clone(),
            finder: by.finder.clone(),
        }
    }

    /// Finds the next page.
    pub(super) async fn next(&self, job: &Job) -> Found {
        let found = if let Some(backfill) = &job.backfill {
            self.times.next(job, backfill).await
        } else if job.kind.is_of_ended() && job.by_rows {
            self.ended(job).await
        } else if job.kind.is_of_ended() {
            self.dead(job).await
        } else {
            self.waiting(job).await
        };
        found.unwrap_or_else(|fault| Found::Failed(fault.to_string()))
    }

    /// Finds tasks that have not ended.
    async fn waiting(&self, job: &Job) -> Result<Found, Fault> {
        let (filter, to) = (filter(job), &job.filter.to);
        let goes_on = cursor(job.place, *to);
        let goes_on = match goes_on {
            None if job.by_rows => Some(first_labelled(*to)),
            goes_on => goes_on,
        };
        if job.by_rows && !self.lister.is_labelled(&filter) {
            return Err(Fault::Unavailable {
                reason:
                    "the callback names none of the labels any more, by which its tasks are found"
                        .to_owned(),
                retry_after: RACED_RETRY_AFTER,
            });
        }
        self.listed(job, &filter, goes_on).await
    }

    /// Finds tasks that have ended, by their rows.
    async fn ended(&self, job: &Job) -> Result<Found, Fault> {
        let filter = Filter {
            ended: true,
            pending: false,
            every: true,
            ..filter(job)
        };
        let goes_on = cursor(job.place, job.filter.to);
        self.listed(job, &filter, goes_on).await
    }

    /// Finds the next tasks of a list.
    async fn listed(
        &self,
        job: &Job,
        filter: &Filter,
        mut cursor: Option<Cursor>,
    ) -> Result<Found, Fault> {
        let (mut items, mut unread, items_max) = (Vec::new(), BTreeSet::new(), job.page_items());
        for _ in 0..JOB_PAGE_READS_MAX {
            let room = items_max.saturating_sub(items.len());
            let page = self.lister.list(filter, cursor, room).await?;
            unread.extend(page.unread);
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
        Ok(Found::Page {
            items,
            place: place(cursor),
            unread: unread.into_iter().collect(),
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
            Place::Start
            | Place::Wheels { .. }
            | Place::Rows { .. }
            | Place::Times { .. }
            | Place::End => None,
        };
        let (mut items, mut unread, items_max) = (Vec::new(), Vec::new(), job.page_items());
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
                    None => unread.push(listed.letter.id),
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
    /// start then already, and one that reopens them is for trees, and leaves those that have ended since, as it may have
    /// reopened them itself.
    fn has_work(&self, job: &Job, task: &TaskView) -> bool {
        match job.kind {
            JobKind::Reschedule | JobKind::Run => {
                job.moves(task.start, task.effective_start, self.ctx.now())
            }
            JobKind::Reopen => {
                task.spec.kin.is_some() && task.end_time.is_none_or(|ended| ended <= job.created)
            }
            JobKind::Cancel | JobKind::Redrive | JobKind::Delete | JobKind::Backfill => true,
        }
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

/// The tasks of a job that have not ended.
fn filter(job: &Job) -> Filter {
    let JobFilter {
        callback,
        state,
        from,
        to,
        collection,
        labels,
        error,
    } = job.filter.clone();
    Filter {
        callback,
        collection,
        state: state.as_deref().and_then(state_named),
        labels,
        error,
        from,
        to,
        pending: true,
        every: !job.by_rows,
        ..Filter::default()
    }
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
