//! The start of a node that is alone with its store, and whose queue is its own memory.
//!
//! Everything that was published and not claimed, and every near task, is gone with the process before; each has a look in
//! the store. Waiting for the looks would be correct and slow: so they are read once at start, and what is due is published
//! again at once. Nothing is written for it, so a crash in between costs nothing, and a task that is published twice because
//! its look comes up meanwhile is refused by the claim.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;

use super::{
    api::Fault,
    context::Context,
    deadlines::Deadlines,
    hand::Hands,
    look::Looker,
    near::{Near, NearTask},
    send::{Sender, Sending},
};
use crate::{
    model::{
        clock::{self, Position},
        entry::{self, Entry, Key, Kind, Known},
        ids::NodeId,
        wheel::{Shape, WheelNumber},
    },
    store::{self, Freshness, ScannedRow, Store, Swapped, Underway},
    time_source::TimeSource,
};

/// Frees the wheels of the process before, which is dead: whoever calls this holds the lock that it held.
///
/// When the clock was ahead in that process, by however little, what this one writes is stamped behind what that one has
/// written: a stamp tells what is older, and what is not this process's own. Seen are a clock that is behind the last swap of
/// a wheel, and hands further ahead than any swap by this clock would move them.
///
/// # Errors
/// When the store cannot be used at all; while it is away, wheels are left to the end of their leases.
pub async fn free_wheels(
    store: &dyn Store,
    shape: &Shape,
    time: &TimeSource,
) -> Result<(), store::Error> {
    for wheel in shape.all_wheels() {
        let row = match store.clock(wheel, Freshness::Serial).await {
            Ok(row) => row,
            // Then its lease is waited for; the node waits for the store as at any time.
            Err(error @ (store::Error::Unavailable { .. } | store::Error::Full { .. })) => {
                tracing::warn!(wheel = wheel.get(), %error, "could not free a wheel at start");
                continue;
            }
            Err(error) => return Err(error),
        };
        let opened = shape.tick().end_of(row.opened);
        let now = time.now();
        if row.wall > now || opened > now.after(ahead_max(shape)) {
            time.stamp_behind(opened.max(row.wall).after(SWAPPED_WITHIN));
        }
        if row.owner == NodeId::NOBODY {
            continue;
        }
        let freed = clock::freed(&row, time.now());
        let swapped = store.swap_clock(wheel, &row, &freed).await;
        if !matches!(swapped, Ok(Swapped::Applied)) {
            tracing::warn!(
                wheel = wheel.get(),
                ?swapped,
                "could not free a wheel at start"
            );
        }
    }
    Ok(())
}

/// What a node publishes again at its start. Clones go on where one has stopped.
#[derive(Debug, Clone)]
pub(super) struct Recovery {
    pub(super) ctx: Arc<Context>,
    pub(super) hands: Hands,
    pub(super) looker: Looker,
    pub(super) sender: Sender,
    pub(super) near: Near,
    pub(super) deadlines: Deadlines,
    /// Rows from here on were written by this process.
    pub(super) began: i64,
    pub(super) progress: Arc<Mutex<Progress>>,
}

/// A process that lives moves its hands more often than this.
const SWAPPED_WITHIN: Duration = Duration::from_secs(10);

/// How far ahead a wheel is closed at most: by the ticks that are read ahead, two with the one that has begun. What is closed
/// further was closed by another time.
fn ahead_max(shape: &Shape) -> Duration {
    let tick_ms = u64::try_from(shape.tick().millis()).unwrap_or(u64::MAX);
    Duration::from_millis(tick_ms) * 3
}

/// How often a page is tried again, and how long after.
const FAILURES_MAX: u32 = 150;
const PAUSE: Duration = Duration::from_millis(200);

/// How far a wheel has been gone through.
#[derive(Debug, Default, Clone, Copy)]
struct Place {
    fired: Option<Position>,
    behind: Option<Key>,
    ended: bool,
    /// How often the page behind was tried in vain.
    failures: u32,
}

