//! A term: one unbroken ownership of one wheel by this node, and what its stages share.
//!
//! The clock stage begins and ends terms and moves the hands; the read stage fills the memory wheel from the slots; the fire
//! stage empties it at the due millisecond; the erase stage truncates. They share this state behind one lock that is never
//! held across an await. When the term ends, by a lost race or at the end of the lease, what was read ahead is forgotten:
//! the next owner reads it again.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{
    ahead::{Ahead, Amount},
    context::Lane,
    deferred::Deferred,
};
use crate::{
    flaw::{self, Flaw},
    limits,
    model::{
        clock::{ClockRow, Position, Progress},
        entry::{DoneReason, Entry, Key, KeyCode, Kind},
        ids::TaskId,
        ledger::{Ledger, Number},
        time::{Millis, Tick, TickLength},
        wheel::{Shape, WheelNumber},
    },
    store::ScannedRow,
    time_source::Moment,
};

/// Where it is noted that an entry is not done yet.
#[derive(Debug, Clone, Copy)]
pub(super) enum Noted {
    /// In the ledger of the reader.
    InOrder(Number),
    /// In that of what the reader has passed over.
    Deferred(Number),
}

/// An entry that was read ahead.
#[derive(Debug, Clone)]
pub(super) struct Held {
    /// Its number in a ledger.
    pub(super) number: Noted,
    /// The entry.
    pub(super) entry: Entry,
    /// When handing it over failed first.
    pub(super) failing_since: Option<Moment>,
    /// It was read before it was due, so it can be handed over in time.
    pub(super) timely: bool,
    /// Where it was to be put further on, and whether it lies there is not known.
    pub(super) copy: Option<Box<Entry>>,
}

impl Held {
    /// An entry that is read at `now`.
    pub(super) fn new(number: Noted, entry: Entry, now: Millis) -> Self {
        Self {
            number,
            timely: entry.key.due > now,
            entry,
            failing_since: None,
            copy: None,
        }
    }
}

/// What the reader has seen of a tick, for the eraser.
#[derive(Debug, Clone, Default)]
pub(super) struct TickNotes {
    /// How many rows there are.
    pub(super) rows: u64,
    /// One of them cannot be understood.
    pub(super) unreadable: bool,
    /// The newest write time.
    pub(super) newest_written: Option<i64>,
    /// `kafka` tasks whose content is kept apart.
    pub(super) bodies: Vec<TaskId>,
    /// Such tasks, by the keys of their entries, that were marked as cancelled: whether they are is told elsewhere.
    pub(super) withdrawn: Vec<Key>,
    /// There was no room for what is listed: the eraser reads the tick anew.
    pub(super) unlisted: bool,
    /// Contents that belong to copies further on, whether the marks that say so stand or not; kept where nothing is listed.
    pub(super) spared: BTreeSet<TaskId>,
}

impl TickNotes {
    /// Takes note of a row. The content of an entry that lives on elsewhere, rescheduled or put further on, is left to that.
    pub(super) fn note(&mut self, row: &ScannedRow) {
        self.rows += 1;
        self.unreadable |= row.entry.is_err();
        self.newest_written = self.newest_written.max(Some(row.written));
        let Ok(entry) = &row.entry else { return };
        if !entry.takes_content_along() {
            return;
        }
        let reason = match entry.kind {
            Kind::Done { reason, .. } => Some(reason),
            Kind::Due { .. } | Kind::Look { .. } => None,
        };
        match reason {
            Some(DoneReason::Moved { .. }) if !flaw::is(Flaw::BodyDeletedWithOldPlace) => {}
            Some(DoneReason::Cancelled) => self.withdrawn.push(entry.key),
            Some(DoneReason::Moved { .. } | DoneReason::Published) | None => {
                self.bodies.push(entry.key.id);
            }
        }
    }
}

impl TickNotes {
    /// Returns how many tasks are listed.
    const fn listed(&self) -> usize {
        self.bodies.len() + self.withdrawn.len()
    }
}

impl TermState {
    /// Takes note of a row for the eraser. Beyond so many tasks, those of a tick are not listed.
    pub(super) fn note(&mut self, tick: Tick, row: &ScannedRow, tasks_max: usize) {
        let others = self.listed - self.notes.get(&tick).map_or(0, TickNotes::listed);
        let notes = self.notes.entry(tick).or_default();
        notes.note(row);
        if notes.unlisted || others + notes.listed() > tasks_max {
            notes.unlisted = true;
            (notes.bodies, notes.withdrawn) = (Vec::new(), Vec::new());
        }
        self.listed = others + notes.listed();
    }

