//! The job records read and write for the desk and the runner the one record that a job is.

use std::sync::Arc;

use uuid::Uuid;

use crate::{
    flow::base::{api::Fault, context::Context},
    limits::{JOB_RACES_MAX, RACED_RETRY_AFTER, RECORDS_PAGE_MAX},
    model::{
        job::Job,
        record::{Change, Kind, Mark, Name, Record},
    },
    schema::{decode_job, encode_job},
    store::{
        Freshness, Swapped,
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
        let mut replaced: Option<Record> = None;
        for _ in 0..JOB_RACES_MAX {
            let change = self.change(id, replaced.as_ref(), job)?;
            let there = match self.ctx.store.put_if(&change).await? {
                Swapped::Applied => return Ok(None),
                Swapped::Conflict(there) => there,
                Swapped::Unknown => match self.settled(&change).await? {
                    None => return Ok(None),
                    Some(there) => there,
                },
            };
            let job = there.as_ref().map(|there| self.job_of(there));
            if let Some(job) = job.transpose()?.flatten() {
                return Ok(Some(job));
            }
            replaced = there;
        }
        Err(raced(id))
    }

    /// Changes a job as `decide` says of what is there, anew whenever another was first; none of `decide` leaves it as it is.
    pub(super) async fn write(
        &self,
        id: Uuid,
        decide: impl Fn(&Job) -> Option<Job>,
    ) -> Result<Written, Fault> {
        let mut there = self.record(id).await?.map(|(record, _)| record);
        for _ in 0..JOB_RACES_MAX {
            let Some(record) = there else {
                return Ok(Written::Absent);
            };
            let Some(old) = self.job_of(&record)? else {
                return Ok(Written::Absent);
            };
            let Some(new) = decide(&old).filter(|new| *new != old) else {
                return Ok(Written::Left(old));
            };
            let change = self.change(id, Some(&record), &new)?;
            there = match self.ctx.store.put_if(&change).await? {
                Swapped::Applied => return Ok(Written::To(new)),
                Swapped::Conflict(there) => there,
                Swapped::Unknown => match self.settled(&change).await? {
                    None => return Ok(Written::To(new)),
                    Some(there) => there,
                },
            };
        }
        Err(raced(id))
    }

    /// Finds out whether a change was applied: none when it was, else what is there. The read settles what is in flight.
    async fn settled(&self, change: &Change) -> Result<Option<Option<Record>>, Fault> {
        let record = change.record();
        let there = self.ctx.store.record(&record.name, Freshness::Serial);
        let there = there.await?;
        let is_mine = there.as_ref().is_some_and(|one| one.nonce == record.nonce);
        Ok((!is_mine).then_some(there))
    }

    fn change(&self, id: Uuid, replaced: Option<&Record>, job: &Job) -> Result<Change, Fault> {
        let mark = Mark {
            nonce: self.ctx.time.random_uuid(),
            stamp: self.ctx.time.stamp(),
        };
        let change = Change::put(named(id)?, replaced, encode_job(job), job.expires(), mark);
        change.map_err(|refused| unsuitable(&refused))
    }
}

fn named(id: Uuid) -> Result<Name, Fault> {
    Name::new(Kind::Job, &id.to_string()).map_err(|refused| unsuitable(&refused))
}

/// The bounds of jobs are narrower than those of records, so this does not happen.
fn unsuitable(refused: &crate::model::record::Refused) -> Fault {
    Fault::Unavailable {
        reason: refused.to_string(),
        retry_after: RACED_RETRY_AFTER,
    }
}

fn unreadable(record: &Record, cause: &str) -> Fault {
    tracing::debug!(record = %record.name, cause, "a job cannot be read");
    Fault::Unavailable {
        reason: format!(
            "the record of the job {} cannot be read: a later version may have written it",
            record.name.key()
        ),
        retry_after: RACED_RETRY_AFTER,
    }
}

fn raced(id: Uuid) -> Fault {
    Fault::Unavailable {
        reason: format!("the job {id} is being changed by many at once"),
        retry_after: RACED_RETRY_AFTER,
    }
}
