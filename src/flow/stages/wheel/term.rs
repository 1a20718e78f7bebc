//! A term holds the state that the stages of a wheel share, for one unbroken ownership of that wheel by this node.
//!
//! The clock stage begins and ends terms and moves the hands. The read stage fills the memory wheel from the
//! slots, and the fire stage empties it at the due millisecond. The erase stage truncates. They share this
//! state behind one lock that is never held across an await. When the term ends, by a lost race or at the end
//! of the lease, the entries that were read ahead are forgotten, and the next owner reads them again.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{
    cursor::Cursor,
    deferred::Deferred,
    held::{Held, Noted},
    prefetch::{Amount, Prefetch},
};
use crate::{
    flaw::{self, Flaw},
    flow::base::context::Lane,
    limits,
    model::{
        clock::{ClockRow, Position, Progress},
        entry::{DoneReason, Key, Kind},
        ledger::Ledger,
        time::{Millis, Tick},
        wheel::{Shape, WheelNumber},
    },
    store::ScannedRow,
    time_source::Moment,
};

/// The notes of the reader about a tick, for the eraser.
#[derive(Debug, Clone, Default)]
pub(in crate::flow) struct TickNotes {
    /// How many rows there are.
    pub(in crate::flow) rows: u64,
    /// One of them cannot be understood.
    pub(in crate::flow) unreadable: bool,
    /// The newest write time.
    pub(in crate::flow) newest_written: Option<i64>,
    /// Entries of `kafka` tasks whose content is kept apart. Two entries of a task may lie in one tick: the old
    /// place of a task that was moved, and the backup of its new start.
    pub(in crate::flow) bodies: Vec<Key>,
    /// Such tasks that were marked as cancelled, by the keys of their entries. The withdrawer tells whether
    /// they are.
    pub(in crate::flow) withdrawn: Vec<Key>,
    /// There was no room to list the tasks of the tick: the eraser reads the tick anew.
    pub(super) unlisted: bool,
    /// Entries whose contents belong to copies further on, whether or not the marks that say so stand. They are
    /// kept where no task is listed.
    pub(super) spared: BTreeSet<Key>,
}

impl TickNotes {
    /// Takes note of a row. The content of an entry that was rescheduled or put further on is left to the new
    /// entry.
    pub(in crate::flow) fn note(&mut self, row: &ScannedRow) {
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
                self.bodies.push(entry.key);
            }
        }
    }

    /// Takes note of a row that was noted before and may have been marked since. A mark says by itself to
    /// whom the content belongs, so what the due entry said does not count any more.
    fn note_again(&mut self, row: &ScannedRow) {
        self.newest_written = self.newest_written.max(Some(row.written));
        let Ok(entry) = &row.entry else { return };
        let key = entry.key;
        let is_mark = matches!(entry.kind, Kind::Done { .. });
        if self.unlisted || !is_mark || self.withdrawn.contains(&key) {
            return;
        }
        // This entry only: another one of the task may lie in the same tick, and go out with the content.
        let Some(at) = self.bodies.iter().position(|noted| *noted == key) else {
            return;
        };
        self.bodies.swap_remove(at);
        self.rows -= 1;
        self.note(row);
    }
}

impl TickNotes {
    /// Returns how many tasks are listed.
    const fn listed(&self) -> usize {
        self.bodies.len() + self.withdrawn.len()
    }
}

impl TermState {
    /// Takes note of a row for the eraser. Beyond `tasks_max` tasks, those of a tick are not listed.
    pub(in crate::flow) fn note(&mut self, tick: Tick, row: &ScannedRow, tasks_max: usize) {
        let others = self.listed - self.notes.get(&tick).map_or(0, TickNotes::listed);
        let notes = self.notes.entry(tick).or_default();
        notes.note(row);
        if notes.unlisted || others + notes.listed() > tasks_max {
            notes.unlisted = true;
            (notes.bodies, notes.withdrawn) = (Vec::new(), Vec::new());
        }
        self.listed = others + notes.listed();
    }

    /// Takes note, for the eraser, of a row of a tick that is read for the second time.
    pub(in crate::flow) fn note_again(&mut self, tick: Tick, row: &ScannedRow) {
        let Some(notes) = self.notes.get_mut(&tick) else {
            return;
        };
        let before = notes.listed();
        notes.note_again(row);
        self.listed = self.listed - before + notes.listed();
    }

    /// Forgets what was noted of ticks that are erased.
    pub(in crate::flow) fn erased(&mut self, through: Tick) {
        self.erased = self.erased.max(through);
        self.notes = self.notes.split_off(&through.plus(1));
        self.listed = self.notes.values().map(TickNotes::listed).sum();
    }
}

