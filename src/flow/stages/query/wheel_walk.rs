//! The wheel walk reads the entries of all wheels on for the lister, and makes tasks of those that are the place of one.
//!
//! The entry at which a task is listed is decided in [`crate::model::listing`].

use std::collections::{BTreeMap, HashMap, HashSet};

use futures_util::{StreamExt, TryStreamExt, stream};

use super::{
    filed::States,
    filter::Filter,
    page::{Cursor, Found},
};
use crate::{
    flow::base::{
        api::{Fault, TaskView},
        context::Context,
        read::find::{as_expired, is_hidden, is_told_by, view_of_attempt, view_of_entry},
    },
    limits,
    model::{
        clock::{ClockRow, Position},
        entry::{Entry, Key, Kind},
        ids::TaskId,
        listing::{self, Known, Place},
        state::{State, TaskRow},
        time::Millis,
        wheel::{Span, WheelNumber},
    },
    store::{Freshness, Heartbeat, RangeScan},
};

pub(super) type Clocks = BTreeMap<WheelNumber, ClockRow>;

/// A walk over the wheels, with their hands as they were at its beginning.
pub(super) struct WheelWalk<'a> {
    ctx: &'a Context,
    pub(super) clocks: Clocks,
}

/// The tasks of entries that were read.
pub(super) struct Resolved {
    /// Those that are listed, in order.
    pub(super) tasks: Vec<(Key, TaskView)>,
    /// Those that may be wanted, and whose rows cannot be understood.
    pub(super) unread: Vec<(Key, TaskId)>,
}

impl<'a> WheelWalk<'a> {
    /// Reads the hands of all wheels.
    ///
    /// # Errors
    /// When the store is away.
    pub(super) async fn begin(ctx: &'a Context) -> Result<Self, Fault> {
        let reads = ctx.shape().all_wheels().map(|wheel| async move {
            let row = ctx.store.clock(wheel, Freshness::Quorum).await?;
            Ok::<_, Fault>((wheel, row))
        });
        let clocks = stream::iter(reads)
            .buffer_unordered(limits::LIST_WHEELS_IN_FLIGHT_MAX)
            .try_collect()
            .await?;
        Ok(Self { ctx, clocks })
    }

    /// Reads on in all wheels, and merges what lies before the place that all have reached.
    ///
    /// # Errors
    /// When the store is away.
    pub(super) async fn read(
        &self,
        at: &Cursor,
        found: &mut Found,
    ) -> Result<(Vec<Entry>, Key), Fault> {
        let shape = *self.ctx.shape();
        let wheels = usize::from(shape.wheels());
        let slots_max = (limits::LIST_STEP_SLOTS_MAX / wheels).max(1);
        // Tasks are spread evenly; rows that one wheel reads beyond the others are read again.
        let rows_max = (2 * found.room() / wheels).clamp(16, limits::PAGE_ROWS_MAX);
        // A wheel that lags begins earlier than the others, which have nothing there.
        let begins = |wheel: &WheelNumber| {
            let behind = at.behind.within(*wheel);
            let erased = self.clocks.get(wheel).map(|clock| clock.erased);
            erased.map_or(behind, |erased| {
                behind.max(Key::behind(shape.tick().end_of(erased)))
            })
        };
        let ranges = shape.all_wheels().map(|wheel| RangeScan {
            wheel,
            shape,
            span: Span {
                after: Millis(i64::MIN),
                through: at.through,
            },
            behind: Some(begins(&wheel)),
            rows_max,
            slots_max,
        });
        let store = &self.ctx.store;
        let pages: Vec<_> = stream::iter(ranges)
            .map(|range| async move { store.scan_range(&range).await })
            .buffer_unordered(limits::LIST_WHEELS_IN_FLIGHT_MAX)
            .try_collect()
            .await?;
        let ended = Key::behind(at.through);
        let reached = pages.iter().map(|page| page.reached).min().unwrap_or(ended);
        let rows = pages.into_iter().flat_map(|page| page.rows);
        let mut entries: Vec<Entry> = rows
            .filter(|row| row.key <= reached)
            .filter_map(|row| row.entry.ok())
            .collect();
        entries.sort_unstable_by_key(|entry| entry.key);
        found.slots_left = found.slots_left.saturating_sub(slots_max * wheels);
        found.entries_left = found.entries_left.saturating_sub(entries.len());
        Ok((entries, reached))
    }

