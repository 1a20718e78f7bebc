//! The rules of sequences decide for claims, registration and end steps which task of a sequence may run.
//!
//! A sequence is the tasks of one callback that have one ordering key. One of them runs at a time, in the order of their starts.
//! A record, the turn, names the one that may: conditional writes make it one. Rows of the index, one for each member, give the
//! order. The looks of the tasks give safety: whatever is left behind, some claim comes and clears it.
//!
//! A task holds the turn until it has ended or was moved, so also while it waits for its next attempt. [`Standing`] is the one
//! test for the holder and for rows. A task that is over stays over, so any node may clear it.
//!
//! Where a callback says so, a task that waits for its next attempt lets the others go. Then it has the turn for one attempt
//! only, and the turn names that attempt. It asks for the turn anew for the next one, by a write: so a node that lets another
//! task go has read the turn before that write, and is refused, or the task finds the turn taken.
//!
//! A row is written before its task, and is not *sure* until the task was written. A row that never becomes sure is a ghost. It
//! keeps the others waiting until the time that it names, and its writer acknowledges nothing after that time.
//!
//! A row may come up behind a node that reads the rows. Most rows are of tasks that start later than any that the node may let
//! go. The others are [late](is_late): their writer touches the turn behind the row, so that a decision that has not seen the
//! row cannot be written.

use std::time::Duration;

use super::{
    ids::TaskId,
    row::{State, TaskRow},
    state::TERMINAL_TTL_MIN,
    task::Spec,
    time::Millis,
};

/// How long a row that is not sure keeps others waiting: a registration takes a fraction of it.
pub const PLACE_OPEN: Duration = Duration::from_secs(10);

/// By how much the clocks of two nodes may differ here: twice the largest skew that nodes accept.
pub const CLOCKS_APART: Duration = Duration::from_secs(2);

/// A row of a task that starts later than this from now on cannot come up too late for any decision about the turn: the row is
/// there within [`PLACE_OPEN`], and no decision is about a task that starts in the future.
pub const LATE_BEFORE: Duration = Duration::from_secs(15);

const _: () = assert!(LATE_BEFORE.as_secs() > PLACE_OPEN.as_secs() + 2 * CLOCKS_APART.as_secs());

/// How long after its start the absence of a task's row says that nothing has happened to the task. The row of a task that has
/// ended may be gone later.
const ABSENCE_TRUSTED: Duration = TERMINAL_TTL_MIN.saturating_sub(Duration::from_secs(24 * 3600));

/// The name of a sequence.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence {
    /// The callback of its tasks.
    pub callback: String,
    /// Their ordering key.
    pub key: String,
}

impl Sequence {
    /// Returns the sequence of a task; none for one without ordering key.
    #[must_use]
    pub fn of(spec: &Spec) -> Option<Self> {
        let (callback, key) = (spec.callback()?, spec.ordering_key.as_ref()?);
        Some(Self {
            callback: callback.to_owned(),
            key: key.clone(),
        })
    }
}

/// The place of a row in its sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank {
    /// The start of the task.
    pub start: Millis,
    /// The task.
    pub id: TaskId,
    /// Its generation, since each has a start of its own.
    pub generation: u32,
    /// When the row was written first, in microseconds. It tells the tries of one registration apart.
    pub stamp: i64,
}

impl Rank {
    /// Returns the least bound of the rows of its task at its start.
    #[must_use]
    pub const fn bound(&self) -> Bound {
        Bound::of(self.start, self.id)
    }

    /// Returns the write time that makes the row sure.
    #[must_use]
    pub const fn sure_at(&self) -> i64 {
        self.stamp.saturating_add(1)
    }

    /// Returns the write time of its removal at `stamp`: no write of the row is as late, whenever it arrives.
    #[must_use]
    pub fn removed_at(&self, stamp: i64) -> i64 {
        stamp.max(self.stamp.saturating_add(2))
    }
}

/// A place between the rows of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bound {
    /// Before the rows of this start.
    pub start: Millis,
    /// Before the rows of this task among them; none is before all of them.
    pub id: Option<TaskId>,
}

impl Bound {
    /// Before all rows.
    pub const FIRST: Self = Self::at(Millis(i64::MIN));

    /// Before the rows of a task.
    #[must_use]
    pub const fn of(start: Millis, id: TaskId) -> Self {
        Self {
            start,
            id: Some(id),
        }
    }

    /// Before all rows of a start.
    #[must_use]
    pub const fn at(start: Millis) -> Self {
        Self { start, id: None }
    }
}

/// A member of a sequence, as its row tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Its place.
    pub rank: Rank,
    /// Its task was written before the row said so.
    pub sure: bool,
    /// Until when its writer may make it sure.
    pub until: Millis,
}

/// The task that has the turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    /// The task.
    pub id: TaskId,
    /// Its generation: a task that is moved loses the turn.
    pub generation: u32,
    /// When it came to it.
    pub since: Millis,
    /// The attempt that it has the turn for, where it loses the turn while it waits for the next one; 0 is for all of them.
    pub attempt: u32,
}

impl Holder {
    /// Tells whether this is the task in this generation.
    #[must_use]
    pub fn is(&self, id: TaskId, generation: u32) -> bool {
        (self.id, self.generation) == (id, generation)
    }

