//! The wheel store keeps the slots of the wheels for the service.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use scylla::{DeserializeRow, SerializeRow, value::MaybeUnset};
use uuid::Uuid;

use super::{
    Store,
    columns::wheel_column,
    link::Purpose,
    pack::PlainRow,
    ttl::{NO_TTL, ttl_seconds},
};
use crate::{
    limits::{LIST_ROWS_MAX, STORE_READS_IN_FLIGHT_MAX, STORE_WRITES_IN_FLIGHT_MAX},
    model::{
        entry::{Entry, Key, KeyCode},
        entry_life,
        ids::TaskId,
        task::{Content, Spec},
        time::Millis,
        wheel::{Shape, WheelNumber},
    },
    schema::encode_spec,
    store::{
        Erasure, Error, Page, Parked, Scan, ScannedRow, Unreadable, WheelStore,
        row::{EntryColumns, to_i32},
    },
};

#[async_trait]
impl WheelStore for Store {
    async fn put_entries(&self, entries: &[Entry]) -> Vec<Result<(), Error>> {
        let _timed = self.timed("put_entries");
        let rows = entry_rows(entries, &self.shape);
        self.entries.write(rows).await
    }

    async fn scan(&self, scan: &Scan) -> Result<Page, Error> {
        let _timed = self.timed("scan");
        self.scan_page(Purpose::Urgent, scan).await
    }

    async fn scan_aside(&self, scan: &Scan) -> Result<Page, Error> {
        let _timed = self.timed("scan_aside");
        self.scan_page(Purpose::List, scan).await
    }

    async fn find_entries(&self, id: TaskId, dues: &[Millis]) -> Result<Vec<Entry>, Error> {
        let _timed = self.timed("find_entries");
        self.find(id, dues).await
    }

    async fn erase(&self, wheel: WheelNumber, ticks: &[Erasure]) -> Result<(), Error> {
        let _timed = self.timed("erase");
        stream::iter(ticks.to_vec())
            .map(|erasure| self.erase_tick(wheel, erasure))
            .buffer_unordered(STORE_WRITES_IN_FLIGHT_MAX)
            .try_collect()
            .await
    }

    async fn put_bodies(
        &self,
        bodies: &[(TaskId, Arc<Content>)],
        written: i64,
        ttl_seconds: Option<u32>,
    ) -> Vec<Result<(), Error>> {
        let _timed = self.timed("put_bodies");
        self.write_bodies(bodies, written, ttl_seconds).await
    }

    async fn bodies(&self, ids: &[TaskId]) -> Result<Vec<Option<Content>>, Error> {
        let _timed = self.timed("bodies");
        self.read_bodies(ids).await
    }

    async fn delete_bodies(&self, ids: &[TaskId], written: i64) -> Result<(), Error> {
        let _timed = self.timed("delete_bodies");
        self.remove_bodies(ids, written).await
    }

    async fn park(&self, parked: &Parked) -> Result<(), Error> {
        let _timed = self.timed("park");
        self.set_aside(parked).await
    }

    async fn parked(&self, at: Millis, max: usize) -> Result<Vec<Parked>, Error> {
        let _timed = self.timed("parked");
        self.list_parked(at, max).await
    }
}

impl Store {
    async fn scan_page(&self, purpose: Purpose, scan: &Scan) -> Result<Page, Error> {
        let operation = (purpose, "scan a slot");
        let Scan {
            wheel,
            slot,
            span,
            behind,
            rows_max,
        } = *scan;
        let rows_max = rows_max.max(1);
        let partition = (wheel.get().cast_signed(), slot.0);
        let limit = i32::try_from(rows_max).unwrap_or(i32::MAX);
        // Everything up to the lower bound belongs to another revolution, even when the key to read behind
        // lies there.
        let behind = behind.filter(|key| key.due > span.after);
        let stored: Vec<EntryRow> = if let Some(key) = behind {
            let from = (key.due.0, key.id.uuid(), to_i32(key.generation), key.code.0);
            let values = (
                partition.0,
                partition.1,
                from.0,
                from.1,
                from.2,
                from.3,
                span.through.0,
                limit,
            );
            let statement = &self.statements.scan_behind;
            self.link.rows(operation, statement, values, rows_max).await
        } else {
            let values = (
                partition.0,
                partition.1,
                span.after.0,
                span.through.0,
                limit,
            );
            let statement = &self.statements.scan_from_start;
            self.link.rows(operation, statement, values, rows_max).await
        }?;
        Ok(Page {
            more: stored.len() >= rows_max,
            rows: stored.into_iter().map(|row| row.scanned(wheel)).collect(),
        })
    }

    async fn find(&self, id: TaskId, dues: &[Millis]) -> Result<Vec<Entry>, Error> {
        let mut dues = dues.to_vec();
        dues.sort_unstable();
        dues.dedup();
        let reads = stream::iter(dues).map(|due| {
            let slot = self.shape.slot_of_due(due).0;
            let values = (wheel_column(id), slot, due.0, id.uuid());
            let statement = &self.statements.find_entries;
            self.link.rows::<EntryRow>(
                (Purpose::Search, "find entries"),
                statement,
                values,
                LIST_ROWS_MAX,
            )
        });
        let found: Vec<Vec<EntryRow>> = reads
            .buffered(STORE_READS_IN_FLIGHT_MAX)
            .try_collect()
            .await?;
        let entries = found.into_iter().flatten();
        Ok(entries
            .filter_map(|row| row.scanned(id.wheel()).entry.ok())
            .collect())
    }