/// How far all wheels have been gone through.
#[derive(Debug, Default)]
pub(super) struct Progress {
    places: BTreeMap<WheelNumber, Place>,
    total: Count,
}

/// What became of a page.
#[derive(Debug, Default, Clone, Copy)]
struct Count {
    published: usize,
    held: usize,
}

impl Recovery {
    /// Goes through all wheels once.
    pub(super) async fn run(self, underway: Arc<dyn Underway>, stop: CancellationToken) {
        for wheel in self.ctx.shape().all_wheels() {
            loop {
                let (mut place, tries) = self.try_again(wheel);
                if place.ended || stop.is_cancelled() {
                    break;
                }
                let stepped = self.step(&*underway, wheel, &mut place).await;
                let mut progress = self.lock();
                match stepped {
                    Ok(count) => {
                        place.failures = 0;
                        progress.places.insert(wheel, place);
                        progress.total.published += count.published;
                        progress.total.held += count.held;
                        continue;
                    }
                    Err(fault) if tries > FAILURES_MAX => {
                        let wheel = wheel.get();
                        tracing::warn!(wheel, %fault, "what was under way in a wheel is left to its looks");
                        break;
                    }
                    Err(fault) => {
                        tracing::debug!(%fault, "the looks cannot be read now: trying again");
                    }
                }
                drop(progress);
                self.ctx.time.sleep(PAUSE).await;
            }
        }
        let Count { published, held } = self.lock().total;
        if published + held > 0 {
            tracing::info!(
                published,
                held,
                "went on with what was under way when the process ended"
            );
        }
    }