    /// Tells whether it has the turn for an attempt of its own. One that lies before it is refused by its row.
    #[must_use]
    pub const fn has(&self, attempt: u32) -> bool {
        self.attempt == 0 || self.attempt >= attempt
    }

    /// Returns what a claim of this attempt writes first, if the task has had the turn for as long as wheels keep entries
    /// (`kept`) and has not begun: the turn may be about to be taken from it ([`super::entry::is_left`]), and the write of this
    /// one decides. It comes a minute earlier than the turn can be taken, so that a claim that reads just before has written its
    /// row by then.
    #[must_use]
    pub fn anew(&self, attempt: u32, kept: Duration, now: Millis) -> Option<Self> {
        let is_old = now >= self.since.after(kept);
        (is_old && attempt <= 1 && self.generation == 0).then_some(Self {
            since: now,
            ..*self
        })
    }
}

/// The turn of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// The task that may run.
    pub holder: Option<Holder>,
    /// No row that counts lies before this.
    pub from: Bound,
}

impl Turn {
    /// Of a sequence that nothing is known of.
    pub const UNKNOWN: Self = Self {
        holder: None,
        from: Bound::FIRST,
    };

    /// Returns the turn when a row was written late at this place; none when it lies behind `from` anyway, and the turn must
    /// only be written once more as it is.
    #[must_use]
    pub fn lowered(self, to: Bound) -> Self {
        let from = self.from.min(to);
        Self { from, ..self }
    }
}

/// The standing of a task in its sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It counts: the others wait for it.
    Stands,
    /// It waits for its next attempt and lets the others go meanwhile. It counts again when that is due.
    Waits,
    /// It does not count any more, and never will again.
    Over,
    /// It may be about to be written: the others wait until then.
    Open(Millis),
    /// It counts if there is an entry of it, and only then.
    IfWritten,
}

/// Judges the holder of a turn by the row of its task, which was read after the turn.
#[must_use]
pub fn holder_stands(holder: &Holder, row: Option<&TaskRow>, now: Millis) -> Standing {
    match row {
        Some(row) if is_over(row, holder.generation) => Standing::Over,
        Some(row) if has_lost_it(row, holder) => Standing::Waits,
        Some(_) => Standing::Stands,
        None if now < holder.since.after(ABSENCE_TRUSTED) => Standing::Stands,
        None => Standing::IfWritten,
    }
}

/// Judges a member by the row of its task, which was read after its own.
#[must_use]
pub fn member_stands(member: &Member, row: Option<&TaskRow>, now: Millis) -> Standing {
    let generation = member.rank.generation;
    match row {
        Some(row) if is_over(row, generation) => Standing::Over,
        Some(row) if is_of_another_move(member, row) => Standing::Over,
        Some(row) if row.generation == generation => Standing::Stands,
        None if member.sure && now < member.rank.start.after(ABSENCE_TRUSTED) => Standing::Stands,
        Some(_) if member.sure => Standing::Stands,
        Some(_) | None if !member.sure && now < member.until.after(CLOCKS_APART) => {
            Standing::Open(member.until.after(CLOCKS_APART))
        }
        // Its move was not made, and its mover makes it no more.
        Some(_) => Standing::Over,
        None if generation > 0 && !member.sure => Standing::Over,
        None => Standing::IfWritten,
    }
}

/// Tells whether the move that this row announces was not made, and a later one, to another start, took its generation. The task
/// would wait for itself at a place that is not its own, and others of the sequence for it.
fn is_of_another_move(member: &Member, row: &TaskRow) -> bool {
    let Rank {
        generation, start, ..
    } = member.rank;
    let is_moved = generation > 0 && row.generation == generation;
    !member.sure && is_moved && row.detail.start != start
}

/// Tells whether a task in this generation has ended or was moved.
#[must_use]
pub fn is_over(row: &TaskRow, generation: u32) -> bool {
    row.generation > generation || row.generation == generation && row.state.is_terminal()
}

/// Tells whether the attempt that a holder has the turn for has ended, and another is to follow. It stays so: the claim of the
/// next attempt writes the turn first.
fn has_lost_it(row: &TaskRow, holder: &Holder) -> bool {
    let is_it = row.generation == holder.generation && row.state == State::Retrying;
    is_it && holder.attempt > 0 && row.attempt >= holder.attempt
}

/// Tells whether a task waits for its next attempt, which is not due yet.
#[must_use]
pub fn waits(row: &TaskRow, now: Millis) -> bool {
    row.state == State::Retrying && row.next > now
}

/// Tells whether a sequence that goes on meanwhile passes over a member.
#[must_use]
pub fn is_passed_over(member: &Member, row: &TaskRow, now: Millis) -> bool {
    row.generation == member.rank.generation && waits(row, now)
}

/// Tells whether the row of a task with this start may come up behind a decision about the turn.
#[must_use]
pub fn is_late(start: Millis, now: Millis) -> bool {
    start < now.after(LATE_BEFORE)
}

/// Returns the bound before which no row counts at `now`, when `first` is the first that does.
#[must_use]
pub fn bound(first: Option<&Rank>, now: Millis) -> Bound {
    // A row that is written from now on, and whose writer does not lower the bound, is of a later start.
    let behind = Bound::at(now);
    first.map_or(behind, |first| first.bound().min(behind))
}

#[cfg(test)]
#[path = "ordering_tests.rs"]
mod tests;
