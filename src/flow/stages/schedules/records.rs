//! The schedule records read and write for the desk and the driver the one record that a schedule is.

use std::sync::Arc;

use crate::{
    flow::base::{
        api::Fault,
        context::Context,
        documents::{self, Put},
    },
    limits::{RECORDS_PAGE_MAX, SCHEDULE_DELETED_KEPT},
    model::{
        record::{Change, Kind, Name, Record},
        schedule::life::{Schedule, State},
    },
    schema::{decode_schedule, encode_schedule},
    store::{Freshness, records::RecordRange},
};

/// A record as it was read; none where there is none.
pub(super) type Read = (Option<Record>, Option<Schedule>);

/// The outcome of a conditional write.
#[derive(Debug)]
pub(super) enum Written {
    /// The record is this now.
    To(Record),
    /// Another write was first: this is there.
    Lost(Box<Read>),
}

/// The records of schedules.
#[derive(Debug, Clone)]
pub(super) struct Schedules {
    ctx: Arc<Context>,
}

impl Schedules {
    pub(super) const fn new(ctx: Arc<Context>) -> Self {
        Self { ctx }
    }

    /// Reads a schedule, also what is left of a deleted one.
    pub(super) async fn read(&self, name: &str) -> Result<Read, Fault> {
        let record = named(name)?;
        let record = self.ctx.store.record(&record, Freshness::Quorum).await?;
        self.understood(record)
    }

    fn understood(&self, record: Option<Record>) -> Result<Read, Fault> {
        let schedule = record.as_ref().map(|record| self.schedule_of(record));
        let schedule = schedule.transpose()?.flatten();
        Ok((record, schedule))
    }

    fn schedule_of(&self, record: &Record) -> Result<Option<Schedule>, Fault> {
        let has_expired = record.expires.is_some_and(|at| at <= self.ctx.now());
        match &record.value {
            None => Ok(None),
            Some(_) if has_expired => Ok(None),
            Some(value) => decode_schedule(value.clone())
                .map(Some)
                .map_err(|error| unreadable(record, &error.to_string())),
        }
    }

    /// Reads a page of schedules by name, behind `after`; also the name behind which there may be more. One that this version
    /// cannot read is left out.
    pub(super) async fn page(
        &self,
        after: Option<&str>,
        max: usize,
    ) -> Result<(Vec<(String, Schedule)>, Option<String>), Fault> {
        let range = RecordRange {
            kind: Kind::Schedule,
            after: after.map(named).transpose()?,
            rows_max: max.min(RECORDS_PAGE_MAX),
            now: self.ctx.now(),
        };
        let page = self.ctx.store.list_records(&range).await?;
        let mut schedules = Vec::with_capacity(page.records.len());
        for record in &page.records {
            match self.schedule_of(record) {
                Ok(Some(schedule)) => schedules.push((record.name.key().to_owned(), schedule)),
                Ok(None) => {}
                Err(_) => {
                    tracing::warn!(record = %record.name, "the record of a schedule cannot be read");
                }
            }
        }
        Ok((schedules, page.next.map(|name| name.key().to_owned())))
    }

    /// Writes a schedule in place of what was read.
    pub(super) async fn write(
        &self,
        name: &str,
        replaced: Option<&Record>,
        schedule: &Schedule,
    ) -> Result<Written, Fault> {
        let mark = self.ctx.time.mark();
        let deleted = schedule.state == State::Deleted;
        let expires = deleted.then(|| schedule.changed.after(SCHEDULE_DELETED_KEPT));
        let change = Change::put(
            named(name)?,
            replaced,
            encode_schedule(schedule),
            expires,
            mark,
        );
        let change = change.map_err(|refused| unsuitable(&refused))?;
        Ok(match documents::put(&*self.ctx.store, &change).await? {
            Put::Done(record) => Written::To(record),
            Put::Lost(there) => Written::Lost(Box::new(self.understood(there)?)),
        })
    }
}

fn named(name: &str) -> Result<Name, Fault> {
    Name::new(Kind::Schedule, name).map_err(|refused| unsuitable(&refused))
}

/// The bounds of schedules are narrower than those of records, so this does not happen.
pub(super) fn unsuitable(refused: &impl ToString) -> Fault {
    documents::unavailable(refused.to_string())
}

fn unreadable(record: &Record, cause: &str) -> Fault {
    tracing::debug!(record = %record.name, cause, "a schedule cannot be read");
    documents::unavailable(format_args!(
        "the record of the schedule {} cannot be read: a later version may have written it",
        record.name.key()
    ))
}