    /// Forgets what was noted of ticks that are erased.
    pub(super) fn erased(&mut self, through: Tick) {
        self.erased = self.erased.max(through);
        self.notes = self.notes.split_off(&through.plus(1));
        self.listed = self.notes.values().map(TickNotes::listed).sum();
    }
}

/// Where the reader stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cursor {
    /// The tick it reads.
    pub(super) tick: Tick,
    /// The last key it has seen of that tick, if any.
    pub(super) behind: Option<Key>,
}

/// What the stages of a term share.
#[derive(Debug)]
pub(super) struct TermState {
    pub(super) row: ClockRow,
    /// End of the lease by the monotonic clock, counted from before the swap was sent.
    pub(super) lease_end: Moment,
    /// Of what the reader has held at once.
    pub(super) ledger: Ledger,
    /// What it has passed over.
    pub(super) deferred: Deferred,
    pub(super) ahead: Ahead,
    /// Entries handed to the queue or under examination, with their bytes still counted in memory.
    pub(super) in_flight: usize,
    pub(super) cursor: Cursor,
    /// Ticks read from their beginning by this term, from here on.
    pub(super) noted_from: Tick,
    pub(super) notes: BTreeMap<Tick, TickNotes>,
    /// Tasks that are listed in the notes.
    listed: usize,
    pub(super) erased: Tick,
    pub(super) last_done: Moment,
    pub(super) done_since_swap: usize,
    /// Since when nothing is taken but looks whose time had come: the wheel is being given away.
    still: Option<Millis>,
}

impl TermState {
    /// Returns how far everything is done: what was held at once, and what was passed over.
    pub(super) fn fired(&self) -> Position {
        let fired = self.ledger.fired();
        let deferred = self.deferred.fired();
        deferred.map_or(fired, |deferred| deferred.min(fired))
    }

    /// Returns the place of the oldest entry that is held and not done.
    pub(super) fn oldest(&self) -> Option<Position> {
        let places = [self.ledger.oldest(), self.deferred.oldest()];
        places.into_iter().flatten().min()
    }

    /// Returns how much is in memory; of what is in flight the bytes are not counted.
    pub(super) const fn in_memory(&self) -> Amount {
        Amount {
            entries: self.ahead.len() + self.in_flight,
            bytes: self.ahead.bytes(),
        }
    }
}

/// One unbroken ownership of a wheel.
#[derive(Debug)]
pub(super) struct Term {
    pub(super) wheel: WheelNumber,
    state: Mutex<TermState>,
    /// Wakes the reader: there is room, or more is open.
    pub(super) readable: Notify,
    /// Wakes the reader of what was passed over: there is room, or there is something.
    pub(super) deferred: Notify,
    /// Wakes the fire stage: something earlier is held.
    pub(super) held: Notify,
    /// Wakes the clock stage: much was done since the last swap.
    pub(super) reportable: Notify,
    /// The term is over.
    pub(super) ended: CancellationToken,
}

