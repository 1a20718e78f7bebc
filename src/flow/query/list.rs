//! The lister lists tasks for clients by a walk over the slots of all wheels. No index is kept, so it finds
//! only tasks that still have an entry.
//!
//! Promised: a task that does not move while the pages are read is listed exactly once, with the state of its
//! row. A page is in order of start time. Tasks that wait for their start are in that order over all pages.
//! Tasks that have started come in the order of their next looks. Ended and published tasks are listed until
//! their entries are erased, some ten minutes later. A task that moves between two pages may be listed twice
//! or not at all.
//!
//! A store that keeps its rows in order lists an ended task for as long as its id can be read, behind all
//! others and in the order of first starts. It also lists all waiting tasks, however far ahead. Published
//! records have no rows: they are listed as above.
//!
//! One request reads a bounded number of slots and entries and answers with what it has found. This may be
//! nothing where slots lie apart, or after [`limits::LIST_TIME_MAX`]. The next page goes on where it stopped.
//! The entry at which a task is listed is decided in [`crate::model::listing`].

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use futures_util::{StreamExt, TryStreamExt, stream};
use uuid::Uuid;

use super::{
    find::{is_hidden, is_told_by, view_of_attempt, view_of_entry, view_of_row},
    places::Places,
};
use crate::{
    flow::{
        api::{Fault, TaskView, VisibleState},
        context::Context,
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

/// Which tasks are wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    /// Those of this callback.
    pub callback: Option<String>,
    /// Those in this state.
    pub state: Option<VisibleState>,
    /// Those that start at or after this; none: however long ago.
    pub from: Option<Millis>,
    /// Those that start before this; none: all, or within [`limits::LIST_HORIZON`] where slots lie apart.
    pub to: Option<Millis>,
    /// Only those that have not ended: a list that leaves the others out does not walk over them.
    pub pending: bool,
}

impl Filter {
    /// Tells whether only tasks are wanted that have ended, and have a row that says so.
    fn wants_ended_only(&self) -> bool {
        let of_row = |state: VisibleState| state.is_terminal() && state != VisibleState::Published;
        !self.pending && self.state.is_some_and(of_row)
    }

    /// Tells whether tasks that have ended are wanted among others, or alone.
    fn wants_ended(&self) -> bool {
        !self.pending && (self.state.is_none() || self.wants_ended_only())
    }
}

/// Where a walk stands: all that the next request needs beside the filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// Everything up to this key has been listed.
    pub behind: Key,
    /// The walk ends behind what is due at this instant.
    pub through: Millis,
    /// Only tasks that start before this are listed.
    pub to: Millis,
    /// The walk is among the rows of tasks that have ended, behind this id.
    pub ended: Option<TaskId>,
}

/// A page of a list.
#[derive(Debug, Clone)]
pub struct TaskPage {
    /// Tasks, without content, by start time.
    pub tasks: Vec<TaskView>,
    /// Where the next page begins; none: this is the last.
    pub next: Option<Cursor>,
    /// Only tasks that start before this are listed.
    pub to: Millis,
}

/// The lister.
#[derive(Debug)]
pub(in crate::flow) struct Lister {
    ctx: Arc<Context>,
    places: Places,
}

type Clocks = BTreeMap<WheelNumber, ClockRow>;

/// The result of one request so far, and how much more it may do.
struct Found {
    tasks: Vec<TaskView>,
    ids: HashSet<TaskId>,
    tasks_max: usize,
    slots_left: usize,
    entries_left: usize,
    /// It goes on beyond these bounds while it has found nothing: reading on costs no more than the next request would.
    goes_on: bool,
}

impl Lister {
    /// Reads through this.
    #[must_use]
    pub(in crate::flow) fn new(ctx: Arc<Context>) -> Self {
        let at_once = limits::LISTS_IN_FLIGHT_MAX;
        let places = Places::new(ctx.time.clone(), at_once, "lists");
        Self { ctx, places }
    }

    /// Lists one page of at most `tasks_max` tasks, from the beginning or from where an earlier page ended.
    ///
    /// # Errors
    /// When the store cannot be read, or too many lists are read already.
    pub(in crate::flow) async fn list(
        &self,
        filter: &Filter,
        cursor: Option<Cursor>,
        tasks_max: usize,
    ) -> Result<TaskPage, Fault> {
        let _place = self.places.enter().await?;
        let clocks = self.clocks().await?;
        let lists_ended = self.ctx.store.lists_ended_tasks();
        let begins = cursor.unwrap_or_else(|| self.beginning(filter, &clocks));
        let end = self.ctx.time.moment().after(limits::LIST_TIME_MAX);
        let mut found = Found {
            tasks: Vec::new(),
            ids: HashSet::new(),
            tasks_max,
            slots_left: limits::LIST_SLOTS_MAX,
            entries_left: limits::LIST_ENTRIES_MAX,
            goes_on: lists_ended,
        };
        let (to, mut next) = (begins.to, Some(begins));
        while let Some(at) = next
            && found.wants_more()
            && self.ctx.time.moment() < end
        {
            next = match at.ended {
                Some(behind) => {
                    let behind = self.ended(behind, filter, &at, &mut found).await?;
                    behind.map(|ended| Cursor {
                        ended: Some(ended),
                        ..at
                    })
                }
                None => {
                    let at = self.waiting(filter, at, &clocks, &mut found).await?;
                    at.next(lists_ended && filter.wants_ended())
                }
            };
        }
        found
            .tasks
            .sort_unstable_by_key(|task| (task.start, task.id));
        Ok(TaskPage {
            tasks: found.tasks,
            next,
            to,
        })
    }

