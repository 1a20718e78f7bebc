//! The wheel store keeps entries, contents and rows that were set aside for the service on one machine.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use fjall::Slice;

use super::{
    Store,
    disk::database::{Open, Space},
    erased,
    faults::fault,
    key,
    reading::range_read,
    tasks::INLINE_READS_MAX,
    value,
    writing::command::{Act, Newest, Write},
};
use crate::{
    model::{
        entry::{Entry, Key, KeyCode, Kind},
        ids::TaskId,
        task::{Content, Spec},
        time::Millis,
        wheel::{Span, WheelNumber},
    },
    schema,
    store::{Erasure, Error, Page, Parked, RangePage, RangeScan, Scan, WheelStore},
};

/// Large reads at once: one runs while the writer works for another. Their rows are written in small groups,
/// and other requests come in between.
const READS_AT_ONCE: usize = 2;

/// The number of due times up to which entries are searched on the caller's thread. More are searched where
/// they delay no task: each begins two ranges, which costs 10 us and more even where no row lies.
const FIND_INLINE_MAX: usize = 4;

/// Length of the days by which rows that were set aside are listed.
const DAY_MS: i64 = 86_400_000;

/// Returns the keyspace that a row of the wheel lies in.
const fn space_of(key: &Key) -> Space {
    if key.code.0 == KeyCode::LOOK.0 {
        Space::Look
    } else {
        Space::Due
    }
}

/// Tells whether an entry is a new task, not yet acknowledged. All others serve tasks that are there already,
/// including one that is moved further on.
const fn is_new(entry: &Entry) -> bool {
    let first = matches!(entry.kind, Kind::Due { first: true, .. });
    first && entry.key.generation == 0 && entry.spills == 0
}

fn no_answer(operation: &'static str) -> Error {
    Error::Unavailable {
        operation,
        reason: "the disk did not answer in time".to_owned(),
    }
}

impl Store {
    /// Asks for a plain write and waits until it is done.
    pub(super) async fn done(
        &self,
        operation: &'static str,
        bytes: usize,
        act: impl FnOnce(super::writing::command::DoneAnswer) -> Act + Send,
    ) -> Result<(), Error> {
        let answer = self.pen.ask(bytes, act).await?;
        answer.unwrap_or_else(|| Err(no_answer(operation)))
    }

    async fn put(&self, operation: &'static str, writes: Vec<Write>) -> Result<(), Error> {
        if writes.is_empty() {
            return Ok(());
        }
        let bytes = writes
            .iter()
            .map(|w| bytes_of(&w.key, w.value.as_ref()))
            .sum();
        self.done(operation, bytes, |answer| Act::Put { writes, answer })
            .await
    }

    async fn put_newest(&self, operation: &'static str, writes: Vec<Newest>) -> Result<(), Error> {
        if writes.is_empty() {
            return Ok(());
        }
        let bytes = writes
            .iter()
            .map(|w| bytes_of(&w.key, w.value.as_ref()))
            .sum();
        // A caller repeats a deletion when it finds that it did not happen.
        let synced = writes.iter().any(|write| write.value.is_some());
        self.done(operation, bytes, |answer| Act::PutNewest {
            writes,
            synced,
            answer,
        })
        .await
    }
}

/// Returns the bytes that a write takes in the queue to the writer.
fn bytes_of(key: &Slice, value: Option<&Slice>) -> usize {
    key.len() + value.map_or(0, |value| value.len())
}

/// Reads a content. One that has expired is absent.
fn body(open: &Open, id: TaskId, now: Millis) -> Result<Option<Content>, Error> {
    let operation = "read bodies";
    let found = open
        .get(Space::Body, &key::body(id))
        .map_err(|cause| fault(operation, &cause))?;
    let live = found.filter(|found| value::is_live(found, open.expired_by(now)));
    let decode = |found: Slice| {
        let content = value::parse_newest(&found).map(|(_, content)| content);
        schema::decode_content(content.unwrap_or_default()).map_err(|cause| Error::Corrupt {
            operation,
            reason: cause.to_string(),
        })
    };
    live.map(decode).transpose()
}

