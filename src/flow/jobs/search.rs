//! The job search finds the tasks of a job's next page for the runner, in the wheels or among the dead letters.
//!
//! Tasks that have not ended are found by the walk of the lists ([`crate::flow::query::list`]), dead ones by that of the dead
//! letters. All else is looked at here. Nothing of a filter is ignored.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    flow::{
        api::{Fault, TaskView, View, VisibleState},
        context::Context,
        dead_letters::{
            desk,
            places::{Scope, Spot},
            walk::Wanted,
        },
        query::{
            find::Finder,
            list::{Cursor, Filter, Lister},
        },
    },
    limits::JOB_PAGE_READS_MAX,
    model::{
        job::{Found, Job, JobFilter, JobItem, JobKind, Place},
        task::Body,
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
            lister: Arc::new(Lister::new(Arc::clone(&ctx))),
            ctx,
            letters,
            finder,
        }
    }

    /// Finds the next page.
    pub(super) async fn next(&self, job: &Job) -> Found {
        let found = if job.kind.is_of_dead() {
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
            collection: _,
            labels: _,
            error: _,
        } = &job.filter;
        let filter = Filter {
            callback: callback.clone(),
            state: state.as_deref().and_then(state_named),
            from: *from,
            to: *to,
            pending: true,
        };
        let mut cursor = match job.place {
            Place::Wheels {
                behind,
                through,
                to,
            } => Some(Cursor {
                behind,
                through,
                to,
                ended: None,
            }),
            Place::Start | Place::Letters { .. } | Place::End => None,
        };
        let (mut items, items_max) = (Vec::new(), job.page_items());
        for _ in 0..JOB_PAGE_READS_MAX {
            let room = items_max.saturating_sub(items.len());
            let page = self.lister.list(&filter, cursor, room).await?;
            for task in &page.tasks {
                if self.is_wanted(job, task).await? {
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

    /// Finds dead tasks, the newest first.
    async fn dead(&self, job: &Job) -> Result<Found, Fault> {
        let wanted = Wanted {
            scope: Scope::of(job.filter.callback.as_deref()),
            error: job.filter.error.clone(),
        };
        let mut behind = match job.place {
            Place::Letters { time, id } => Some(Spot { time, id }),
            Place::Start | Place::Wheels { .. } | Place::End => None,
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

    /// Tells whether a task that a walk has found is one of the job's.
    async fn is_wanted(&self, job: &Job, task: &TaskView) -> Result<bool, Fault> {
        let filter = &job.filter;
        let of_collection = filter.collection.as_deref();
        if of_collection.is_some_and(|name| task.spec.collection != name) || !fits(filter, task) {
            return Ok(false);
        }
        let now = self.ctx.now();
        if job.kind == JobKind::Reschedule && !job.moves(task.start, task.effective_start, now) {
            return Ok(false);
        }
        if filter.labels.is_empty() {
            return Ok(true);
        }
        if let Some(content) = task.spec.content() {
            return Ok(has_labels(&content.labels, &filter.labels));
        }
        if matches!(task.spec.body, Body::Apart { .. }) {
            let whole = self.finder.get(task.id, View::Full).await?;
            let content = whole.and_then(|task| task.content);
            return Ok(content.is_some_and(|content| has_labels(&content.labels, &filter.labels)));
        }
        Ok(false)
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

fn has_labels(labels: &[(String, String)], wanted: &BTreeMap<String, String>) -> bool {
    wanted.iter().all(|(name, value)| {
        labels
            .iter()
            .any(|(has, with)| (has, with) == (name, value))
    })
}

const fn item(task: &TaskView) -> JobItem {
    JobItem {
        id: task.id,
        generation: task.generation,
    }
}
