//! The clock protocol computes the next value of a wheel's clock row for the owner stage. All rules of
//! ownership are in this file.
//!
//! A wheel is a time-ordered log in the store. Its clock row has three hands. `opened` is how far it may be
//! read: every slot up to it is closed to registration. `fired` is the committed position of its reader:
//! everything up to it has been handed to the broker and acknowledged. `erased` is how far it has been
//! truncated. It holds that `erased <= fired <= opened`, and each only moves forward. There is one row, one
//! version, and one owner with a lease: the node that swaps the version in a tick is that tick's scanner. A
//! scanner that dies after its swap loses nothing, because `fired` has not moved, and the next owner of the
//! wheel fires from there. The lease is for liveness only: no promise rests on two clocks agreeing.
//!
//! The plain form of the idea (swap the clock, then scan, no `fired`) loses the tick of a winner that dies in
//! between. It loses the tick even without any crash when the reply of the swap is lost.

use std::time::Duration;

use super::{
    ids::{NodeId, TaskId},
    time::{Millis, Tick, TickLength},
    wheel::Shape,
};

/// A place in a wheel's log: behind every entry with a smaller or equal (due, id).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Due time.
    pub due: Millis,
    /// Task id, or a bound.
    pub id: TaskId,
}

impl Position {
    /// Returns the place behind everything that is due at or before `due`.
    #[must_use]
    pub const fn behind(due: Millis) -> Self {
        Self {
            due,
            id: TaskId::LAST,
        }
    }

    /// Returns the last tick that lies before this place as a whole. Entries due at the very end of a tick,
    /// as all starts at a whole second are, may lie on both sides of a place there.
    #[must_use]
    pub fn last_passed(self, tick: TickLength) -> Tick {
        let ended = tick.last_ended(self.due);
        if self >= Self::behind(tick.end_of(ended)) {
            ended
        } else {
            ended.plus(-1)
        }
    }
}

/// The clock row of one wheel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClockRow {
    /// Optimistic locking: every change is `version` -> `version + 1`.
    pub version: i64,
    /// Every slot up to this tick is closed to new entries and may be read.
    pub opened: Tick,
    /// Everything up to this position has been published and acknowledged, put further on, or dropped.
    pub fired: Position,
    /// Everything up to this tick has been deleted.
    pub erased: Tick,
    /// The node that fires `(fired, opened]`; [`NodeId::NOBODY`] when there is none.
    pub owner: NodeId,
    /// End of the owner's lease by its wall clock.
    pub lease_until: Millis,
    /// The proposer's wall clock at the last change.
    pub wall: Millis,
}

impl ClockRow {
    /// Returns the row of a wheel that is created at `now`: everything before is closed, fired and erased.
    #[must_use]
    pub fn first(shape: &Shape, now: Millis) -> Self {
        let tick = shape.tick().last_ended(now);
        Self {
            version: 0,
            opened: tick,
            fired: Position::behind(shape.tick().end_of(tick)),
            erased: tick,
            owner: NodeId::NOBODY,
            lease_until: Millis::EPOCH,
            wall: now,
        }
    }

    /// Tells whether the hands are in order. A row that is not so was written by something else than [`next`].
    #[must_use]
    pub fn is_sound(&self, shape: &Shape) -> bool {
        let tick = shape.tick();
        self.erased <= self.fired.last_passed(tick) && self.fired.due <= tick.end_of(self.opened)
    }

    /// Tells whether `to` may replace this row: versions follow, no hand goes back, the hands are in order.
    #[must_use]
    pub fn may_become(&self, to: &Self, shape: &Shape) -> bool {
        to.version == self.version + 1
            && to.opened >= self.opened
            && to.fired >= self.fired
            && to.erased >= self.erased
            && to.is_sound(shape)
    }
}