    /// Lists what lies in the wheels from here on; returns where that stopped.
    async fn waiting(
        &self,
        filter: &Filter,
        mut at: Cursor,
        clocks: &Clocks,
        found: &mut Found,
    ) -> Result<Cursor, Fault> {
        let (entries, reached) = self.read(&at, clocks, found).await?;
        let resolved = self.resolve(entries, filter, &at, clocks).await?;
        at.behind = found.take(resolved, filter, at.to).unwrap_or(reached);
        Ok(at)
    }

    /// Lists tasks that have ended from here on; returns where that stopped, none at the end.
    async fn ended(
        &self,
        behind: TaskId,
        filter: &Filter,
        at: &Cursor,
        found: &mut Found,
    ) -> Result<Option<TaskId>, Fault> {
        let store = &self.ctx.store;
        let page = store.ended_tasks(behind, limits::PAGE_ROWS_MAX).await?;
        found.entries_left = found.entries_left.saturating_sub(limits::PAGE_ROWS_MAX);
        let now = self.ctx.now();
        for row in page.rows {
            let is_of_callback = filter
                .callback
                .as_deref()
                .is_none_or(|name| row.detail.spec.callback() == Some(name));
            if !is_of_callback || !is_told_by(&row) || is_hidden(&row, now) {
                continue;
            }
            let id = row.id;
            if found.add(view_of_row(row, None, now), filter, at.to) {
                return Ok(Some(id));
            }
        }
        Ok(page.reached)
    }

    /// The hands of all wheels.
    async fn clocks(&self) -> Result<Clocks, Fault> {
        let reads = self.ctx.shape().all_wheels().map(|wheel| async move {
            let row = self.ctx.store.clock(wheel, Freshness::Quorum).await?;
            Ok::<_, Fault>((wheel, row))
        });
        stream::iter(reads)
            .buffer_unordered(limits::LIST_WHEELS_IN_FLIGHT_MAX)
            .try_collect()
            .await
    }

    /// Returns where a walk begins and ends. No entry lies before its task's start, nor before the `erased`
    /// hand. Entries of started tasks lie ahead of now.
    fn beginning(&self, filter: &Filter, clocks: &Clocks) -> Cursor {
        let (tick, now) = (self.ctx.tick(), self.ctx.now());
        let erased = clocks.values().map(|clock| tick.end_of(clock.erased)).min();
        let erased = erased.unwrap_or(now);
        let from = filter.from.map(|from| Millis(from.0.saturating_sub(1)));
        let lists_ended = self.ctx.store.lists_ended_tasks();
        let to = filter.to.unwrap_or_else(|| {
            if lists_ended {
                return Millis(Millis::MAX.0 + 1);
            }
            let from = filter.from.map_or(now, |from| from.max(now));
            from.after(limits::LIST_HORIZON)
        });
        let may_have_started = tick.end_of(self.ctx.opened_by_now().plus(1));
        let started = filter.from.is_none_or(|from| from <= may_have_started);
        let ahead = now.after(limits::LIST_STARTED_AHEAD);
        let last = Millis(to.0.saturating_sub(1));
        Cursor {
            behind: Key::behind(from.map_or(erased, |from| from.max(erased))),
            through: if started { last.max(ahead) } else { last },
            to,
            ended: (lists_ended && filter.wants_ended_only()).then(before_all),
        }
    }

