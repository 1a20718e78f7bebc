//! The job records read and write for the desk and the runner the one record that a job is.

use std::{future::ready, sync::Arc};

use uuid::Uuid;

use crate::{
    flow::base::{
        api::Fault,
        context::Context,
        documents::{self, Reads, Step, Unsure, Update},
    },
    limits::{JOB_RACES_MAX, RECORDS_PAGE_MAX},
    model::{
        job::Job,
        record::{Change, Kind, Name, Record},
    },
    schema::{decode_job, encode_job},
    store::{
        Freshness,
        index::{IndexRange, Partition},
        records::RecordRange,
    },
};

/// The result of a change of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Written {
    /// It is so now.
    To(Job),
    /// It was left as it is.
    Left(Job),
    /// There is no such job.
    Absent,
}

/// The records of jobs.
#[derive(Debug, Clone)]
pub(super) struct Jobs {
    ctx: Arc<Context>,
}

impl Jobs {
    pub(super) const fn new(ctx: Arc<Context>) -> Self {
        Self { ctx }
    }

    /// Reads a job; none when there is no such job, or not any more.
    pub(super) async fn read(&self, id: Uuid) -> Result<Option<Job>, Fault> {
        Ok(self.record(id).await?.and_then(|(_, job)| job))
    }

    async fn record(&self, id: Uuid) -> Result<Option<(Record, Option<Job>)>, Fault> {
        let record = self.ctx.store.record(&named(id)?, Freshness::Quorum).await;
        match record? {
            None => Ok(None),
            Some(record) => {
                let job = self.job_of(&record)?;
                Ok(Some((record, job)))
            }
        }
    }

    fn job_of(&self, record: &Record) -> Result<Option<Job>, Fault> {
        let has_expired = record.expires.is_some_and(|at| at <= self.ctx.now());
        match &record.value {
            None => Ok(None),
            Some(_) if has_expired => Ok(None),
            Some(value) => decode_job(value.clone())
                .map(Some)
                .map_err(|error| unreadable(record, &error.to_string())),
        }
    }

    /// Returns the ids of all jobs that may be there.
    pub(super) async fn ids(&self) -> Result<Vec<Uuid>, Fault> {
        let (mut ids, mut after) = (Vec::new(), None);
        loop {
            let range = IndexRange {
                partition: Partition::of_records(Kind::Job),
                after,
                rows_max: crate::limits::INDEX_PAGE_ROWS_MAX,
            };
            let page = self.ctx.store.index_range(&range).await?;
            let rows = page.rows.iter();
            ids.extend(rows.filter_map(|row| Uuid::try_parse_ascii(&row.sort).ok()));
            after = page.next;
            if after.is_none() {
                return Ok(ids);
            }
        }
    }

    /// Reads all jobs. One that this version cannot read is left out.
    pub(super) async fn all(&self) -> Result<Vec<(Uuid, Job)>, Fault> {
        let mut jobs = Vec::new();
        let mut range = RecordRange {
            kind: Kind::Job,
            after: None,
            rows_max: RECORDS_PAGE_MAX,
            now: self.ctx.now(),
        };
        loop {
            let page = self.ctx.store.list_records(&range).await?;
            for record in &page.records {
                let id = Uuid::try_parse(record.name.key());
                match (id, self.job_of(record)) {
                    (Ok(id), Ok(Some(job))) => jobs.push((id, job)),
                    (Ok(_), Ok(None)) => {}
                    (Err(_), _) | (_, Err(_)) => {
                        tracing::warn!(record = %record.name, "the record of a job cannot be read");
                    }
                }
            }
            range.after = page.next;
            if range.after.is_none() {
                return Ok(jobs);
            }
        }
    }

    /// Writes a new job; returns the one that is there, if there is one.
    pub(super) async fn create(&self, id: Uuid, job: &Job) -> Result<Option<Job>, Fault> {
        let updated = self.update(id, Reads::Blind, |there| {
            let there = there.as_ref();
            let old = there.map(|there| self.job_of(there)).transpose()?;
            Ok(match old.flatten() {
                Some(old) => Step::Answer(Some(old)),
                None => Step::Write(self.change(id, there, job)?, None),
            })
        });
        updated.await
    }

    /// Changes a job as `decide` says of what is there, anew whenever another was first; none of `decide` leaves it as it is.
    pub(super) async fn write(
        &self,
        id: Uuid,
        decide: impl Fn(&Job) -> Option<Job>,
    ) -> Result<Written, Fault> {
        let updated = self.update(id, Reads::Once(Freshness::Quorum), |there| {
            let Some(record) = there else {
                return Ok(Step::Answer(Written::Absent));
            };
            let Some(old) = self.job_of(&record)? else {
                return Ok(Step::Answer(Written::Absent));
            };
            let Some(new) = decide(&old).filter(|new| *new != old) else {
                return Ok(Step::Answer(Written::Left(old)));
            };
            let change = self.change(id, Some(&record), &new)?;
            Ok(Step::Write(change, Written::To(new)))
        });
        updated.await
    }

    async fn update<R>(
        &self,
        id: Uuid,
        reads: Reads,
        decide: impl Fn(Option<Record>) -> Result<Step<R>, Fault>,
    ) -> Result<R, Fault> {
        let update = Update {
            store: &*self.ctx.store,
            name: &named(id)?,
            unsure: Unsure::Settled,
            tries: JOB_RACES_MAX,
        };
        let updated = update.run(reads, |found| ready(decide(found.record)));
        let raced = || documents::raced(format_args!("the job {id}"));
        updated.await?.or(raced)
    }

    fn change(&self, id: Uuid, replaced: Option<&Record>, job: &Job) -> Result<Change, Fault> {
        let (mark, value) = (self.ctx.time.mark(), encode_job(job));
        let change = Change::put(named(id)?, replaced, value, job.expires(), mark);
        change.map_err(|refused| unsuitable(&refused))
    }
}

fn named(id: Uuid) -> Result<Name, Fault> {
    Name::new(Kind::Job, &id.to_string()).map_err(|refused| unsuitable(&refused))
}

/// The bounds of jobs are narrower than those of records, so this does not happen.
fn unsuitable(refused: &crate::model::record::Refused) -> Fault {
    documents::unavailable(refused)
}

fn unreadable(record: &Record, cause: &str) -> Fault {
    tracing::debug!(record = %record.name, cause, "a job cannot be read");
    documents::unavailable(format_args!(
        "the record of the job {} cannot be read: a later version may have written it",
        record.name.key()
    ))
}
