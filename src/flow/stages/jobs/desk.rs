//! The job desk registers, lists, pauses, resumes and ends jobs for people.
//!
//! A registration is one conditional write of the job's record. One with an idempotency key has an id that is computed from the
//! key, so a repetition meets the record of the first.

use std::sync::Arc;

use tokio::sync::Notify;
use uuid::Uuid;

use super::{
    records::{Jobs, Written},
    runner::Runner,
};
use crate::{
    flow::{
        base::{
            api::{Fault, TaskView, View},
            context::Context,
            read::find::Finder,
            records::callbacks::Callbacks,
        },
        features::lists::ended_rows,
    },
    limits::{JOBS_KEPT_MAX, JOBS_OPEN_MAX},
    model::job::{HasEnded, Job},
};

/// The result of a registration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Registered {
    /// It is registered.
    Created(Uuid, Job),
    /// The same request had registered it before.
    Again(Uuid, Job),
    /// The key belongs to another request.
    OtherRequest,
    /// So many jobs have not ended, as many as may be.
    TooManyOpen(usize),
    /// So many jobs are kept, as many as may be.
    TooManyKept(usize),
}

/// The result of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changed {
    /// It is so now, or was so already.
    Now(Job),
    /// It has ended, and stays as it is.
    Ended(Job),
    /// There is no such job.
    Absent,
}

/// The tasks that a store finds for a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// All of them: those that wait however far ahead they start, and those that have ended.
    All,
    /// Those that wait up to a given start, and those of a callback that have ended.
    Some {
        /// Those that wait also by one of the labels that are asked for.
        labelled: bool,
        /// Also those that have succeeded.
        succeeded: bool,
    },
}

/// A change that a person makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// It does not go on.
    Pause,
    /// It goes on.
    Resume,
    /// It ends.
    Cancel,
}

/// The desk. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Desk {
    ctx: Arc<Context>,
    jobs: Jobs,
    finder: Finder,
    callbacks: Callbacks,
    wake: Arc<Notify>,
    runner: Runner,
}

impl Desk {
    /// Keeps jobs that this runner leads.
    #[must_use]
    pub(in crate::flow) fn new(ctx: Arc<Context>, parts: super::changers::Changers) -> Self {
        let (wake, jobs) = (Arc::new(Notify::new()), Jobs::new(Arc::clone(&ctx)));
        Self {
            finder: parts.finder.clone(),
            callbacks: parts.callbacks.clone(),
            runner: Runner::new(Arc::clone(&ctx), jobs.clone(), parts, Arc::clone(&wake)),
            ctx,
            jobs,
            wake,
        }
    }

    /// Returns what leads the jobs.
    pub(in crate::flow) fn runner(&self) -> Runner {
        self.runner.clone()
    }

    /// Tells which tasks the store finds, of a callback and with these labels.
    ///
    /// # Errors
    /// When the configuration of the callback cannot be read.
    pub async fn reach<'a>(
        &self,
        callback: Option<&str>,
        mut labels: impl Iterator<Item = &'a String>,
    ) -> Result<Reach, Fault> {
        if self.ctx.store.lists_ended_tasks() {
            return Ok(Reach::All);
        }
        let Some(callback) = callback else {
            return Ok(Reach::Some {
                labelled: false,
                succeeded: false,
            });
        };
        let copy = self.callbacks.snapshot();
        Ok(Reach::Some {
            labelled: labels.any(|name| copy.is_indexed(callback, name)),
            succeeded: ended_rows::lists_succeeded(&self.ctx, callback).await?,
        })
    }

    /// Registers a job; its request has this key, if it has one.
    ///
    /// # Errors
    /// When it is not known whether it was registered; with a key, repeating it is safe.
    pub async fn register(&self, key: Option<u128>, job: Job) -> Result<Registered, Fault> {
        let id = key.map_or_else(
            || self.new_id(),
            |key| uuid::Builder::from_custom_bytes(key.to_be_bytes()).into_uuid(),
        );
        if key.is_some()
            && let Some(there) = self.jobs.read(id).await?
        {
            return Ok(again(id, there, &job));
        }
        let all = self.jobs.all().await?;
        let open = all.iter().filter(|(_, job)| !job.state.has_ended()).count();
        // Requests at the same time may exceed these bounds by a few.
        if open >= JOBS_OPEN_MAX {
            return Ok(Registered::TooManyOpen(open));
        }
        if all.len() >= JOBS_KEPT_MAX {
            return Ok(Registered::TooManyKept(all.len()));
        }
        let there = self.jobs.create(id, &job).await?;
        self.wake.notify_one();
        Ok(match there {
            None => Registered::Created(id, job),
            // No other request has this id: it was written, and is led already.
            Some(there) if key.is_none() => Registered::Created(id, there),
            Some(there) => again(id, there, &job),
        })
    }

    /// Returns an id in the order of time.
    fn new_id(&self) -> Uuid {
        let millis = u64::try_from(self.ctx.now().0).unwrap_or_default();
        let random = self.ctx.time.random_uuid();
        let mut low = [0; 10];
        low.copy_from_slice(random.as_bytes().split_at(6).1);
        uuid::Builder::from_unix_timestamp_millis(millis, &low).into_uuid()
    }

    /// Reads a job.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn get(&self, id: Uuid) -> Result<Option<Job>, Fault> {
        self.jobs.read(id).await
    }

    /// Reads the sample of a dry run, as its tasks are now. Tasks that cannot be read any more are left out.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn sample(&self, job: &Job) -> Result<Vec<TaskView>, Fault> {
        let mut sample = Vec::with_capacity(job.sample.len());
        for id in &job.sample {
            sample.extend(self.finder.get(*id, View::Basic).await?);
        }
        Ok(sample)
    }

    /// Returns all jobs, the newest first.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn list(&self) -> Result<Vec<(Uuid, Job)>, Fault> {
        let mut jobs = self.jobs.all().await?;
        jobs.sort_unstable_by_key(|(id, job)| std::cmp::Reverse((job.created, *id)));
        Ok(jobs)
    }

    /// Changes where a job stands. A page that is being worked on is finished, whatever is asked.
    ///
    /// # Errors
    /// When it is not known whether it was changed; repeating it is safe.
    pub async fn order(&self, id: Uuid, order: Order) -> Result<Changed, Fault> {
        let now = self.ctx.now();
        let ordered = |job: &Job| match order {
            Order::Pause => job.paused(),
            Order::Resume => job.resumed(),
            Order::Cancel => job.cancelled(now),
        };
        let written = self.jobs.write(id, |job| ordered(job).ok()).await?;
        self.wake.notify_one();
        Ok(match written {
            Written::To(job) => {
                if order == Order::Cancel {
                    let (kind, state) = (job.kind.name(), job.state.name());
                    metrics::counter!("tickwheel_jobs_ended_total", "kind" => kind, "state" => state)
                        .increment(1);
                }
                Changed::Now(job)
            }
            Written::Absent => Changed::Absent,
            Written::Left(job) => match ordered(&job) {
                Ok(_) => Changed::Now(job),
                Err(HasEnded) => Changed::Ended(job),
            },
        })
    }
}

fn again(id: Uuid, there: Job, asked: &Job) -> Registered {
    if there.request.is_some() && there.request == asked.request {
        Registered::Again(id, there)
    } else {
        Registered::OtherRequest
    }
}
