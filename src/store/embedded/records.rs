//! The embedded store keeps records and rows of the index for the service on one machine.
//!
//! Both are synced before the answer. They are written while the disk has little room: what they stand for is there already, or
//! was asked about before it was taken.

use async_trait::async_trait;
use fjall::Slice;

use super::{
    Store,
    disk::database::{Open, Space},
    faults::{corrupt, fault},
    record_bytes::{self, parse_index_row, parse_record},
    tasks::INLINE_READS_MAX,
    value,
    writing::command::{Act, Newest},
};
use crate::{
    limits::{INDEX_PAGE_ROWS_MAX, INDEX_ROWS_LOOKED_AT_MAX},
    model::{
        record::{Change, Name, Record},
        time::Millis,
    },
    store::{
        Error, Freshness, IndexStore, RecordStore, Swapped,
        index::{IndexPage, IndexPut, IndexRange, IndexRemoval},
    },
};

/// Rows that a short range looks at on the thread of its caller. Where more of them were removed or have ended, it is read
/// where it delays no task.
const INLINE_ROWS_LOOKED_AT_MAX: usize = 64;

#[async_trait]
impl RecordStore for Store {
    async fn record(&self, name: &Name, freshness: Freshness) -> Result<Option<Record>, Error> {
        self.settle(freshness).await?;
        let operation = "read a record";
        let (open, now) = (self.shared.open()?, self.shared.time.now());
        let found = open.get(Space::Record, &record_bytes::record_key(name));
        let found = found.map_err(|cause| fault(operation, &cause))?;
        let live = found.filter(|found| value::is_live(found, open.expired_by(now)));
        let record = live.map(|found| parse_record(name.clone(), &found));
        record
            .transpose()
            .map_err(|cause| corrupt(operation, &cause))
    }

    async fn swap_record(&self, change: &Change) -> Result<Swapped<Option<Record>>, Error> {
        let key = record_bytes::record_key(&change.record().name);
        let value = record_bytes::record(change.record());
        let change = Box::new(change.clone());
        let ask = self
            .pen
            .ask(key.len() + value.len(), |answer| Act::SwapRecord {
                key,
                change,
                value,
                answer,
            });
        ask.await?.unwrap_or(Ok(Swapped::Unknown))
    }
}

impl Store {
    /// Writes rows of the index, each unless a newer one is there.
    async fn write_index(
        &self,
        operation: &'static str,
        rows: impl Iterator<Item = (Slice, i64, Slice)> + Send,
    ) -> Result<(), Error> {
        let write = |(key, written, value)| Newest {
            space: Space::Index,
            key,
            written,
            value: Some(value),
        };
        let writes: Vec<Newest> = rows.map(write).collect();
        let bytes = |write: &Newest| write.key.len() + write.value.as_ref().map_or(0, |v| v.len());
        let bytes = writes.iter().map(bytes).sum();
        self.done(operation, bytes, |answer| Act::PutNewest {
            writes,
            synced: true,
            answer,
        })
        .await
    }
}

#[async_trait]
impl IndexStore for Store {
    async fn put_index(&self, rows: &[IndexPut]) -> Vec<Result<(), Error>> {
        if rows.is_empty() {
            return Vec::new();
        }
        let row = |row: &IndexPut| {
            let key = record_bytes::index_key(row.place());
            (key, row.written, record_bytes::index_row(row))
        };
        let put = self.write_index("put rows of the index", rows.iter().map(row));
        vec![put.await; rows.len()]
    }

    async fn remove_index(&self, rows: &[IndexRemoval]) -> Vec<Result<(), Error>> {
        if rows.is_empty() {
            return Vec::new();
        }
        let now = self.shared.time.now();
        let row = |IndexRemoval { place, written }: &IndexRemoval| {
            let removed = record_bytes::index_removed(*written, now);
            (record_bytes::index_key(place), *written, removed)
        };
        let removed = self.write_index("remove rows of the index", rows.iter().map(row));
        vec![removed.await; rows.len()]
    }

