//! The job runner leads jobs for their registrars: it takes those that have no living leader, and works on their pages.
//!
//! Each node with wheels looks every second which jobs there are; jobs that have ended are not read again. The record decides
//! ([`crate::model::job_life`]). A write that loses against a person's order, or against another leader, is decided anew on what
//! is there.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{
    changers::Changers,
    estimate,
    records::{Jobs, Written},
    search::Search,
    work::{Work, rest_until},
};
use crate::{
    flaw::{self, Flaw},
    flow::{
        base::{api::Fault, context::Context, panics},
        stages::letters::desk,
    },
    limits::{JOB_TURN, JOBS_LOOK_EVERY},
    model::{
        job::{Counts, Job, JobState, Place, Step, Tally},
        time::Millis,
    },
};

/// The runner. Cheap to clone.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Runner {
    ctx: Arc<Context>,
    jobs: Jobs,
    search: Search,
    letters: desk::Desk,
    work: Work,
    wake: Arc<Notify>,
    /// Jobs that have ended, and until when they cannot change.
    ended: Arc<Mutex<BTreeMap<Uuid, Millis>>>,
}

impl Runner {
    pub(super) fn new(ctx: Arc<Context>, jobs: Jobs, by: Changers, wake: Arc<Notify>) -> Self {
        Self {
            search: Search::new(Arc::clone(&ctx), &by),
            letters: by.letters.clone(),
            work: Work::new(Arc::clone(&ctx), by),
            ctx,
            jobs,
            wake,
            ended: Arc::default(),
        }
    }

    /// Leads jobs until `stop`. A page that is under way then is left to the next leader.
    pub(in crate::flow) async fn run(self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let rest = match self.round(&stop).await {
                Ok(rest) => rest,
                Err(fault) => {
                    tracing::debug!(%fault, "the jobs cannot be read; trying again");
                    JOBS_LOOK_EVERY
                }
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = self.wake.notified() => {}
                () = self.ctx.time.sleep(rest) => {}
            }
        }
    }

    /// Gives each job a turn; returns how long there is nothing to do.
    async fn round(&self, stop: &CancellationToken) -> Result<Duration, Fault> {
        let ids: BTreeSet<Uuid> = self.jobs.ids().await?.into_iter().collect();
        let open: Vec<Uuid> = {
            let mut ended = self.ended.lock();
            let now = self.ctx.now();
            ended.retain(|id, until| ids.contains(id) && now < *until);
            let is_open = |id: &&Uuid| !ended.contains_key(*id);
            ids.iter().filter(is_open).copied().collect()
        };
        let turns = open.iter().map(|id| async move {
            // A job that panics keeps no other from its turn.
            let turn = panics::caught("job", self.turn(*id, stop)).await;
            turn.unwrap_or_else(|fault| {
                tracing::debug!(job = %id, %fault, "a job goes on later");
                JOBS_LOOK_EVERY
            })
        });
        let rests = join_all(turns).await;
        Ok(rests.into_iter().min().unwrap_or(JOBS_LOOK_EVERY))
    }

    /// Works on a job for a while; returns how long there is nothing to do about it.
    async fn turn(&self, id: Uuid, stop: &CancellationToken) -> Result<Duration, Fault> {
        let end = self.ctx.time.moment().after(JOB_TURN);
        let (me, alone) = (self.ctx.me.0, self.ctx.underway.is_some());
        // A row of the list may stand for a record that is being written.
        let Some(mut job) = self.jobs.read(id).await? else {
            return Ok(JOBS_LOOK_EVERY);
        };
        while !stop.is_cancelled() && self.ctx.time.moment() < end {
            let now = self.ctx.now();
            let written = match job.step(me, alone, now) {
                Step::Rest => {
                    if job.state.has_ended() {
                        let mut ended = self.ended.lock();
                        ended.insert(id, unchanged_until(id, &job));
                    }
                    return Ok(JOBS_LOOK_EVERY);
                }
                Step::Wait(until) => return Ok(rest_until(now, until, JOBS_LOOK_EVERY)),
                Step::Lead => {
                    let led = |there: &Job| {
                        (there.step(me, alone, now) == Step::Lead).then(|| there.led(me, now))
                    };
                    self.jobs.write(id, led).await?
                }
                Step::Work => match self.page(id, &job, stop).await? {
                    Some(written) => written,
                    None => return Ok(JOBS_LOOK_EVERY),
                },
            };
            job = match written {
                Written::To(job) | Written::Left(job) => job,
                Written::Absent => return Ok(JOBS_LOOK_EVERY),
            };
        }
        Ok(Duration::ZERO)
    }

    /// Works on the page of a job, finds the next one, and writes down both; none when the node stops meanwhile.
    async fn page(
        &self,
        id: Uuid,
        job: &Job,
        stop: &CancellationToken,
    ) -> Result<Option<Written>, Fault> {
        let began = self.ctx.now();
        if flaw::is(Flaw::JobPageLeftFirst) {
            self.skip_page(id, job).await?;
        }
        let Some(tally) = self.work.page(job, stop).await else {
            return Ok(None);
        };
        let found = if tally.again.is_empty() && job.place != Place::End {
            Some(self.search.next(job).await)
        } else {
            None
        };
        let estimate = estimate::of(&self.ctx, &self.letters, job).await;
        let now = self.ctx.now();
        let advanced = |there: &Job| {
            let (tally, found) = (tally.clone(), found.clone());
            let next = there.advanced(job.page, tally, found, (began, now))?;
            Some(Job { estimate, ..next })
        };
        let written = self.jobs.write(id, advanced).await?;
        if let Written::To(next) = &written {
            tell(id, job, next);
        }
        Ok(Some(written))
    }

    /// The flaw: the page counts as done before its tasks are changed.
    async fn skip_page(&self, id: Uuid, job: &Job) -> Result<(), Fault> {
        let tally = Tally {
            done: job.items.len() as u64,
            ..Tally::default()
        };
        let (found, now) = (self.search.next(job).await, self.ctx.now());
        let skipped = |there: &Job| {
            let (tally, found) = (tally.clone(), found.clone());
            there.advanced(job.page, tally, Some(found), (now, now))
        };
        self.jobs.write(id, skipped).await.map(drop)
    }
}

/// Returns until when a job that has ended cannot change. An id that is computed from a key may name another job once its record
/// is gone. An id that was drawn never does.
fn unchanged_until(id: Uuid, job: &Job) -> Millis {
    let expires = job.expires().filter(|_| !is_drawn(id));
    expires.unwrap_or(Millis::MAX)
}

/// Counts what a page has changed, and logs the end of the job.
fn tell(id: Uuid, before: &Job, after: &Job) {
    let kind = before.kind.name();
    let Counts {
        done,
        skipped,
        failed,
        matching: _,
    } = after.counts;
    for (outcome, count) in [
        ("done", done - before.counts.done),
        ("skipped", skipped - before.counts.skipped),
        ("failed", failed - before.counts.failed),
    ] {
        metrics::counter!("tickwheel_job_tasks_total", "kind" => kind, "outcome" => outcome)
            .increment(count);
    }
    // A cancelled one was counted where the order came.
    if matches!(after.state, JobState::Completed | JobState::Failed) {
        let state = after.state.name();
        metrics::counter!("tickwheel_jobs_ended_total", "kind" => kind, "state" => state)
            .increment(1);
        tracing::info!(job = %id, kind, state, done, skipped, failed, "a job has ended");
    }
}

/// Tells whether an id was drawn, and not computed from a key.
fn is_drawn(id: Uuid) -> bool {
    id.get_version() == Some(uuid::Version::SortRand)
}