    /// Returns how far a wheel has been gone through, and how often that was tried. Counted before it is tried: what panics
    /// each time is left to the looks as well.
    fn try_again(&self, wheel: WheelNumber) -> (Place, u32) {
        let mut progress = self.lock();
        let place = progress.places.entry(wheel).or_default();
        place.failures += 1;
        place.ended |= place.failures > FAILURES_MAX + 1;
        (*place, place.failures)
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads one page of looks and publishes what it asks for.
    async fn step(
        &self,
        underway: &dyn Underway,
        wheel: WheelNumber,
        place: &mut Place,
    ) -> Result<Count, Fault> {
        let fired = match place.fired {
            Some(fired) => fired,
            None => {
                let row = underway.clock(wheel, Freshness::Serial).await?;
                self.hands.learn(wheel, &row);
                *place.fired.insert(row.fired)
            }
        };
        let rows_max = self.ctx.settings.page_rows_max;
        let page = underway.looks(wheel, place.behind, rows_max).await?;
        // What has come up is done with, and what this process has written is in its own hands.
        let live = |row: &&ScannedRow| row.position() > fired && row.written < self.began;
        let looks: Vec<&Entry> = page
            .rows
            .iter()
            .filter(live)
            .filter_map(|row| row.entry.as_ref().ok())
            .collect();
        let count = self.resume(&looks, fired).await?;
        let last = page.rows.last().map(|row| row.key);
        (place.behind, place.ended) = (last, last.is_none() || !page.more);
        Ok(count)
    }

    async fn resume(&self, looks: &[&Entry], fired: Position) -> Result<Count, Fault> {
        let ids: Vec<_> = looks.iter().map(|look| look.key.id).collect();
        let now = self.ctx.now();
        let known = self.looker.known(&ids).await?;
        let mut owed = Vec::new();
        for (look, row) in looks.iter().zip(&known.rows) {
            if known.unreadable.contains_key(&look.key.id) {
                // Its look sets it aside when it comes up.
                continue;
            }
            if let Some(row) = row {
                // Its worker could not reach the process while that was away.
                self.deadlines.watch(row, Some(now));
            }
            let heartbeat = known.heartbeats.get(&look.key.id).map(|beat| beat.at);
            let known = Known {
                row: row.as_ref(),
                // Nobody was heard while there was no process: a claimed task has its heartbeat timeout from the start on.
                heartbeat: self.ctx.sign_of_life(heartbeat),
            };
            let Some(publish) = entry::resume(look, known, now, self.ctx.shape()) else {
                continue;
            };
            let sending = Sending {
                id: look.key.id,
                generation: publish.generation,
                expected_attempt: publish.expected_attempt,
                start: publish.start,
                spec: Arc::clone(&look.spec),
                // What is due may have gone out before.
                first: publish.expected_attempt == 0 && publish.start > now,
            };
            let near =
                self.ctx.tick().tick_of(sending.start) <= self.hands.guess(sending.id.wheel());
            // In a slot that is still open lies an entry of its own.
            if near {
                owed.push(sending);
            }
        }
        // Contents that are kept apart go the way of near tasks, so that small tasks on later pages do not wait for them.
        let at_hand = |sending: &Sending| sending.spec.content().is_some();
        let (due, later): (Vec<_>, Vec<_>) = self
            .without_entry(owed, fired)
            .await?
            .into_iter()
            .partition(|sending| sending.start <= now && at_hand(sending));
        let held = later.into_iter().map(|sending| {
            usize::from(self.near.hold(NearTask {
                sending,
                backup: None,
                stands: false,
            }))
        });
        let held = held.sum();
        let sent = self.sender.send(&due).await;
        let published = sent.iter().filter(|result| result.is_ok()).count();
        Ok(Count { published, held })
    }

    /// Leaves out what an entry ahead of `fired` stands for: the reader comes to it.
    async fn without_entry(
        &self,
        owed: Vec<Sending>,
        fired: Position,
    ) -> Result<Vec<Sending>, Fault> {
        let looks_up = owed.into_iter().map(|sending| async move {
            let (id, due) = (sending.id, sending.start);
            if (Position { due, id }) <= fired {
                return Ok(Some(sending));
            }
            let own = |entry: &Entry| {
                let due = matches!(entry.kind, Kind::Due { expected_attempt, .. }
                    if expected_attempt == sending.expected_attempt);
                due && entry.key.generation == sending.generation
            };
            let found = self.ctx.store.find_entries(id, &[due]).await?;
            Ok(if found.iter().any(own) {
                None
            } else {
                Some(sending)
            })
        });
        let found: Result<Vec<_>, store::Error> = join_all(looks_up).await.into_iter().collect();
        Ok(found?.into_iter().flatten().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::time::{Millis, TickLength},
        store::{ClockStore as _, memory::MemoryStore},
    };

    /// Writes as one process does until it dies, and starts the next with a clock that is so much behind; tells whether
    /// what the next writes is stamped behind all that the one before has written.
    async fn is_stamped_behind(set_back_ms: i64) -> bool {
        let shape = Shape::new(1, TickLength::new(Duration::from_secs(1)).unwrap(), 8).unwrap();
        let before = TimeSource::simulated(Millis(1_790_000_000_000), 1);
        let store = MemoryStore::new(shape, before.clone());
        let wheel = WheelNumber::from_low_bits(0);
        let row = store.clock(wheel, Freshness::Serial).await.unwrap();
        let swapped = clock::ClockRow {
            version: row.version + 1,
            opened: shape.tick().last_ended(before.now()).plus(2),
            owner: NodeId(before.random_uuid()),
            wall: before.now(),
            ..row
        };
        store.swap_clock(wheel, &row, &swapped).await.unwrap();
        before.sleep(Duration::from_millis(900)).await;
        let last = before.stamp();
        let after = TimeSource::simulated(Millis(before.now().0 - set_back_ms), 2);
        free_wheels(&*store, &shape, &after).await.unwrap();
        after.stamp() > last
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_was_set_back_by_seconds_stamps_behind_what_was_written_before() {
        for set_back_ms in [1_000, 2_000, 3_500, 12_000, 13_500, 3_600_000] {
            assert!(is_stamped_behind(set_back_ms).await, "{set_back_ms} ms");
        }
        // One that goes right needs no help, and its stamps are its time.
        assert!(is_stamped_behind(-10).await);
    }
}
