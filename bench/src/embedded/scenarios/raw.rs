//! This scenario measures the embedded store alone, for comparison with the service: no HTTP, no wheel, no
//! queue.
//!
//! The library's store is opened in this process on a directory of its own, and gets the rows that the
//! service would write.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use tickwheel::{
    model::{
        entry::Entry,
        ids::TaskId,
        state::{self, Event, Outcome, TaskRow, Transition},
        time::{Millis, Tick, TickLength},
        wheel::{Shape, WheelNumber},
    },
    store::{
        Scan, Swapped, TaskStore as _, WheelStore as _,
        embedded::{Settings, Store},
    },
    time_source::TimeSource,
};
use tokio::task::JoinSet;
use uuid::Uuid;

use super::parts::BATCH_CONNECTIONS;
use crate::{
    check::Check,
    embedded::{Setup, wire::CALLBACK},
    report::Report,
    tasks::{self, Kind},
};

pub(super) const ONE: &str = "raw store, one row a call";
pub(super) const MANY: &str = "raw store, 100 rows a call";
pub(super) const DRAIN: &str = "raw store: read, claim, settle";

/// As many as the program has by default.
const WHEELS: u16 = 4;
const SLOTS: i64 = 100_000_000;
/// Rows that are read or changed at once.
const ROWS_MAX: usize = 1000;

/// A store on a fresh directory, and the common parts of its rows.
#[derive(Clone)]
struct Raw {
    store: Arc<Store>,
    shape: Shape,
    time: TimeSource,
}

impl Raw {
    fn open(setup: &Setup) -> anyhow::Result<Self> {
        let tick = TickLength::new(Duration::from_secs(1)).context("a tick")?;
        let shape = Shape::new(WHEELS, tick, SLOTS).context("a shape")?;
        let settings = Settings::new(setup.fresh(), shape);
        Ok(Self {
            store: Store::open(settings, &setup.time)?,
            shape,
            time: setup.time.clone(),
        })
    }

    /// Returns the row of a new task.
    fn entry(&self, due: Millis) -> Entry {
        let random = self.time.random();
        let wheel = self.shape.wheel_of_hash(random >> 32);
        let id = TaskId::new(due, wheel, random);
        let target = tasks::target(Kind::Callback, CALLBACK);
        let spec = Arc::new(tasks::spec(target, self.time.now()));
        Entry::due(id, 0, 0, due, spec, self.time.stamp()).first_of_generation()
    }

    /// Inserts rows, so many a call, by so many callers; returns how long that took.
    async fn insert(
        &self,
        rows: u64,
        a_call: u64,
        callers: usize,
        from: Millis,
    ) -> anyhow::Result<Duration> {
        let (next, mut inserting) = (Arc::new(AtomicU64::new(0)), JoinSet::new());
        let begun = self.time.moment();
        for _ in 0..callers {
            let (raw, next) = (self.clone(), Arc::clone(&next));
            inserting.spawn(async move {
                loop {
                    let first = next.fetch_add(a_call, Ordering::Relaxed);
                    if first >= rows {
                        return anyhow::Ok(());
                    }
                    let indexes = first..rows.min(first + a_call);
                    let due = |index: u64| from.after(Duration::from_millis(index % 1000));
                    let entries: Vec<Entry> = indexes.map(|index| raw.entry(due(index))).collect();
                    for put in raw.store.put_entries(&entries).await {
                        put?;
                    }
                }
            });
        }
        while let Some(ended) = inserting.join_next().await {
            ended??;
        }
        Ok(self.time.moment().since(begun))
    }