/// The constants of the clock protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// The wheel's shape.
    pub shape: Shape,
    /// How many ticks ahead of now slots are closed and read: precision comes from here, not from small ticks.
    pub look_ahead: i64,
    /// How long an owner is left alone after its last swap.
    pub lease: Duration,
    /// How long a wheel must have been free before a node takes it that is not the preferred one.
    pub grace: Duration,
    /// Largest difference between healthy wall clocks.
    pub skew_max: Duration,
    /// An owner whose oldest due entry has waited this long without one acknowledgement leaves the wheel to others.
    pub stall_max: Duration,
}

impl Rules {
    /// Returns the constants of a wheel; they are the same on all nodes.
    #[must_use]
    pub const fn of(shape: Shape) -> Self {
        Self {
            shape,
            // Two ticks: one that is being fired, one that is being read.
            look_ahead: 2,
            // A dead owner delays its tasks by this. Most pauses of a process are shorter.
            lease: Duration::from_secs(5),
            grace: Duration::from_secs(3),
            // Clocks under NTP are much closer than this; a clock that is not is broken.
            skew_max: Duration::from_secs(1),
            stall_max: Duration::from_secs(15),
        }
    }
}

/// The work of the owner since its last swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Everything up to here is done.
    pub fired: Position,
    /// Everything up to here is deleted.
    pub erased: Tick,
    /// No entry is handed out and unacknowledged: a good moment to hand over.
    pub idle: bool,
    /// Since when the oldest due entry has waited without any acknowledgement.
    pub stalled_since: Option<Millis>,
}

/// The knowledge of a node when it considers the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Situation {
    /// The node that asks.
    pub me: NodeId,
    /// Its wall clock.
    pub now: Millis,
    /// The median of the wall clocks of live nodes, when at least three are known.
    pub median_wall: Option<Millis>,
    /// The node that should own this wheel, among live nodes that are ready.
    pub preferred: Option<NodeId>,
    /// The node is about to stop.
    pub leaving: bool,
    /// Since when the node has seen the wheel free.
    pub free_since: Option<Millis>,
    /// The node gave the wheel up and stays away until then.
    pub avoid_until: Option<Millis>,
    /// The node's work on the wheel, when it owns it.
    pub progress: Option<Progress>,
}

/// Why a row is swapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The owner opens the next ticks, reports and renews.
    Advance,
    /// The wheel was free or its lease had ended.
    TakeOver,
    /// The wheel goes to the node that should own it.
    HandOver,
    /// The owner cannot get anything acknowledged; another may.
    GiveUp,
    /// The owner stops.
    Resign,
}

/// Why a row is left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rest {
    /// Another node's lease holds.
    Held,
    /// It is free; another node should take it.
    LeftToPreferred,
    /// This node gave it up a moment ago.
    Avoided,
    /// This node's clock is off; it may not propose.
    BrokenClock,
    /// The row would not change.
    NothingNew,
    /// The node is about to stop.
    Leaving,
}

/// The decision about the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Move {
    /// Write this row in its place, if it is still the one that was considered.
    Swap {
        /// The next row.
        to: ClockRow,
        /// Why.
        reason: Reason,
    },
    /// Leave it.
    Rest(Rest),
}

/// Computes the next value of a clock row, whatever the reason.
#[must_use]
pub fn next(row: &ClockRow, rules: &Rules, s: &Situation) -> Move {
    let sane = s
        .median_wall
        .is_none_or(|median| is_sane(rules, median, s.now));
    if !sane {
        return Move::Rest(Rest::BrokenClock);
    }
    if row.owner == s.me {
        mine(row, rules, s)
    } else {
        not_mine(row, rules, s)
    }
}

/// Tells whether a clock that shows `now` is near enough to what the others show.
#[must_use]
pub fn is_sane(rules: &Rules, median: Millis, now: Millis) -> bool {
    apart(median, now) <= rules.skew_max
}

/// Tells whether no lease holds the row at `now`.
///
/// A row from a clock that is far ahead would hold its wheel until that time. It counts as free, and its hands stay.
#[must_use]
pub fn is_free(row: &ClockRow, rules: &Rules, now: Millis) -> bool {
    let horizon = now.after(rules.lease).after(rules.skew_max);
    let from_the_future = row.wall > horizon || row.lease_until > horizon;
    row.owner == NodeId::NOBODY || from_the_future || row.lease_until.after(rules.skew_max) < now
}

