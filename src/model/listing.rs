//! The listing rule decides for the lister at which of its entries a task is listed, so that a walk over a
//! wheel meets each task once.
//!
//! A task that waits for its start has its due entry there. A task that has started has a look ahead of
//! `fired` until it is terminal. Behind `fired`, up to `erased`, lie its due entry and the looks that were
//! done. A near task never has a due entry. So a task is listed at the due entry of its current start as long
//! as that is in the wheel, else at its look ahead of `fired`. A terminal task is listed at the look that
//! found, or will find, it so. A task that moves while the wheel is read may be met at two places or at none.

use std::time::Duration;

use super::{
    clock::{ClockRow, Position},
    entry::{DoneReason, Entry, Key, KeyCode, Kind},
    look::Grid,
    state::TaskRow,
    time::Millis,
    wheel::Shape,
};

/// The shortest window in which a look that is due may have been done without `fired` showing it yet.
const DONE_LATELY: Duration = Duration::from_secs(2);

/// Whether a task is listed at an entry of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Here.
    Here,
    /// At another entry, if at all.
    Elsewhere,
    /// Here, unless the wheel holds one of these.
    Unless(Others),
}

/// Entries of the task that it is listed at instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Others {
    start: Millis,
    generation: u32,
    behind: Key,
    looks: Vec<Millis>,
}

impl Others {
    /// Returns the due times to look at.
    #[must_use]
    pub fn dues(&self) -> Vec<Millis> {
        let start = std::iter::once(self.start);
        start.chain(self.looks.iter().copied()).collect()
    }

    /// Tells whether an entry found there is one of them.
    #[must_use]
    pub fn include(&self, found: &Entry) -> bool {
        let later_look = found.key.code == KeyCode::LOOK && found.key > self.behind;
        is_due_at(found, self.start, self.generation)
            || (!self.looks.is_empty() && later_look && !is_withdrawn(found))
    }
}

/// The state of the wheel when an entry is looked at.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    /// The wheel's clock, as it was read before the entry.
    pub clock: &'a ClockRow,
    /// The wheel's shape.
    pub shape: &'a Shape,
    /// Now.
    pub now: Millis,
}

/// Decides whether a task is listed at this entry. `row` is not looked at for a `kafka` task, which has none.
#[must_use]
pub fn place(entry: &Entry, row: Option<&TaskRow>, known: &Known<'_>) -> Place {
    if is_withdrawn(entry) {
        return Place::Elsewhere;
    }
    let tracked = entry.spec.target.is_tracked();
    let (generation, start) = match row {
        Some(row) if tracked => (row.generation, row.detail.start),
        None if tracked => (0, entry.key.id.first_start()),
        Some(_) | None => (entry.key.generation, entry.start),
    };
    let is_look = entry.key.code == KeyCode::LOOK;
    if is_due_at(entry, start, generation) {
        return Place::Here;
    }
    if tracked && !(is_look && carries(entry, row, known.clock)) {
        return Place::Elsewhere;
    }
    let ended = row.is_some_and(|row| row.state.is_terminal());
    let looks = if tracked && !ended && is_just_done(entry, known) {
        successors(entry, row, known)
    } else {
        Vec::new()
    };
    let start_is_erased = known.shape.tick().tick_of(start) <= known.clock.erased;
    if start_is_erased && looks.is_empty() {
        return Place::Here;
    }
    Place::Unless(Others {
        start,
        generation,
        behind: entry.key,
        looks,
    })
}

/// Decides whether a task whose row cannot be understood is met at this entry: at the due entry of a start that it waits for, or
/// waited for, else at its look ahead of `fired`. A task that was moved meanwhile may be met twice.
#[must_use]
pub fn place_unread(entry: &Entry, known: &Known<'_>) -> Place {
    match entry.kind {
        Kind::Due {
            expected_attempt,
            first,
        } if expected_attempt == 0 || first => Place::Here,
        Kind::Look { .. } if is_ahead(entry, known.clock) => {
            let looks = if is_just_done(entry, known) {
                successors(entry, None, known)
            } else {
                Vec::new()
            };
            Place::Unless(Others {
                start: entry.start,
                generation: entry.key.generation,
                behind: entry.key,
                looks,
            })
        }
        Kind::Due { .. } | Kind::Look { .. } | Kind::Done { .. } => Place::Elsewhere,
    }
}

/// Tells whether an entry lies ahead of what was handed over.
fn is_ahead(entry: &Entry, clock: &ClockRow) -> bool {
    let (due, id) = (entry.key.due, entry.key.id);
    Position { due, id } > clock.fired
}

/// Tells whether a look is due but `fired`, which moves once a tick, may not show yet that it was done.
fn is_just_done(look: &Entry, known: &Known<'_>) -> bool {
    let behind = known.shape.tick().duration() * 2;
    look.key.due <= known.now && look.key.due >= known.now.before(behind.max(DONE_LATELY))
}

/// Where the successor of a look that was done just now can be.
fn successors(look: &Entry, row: Option<&TaskRow>, known: &Known<'_>) -> Vec<Millis> {
    let grid = Grid::of(look.key.id, known.shape);
    let mut points = grid.points_around(known.now);
    points.extend(row.map(|row| grid.one_step_after(row.next)));
    points.extend(row.map(|row| grid.at(row.next)));
    points.retain(|at| *at > look.key.due);
    points
}

/// Tells whether an entry is the due entry of this start.
fn is_due_at(entry: &Entry, start: Millis, generation: u32) -> bool {
    entry.key.code != KeyCode::LOOK
        && entry.key.due == start
        && entry.key.generation == generation
        && !is_withdrawn(entry)
}

/// Tells whether a look is the one that the task stands or falls with.
fn carries(look: &Entry, row: Option<&TaskRow>, clock: &ClockRow) -> bool {
    match row {
        // A later generation that left no row never came to be.
        None => look.key.generation == 0 && is_ahead(look, clock),
        Some(row) if row.state.is_terminal() => {
            row.detail.end_time.is_none_or(|end| look.key.due >= end)
        }
        Some(_) => is_ahead(look, clock),
    }
}

/// A copy that was written again elsewhere says nothing about its task.
fn is_withdrawn(entry: &Entry) -> bool {
    matches!(
        entry.kind,
        Kind::Done {
            reason: DoneReason::Moved { .. },
            ..
        }
    )
}

#[cfg(test)]
#[path = "listing_tests.rs"]
mod tests;