    /// Reads a wheel's tasks of these ticks, claims and settles them. Returns their number.
    async fn drain(&self, wheel: WheelNumber, from: Millis) -> anyhow::Result<u64> {
        let tick = self.shape.tick();
        let (first, last) = (
            tick.tick_of(from),
            tick.tick_of(from.after(Duration::from_secs(1))),
        );
        let mut done = 0;
        for tick in first.0..=last.0 {
            let mut behind = None;
            loop {
                let scan = Scan {
                    wheel,
                    slot: self.shape.slot_of(Tick(tick)),
                    span: self.shape.span_of(Tick(tick)),
                    behind,
                    rows_max: ROWS_MAX,
                };
                let page = self.store.scan(&scan).await?;
                let entries: Result<Vec<Entry>, _> =
                    page.rows.into_iter().map(|row| row.entry).collect();
                let entries = entries.map_err(|row| anyhow::anyhow!("unreadable: {row:?}"))?;
                let claimed = self.swap(&entries, &[], &claim()).await?;
                self.swap(&entries, &claimed, &settle()).await?;
                done += entries.len() as u64;
                behind = entries.last().map(|entry| entry.key).or(behind);
                if !page.more {
                    break;
                }
            }
        }
        Ok(done)
    }

    /// Changes the rows of tasks conditionally. Returns the new rows.
    async fn swap(
        &self,
        entries: &[Entry],
        rows: &[TaskRow],
        event: &Event,
    ) -> anyhow::Result<Vec<TaskRow>> {
        let step = |(index, entry): (usize, &Entry)| {
            let now = entry.key.due.after(Duration::from_secs(1));
            let nonce: Uuid = self.time.random_uuid();
            state::next(
                entry.key.id,
                rows.get(index),
                &entry.spec,
                event.clone(),
                now,
                nonce,
            )
        };
        let steps: Result<Vec<Transition>, _> = entries.iter().enumerate().map(step).collect();
        let steps = steps.map_err(|refusal| anyhow::anyhow!("refused: {refusal:?}"))?;
        for swapped in self.store.swap_tasks(&steps).await {
            if !matches!(swapped?, Swapped::Applied) {
                bail!("a row was not as it was left");
            }
        }
        Ok(steps.into_iter().map(|step| step.row).collect())
    }
}

fn claim() -> Event {
    Event::Claim {
        generation: 0,
        expected_attempt: 0,
        worker: "bench".to_owned(),
        heartbeat: None,
        published: None,
    }
}

fn settle() -> Event {
    Event::Settle {
        attempt: 1,
        outcome: Outcome::Succeeded { result: None },
        answered: None,
        chance: 0,
    }
}

/// Inserts as `register` does: a row a call by as many callers as it has connections, and a hundred a call.
pub(super) async fn insert(setup: &Setup, round: u32, report: &mut Report) -> anyhow::Result<()> {
    for (case, rows, a_call, callers) in [
        (ONE, setup.tasks, 1, setup.connections),
        (MANY, setup.tasks * 5, 100, BATCH_CONNECTIONS),
    ] {
        let raw = Raw::open(setup)?;
        let from = setup.time.now().after(Duration::from_secs(3600));
        let took = raw.insert(rows, a_call, callers, from).await?;
        report.rate(
            case,
            round,
            rows as f64 / took.as_secs_f64(),
            Check::default(),
        );
    }
    Ok(())
}

/// Does the work of the store for as many rows as `burst` has tasks.
pub(super) async fn drain(setup: &Setup, round: u32, report: &mut Report) -> anyhow::Result<()> {
    let raw = Raw::open(setup)?;
    let from = setup.time.now().after(Duration::from_secs(3600));
    raw.insert(setup.tasks, 500, BATCH_CONNECTIONS, from)
        .await?;
    let (begun, mut draining, mut done) = (setup.time.moment(), JoinSet::new(), 0);
    for wheel in raw.shape.all_wheels() {
        let raw = raw.clone();
        draining.spawn(async move { raw.drain(wheel, from).await });
    }
    while let Some(ended) = draining.join_next().await {
        done += ended??;
    }
    let took = setup.time.moment().since(begun);
    ensure!(
        done == setup.tasks,
        "{done} of {} rows were there",
        setup.tasks
    );
    let check = Check {
        tasks: done,
        ..Check::default()
    };
    report.rate(DRAIN, round, done as f64 / took.as_secs_f64(), check);
    Ok(())
}
