//! The memory store keeps records and rows of the index for tests: sorted maps, decided under one lock.
//!
//! Rows that were removed, or have ended, stay in the maps, so that an older write that arrives later stays without effect.

use std::{
    collections::BTreeMap,
    ops::Bound::{Excluded, Unbounded},
};

use async_trait::async_trait;
use bytes::Bytes;

use super::MemoryStore;
use crate::{
    limits::INDEX_PAGE_ROWS_MAX,
    model::{
        record::{Change, Judged, Name, Record},
        time::Millis,
    },
    store::{
        Error, Freshness, IndexStore, RecordStore, Swapped,
        index::{IndexPage, IndexPut, IndexRange, IndexRemoval, IndexRow, Partition, Place},
    },
};

/// A row of the index; no value is a removal.
struct Stored {
    value: Option<Bytes>,
    written: i64,
    expires: Option<Millis>,
}

/// The records and the index.
#[derive(Default)]
pub(super) struct Records {
    records: BTreeMap<Name, Record>,
    index: BTreeMap<Partition, BTreeMap<Bytes, Stored>>,
}

fn is_over(expires: Option<Millis>, now: Millis) -> bool {
    expires.is_some_and(|at| at <= now)
}

impl Records {
    fn record(&self, name: &Name, now: Millis) -> Option<&Record> {
        let record = self.records.get(name)?;
        (!is_over(record.expires, now)).then_some(record)
    }

    fn swap(&mut self, change: &Change, now: Millis) -> Swapped<Option<Record>> {
        let name = &change.record().name;
        let there = self.record(name, now);
        match change.judge(there.map(Record::seen)) {
            Judged::Mine => Swapped::Applied,
            Judged::Conflict => Swapped::Conflict(there.cloned()),
            Judged::Holds => {
                self.records.insert(name.clone(), change.record().clone());
                Swapped::Applied
            }
        }
    }

    fn write(&mut self, place: &Place, new: Stored) {
        let partition = self.index.entry(place.partition().clone()).or_default();
        let wins = |there: &Stored| match there.written.cmp(&new.written) {
            std::cmp::Ordering::Less => true,
            // A removal wins over a write of the same time.
            std::cmp::Ordering::Equal => there.value.is_some(),
            std::cmp::Ordering::Greater => false,
        };
        if partition.get(place.sort()).is_none_or(wins) {
            partition.insert(place.sort().clone(), new);
        }
    }

    fn range(&self, range: &IndexRange, rows_max: usize, now: Millis) -> IndexPage {
        let Some(partition) = self.index.get(&range.partition) else {
            return IndexPage::default();
        };
        let from = range.after.clone().map_or(Unbounded, Excluded);
        let live = partition
            .range((from, Unbounded))
            .filter_map(|(sort, row)| {
                let value = row.value.clone().filter(|_| !is_over(row.expires, now))?;
                Some(IndexRow {
                    sort: sort.clone(),
                    value,
                    written: row.written,
                })
            });
        let rows: Vec<IndexRow> = live.take(rows_max).collect();
        let last = rows.last().filter(|_| rows.len() == rows_max);
        let next = last.map(|last| last.sort.clone());
        IndexPage { rows, next }
    }
}

#[async_trait]
impl IndexStore for MemoryStore {
    async fn put_index(&self, rows: &[IndexPut]) -> Vec<Result<(), Error>> {
        let mut data = self.lock();
        for row in rows {
            let new = Stored {
                value: Some(row.value().clone()),
                written: row.written,
                expires: row.expires,
            };
            data.records.write(row.place(), new);
        }
        vec![Ok(()); rows.len()]
    }

    async fn remove_index(&self, rows: &[IndexRemoval]) -> Vec<Result<(), Error>> {
        let mut data = self.lock();
        for IndexRemoval { place, written } in rows {
            let removal = Stored {
                value: None,
                written: *written,
                expires: None,
            };
            data.records.write(place, removal);
        }
        vec![Ok(()); rows.len()]
    }

    async fn index_range(&self, range: &IndexRange) -> Result<IndexPage, Error> {
        let (data, now) = (self.lock(), self.time.now());
        let max = data.page_rows_max.unwrap_or(INDEX_PAGE_ROWS_MAX);
        let rows_max = range.rows_max.clamp(1, max.max(1));
        Ok(data.records.range(range, rows_max, now))
    }
}

#[async_trait]
impl RecordStore for MemoryStore {
    async fn record(&self, name: &Name, _freshness: Freshness) -> Result<Option<Record>, Error> {
        let (data, now) = (self.lock(), self.time.now());
        Ok(data.records.record(name, now).cloned())
    }

    async fn swap_record(&self, change: &Change) -> Result<Swapped<Option<Record>>, Error> {
        let now = self.time.now();
        Ok(self.lock().records.swap(change, now))
    }
}