    /// Makes tasks of those entries that are the place of one. Those in states that are filed come later.
    ///
    /// # Errors
    /// When the store is away.
    pub(super) async fn resolve(
        &self,
        mut entries: Vec<Entry>,
        filter: &Filter,
        at: &Cursor,
        states: &States,
    ) -> Result<Resolved, Fault> {
        entries.retain(|entry| filter.may_match(entry, at.to));
        let mut ids: Vec<TaskId> = entries
            .iter()
            .filter(|entry| entry.spec.target.is_tracked())
            .map(|entry| entry.key.id)
            .collect();
        ids.sort_unstable();
        ids.dedup();
        let (rows, unreadable) = self.rows(&ids).await?;
        let (unread, entries): (Vec<Entry>, Vec<Entry>) = entries
            .into_iter()
            .partition(|entry| unreadable.contains(&entry.key.id));
        let unread = self.unread(unread, filter, at.to).await?;
        let placed = stream::iter(entries)
            .map(|entry| self.placed(entry, &rows))
            .buffered(limits::STORE_READS_IN_FLIGHT_MAX);
        let placed: Vec<Option<Entry>> = placed.try_collect().await?;
        let placed: Vec<Entry> = placed.into_iter().flatten().collect();
        let beats = self.heartbeats(&placed, &rows).await?;
        let now = self.ctx.now();
        let lists_ended = self.ctx.store.lists_ended_tasks();
        // It comes behind all others, by its row.
        let comes_later = |row: &TaskRow| {
            let by_row = lists_ended && row.state.is_terminal() && is_told_by(row);
            by_row || row.has_ended() && states.has(row.state)
        };
        let view = |entry: Entry| {
            let id = entry.key.id;
            let view = match rows.get(&id) {
                Some(row) if is_hidden(row, now) || comes_later(row) => return None,
                Some(row) => {
                    let (row, moved) = (row.clone(), self.ctx.time.moved_to());
                    view_of_attempt(row, beats.get(&id).cloned(), now, moved)
                }
                None => {
                    let fired = has_fired(&entry, &self.clocks, now);
                    as_expired(view_of_entry(&entry, fired), now)
                }
            };
            Some((entry.key, view))
        };
        let tasks = placed.into_iter().filter_map(view).collect();
        Ok(Resolved { tasks, unread })
    }

    /// Returns where tasks are met whose rows cannot be understood.
    async fn unread(
        &self,
        entries: Vec<Entry>,
        filter: &Filter,
        to: Millis,
    ) -> Result<Vec<(Key, TaskId)>, Fault> {
        let mut unread = Vec::new();
        for entry in entries {
            let (key, id) = (entry.key, entry.key.id);
            let Some(known) = self.known(id).filter(|_| filter.may_be(&entry, to)) else {
                continue;
            };
            let place = listing::place_unread(&entry, &known);
            if self.is_here(id, place).await? {
                unread.push((key, id));
            }
        }
        Ok(unread)
    }

    /// Reads rows. Also returns the tasks whose rows cannot be understood: the list is without them.
    async fn rows(
        &self,
        ids: &[TaskId],
    ) -> Result<(HashMap<TaskId, TaskRow>, HashSet<TaskId>), Fault> {
        let (mut rows, mut unreadable) = (HashMap::with_capacity(ids.len()), HashSet::new());
        if ids.is_empty() {
            return Ok((rows, unreadable));
        }
        let read = self.ctx.store.tasks_each(ids, Freshness::Quorum).await;
        for (id, row) in ids.iter().zip(read) {
            match row {
                Ok(row) => rows.extend(row.map(|row| (*id, row))),
                Err(error) if error.is_of_a_row() => {
                    tracing::debug!(task = %id, %error, "left out of a list");
                    unreadable.insert(*id);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok((rows, unreadable))
    }

    /// Returns the entry if its task is listed there.
    async fn placed(
        &self,
        entry: Entry,
        rows: &HashMap<TaskId, TaskRow>,
    ) -> Result<Option<Entry>, Fault> {
        let id = entry.key.id;
        let Some(known) = self.known(id) else {
            return Ok(None);
        };
        let place = listing::place(&entry, rows.get(&id), &known);
        Ok(self.is_here(id, place).await?.then_some(entry))
    }

    /// Returns the state of the wheel of a task; none where it has none.
    fn known(&self, id: TaskId) -> Option<Known<'_>> {
        Some(Known {
            clock: self.clocks.get(&id.wheel())?,
            shape: self.ctx.shape(),
            now: self.ctx.now(),
        })
    }

    /// Tells whether a task is listed at the entry of which this was decided.
    async fn is_here(&self, id: TaskId, place: Place) -> Result<bool, Fault> {
        Ok(match place {
            Place::Here => true,
            Place::Elsewhere => false,
            Place::Unless(others) => {
                let found = self.ctx.store.find_entries(id, &others.dues()).await?;
                !found.iter().any(|other| others.include(other))
            }
        })
    }

    /// The signs of life of the attempts that run.
    async fn heartbeats(
        &self,
        entries: &[Entry],
        rows: &HashMap<TaskId, TaskRow>,
    ) -> Result<HashMap<TaskId, Heartbeat>, Fault> {
        let running = entries
            .iter()
            .filter_map(|entry| rows.get(&entry.key.id))
            .filter(|row| row.state == State::Claimed);
        let attempts: Vec<(TaskId, u32)> = running.map(|row| (row.id, row.attempt)).collect();
        if attempts.is_empty() {
            return Ok(HashMap::new());
        }
        let mut beats = HashMap::with_capacity(attempts.len());
        for beat in self.ctx.store.heartbeats_each(&attempts).await {
            match beat {
                Ok(beat) => beats.extend(beat.map(|beat| (beat.id, beat))),
                // Its attempt is shown without its progress.
                Err(error) if error.is_of_a_row() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(beats)
    }
}

/// As [`crate::flow::base::read::find::Finder`] tells it, by the hands that were read once.
fn has_fired(entry: &Entry, clocks: &Clocks, now: Millis) -> bool {
    let clock = clocks.get(&entry.key.wheel());
    let behind = clock.is_some_and(|clock| {
        let (due, id) = (entry.key.due, entry.key.id);
        Position { due, id } <= clock.fired
    });
    now >= entry.start && (behind || matches!(entry.kind, Kind::Look { .. }))
}