/// The state that the stages of a term share.
#[derive(Debug)]
pub(in crate::flow) struct TermState {
    pub(in crate::flow) row: ClockRow,
    /// End of the lease by the monotonic clock, counted from before the swap was sent.
    pub(in crate::flow) lease_end: Moment,
    /// The ledger of entries that the reader has held at once.
    pub(in crate::flow) ledger: Ledger,
    /// The entries that the reader has passed over.
    pub(super) deferred: Deferred,
    pub(in crate::flow) ahead: Prefetch,
    /// Entries handed to the queue or under examination.
    pub(in crate::flow) in_flight: usize,
    /// The bytes of their batches: a batch is in memory until all of it is done.
    in_flight_bytes: u64,
    pub(in crate::flow) cursor: Cursor,
    /// Ticks read from their beginning by this term, from here on.
    pub(super) noted_from: Tick,
    pub(in crate::flow) notes: BTreeMap<Tick, TickNotes>,
    /// Tasks that are listed in the notes.
    listed: usize,
    pub(in crate::flow) erased: Tick,
    last_done: Moment,
    pub(super) done_since_swap: usize,
    /// Since when only looks whose time had come are taken, because the wheel is being given away.
    still: Option<Millis>,
    /// How far everything was done when that was asked last.
    marked: Position,
}

impl TermState {
    /// Returns how far all entries are done, both those that were held at once and those that were passed over.
    pub(in crate::flow) fn fired(&mut self) -> Position {
        let both = |deferred: &Ledger| {
            if flaw::is(Flaw::GivesFloodsAway) {
                return self.ledger.fired().min(deferred.fired());
            }
            self.ledger.fired_with(deferred)
        };
        let fired = self
            .deferred
            .ledger()
            .map_or_else(|| self.ledger.fired(), both);
        // The last of what was passed over takes its mark along when it is done.
        self.marked = self.marked.max(fired);
        self.marked
    }

    /// Returns the place of the oldest entry that is held and not done.
    pub(in crate::flow) fn oldest(&self) -> Option<Position> {
        let places = [self.ledger.oldest(), self.deferred.oldest()];
        places.into_iter().flatten().min()
    }

    /// Returns how much is in memory, with what is in flight.
    pub(in crate::flow) const fn in_memory(&self) -> Amount {
        Amount {
            entries: self.ahead.len() + self.in_flight,
            bytes: self.ahead.bytes() + self.in_flight_bytes,
        }
    }
}

/// One unbroken ownership of a wheel.
#[derive(Debug)]
pub(in crate::flow) struct Term {
    pub(in crate::flow) wheel: WheelNumber,
    state: Mutex<TermState>,
    /// Wakes the reader: there is room, or more is open.
    pub(in crate::flow) readable: Notify,
    /// Wakes the reader of what was passed over: there is room, or there is something.
    pub(super) deferred: Notify,
    /// Wakes the fire stage: something earlier is held.
    pub(in crate::flow) held: Notify,
    /// Wakes the clock stage: much was done since the last swap.
    pub(super) reportable: Notify,
    /// The term is over.
    pub(in crate::flow) ended: CancellationToken,
}

impl Term {
    /// Begins a term with the row as it is known to be in the store.
    pub(in crate::flow) fn new(
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
            ahead: Prefetch::new(shape.phase_of(wheel, span)),
            in_flight: 0,
            in_flight_bytes: 0,
            cursor,
            noted_from: cursor.tick.plus(i64::from(cursor.behind.is_some())),
            notes: BTreeMap::new(),
            listed: 0,
            erased: row.erased,
            last_done: now,
            done_since_swap: 0,
            still: None,
            marked: from,
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

    pub(in crate::flow) fn lock(&self) -> MutexGuard<'_, TermState> {
        self.state.lock()
    }

    /// Tells whether the node may still act as owner: the term has not ended and the lease holds.
    pub(in crate::flow) fn is_live(&self, now: Moment) -> bool {
        !self.ended.is_cancelled() && now < self.lock().lease_end
    }

    /// Takes the due entries of a lane, at most `max`, and counts them as in flight.
    pub(super) fn take_due(&self, lane: Lane, now: Millis, max: usize) -> Vec<Held> {
        let mut state = self.lock();
        let before = state.ahead.bytes();
        let batch = match (state.still, lane) {
            (Some(since), Lane::Looks) => state.ahead.pop_looks(since, max),
            (Some(_), Lane::Small | Lane::Large) => Vec::new(),
            (None, Lane::Small) => state.ahead.pop_due(now, max),
            (None, Lane::Looks) => state.ahead.pop_due_looks(now, max),
            (None, Lane::Large) => state.ahead.pop_large(now, max),
        };
        state.in_flight += batch.len();
        state.in_flight_bytes += before - state.ahead.bytes();
        batch
    }

    /// Takes notice that all of a batch of so many bytes is done, or was put back.
    pub(super) fn landed(&self, bytes: u64) {
        self.lock().in_flight_bytes -= bytes;
        self.readable.notify_one();
        self.deferred.notify_one();
    }

    /// Takes only looks whose time has come at `now`, as long as the returned guard is held.
    pub(super) fn hold_still(self: &Arc<Self>, now: Millis) -> Still {
        self.lock().still = Some(now);
        self.held.notify_one();
        Still(Arc::clone(self))
    }

