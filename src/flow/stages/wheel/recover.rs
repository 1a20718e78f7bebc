//! The recovery publishes due tasks again at the start of a node, for a node that is alone with its store and
//! whose queue is its own memory.
//!
//! Every task that was published and not claimed, and every near task, is gone with the process before. Each
//! has a look in the store. It would be correct, but slow, to wait for the looks. So those that are still to come are
//! read once at start, and due tasks are published again at once. This writes nothing, so a crash in between costs
//! nothing. Looks that came up while there was no process are the wheels', which publish for them. When a task is published
//! twice, because its look comes up meanwhile, the claim refuses it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures_util::future::join_all;
use parking_lot::{Mutex, MutexGuard};
use tokio_util::sync::CancellationToken;

use super::look::{Looker, of_generation, row_action};
use crate::{
    flow::{
        base::{api::Fault, context::Context, entries::watermarks::Watermarks},
        features::{join::waiter::awaits, limit::deadlines::Deadlines},
        life::{
            near::{Near, NearTask},
            send::Sender,
            sending::Sending,
        },
    },
    model::{
        clock::{self, Position},
        decision::{self, Known},
        dispatch::Dispatch,
        entry::{Entry, Key, Kind},
        ids::NodeId,
        row::TaskRow,
        time::Millis,
        undelivered::{self, Action, Stage},
        wheel::{Shape, WheelNumber},
    },
    store::{self, Freshness, ScannedRow, Store, Swapped, Underway},
    time_source::TimeSource,
};

/// Frees the wheels of the process before, which is dead: the caller of this function holds the lock that it
/// held.
///
/// When the clock was ahead in that process, by however little, the writes of this process are stamped behind
/// those of that one. A stamp tells which write is older, and which is not this process's own. Two signs show
/// such a clock: it is behind the last swap of a wheel, or hands are further ahead than any swap by this
/// clock would move them.
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
            // Then the node waits for the wheel's lease to end, and for the store as at any time.
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

/// The recovery of a node at its start. Clones go on where one has stopped.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Recovery {
    pub(in crate::flow) ctx: Arc<Context>,
    pub(in crate::flow) watermarks: Watermarks,
    pub(in crate::flow) looker: Looker,
    pub(in crate::flow) sender: Sender,
    pub(in crate::flow) near: Near,
    pub(in crate::flow) deadlines: Deadlines,
    /// Rows from here on were written by this process.
    pub(in crate::flow) began: i64,
    pub(in crate::flow) progress: Arc<Mutex<Progress>>,
}

/// A process that lives moves its hands more often than this.
const SWAPPED_WITHIN: Duration = Duration::from_secs(10);

/// How far ahead a wheel is closed at most: by the ticks that are read ahead, two with the one that has
/// begun. A wheel that is closed further was closed by a clock with another time.
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
pub(in crate::flow) struct Progress {
    places: BTreeMap<WheelNumber, Place>,
    total: Count,
}

/// How many tasks of a page were published, and how many are held.
#[derive(Debug, Default, Clone, Copy)]
struct Count {
    published: usize,
    held: usize,
}

impl Recovery {
    /// Goes through all wheels once.
    pub(in crate::flow) async fn run(self, underway: Arc<dyn Underway>, stop: CancellationToken) {
        // Before that nothing can be published.
        let cache = self.sender.gatekeeper().callbacks().cache();
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = cache.until_current() => {}
        }
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

