//! The explainer tells people why a task does not run: it reads all that may keep the task, and asks the model.
//!
//! It changes nothing, and any node may do it: nodes have no channel to each other, so it reads what is durable, and what nodes
//! publish of their memory. The reads are bounded, whatever the task waits for.

use std::{collections::HashMap, sync::Arc};

use futures_util::future::try_join_all;

use super::{examiner::Examiner, remembered::Remembered, shares::Shares};
use crate::{
    flow::{
        base::{
            api::{Fault, TaskView, VisibleState},
            context::Context,
            read::find::{Finder, Told, as_expired, view_of_attempt, view_of_entry},
        },
        stages::cluster::members::Members,
    },
    limits::WHY_OTHERS_MAX,
    model::{
        clock::ClockRow,
        entry::{DoneReason, Entry, Kind},
        ids::{NodeId, TaskId},
        limit::Limits,
        row::TaskRow,
        target::Class,
        time::Millis,
        why::{self, Cause, End, Seen, Stands, Subject, What},
    },
    store::{Freshness, NodeRow},
};

/// The answer to the question why a task does not run.
#[derive(Debug, Clone)]
pub struct Why {
    /// When it was asked.
    pub at: Millis,
    /// The task, as it reads.
    pub task: TaskView,
    /// The causes, in the order of time: at least one.
    pub causes: Vec<Cause>,
    /// Those of the tasks that causes name that were found.
    pub others: HashMap<TaskId, Other>,
    /// The owner of the task's wheel, where a cause rests on it.
    pub owner: Option<NodeRow>,
    /// The limits of its callback.
    pub limits: Limits,
}

/// A task that another one waits for.
#[derive(Debug, Clone)]
pub struct Other {
    /// Its callback; none for a record.
    pub callback: Option<String>,
    /// Where it stands.
    pub state: VisibleState,
}

/// The explainer. Cheap to clone.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Explainer {
    ctx: Arc<Context>,
    finder: Finder,
    examiner: Examiner,
}

impl Explainer {
    pub(in crate::flow) fn new(
        ctx: Arc<Context>,
        finder: Finder,
        (known, shares, members): (Remembered, Shares, Members),
    ) -> Self {
        Self {
            examiner: Examiner::new(Arc::clone(&ctx), known, shares, members),
            finder,
            ctx,
        }
    }

    /// Tells why a task does not run; none when there is no such task.
    ///
    /// # Errors
    /// When the store is away.
    pub(in crate::flow) async fn explain(&self, id: TaskId) -> Result<Option<Why>, Fault> {
        let Some(told) = self.finder.told(id).await? else {
            return Ok(None);
        };
        let (at, clock) = (self.ctx.now(), self.clock(id).await?);
        let (task, causes, limits) = match told {
            Told::Row(row, heartbeat) => {
                let beat = self
                    .ctx
                    .sign_of_life(heartbeat.as_ref().map(|beat| beat.at));
                let found = self.of_row(&row, beat, &clock, at).await?;
                let moved = self.ctx.time.moved_to();
                let view = view_of_attempt(*row, heartbeat, at, moved);
                (view, found.0, found.1)
            }
            Told::Entry(entry, fired) => {
                let found = self.of_entry(&entry, fired, &clock, at).await?;
                let view = as_expired(view_of_entry(&entry, fired), at);
                (view, found.0, found.1)
            }
        };
        let others = self.others(&causes).await?;
        let owner = self.owner(&causes, &clock).await?;
        Ok(Some(Why {
            at,
            task,
            causes,
            others,
            owner,
            limits,
        }))
    }

    async fn clock(&self, id: TaskId) -> Result<ClockRow, Fault> {
        let clock = self.ctx.store.clock(id.wheel(), Freshness::Quorum).await;
        Ok(clock?)
    }

    async fn of_row(
        &self,
        row: &TaskRow,
        heartbeat: Option<Millis>,
        clock: &ClockRow,
        now: Millis,
    ) -> Result<(Vec<Cause>, Limits), Fault> {
        let task = Subject {
            id: row.id,
            spec: &row.detail.spec,
            stands: Stands::Row(row),
        };
        let seen = Seen {
            heartbeat,
            ..Seen::default()
        };
        self.causes(&task, seen, clock, now).await
    }

    async fn of_entry(
        &self,
        entry: &Entry,
        fired: bool,
        clock: &ClockRow,
        now: Millis,
    ) -> Result<(Vec<Cause>, Limits), Fault> {
        let task = Subject {
            id: entry.key.id,
            spec: &entry.spec,
            stands: stands(entry, fired),
        };
        self.causes(&task, Seen::default(), clock, now).await
    }

    async fn causes(
        &self,
        task: &Subject<'_>,
        mut seen: Seen,
        clock: &ClockRow,
        now: Millis,
    ) -> Result<(Vec<Cause>, Limits), Fault> {
        let limits = self.examiner.complete(task, &mut seen, clock, now).await?;
        Ok((why::causes(task, &seen, now), limits))
    }

    /// Reads the tasks that causes name.
    async fn others(&self, causes: &[Cause]) -> Result<HashMap<TaskId, Other>, Fault> {
        let ids = causes.iter().flat_map(|cause| match &cause.what {
            What::Turn(id) | What::Parent(Some(id)) => vec![*id],
            What::Tasks(open) => open.first.clone(),
            _ => Vec::new(),
        });
        let ids: Vec<TaskId> = ids.take(WHY_OTHERS_MAX).collect();
        let found = try_join_all(ids.into_iter().map(|id| self.finder.listed(id))).await?;
        let other = |task: TaskView| {
            let callback = task.spec.callback().map(str::to_owned);
            let state = task.state;
            (task.id, Other { callback, state })
        };
        Ok(found.into_iter().flatten().map(other).collect())
    }

    /// Reads the node that owns the wheel, if a cause rests on it.
    async fn owner(&self, causes: &[Cause], clock: &ClockRow) -> Result<Option<NodeRow>, Fault> {
        let rests = |cause: &Cause| {
            let what = &cause.what;
            !cause.certain || matches!(what, What::TakeOver(_) | What::CatchingUp { .. })
        };
        if clock.owner == NodeId::NOBODY || !causes.iter().any(rests) {
            return Ok(None);
        }
        let nodes = self.ctx.store.nodes().await?.into_iter();
        Ok(nodes.into_iter().find(|node| node.node == clock.owner))
    }
}

/// Returns where a task without a row stands, as its entry says.
fn stands(entry: &Entry, fired: bool) -> Stands<'static> {
    let is_record = entry.spec.target.class() == Class::Record;
    match entry.kind {
        Kind::Done {
            reason: DoneReason::Cancelled,
            at,
        } => Stands::Done {
            end: End::Cancelled,
            at,
        },
        Kind::Done {
            reason: DoneReason::Published,
            at,
        } => Stands::Done {
            end: End::Published,
            at,
        },
        _ if fired && is_record => Stands::Done {
            end: End::Published,
            at: entry.key.due,
        },
        _ => Stands::Registered {
            start: entry.start,
            near: matches!(entry.kind, Kind::Look { .. }) || entry.is_moved() && entry.spills == 0,
            again: (entry.spills > 0).then_some(entry.key.due),
        },
    }
}
