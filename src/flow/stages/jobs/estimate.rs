//! The estimate tells how many tasks a job is about, for its progress, where that can be told before all of them are found.
//!
//! It can be told of dead tasks that are named by their callback and error alone: their letters are counted. The number of
//! times of a backfill is known when it is registered. All other tasks are counted as they are found. An estimate that cannot
//! be made in time is none, and the job goes on without it.

use std::time::Duration;

use crate::{
    flow::{
        base::{context::Context, tables::letters::Scope},
        stages::letters::{desk::Desk, walk::Wanted},
    },
    model::job::{Job, JobFilter, Place},
};

/// How long letters are counted: well below the lease of the leader, who waits for it.
const LIMIT: Duration = Duration::from_secs(3);

/// Counts the tasks of a job, before its first page; none where that cannot be told.
pub(super) async fn of(ctx: &Context, letters: &Desk, job: &Job) -> Option<u64> {
    if job.estimate.is_some() || job.place != Place::Start {
        return job.estimate;
    }
    let JobFilter {
        callback,
        collection,
        // Letters are those of dead tasks.
        state: _,
        labels,
        from,
        to,
        error,
    } = &job.filter;
    let is_of_letters = job.kind.is_of_ended() && !job.by_rows && !job.dry_run;
    let is_plain = collection.is_none() && labels.is_empty() && from.is_none() && to.is_none();
    if !(is_of_letters && is_plain) {
        return None;
    }
    let wanted = Wanted {
        scope: Scope::of(callback.as_deref()),
        error: error.clone(),
    };
    let counted = ctx.time.within(LIMIT, letters.groups(&wanted)).await?;
    let counted = counted.ok().filter(|groups| !groups.cut)?;
    Some(counted.groups.iter().map(|group| group.tasks).sum())
}