    /// Returns how far a wheel has been gone through, and how often that was tried. A try is counted before
    /// it is made, so that a page that panics each time is left to the looks as well.
    fn try_again(&self, wheel: WheelNumber) -> (Place, u32) {
        let mut progress = self.lock();
        let place = progress.places.entry(wheel).or_default();
        place.failures += 1;
        place.ended |= place.failures > FAILURES_MAX + 1;
        (*place, place.failures)
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock()
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
                self.watermarks.learn(wheel, &row);
                *place.fired.insert(row.fired)
            }
        };
        let rows_max = self.ctx.settings.page_rows_max;
        let page = underway.looks(wheel, place.behind, rows_max).await?;
        // A look that has come up is done with, or the wheel comes to it. One that this process has written needs no recovery.
        let due = fired.max(Position::behind(self.ctx.now()));
        let live = |row: &&ScannedRow| row.position() > due && row.written < self.began;
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
        let tasks: Vec<_> = looks.iter().map(|look| of_generation(look)).collect();
        let now = self.ctx.now();
        let known = self.looker.known(&tasks).await?;
        let mut owed = Vec::new();
        for (look, row) in looks.iter().zip(&known.rows) {
            if let Some(error) = known.unreadable.get(&look.key.id) {
                // Its look sets a corrupt row aside, and tries other failures again.
                let action = row_action(error, Stage::Recovery, look);
                tracing::debug!(task = %look.key.id, ?action, "not gone on with: its row cannot be read");
                continue;
            }
            if let Some(row) = row {
                // Its worker could not reach the process while that was away.
                self.deadlines.watch(row, Some(now));
            }
            if awaits(look, row.as_ref()) {
                // The process before may have noted an end, and have let nobody go.
                self.ctx
                    .joins
                    .asked
                    .add(look.key.id, self.ctx.time.moment());
            }
            let heartbeat = known.heartbeats.get(&look.key.id).map(|beat| beat.at);
            owed.extend(self.owed(look, row.as_ref(), heartbeat, now));
        }
        // Contents that are kept apart go the way of near tasks, so that small tasks on later pages do not wait for them.
        let at_hand = |sending: &Sending| sending.spec.content().is_some();
        let (due, later): (Vec<_>, Vec<_>) = self
            .without_entry(owed, fired)
            .await?
            .into_iter()
            .partition(|sending| sending.dispatch.start <= now && at_hand(sending));
        let mut held: usize = later.into_iter().map(|one| self.hold_near(one)).sum();
        let sent = self.sender.send(&due).await;
        let failed = due.iter().zip(&sent);
        let mut gated = Vec::new();
        for (sending, unsent) in failed.filter_map(|(one, sent)| Some((one, sent.as_ref().err()?)))
        {
            let class = sending.spec.target.class();
            let action = undelivered::action(unsent.reason(), Stage::Recovery, class);
            tracing::debug!(task = %sending.dispatch.id, %unsent, ?action, "not gone on with");
            match action {
                Action::Hold => gated.push((sending.clone(), unsent.clone())),
                Action::RetryHere => held += self.hold_near(sending.clone()),
                // Its look stands.
                _ => {}
            }
        }
        self.sender.hold(gated).await;
        let published = sent.iter().filter(|result| result.is_ok()).count();
        Ok(Count { published, held })
    }

    /// Holds a task in the memory of near tasks, if there is room; returns how many that are. Its look stands for it.
    fn hold_near(&self, sending: Sending) -> usize {
        let held = self.near.hold(NearTask::with_look(sending));
        usize::from(held.is_ok())
    }

    /// Returns the publication that a task is owed now; none where its entry or a later look sees to it.
    fn owed(
        &self,
        look: &Entry,
        row: Option<&TaskRow>,
        heartbeat: Option<Millis>,
        now: Millis,
    ) -> Option<Sending> {
        let known = Known {
            row,
            // No heartbeat was heard without a process: a claimed task has its heartbeat timeout from the
            // start on.
            heartbeat: self.ctx.sign_of_life(heartbeat),
        };
        let publish = decision::resume(look, known, now, self.ctx.shape())?;
        let sending = Sending {
            dispatch: Dispatch::asked(look.key.id, &publish),
            spec: Arc::clone(&look.spec),
            // A task that is due may have gone out before.
            first: publish.expected_attempt == 0 && publish.start > now,
            opened: None,
        };
        let (start, wheel) = (sending.dispatch.start, sending.dispatch.id.wheel());
        // In a slot that is still open lies an entry of its own.
        let is_near = self.ctx.tick().tick_of(start) <= self.watermarks.guess(wheel);
        is_near.then_some(sending)
    }

    /// Leaves out what an entry ahead of `fired` stands for: the reader comes to it.
    async fn without_entry(
        &self,
        owed: Vec<Sending>,
        fired: Position,
    ) -> Result<Vec<Sending>, Fault> {
        let looks_up = owed.into_iter().map(|sending| async move {
            let (id, due) = (sending.dispatch.id, sending.dispatch.start);
            if (Position { due, id }) <= fired {
                return Ok(Some(sending));
            }
            let own = |entry: &Entry| {
                let due = matches!(entry.kind, Kind::Due { expected_attempt, .. }
                    if expected_attempt == sending.dispatch.expected_attempt);
                due && entry.key.generation == sending.dispatch.generation
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
        doubles::store::memory::MemoryStore,
        model::time::{Millis, TickLength},
        store::ClockStore as _,
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