/// Encodes entries. Neighbours of one task share their spec.
fn encoded(entries: &[Entry]) -> Vec<Write> {
    let mut last: Option<(&Arc<Spec>, Bytes)> = None;
    let mut writes = Vec::with_capacity(entries.len());
    for entry in entries {
        let bytes = match last.take() {
            Some((known, bytes)) if Arc::ptr_eq(known, &entry.spec) => bytes,
            Some(_) | None => schema::encode_short(&entry.spec),
        };
        last = Some((&entry.spec, bytes.clone()));
        writes.push(Write {
            space: space_of(&entry.key),
            key: key::version(&entry.key, entry.written),
            value: Some(value::entry(entry, bytes)),
        });
    }
    writes
}

#[async_trait]
impl WheelStore for Store {
    async fn put_entries(&self, entries: &[Entry]) -> Vec<Result<(), Error>> {
        let full = self.shared.room.for_new().err();
        let Some(full) = full.filter(|_| entries.iter().any(is_new)) else {
            return vec![self.put("put entries", encoded(entries)).await; entries.len()];
        };
        let old: Vec<Entry> = entries
            .iter()
            .filter(|entry| !is_new(entry))
            .cloned()
            .collect();
        let put = self.put("put entries", encoded(&old)).await;
        let answer = |entry| {
            if is_new(entry) {
                Err(full.clone())
            } else {
                put.clone()
            }
        };
        entries.iter().map(answer).collect()
    }

    async fn scan(&self, scan: &Scan) -> Result<Page, Error> {
        let scan = *scan;
        self.read(move |open| range_read::scan(open, &scan)).await
    }

    async fn scan_range(&self, range: &RangeScan) -> Result<RangePage, Error> {
        // One ordered read: time in which nothing is due costs nothing, however long. Rows of other wheels
        // are passed over. A bound is no entry's key, since it belongs to no wheel.
        let from = range.from();
        let is_bound = from == Key::behind(from.due);
        let after = if is_bound { from.due } else { range.span.after };
        let scan = Scan {
            wheel: range.wheel,
            slot: range
                .shape
                .slot_of(range.shape.tick().tick_of(range.span.through)),
            span: Span {
                after,
                ..range.span
            },
            behind: Some(from).filter(|_| !is_bound),
            rows_max: range.rows_max.max(1),
        };
        let page = self.scan(&scan).await?;
        let reached = match page.rows.last() {
            Some(last) if page.more => last.key,
            Some(_) | None => Key::behind(range.span.through),
        };
        let reached = reached.max(from);
        Ok(RangePage {
            rows: page.rows,
            reached,
        })
    }

    async fn find_entries(&self, id: TaskId, dues: &[Millis]) -> Result<Vec<Entry>, Error> {
        if dues.len() <= FIND_INLINE_MAX {
            return range_read::find(&*self.shared.open()?, id, dues);
        }
        let dues = dues.to_vec();
        self.read(move |open| range_read::find(open, id, &dues))
            .await
    }

    async fn entries_at(&self, places: &[(TaskId, Millis)]) -> Vec<Result<Vec<Entry>, Error>> {
        let found = if places.len() <= INLINE_READS_MAX {
            self.shared
                .open()
                .map(|open| range_read::find_starts(&open, places))
        } else {
            let owned = places.to_vec();
            self.read(move |open| Ok(range_read::find_starts(open, &owned)))
                .await
        };
        found.unwrap_or_else(|error| vec![Err(error); places.len()])
    }

    fn reads_at_once(&self) -> Option<usize> {
        Some(READS_AT_ONCE)
    }

    fn removes_leftovers(&self) -> bool {
        true
    }

    async fn erase(&self, wheel: WheelNumber, ticks: &[Erasure]) -> Result<(), Error> {
        erased::hide(&*self.shared.open()?, wheel, ticks)
    }

    async fn put_bodies(
        &self,
        bodies: &[(TaskId, Arc<Content>)],
        written: i64,
        ttl_seconds: Option<u32>,
    ) -> Vec<Result<(), Error>> {
        // A content that lives for ever belongs to a task to come; one with an end belongs to a task that has
        // ended.
        if let (Err(full), None) = (self.shared.room.for_new(), ttl_seconds) {
            return vec![Err(full); bodies.len()];
        }
        let end = |ttl: u32| {
            self.shared
                .time
                .now()
                .after(Duration::from_secs(u64::from(ttl)))
        };
        let expires = ttl_seconds.map_or(value::NEVER, end);
        let write = |(id, content): &(TaskId, Arc<Content>)| Newest {
            space: Space::Body,
            key: key::body(*id),
            written,
            value: Some(value::body(content, written, expires)),
        };
        let put = self
            .put_newest("put bodies", bodies.iter().map(write).collect())
            .await;
        vec![put; bodies.len()]
    }

