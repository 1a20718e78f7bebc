//! The record store keeps small documents that are written on a condition, for the service.
//!
//! Each is a partition of its own, so that conditional writes of different records never wait for each other.

use async_trait::async_trait;
use bytes::Bytes;
use scylla::{DeserializeRow, SerializeRow, value::CqlValue};
use uuid::Uuid;

use super::{
    Store,
    link::{Found, Purpose, Reply, corrupt},
    ttl::{NO_TTL, ttl_seconds},
};
use crate::{
    model::{
        record::{Change, Judged, Name, Record},
        time::Millis,
    },
    store::{
        Error, Freshness, RecordStore, Swapped,
        row::{RecordColumns, Undecodable},
    },
};

/// A state that no record has, so that a comparison with it holds for every record.
const NO_STATE: i8 = 0;

/// An end that no record has.
const NO_END: i64 = i64::MIN;

#[async_trait]
impl RecordStore for Store {
    async fn record(&self, name: &Name, freshness: Freshness) -> Result<Option<Record>, Error> {
        let operation = "read a record";
        let (statement, timed) = match freshness {
            Freshness::Quorum => (&self.statements.record, "record"),
            Freshness::Serial => (&self.statements.record_serial, "record_serial"),
        };
        let _timed = self.timed(timed);
        let key = (name.kind().number(), name.key());
        let rows: Vec<StoredRecord> = self
            .link
            .rows((Purpose::Rows, operation), statement, key, 1)
            .await?;
        let columns = rows.into_iter().next().map(StoredRecord::columns);
        columns.map_or(Ok(None), |columns| decoded(operation, name, columns))
    }

    async fn swap_record(&self, change: &Change) -> Result<Swapped<Option<Record>>, Error> {
        let operation = "swap a record";
        let _timed = self.timed("swap_record");
        let name = &change.record().name;
        let values = SwapValues::of(change, self.time.now());
        let statement = &self.statements.swap_record;
        match self.link.swap(operation, statement, values).await? {
            Reply::Applied => Ok(Swapped::Applied),
            Reply::Unknown => Ok(Swapped::Unknown),
            Reply::Refused(found) => {
                let columns = found.first().map(found_columns).unwrap_or_default();
                let there = decoded(operation, name, columns)?;
                Ok(match change.judge(there.as_ref().map(Record::seen)) {
                    Judged::Mine => Swapped::Applied,
                    // The server refused it, whatever it says is there.
                    Judged::Conflict | Judged::Holds => Swapped::Conflict(there),
                })
            }
        }
    }
}

/// Reads a record from its columns. A record of which every column is missing is not there.
fn decoded(
    operation: &'static str,
    name: &Name,
    columns: RecordColumns,
) -> Result<Option<Record>, Error> {
    if columns == RecordColumns::default() {
        return Ok(None);
    }
    let unreadable = |cause: Undecodable| {
        let reason = format!("{name}: {cause}");
        if cause.is_newer() {
            return Error::Newer { operation, reason };
        }
        corrupt(operation, &reason)
    };
    let record = columns.into_record(name.clone());
    record.map(Some).map_err(unreadable)
}

/// The values of `swap_record`, in order.
#[derive(SerializeRow)]
#[scylla(flavor = "enforce_order", skip_name_checks)]
struct SwapValues<'a> {
    ttl: i32,
    version: i64,
    nonce: Uuid,
    state: Option<i8>,
    value: Option<Bytes>,
    expires_ms: Option<i64>,
    kind: i8,
    key: &'a str,
    if_version: Option<i64>,
    if_nonce: Option<Uuid>,
    unless_state: i8,
    unless_value: Bytes,
    unless_expires_ms: i64,
}

impl<'a> SwapValues<'a> {
    fn of(change: &'a Change, now: Millis) -> Self {
        let (record, expect) = (change.record(), change.expect());
        let columns = RecordColumns::of(record);
        let ttl = |expires: Millis| ttl_seconds(now.until(expires), now);
        Self {
            ttl: record.expires.map_or(NO_TTL, ttl),
            version: record.version.0,
            nonce: record.nonce,
            state: columns.state,
            value: columns.value,
            expires_ms: columns.expires_ms,
            kind: record.name.kind().number(),
            key: record.name.key(),
            if_version: expect.map(|seen| seen.version.0),
            if_nonce: expect.map(|seen| seen.nonce),
            unless_state: NO_STATE,
            // No value is the random name of this write.
            unless_value: Bytes::copy_from_slice(record.nonce.as_bytes()),
            unless_expires_ms: NO_END,
        }
    }
}

/// A record as it is read.
#[derive(DeserializeRow)]
#[scylla(flavor = "enforce_order", skip_name_checks)]
struct StoredRecord {
    version: Option<i64>,
    nonce: Option<Uuid>,
    state: Option<i8>,
    value: Option<Bytes>,
    expires_ms: Option<i64>,
}

impl StoredRecord {
    fn columns(self) -> RecordColumns {
        RecordColumns {
            version: self.version,
            nonce: self.nonce,
            state: self.state,
            value: self.value,
            expires_ms: self.expires_ms,
        }
    }
}

fn found_columns(found: &Found) -> RecordColumns {
    let value = found.get("value").and_then(CqlValue::as_blob);
    RecordColumns {
        version: found.get("version").and_then(CqlValue::as_bigint),
        nonce: found.get("nonce").and_then(CqlValue::as_uuid),
        state: found.get("state").and_then(CqlValue::as_tinyint),
        value: value.map(|value| Bytes::copy_from_slice(value)),
        expires_ms: found.get("expires_ms").and_then(CqlValue::as_bigint),
    }
}