fn mine(row: &ClockRow, rules: &Rules, s: &Situation) -> Move {
    let to = advanced(row, rules, s);
    let other = s.preferred.filter(|node| *node != s.me);
    if s.leaving {
        let owner = other.unwrap_or(NodeId::NOBODY);
        return Move::Swap {
            to: handed(to, owner, rules, s),
            reason: Reason::Resign,
        };
    }
    let Some(progress) = s.progress else {
        // The row says it is ours but we do not fire it: an abandoned swap was applied late, or it was handed over to us.
        return Move::Swap {
            to,
            reason: Reason::TakeOver,
        };
    };
    if let Some(owner) = other {
        let stalled = progress
            .stalled_since
            .is_some_and(|since| s.now.since(since) >= rules.stall_max);
        if stalled {
            return Move::Swap {
                to: handed(to, owner, rules, s),
                reason: Reason::GiveUp,
            };
        }
        if progress.idle {
            return Move::Swap {
                to: handed(to, owner, rules, s),
                reason: Reason::HandOver,
            };
        }
    }
    let renewal_due = row.lease_until < s.now.after(rules.lease * 2 / 3);
    let news = to.opened > row.opened || to.fired > row.fired || to.erased > row.erased;
    if news || renewal_due {
        Move::Swap {
            to,
            reason: Reason::Advance,
        }
    } else {
        Move::Rest(Rest::NothingNew)
    }
}

fn not_mine(row: &ClockRow, rules: &Rules, s: &Situation) -> Move {
    if s.leaving {
        return Move::Rest(Rest::Leaving);
    }
    if !is_free(row, rules, s.now) {
        return Move::Rest(Rest::Held);
    }
    if s.avoid_until.is_some_and(|until| s.now < until) {
        return Move::Rest(Rest::Avoided);
    }
    let waited = s
        .free_since
        .is_some_and(|since| s.now.since(since) >= rules.grace);
    if s.preferred == Some(s.me) || waited {
        Move::Swap {
            to: advanced(row, rules, s),
            reason: Reason::TakeOver,
        }
    } else {
        Move::Rest(Rest::LeftToPreferred)
    }
}

/// Returns the row with every hand moved as far as it may, owned by me, lease renewed.
fn advanced(row: &ClockRow, rules: &Rules, s: &Situation) -> ClockRow {
    let tick = rules.shape.tick();
    let opened = row
        .opened
        .max(tick.last_ended(s.now).plus(rules.look_ahead));
    let (fired, erased) = s.progress.map_or((row.fired, row.erased), |progress| {
        (
            row.fired.max(progress.fired),
            row.erased.max(progress.erased),
        )
    });
    ClockRow {
        version: row.version + 1,
        opened,
        fired,
        erased,
        owner: s.me,
        lease_until: s.now.after(rules.lease),
        wall: s.now,
    }
}

/// Returns the row as it goes to another owner. The owner gets a lease to start under; a free row gets none.
fn handed(to: ClockRow, owner: NodeId, rules: &Rules, s: &Situation) -> ClockRow {
    let lease_until = if owner == NodeId::NOBODY {
        s.now
    } else {
        s.now.after(rules.lease)
    };
    ClockRow {
        owner,
        lease_until,
        ..to
    }
}

/// Returns the row once its owner is known to be dead, by a lock that only one process can hold. The lease ends.
#[must_use]
pub fn freed(row: &ClockRow, now: Millis) -> ClockRow {
    ClockRow {
        version: row.version + 1,
        owner: NodeId::NOBODY,
        lease_until: now,
        wall: now,
        ..*row
    }
}

fn apart(a: Millis, b: Millis) -> Duration {
    a.since(b).max(b.since(a))
}

#[cfg(test)]
#[path = "clock_tests.rs"]
mod tests;