    async fn bodies(&self, ids: &[TaskId]) -> Result<Vec<Option<Content>>, Error> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let now = self.shared.time.now();
        let ids = ids.to_vec();
        // Each content may be a MiB, and on the disk.
        self.read(move |open| ids.iter().map(|id| body(open, *id, now)).collect())
            .await
    }

    async fn delete_bodies(&self, ids: &[TaskId], written: i64) -> Result<(), Error> {
        let delete = |id: &TaskId| Newest {
            space: Space::Body,
            key: key::body(*id),
            written,
            value: None,
        };
        self.put_newest("delete bodies", ids.iter().map(delete).collect())
            .await
    }

    async fn park(&self, parked: &Parked) -> Result<(), Error> {
        let write = Write {
            space: Space::Clock,
            key: key::parked(parked.at, &parked.key),
            value: Some(value::parked(parked)),
        };
        self.put("park", vec![write]).await
    }

    async fn let_in(&self, tasks: usize) -> Result<(), Error> {
        let time = &self.shared.time;
        if let Some(until) = self.shared.brake.hold(tasks, time.moment()) {
            metrics::counter!("tickwheel_store_braked_total").increment(tasks as u64);
            time.sleep_until(until).await;
        }
        self.shared.room.for_new()
    }

    async fn parked(&self, at: Millis, max: usize) -> Result<Vec<Parked>, Error> {
        let day = at.0.div_euclid(DAY_MS);
        let from = key::parked_from(Millis(day.saturating_mul(DAY_MS)));
        let to = key::parked_from(Millis((day + 1).saturating_mul(DAY_MS)));
        self.read(move |open| {
            let rows = open.space(Space::Clock).range(from..to).take(max);
            let read = |row: fjall::Guard| {
                let (key, value) = row
                    .into_inner()
                    .map_err(|cause| fault("list what was set aside", &cause))?;
                let parsed = key::parse_parked(&key);
                let parked = parsed.and_then(|(at, key)| value::parse_parked(at, key, &value));
                parked.ok_or_else(|| Error::Corrupt {
                    operation: "list what was set aside",
                    reason: format!("the row at {key:x?}"),
                })
            };
            rows.map(read).collect()
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use crate::{
        store::embedded::{Mode, Settings, tests::shape},
        time_source::TimeSource,
    };

    #[test]
    fn what_takes_long_is_read_where_it_holds_nobody_up() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .max_blocking_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let directory = tempfile::tempdir().unwrap();
        let settings = Settings::new(directory.path(), shape(1));
        let store = Store::open(settings, &TimeSource::real()).unwrap();
        let id = TaskId::new(Millis(1_790_000_000_000), WheelNumber::from_low_bits(0), 7);
        let dues: Vec<Millis> = (0..40).map(|second| Millis(second * 1000)).collect();
        runtime.block_on(async {
            // While the one thread for long reads is taken, only reads by the caller itself are answered.
            let (free, taken) = std::sync::mpsc::channel::<()>();
            let taking = tokio::task::spawn_blocking(move || taken.recv().ok());
            let few = store.find_entries(id, &dues[..2]).now_or_never();
            assert!(few.is_some_and(|found| found.unwrap().is_empty()));
            assert!(store.find_entries(id, &dues).now_or_never().is_none());
            assert!(store.bodies(&[id]).now_or_never().is_none());
            drop(free);
            taking.await.unwrap();
            assert_eq!(store.find_entries(id, &dues).await.unwrap(), []);
            assert_eq!(store.bodies(&[id, id]).await.unwrap(), [None, None]);
        });
    }

    #[tokio::test(start_paused = true)]
    async fn new_tasks_wait_while_merges_do_not_keep_up() {
        let directory = tempfile::tempdir().unwrap();
        let time = TimeSource::simulated(Millis(1_790_000_000_000), 1);
        let settings = Settings {
            mode: Mode::Inline,
            ..Settings::new(directory.path(), shape(1))
        };
        let store = Store::open(settings, &time).unwrap();
        let waited = async || {
            let started = time.moment();
            store.let_in(100).await.unwrap();
            time.moment().since(started)
        };
        assert_eq!(waited().await, Duration::ZERO);
        store.shared.brake.press(100);
        assert_eq!(waited().await, Duration::from_millis(128));
        store.shared.brake.press(0);
        assert_eq!(waited().await, Duration::ZERO);
    }
}