impl Term {
    /// Begins a term with the row as it is known to be in the store.
    pub(super) fn new(
        wheel: WheelNumber,
        row: ClockRow,
        lease_end: Moment,
        now: Moment,
        shape: &Shape,
    ) -> Self {
        let tick = shape.tick();
        let span = tick.duration().min(limits::PHASE_SPAN_MAX);
        let from = if flaw::is(Flaw::TakeOverBeginsAtOpened) {
            Position::behind(tick.end_of(row.opened))
        } else {
            row.fired
        };
        let cursor = Cursor::behind(from, tick);
        let state = TermState {
            row,
            lease_end,
            ledger: Ledger::new(from),
            deferred: Deferred::new(cursor, from),
            ahead: Ahead::new(shape.phase_of(wheel, span)),
            in_flight: 0,
            cursor,
            noted_from: cursor.tick.plus(i64::from(cursor.behind.is_some())),
            notes: BTreeMap::new(),
            listed: 0,
            erased: row.erased,
            last_done: now,
            done_since_swap: 0,
            still: None,
        };
        Self {
            wheel,
            state: Mutex::new(state),
            readable: Notify::new(),
            deferred: Notify::new(),
            held: Notify::new(),
            reportable: Notify::new(),
            ended: CancellationToken::new(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, TermState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells whether the node may still act as owner: the term has not ended and the lease holds.
    pub(super) fn is_live(&self, now: Moment) -> bool {
        !self.ended.is_cancelled() && now < self.lock().lease_end
    }

    /// Takes what is due of a lane, so much at most, and counts it as in flight.
    pub(super) fn take_due(&self, lane: Lane, now: Millis, max: usize) -> Vec<Held> {
        let mut state = self.lock();
        let batch = match (state.still, lane) {
            (Some(since), Lane::Looks) => state.ahead.pop_looks(since, max),
            (Some(_), Lane::Small | Lane::Large) => Vec::new(),
            (None, Lane::Small) => state.ahead.pop_due(now, max),
            (None, Lane::Looks) => state.ahead.pop_due_looks(now, max),
            (None, Lane::Large) => state.ahead.pop_large(now, max),
        };
        state.in_flight += batch.len();
        batch
    }

    /// Takes nothing more as long as the answer is held but looks whose time has come at `now`.
    pub(super) fn hold_still(self: &Arc<Self>, now: Millis) -> Still {
        self.lock().still = Some(now);
        self.held.notify_one();
        Still(Arc::clone(self))
    }

    /// Tells whether something is under way, or has still to be begun before the wheel is given away.
    pub(super) fn is_busy(&self) -> bool {
        let state = self.lock();
        let owed = state
            .still
            .is_some_and(|since| state.ahead.has_looks(since));
        state.in_flight > 0 || owed
    }

    /// Marks entries done.
    pub(super) fn done(&self, numbers: &[Noted], now: Moment, report_after: usize) {
        if numbers.is_empty() {
            return;
        }
        let report = {
            let mut state = self.lock();
            for number in numbers {
                match *number {
                    Noted::InOrder(number) => state.ledger.done(number),
                    Noted::Deferred(number) => state.deferred.done(number),
                }
            }
            state.in_flight = state.in_flight.saturating_sub(numbers.len());
            state.done_since_swap += numbers.len();
            state.last_done = now;
            state.done_since_swap >= report_after
        };
        self.readable.notify_one();
        self.deferred.notify_one();
        if report {
            self.reportable.notify_one();
        }
    }

    /// Leaves the content of an entry of `tick` to the copy of it that was put further on.
    pub(super) fn leave_body(&self, tick: Tick, id: TaskId) {
        let mut state = self.lock();
        if let Some(notes) = state.notes.get_mut(&tick) {
            let before = notes.bodies.len();
            notes.bodies.retain(|noted| *noted != id);
            let left = before - notes.bodies.len();
            if notes.unlisted {
                notes.spared.insert(id);
            }
            state.listed -= left;
        }
    }

    /// Puts entries back that could not be handed over, to be tried again at `due`.
    pub(super) fn put_back(&self, entries: Vec<Held>, due: Millis) {
        if entries.is_empty() {
            return;
        }
        {
            let mut state = self.lock();
            state.in_flight = state.in_flight.saturating_sub(entries.len());
            for held in entries {
                state.ahead.put_back(held, due);
            }
        }
        self.held.notify_one();
    }

    /// What the owner has done, for the clock's next value.
    pub(super) fn progress(&self, now: Moment, wall: Millis) -> Progress {
        let state = self.lock();
        let waiting = state.oldest().filter(|oldest| oldest.due <= wall);
        let stalled_since = waiting.map(|oldest| {
            let silent = now.since(state.last_done);
            oldest.due.max(wall.before(silent))
        });
        Progress {
            fired: state.fired(),
            erased: state.erased,
            idle: state.in_flight == 0,
            stalled_since,
        }
    }
}

/// As long as it is held, its term takes nothing more.
#[derive(Debug)]
pub(super) struct Still(Arc<Term>);

impl Drop for Still {
    fn drop(&mut self) {
        self.0.lock().still = None;
        self.0.held.notify_one();
    }
}

impl Cursor {
    /// Tells whether it stands before another one.
    pub(super) fn is_before(self, other: Self) -> bool {
        (self.tick, self.behind) < (other.tick, other.behind)
    }

    /// The cursor that reads everything behind a position.
    fn behind(position: Position, tick: TickLength) -> Self {
        let at = tick.tick_of(position.due);
        if position == Position::behind(tick.end_of(at)) {
            return Self {
                tick: at.plus(1),
                behind: None,
            };
        }
        let last = Key {
            due: position.due,
            id: position.id,
            generation: u32::MAX,
            code: KeyCode(i32::MAX),
        };
        Self {
            tick: at,
            behind: Some(last),
        }
    }
}

/// About how much memory an entry takes beside its content.
pub(super) const HELD_BYTES: u64 = 512;

/// Returns about how much memory an entry takes. A content that is kept apart takes none until it is read, and then it is counted
/// by the node's budget.
pub(super) fn weight(entry: &Entry) -> u64 {
    HELD_BYTES
        + entry
            .spec
            .content()
            .map_or(0, |content| content.payload.len() as u64 * 2)
}