    async fn index_range(&self, range: &IndexRange) -> Result<IndexPage, Error> {
        let now = self.shared.time.now();
        if range.rows_max <= INLINE_READS_MAX {
            let page = page(&*self.shared.open()?, range, now, INLINE_ROWS_LOOKED_AT_MAX)?;
            if page.next.is_none() || page.rows.len() == range.rows_max {
                return Ok(page);
            }
        }
        let range = range.clone();
        let read = move |open: &Open| page(open, &range, now, INDEX_ROWS_LOOKED_AT_MAX);
        self.read(read).await
    }
}

/// Reads a page, of which there may be more behind so many rows that were looked at.
fn page(
    open: &Open,
    range: &IndexRange,
    now: Millis,
    looked_at_max: usize,
) -> Result<IndexPage, Error> {
    let (operation, now) = ("read rows of the index", open.expired_by(now));
    let head = record_bytes::of_partition(&range.partition);
    let from = match &range.after {
        Some(after) => [head.as_slice(), after, &[0]].concat(),
        None => head.clone(),
    };
    let rows_max = range.rows_max.clamp(1, INDEX_PAGE_ROWS_MAX);
    let mut page = IndexPage::default();
    for (count, row) in open.space(Space::Index).range(from..).enumerate() {
        let (key, stored) = row.into_inner().map_err(|cause| fault(operation, &cause))?;
        let Some(sort) = key.strip_prefix(head.as_slice()) else {
            break;
        };
        let row = parse_index_row(&stored).map_err(|cause| corrupt(operation, &cause))?;
        page.rows.extend(row.shown(sort, now));
        if page.rows.len() == rows_max || count + 1 == looked_at_max {
            page.next = Some(bytes::Bytes::copy_from_slice(sort));
            break;
        }
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        limits::INDEX_REMOVED_KEPT,
        store::{
            embedded::{tests::created, writing::group::Group},
            index::{IndexKind, Partition, Place},
        },
    };

    const NOW: Millis = Millis(1_790_000_000_000);

    fn place(number: u32) -> Place {
        let partition = Partition::new(IndexKind::Held, "p").unwrap();
        Place::new(partition, number.to_be_bytes().to_vec()).unwrap()
    }

    fn range(after: Option<&IndexPage>) -> IndexRange {
        IndexRange {
            partition: place(0).partition().clone(),
            after: after.and_then(|page| page.next.clone()),
            rows_max: 10,
        }
    }

    #[test]
    fn a_page_passes_over_a_bounded_number_of_removed_rows() {
        let directory = tempfile::tempdir().unwrap();
        let open = created(&directory.path().join("store"));
        let removed = u32::try_from(INDEX_ROWS_LOOKED_AT_MAX).unwrap() + 5;
        let mut group = Group::new(&open, NOW);
        for number in 0..removed {
            let key = record_bytes::index_key(&place(number));
            group.insert(Space::Index, key, record_bytes::index_removed(7, NOW));
        }
        let last = place(removed);
        let row = record_bytes::index_row(&IndexPut::new(last.clone(), "v", 7).unwrap());
        group.insert(Space::Index, record_bytes::index_key(&last), row);
        group.commit(false).unwrap();
        let first = page(&open, &range(None), NOW, INDEX_ROWS_LOOKED_AT_MAX).unwrap();
        assert!(first.rows.is_empty() && first.next.is_some());
        let second = page(&open, &range(Some(&first)), NOW, INDEX_ROWS_LOOKED_AT_MAX).unwrap();
        assert_eq!(second.rows.len(), 1);
        assert_eq!((&second.rows[0].sort, second.next), (last.sort(), None));
    }

    #[test]
    fn a_removal_and_an_end_are_remembered_for_a_day() {
        let removed = record_bytes::index_removed(7, NOW);
        let ended = IndexPut::new(place(1), "v", 7).unwrap().until(NOW);
        let ended = record_bytes::index_row(&ended);
        let day = NOW.after(INDEX_REMOVED_KEPT);
        for stored in [removed, ended] {
            assert!(value::is_live(&stored, Millis(day.0 - 1)));
            assert!(!value::is_live(&stored, day));
            assert!(!record_bytes::gives_way(&stored, 6) && record_bytes::gives_way(&stored, 8));
            assert_eq!(parse_index_row(&stored).unwrap().shown(&[1], NOW), None);
        }
    }
}