    /// Reads on in all wheels, and merges what lies before the place that all have reached.
    async fn read(
        &self,
        at: &Cursor,
        clocks: &Clocks,
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
            let erased = clocks.get(wheel).map(|clock| clock.erased);
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

    /// Makes tasks of those entries that are the place of one, in order.
    async fn resolve(
        &self,
        mut entries: Vec<Entry>,
        filter: &Filter,
        at: &Cursor,
        clocks: &Clocks,
    ) -> Result<Vec<(Key, TaskView)>, Fault> {
        entries.retain(|entry| may_match(entry, filter, at.to));
        let mut ids: Vec<TaskId> = entries
            .iter()
            .filter(|entry| entry.spec.target.is_tracked())
            .map(|entry| entry.key.id)
            .collect();
        ids.sort_unstable();
        ids.dedup();
        let rows = self.rows(&ids).await?;
        let placed = stream::iter(entries)
            .map(|entry| self.placed(entry, &rows, clocks))
            .buffered(limits::STORE_READS_IN_FLIGHT_MAX);
        let placed: Vec<Option<Entry>> = placed.try_collect().await?;
        let placed: Vec<Entry> = placed.into_iter().flatten().collect();
        let beats = self.heartbeats(&placed, &rows).await?;
        let now = self.ctx.now();
        let lists_ended = self.ctx.store.lists_ended_tasks();
        // It comes behind all others, by its row.
        let comes_later = |row: &TaskRow| lists_ended && row.state.is_terminal() && is_told_by(row);
        let view = |entry: Entry| {
            let id = entry.key.id;
            let view = match rows.get(&id) {
                Some(row) if is_hidden(row, now) || comes_later(row) => return None,
                Some(row) => view_of_attempt(row.clone(), beats.get(&id).cloned(), now),
                None => view_of_entry(&entry, has_fired(&entry, clocks, now)),
            };
            Some((entry.key, view))
        };
        Ok(placed.into_iter().filter_map(view).collect())
    }

    async fn rows(&self, ids: &[TaskId]) -> Result<HashMap<TaskId, TaskRow>, Fault> {
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let rows = self.ctx.store.tasks(ids, Freshness::Quorum).await?;
        Ok(rows
            .into_iter()
            .flatten()
            .map(|row| (row.id, row))
            .collect())
    }

    /// Returns the entry if its task is listed there.
    async fn placed(
        &self,
        entry: Entry,
        rows: &HashMap<TaskId, TaskRow>,
        clocks: &Clocks,
    ) -> Result<Option<Entry>, Fault> {
        let id = entry.key.id;
        let Some(clock) = clocks.get(&id.wheel()) else {
            return Ok(None);
        };
        let known = Known {
            clock,
            shape: self.ctx.shape(),
            now: self.ctx.now(),
        };
        match listing::place(&entry, rows.get(&id), &known) {
            Place::Here => Ok(Some(entry)),
            Place::Elsewhere => Ok(None),
            Place::Unless(others) => {
                let found = self.ctx.store.find_entries(id, &others.dues()).await?;
                let elsewhere = found.iter().any(|other| others.include(other));
                Ok((!elsewhere).then_some(entry))
            }
        }
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
        let beats = self.ctx.store.heartbeats(&attempts).await?;
        Ok(beats
            .into_iter()
            .flatten()
            .map(|beat| (beat.id, beat))
            .collect())
    }
}

impl Cursor {
    /// Returns where the walk goes on behind this place in the wheels; none at the end.
    fn next(self, lists_ended: bool) -> Option<Self> {
        if self.behind < Key::behind(self.through) {
            return Some(self);
        }
        lists_ended.then(|| Self {
            ended: Some(before_all()),
            ..self
        })
    }
}

/// Before the ids of all tasks.
const fn before_all() -> TaskId {
    TaskId::bound(Uuid::nil())
}

impl Found {
    fn wants_more(&self) -> bool {
        let is_within = self.slots_left > 0 && self.entries_left > 0;
        self.room() > 0 && (is_within || (self.goes_on && self.tasks.is_empty()))
    }

    fn room(&self) -> usize {
        self.tasks_max.saturating_sub(self.tasks.len())
    }

    /// Takes the tasks that are wanted; when the page is full, returns the key of the last.
    fn take(&mut self, resolved: Vec<(Key, TaskView)>, filter: &Filter, to: Millis) -> Option<Key> {
        let mut resolved = resolved.into_iter();
        resolved.find_map(|(key, task)| self.add(task, filter, to).then_some(key))
    }

    /// Takes a task if it is wanted; tells whether the page is full by it.
    fn add(&mut self, task: TaskView, filter: &Filter, to: Millis) -> bool {
        if !matches(&task, filter, to) || !self.ids.insert(task.id) {
            return false;
        }
        self.tasks.push(task);
        self.room() == 0
    }
}

/// Tells, before any other read, whether an entry can be the place of a wanted task. Only a due entry says
/// for certain when its task starts: an entry that lies elsewhere is not its place.
fn may_match(entry: &Entry, filter: &Filter, to: Millis) -> bool {
    let of_callback = filter
        .callback
        .as_deref()
        .is_none_or(|name| entry.spec.callback() == Some(name));
    let certain = !matches!(entry.kind, Kind::Look { .. });
    of_callback && (!certain || in_range(entry.start, filter, to))
}

fn matches(task: &TaskView, filter: &Filter, to: Millis) -> bool {
    let in_state = filter.state.is_none_or(|state| task.state == state);
    let ended = filter.pending && task.state.is_terminal();
    in_state && !ended && in_range(task.start, filter, to)
}

fn in_range(start: Millis, filter: &Filter, to: Millis) -> bool {
    filter.from.is_none_or(|from| start >= from) && start < to
}

/// As [`super::find::Finder`] tells it, by the hands that were read once.
fn has_fired(entry: &Entry, clocks: &Clocks, now: Millis) -> bool {
    let clock = clocks.get(&entry.key.wheel());
    let behind = clock.is_some_and(|clock| {
        let (due, id) = (entry.key.due, entry.key.id);
        Position { due, id } <= clock.fired
    });
    now >= entry.start && (behind || matches!(entry.kind, Kind::Look { .. }))
}
