//! The record seam gives the service small documents that are written on a condition only ([`crate::model::record`]).
//!
//! A record is written by a [`Change`], with the outcomes of every conditional write: see [`super`]. A refusal by the
//! change's own earlier write counts as applied. Conditional writes of different records never wait for each other.
//!
//! # Lists
//! Records of some kinds can be listed. Each of these has a row in the index, and a creation writes that row before the
//! record, so no record is missing from a list. The row's write time is the version of the record that is created, and a
//! removal of the record removes the row at its own version. Versions of a name grow over its whole life, so a late
//! write of the row, or a late removal, never undoes a newer one.
//!
//! A creation that fails leaves a row without a record, which a list passes over and removes after
//! [`LISTING_ORPHAN_MIN`]. No writer is under way that long, and a later creation writes a newer row.

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};

use super::{
    Error, Freshness, Swapped,
    index::{IndexPut, IndexRange, IndexRemoval, IndexRow, IndexStore, Partition, Place},
};
use crate::{
    limits::{LISTING_ORPHAN_MIN, RECORDS_PAGE_MAX, STORE_LIST_READS_IN_FLIGHT_MAX},
    model::{
        record::{Change, Kind, Name, Record},
        time::Millis,
    },
};

/// A bounded list of the records of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordRange {
    /// A kind that is listed.
    pub kind: Kind,
    /// Lists on behind this record; none lists from the first one.
    pub after: Option<Name>,
    /// Returns at most this many records, and at most [`RECORDS_PAGE_MAX`].
    pub rows_max: usize,
    /// The present time.
    pub now: Millis,
}

/// Records of a list, in the order of their keys.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecordPage {
    /// The records; none of them was removed.
    pub records: Vec<Record>,
    /// The record behind which there may be more; none at the end. A page may be empty and still not be the last.
    pub next: Option<Name>,
}

/// The records. Conditional writes only.
#[async_trait]
pub trait RecordStore: IndexStore {
    /// Reads a record. One that was removed is returned without a value for a while; one that has expired is not there.
    async fn record(&self, name: &Name, freshness: Freshness) -> Result<Option<Record>, Error>;

    /// Writes a record conditionally, without its row in the index. Callers use [`RecordStore::put_if`].
    async fn swap_record(&self, change: &Change) -> Result<Swapped<Option<Record>>, Error>;

    /// Writes or removes a record conditionally, and keeps the list of its kind.
    async fn put_if(&self, change: &Change) -> Result<Swapped<Option<Record>>, Error> {
        let record = change.record();
        if !record.name.kind().is_listed() {
            return self.swap_record(change).await;
        }
        let (place, written) = (listed_at(&record.name)?, record.version.0);
        if change.creates() {
            let row = IndexPut::new(place.clone(), Bytes::new(), written).map_err(unlisted)?;
            first(self.put_index(&[row]).await)?;
        }
        let swapped = self.swap_record(change).await?;
        if record.is_removed() && swapped == Swapped::Applied {
            let row = IndexRemoval { place, written };
            if let Err(error) = first(self.remove_index(&[row]).await) {
                // The row stands for nothing now. A list will remove it.
                tracing::debug!(%error, record = %record.name, "could not remove it from the list");
            }
        }
        Ok(swapped)
    }

    /// Lists records of a kind. Every record that was there when the list began and is there still is in a page.
    async fn list_records(&self, range: &RecordRange) -> Result<RecordPage, Error> {
        let after = range.after.as_ref();
        let page = self
            .index_range(&IndexRange {
                partition: Partition::of_records(range.kind),
                after: after.map(|name| Bytes::copy_from_slice(name.key().as_bytes())),
                rows_max: range.rows_max.clamp(1, RECORDS_PAGE_MAX),
            })
            .await?;
        let named = |sort: &Bytes| name_of(range.kind, sort);
        let next = page.next.as_ref().map(named).transpose()?;
        let names = page.rows.iter().map(|row| named(&row.sort));
        let names: Vec<Name> = names.collect::<Result<_, _>>()?;
        let found: Vec<Option<Record>> = stream::iter(names.clone())
            .map(|name| async move { self.record(&name, Freshness::Quorum).await })
            .buffered(STORE_LIST_READS_IN_FLIGHT_MAX)
            .try_collect()
            .await?;
        let mut listed = RecordPage {
            records: Vec::with_capacity(found.len()),
            next,
        };
        let mut orphans = Vec::new();
        for ((row, name), mut record) in page.rows.into_iter().zip(&names).zip(found) {
            if !is_there(record.as_ref()) && is_old(&row, range.now) {
                // A creation whose outcome nobody has learned may have left it. It is settled before the row goes.
                record = self.record(name, Freshness::Serial).await?;
                if !is_there(record.as_ref()) {
                    let (place, written) = (listed_at(name)?, row.written);
                    orphans.push(IndexRemoval { place, written });
                }
            }
            listed
                .records
                .extend(record.filter(|record| !record.is_removed()));
        }
        if !orphans.is_empty() {
            // One that stays costs the next list a read, and is removed by it.
            drop(self.remove_index(&orphans).await);
        }
        Ok(listed)
    }
}

fn is_there(record: Option<&Record>) -> bool {
    record.is_some_and(|record| !record.is_removed())
}

/// Tells whether no writer of a row's record can be under way.
fn is_old(row: &IndexRow, now: Millis) -> bool {
    now.since(Millis(row.written.div_euclid(1000))) >= LISTING_ORPHAN_MIN
}

/// Returns the place of a record in the list of its kind.
fn listed_at(name: &Name) -> Result<Place, Error> {
    let sort = Bytes::copy_from_slice(name.key().as_bytes());
    Place::new(Partition::of_records(name.kind()), sort).map_err(unlisted)
}

/// The bounds of the index hold for every key of a record, so this never happens.
fn unlisted(refused: super::index::Refused) -> Error {
    Error::Unsuitable {
        reason: refused.to_string(),
    }
}

fn name_of(kind: Kind, sort: &Bytes) -> Result<Name, Error> {
    let key = std::str::from_utf8(sort).ok();
    let name = key.and_then(|key| Name::new(kind, key).ok());
    name.ok_or_else(|| Error::Corrupt {
        operation: "list records",
        reason: format!("{:?} is not the key of a record", sort),
    })
}

fn first(answers: Vec<Result<(), Error>>) -> Result<(), Error> {
    answers.into_iter().collect()
}