    async fn erase_tick(&self, wheel: WheelNumber, erasure: Erasure) -> Result<(), Error> {
        let Erasure {
            tick,
            newest_written,
        } = erasure;
        let span = self.shape.span_of(tick);
        let values = (
            newest_written,
            wheel.get().cast_signed(),
            self.shape.slot_of(tick).0,
            span.after.0,
            span.through.0,
        );
        let statement = &self.statements.erase;
        self.link.write("erase a tick", statement, values).await
    }
}

/// An entry as it is read.
#[derive(DeserializeRow)]
#[scylla(flavor = "enforce_order", skip_name_checks)]
struct EntryRow {
    due_ms: i64,
    id: Uuid,
    generation: i32,
    code: i32,
    written: Option<i64>,
    kind: Option<i8>,
    flags: Option<i8>,
    reason: Option<i8>,
    spills: Option<i32>,
    start_ms: Option<i64>,
    at_ms: Option<i64>,
    moved_ms: Option<i64>,
    spec: Option<Bytes>,
}

impl EntryRow {
    fn scanned(self, wheel: WheelNumber) -> ScannedRow {
        let key = Key {
            due: Millis(self.due_ms),
            id: TaskId::bound(self.id),
            generation: u32::try_from(self.generation).unwrap_or(0),
            code: KeyCode(self.code),
        };
        let written = self.written.unwrap_or(0);
        let columns = EntryColumns {
            kind: self.kind,
            flags: self.flags,
            reason: self.reason,
            spills: self.spills,
            start_ms: self.start_ms,
            at_ms: self.at_ms,
            moved_ms: self.moved_ms,
            spec: self.spec,
        };
        let misplaced = if self.generation < 0 {
            Some(format!("generation {} is negative", self.generation))
        } else if key.wheel() != wheel {
            Some(format!("its task belongs to wheel {}", key.wheel().get()))
        } else {
            None
        };
        let entry = match misplaced {
            None => columns.into_entry(key, written),
            Some(reason) => Err(Unreadable {
                reason,
                newer: false,
                raw: columns.spec.unwrap_or_default(),
            }),
        };
        ScannedRow {
            key,
            written,
            entry,
        }
    }
}

/// An entry as it is written: the columns of `put_entry`, in order. A column that its kind does not use is
/// left unset, never null: a null is a tombstone.
#[derive(SerializeRow)]
#[scylla(flavor = "enforce_order", skip_name_checks)]
pub(super) struct EntryValues {
    wheel: i16,
    slot: i64,
    due_ms: i64,
    id: Uuid,
    generation: i32,
    code: i32,
    kind: Option<i8>,
    flags: Option<i8>,
    reason: MaybeUnset<i8>,
    spills: Option<i32>,
    start_ms: Option<i64>,
    at_ms: MaybeUnset<i64>,
    moved_ms: MaybeUnset<i64>,
    spec: Bytes,
    written: i64,
    ttl: i32,
}

impl PlainRow for EntryValues {
    fn partition(&self) -> (i16, i64) {
        (self.wheel, self.slot)
    }

    fn bytes(&self) -> usize {
        self.spec.len() + 128
    }
}

/// Encodes entries. Neighbours that share a spec share its bytes.
fn entry_rows(entries: &[Entry], shape: &Shape) -> Vec<EntryValues> {
    let mut last: Option<(&Arc<Spec>, Bytes)> = None;
    let mut rows = Vec::with_capacity(entries.len());
    for entry in entries {
        let bytes = match &last {
            Some((spec, bytes)) if Arc::ptr_eq(spec, &entry.spec) => bytes.clone(),
            _ => encode_spec(&entry.spec),
        };
        last = Some((&entry.spec, bytes.clone()));
        rows.push(entry_values(entry, bytes, shape));
    }
    rows
}

fn entry_values(entry: &Entry, spec: Bytes, shape: &Shape) -> EntryValues {
    let columns = EntryColumns::with_spec(entry, Bytes::new());
    EntryValues {
        wheel: wheel_column(entry.key.id),
        slot: entry.key.slot(shape).0,
        due_ms: entry.key.due.0,
        id: entry.key.id.uuid(),
        generation: to_i32(entry.key.generation),
        code: entry.key.code.0,
        kind: columns.kind,
        flags: columns.flags,
        reason: MaybeUnset::from_option(columns.reason),
        spills: columns.spills,
        start_ms: columns.start_ms,
        at_ms: MaybeUnset::from_option(columns.at_ms),
        moved_ms: MaybeUnset::from_option(columns.moved_ms),
        spec,
        written: entry.written,
        ttl: entry_ttl(entry, shape),
    }
}

/// Returns how many seconds an entry lives from its write on: for ever (0) unless it expires.
fn entry_ttl(entry: &Entry, shape: &Shape) -> i32 {
    let written = Millis(entry.written.div_euclid(1000));
    entry_life::expires(entry, shape).map_or(NO_TTL, |at| ttl_seconds(written.until(at), written))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::{entry::DoneReason, ids::TaskId, time::TickLength, wheel::WheelNumber};

    #[test]
    fn an_entry_lives_for_seconds_that_are_counted_from_its_write() {
        let shape = Shape::new(1, TickLength::new(Duration::from_secs(1)).unwrap(), 8).unwrap();
        let id = TaskId::new(Millis(10_500), WheelNumber::from_low_bits(0), 1);
        let spec = crate::store::row::tests::spec();
        let entry = Entry::due(id, 0, 0, Millis(10_500), spec, 1_000_000);
        assert_eq!(entry_ttl(&entry, &shape), 0);
        let days = 2 * 24 * 3600;
        let done = |at: i64| entry.marked_done(DoneReason::Cancelled, Millis(at), at * 1000);
        assert_eq!(entry_ttl(&done(2_000), &shape), 9 + days);
        assert_eq!(entry_ttl(&done(999_000), &shape), days);
    }
}