    /// Tells whether something is under way, or has still to be begun before the wheel is given away.
    pub(in crate::flow) fn is_busy(&self) -> bool {
        let state = self.lock();
        let owed = state
            .still
            .is_some_and(|since| state.ahead.has_looks(since));
        state.in_flight > 0 || owed
    }

    /// Marks entries done.
    pub(in crate::flow) fn done(&self, numbers: &[Noted], now: Moment, report_after: usize) {
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
    pub(super) fn leave_body(&self, tick: Tick, key: Key) {
        let mut state = self.lock();
        if let Some(notes) = state.notes.get_mut(&tick) {
            let before = notes.bodies.len();
            notes.bodies.retain(|noted| *noted != key);
            let left = before - notes.bodies.len();
            if notes.unlisted {
                notes.spared.insert(key);
            }
            state.listed -= left;
        }
    }

    /// Puts entries back that could not be handed over, to be tried again at `due`.
    pub(in crate::flow) fn put_back(&self, entries: Vec<Held>, due: Millis) {
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

    /// Returns the progress of the owner, for the clock's next value.
    pub(in crate::flow) fn progress(&self, now: Moment, wall: Millis) -> Progress {
        let mut state = self.lock();
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

    /// Tells whether a flood that the reader passes over holds `fired` back: the next owner would hand over once more what went
    /// out behind it.
    pub(super) fn is_held_back(&self) -> bool {
        let state = self.lock();
        let done = state.ledger.fired();
        let behind =
            |deferred: &Ledger| done.max(deferred.fired()) > state.ledger.fired_with(deferred);
        state.deferred.ledger().is_some_and(behind) && !flaw::is(Flaw::GivesFloodsAway)
    }
}

/// The guard of a term that stands still: as long as it is held, the term takes only looks whose time had
/// come.
#[derive(Debug)]
pub(in crate::flow) struct Still(Arc<Term>);

impl Drop for Still {
    fn drop(&mut self) {
        self.0.lock().still = None;
        self.0.held.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{
        entry::Entry,
        fixtures,
        ids::TaskId,
        target::Target,
        task::{Body, Spec},
    };

    fn row(entry: Entry) -> ScannedRow {
        ScannedRow {
            key: entry.key,
            written: entry.written,
            entry: Ok(entry),
        }
    }

    fn record(due: i64) -> Entry {
        let target = Target::Kafka {
            topic: "orders".to_owned(),
            partition: None,
        };
        let spec = Spec {
            target,
            body: Body::Apart { bytes: 5000 },
            ..fixtures::spec()
        };
        let id = TaskId::new(Millis(1000), WheelNumber::from_low_bits(1), 7);
        Entry::due(id, 0, 0, Millis(due), Arc::new(spec), 1)
    }

    /// A cancel that came too late has marked the first place, and its copy lies in the same tick.
    #[test]
    fn a_mark_that_is_read_later_says_to_whom_the_content_belongs() {
        let (first, copy) = (record(1000), record(1500));
        let noted = || {
            let mut notes = TickNotes::default();
            notes.note(&row(first.clone()));
            notes
        };
        for reason in [
            DoneReason::Cancelled,
            DoneReason::Moved { to: Millis(1500) },
        ] {
            let mark = row(first.marked_done(reason, Millis(900), 2));
            let mut notes = noted();
            notes.note_again(&mark);
            let is_cancelled = reason == DoneReason::Cancelled;
            assert_eq!(notes.bodies, [], "{reason:?}");
            assert_eq!(notes.withdrawn.contains(&first.key), is_cancelled);
            assert_eq!((notes.rows, notes.newest_written), (1, Some(2)));
            notes.note_again(&mark);
            assert_eq!(notes.listed(), usize::from(is_cancelled), "once");
            let mut notes = noted();
            notes.note(&row(copy.clone()));
            notes.note_again(&mark);
            assert_eq!(
                notes.bodies,
                [copy.key],
                "the copy goes out with its content"
            );
        }
        let mut notes = noted();
        notes.note_again(&row(first.clone()));
        assert_eq!(notes.bodies, [first.key], "it goes out from there");
    }
    /// Found by the seeded runs. A record that is moved to a near start leaves its old place marked, and its backup may lie
    /// in the tick of that place.
    #[test]
    fn the_mark_of_an_old_place_says_nothing_about_another_entry_in_its_tick() {
        let moved = DoneReason::Moved { to: Millis(200) };
        let old = row(record(1000).marked_done(moved, Millis(100), 2));
        let mut backup = record(1500);
        backup.key.generation = 1;
        let mut notes = TickNotes::default();
        for read in [&old, &row(backup.clone())] {
            notes.note(read);
        }
        assert_eq!(notes.bodies, [backup.key]);
        // The reader that follows the first one reads the tick again, and the backup has gone out by then.
        notes.note_again(&old);
        notes.note_again(&row(backup.marked_done(
            DoneReason::Published,
            Millis(300),
            3,
        )));
        assert_eq!(notes.bodies, [backup.key], "the eraser deletes its content");
        assert_eq!((notes.rows, notes.newest_written), (2, Some(3)));
    }
}
