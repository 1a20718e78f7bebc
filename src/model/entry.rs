//! The entry keeps for the firing stages what is to be done when its time has come.
//!
//! Two kinds act: `due` ("publish this at its time", also a retry) and `look` ("look at this task again").
//! One invariant carries every tracked task: from its first publish on, while it is not terminal, a look of
//! it lies ahead of the `fired` hand. So one scan finds first fires, retries, lost messages, dead claimers
//! and dead heartbeats alike. A third kind, `done`, overwrites an entry that must not act any more: a row
//! that stays costs less than a tombstone in front of later reads.

use std::{sync::Arc, time::Duration};

use super::{
    ids::{NodeId, TaskId},
    look::Grid,
    task::{Body, Spec},
    time::{Millis, Tick},
    wheel::{Shape, Slot, WheelNumber},
};

/// How long an entry that is not removed when wheels remove it still counts as one that a wheel comes to. A task waits as much
/// longer for another one before it asks whether anything comes to that.
pub const LEFT_AFTER: Duration = Duration::from_secs(60);

/// Tells whether wheels, which keep an entry for `kept` behind its time, would have removed one of this time long ago. One that
/// is there was left by a registration that was not finished.
#[must_use]
pub fn is_left(due: Millis, kept: Duration, now: Millis) -> bool {
    now >= due.after(kept + LEFT_AFTER)
}

/// Why an entry does not act any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DoneReason {
    /// The task was cancelled.
    Cancelled,
    /// The registering node published it from memory.
    Published,
    /// The task was rescheduled: its entry is now due at this instant, under the next generation.
    Moved {
        /// The new due time.
        to: Millis,
    },
}

/// A node that holds a task in its memory, as the look of the task names it: half of the id of one life of a process.
///
/// Two lives with one such name cost a message too many, which its claim refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HeldBy(pub i64);

impl HeldBy {
    /// Returns the name of a node.
    #[must_use]
    pub fn of(node: NodeId) -> Self {
        let (_, low) = node.0.as_u64_pair();
        Self(low.cast_signed())
    }
}

/// The action of an entry when its time has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Publish the task; a worker's claim must find `expected_attempt` (0: never claimed).
    Due {
        /// Attempt that the claim must find.
        expected_attempt: u32,
        /// The first entry of its generation: its look is written before it is published.
        first: bool,
    },
    /// Look at the task's row and do what it needs.
    Look {
        /// When the task was last published, as far as the writer knew; none when it never was.
        published: Option<Millis>,
        /// The node that hands the task out from its memory; none where the wheel does, or where the task went out.
        held_by: Option<HeldBy>,
    },
    /// No action.
    Done {
        /// Why.
        reason: DoneReason,
        /// When it was marked.
        at: Millis,
    },
}

/// The order of an entry among those of the same due time, task and generation; part of its key and never reused.
///
/// A `done` entry keeps the key of the entry that it overwrites.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyCode(pub i32);

impl KeyCode {
    /// Every look.
    pub const LOOK: Self = Self(1);

    /// Returns the code of a due entry: twice the attempt that it expects.
    #[must_use]
    pub fn due(expected_attempt: u32) -> Self {
        Self(i32::try_from(expected_attempt.saturating_mul(2)).unwrap_or(i32::MAX - 1))
    }
}

/// Where an entry lies: unique, and ordered within its slot as the fields are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// When the wheel hands it out; decides tick and slot.
    pub due: Millis,
    /// Its task; decides the wheel.
    pub id: TaskId,
    /// The task's generation: how often it had been rescheduled or redriven.
    pub generation: u32,
    /// Kind and expected attempt.
    pub code: KeyCode,
}

impl Key {
    /// Returns the bound behind every key that is due at or before `due`: a place to read on from, not an entry's.
    #[must_use]
    pub const fn behind(due: Millis) -> Self {
        Self {
            due,
            id: TaskId::LAST,
            generation: u32::MAX,
            code: KeyCode(i32::MAX),
        }
    }

    /// Returns the place in this wheel's order that this key has in the order of all wheels: the same keys of
    /// the wheel lie behind it. A bound stays as it is.
    #[must_use]
    pub fn within(self, wheel: WheelNumber) -> Self {
        if self == Self::behind(self.due) || self.wheel() == wheel {
            return self;
        }
        Self {
            id: self.id.within(wheel),
            ..self
        }
    }

    /// Returns the wheel.
    #[must_use]
    pub fn wheel(&self) -> WheelNumber {
        self.id.wheel()
    }

    /// Returns the slot.
    #[must_use]
    pub fn slot(&self, shape: &Shape) -> Slot {
        shape.slot_of_due(self.due)
    }
}

/// A row of a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Where it lies.
    pub key: Key,
    /// Its action.
    pub kind: Kind,
    /// The true start time: never later than `key.due`, and earlier for an entry that had to be put into a later slot.
    pub start: Millis,
    /// How often handing it over has failed, so that it was put further on.
    pub spills: u32,
    /// The task.
    pub spec: Arc<Spec>,
    /// Write time in microseconds, fixed when the entry is first written and kept by every repetition of the write, so
    /// that a repetition never revives what was overwritten meanwhile.
    pub written: i64,
}

impl Entry {
    /// Returns a due entry.
    #[must_use]
    pub fn due(
        id: TaskId,
        generation: u32,
        expected_attempt: u32,
        at: Millis,
        spec: Arc<Spec>,
        written: i64,
    ) -> Self {
        Self {
            key: Key {
                due: at,
                id,
                generation,
                code: KeyCode::due(expected_attempt),
            },
            kind: Kind::Due {
                expected_attempt,
                first: false,
            },
            start: at,
            spills: 0,
            spec,
            written,
        }
    }

    /// Returns a look.
    #[must_use]
    pub fn look(
        id: TaskId,
        generation: u32,
        at: Millis,
        published: Option<Millis>,
        start: Millis,
        spec: Arc<Spec>,
        written: i64,
    ) -> Self {
        Self {
            key: Key {
                due: at,
                id,
                generation,
                code: KeyCode::LOOK,
            },
            kind: Kind::Look {
                published,
                held_by: None,
            },
            start,
            spills: 0,
            spec,
            written,
        }
    }

    /// Notes in a look that this node holds the task in memory, so that others find the task when the node is dead.
    #[must_use]
    pub fn held_by(mut self, node: NodeId) -> Self {
        if let Kind::Look { held_by, .. } = &mut self.kind {
            *held_by = Some(HeldBy::of(node));
        }
        self
    }

    /// Marks a due entry as the first of its generation.
    #[must_use]
    pub fn first_of_generation(mut self) -> Self {
        if let Kind::Due { first, .. } = &mut self.kind {
            *first = true;
        }
        self
    }

    /// Returns the entry that overwrites this one.
    #[must_use]
    pub fn marked_done(&self, reason: DoneReason, at: Millis, written: i64) -> Self {
        Self {
            kind: Kind::Done { reason, at },
            written: written.max(self.written + 1),
            ..self.clone()
        }
    }

    /// Returns the due entry that this was before it was marked, to be written now.
    #[must_use]
    pub fn due_again(&self, written: i64) -> Self {
        let expected_attempt = u32::try_from(self.key.code.0 / 2).unwrap_or(0);
        Self {
            kind: Kind::Due {
                expected_attempt,
                first: true,
            },
            written: written.max(self.written + 1),
            ..self.clone()
        }
    }

    /// Returns the copy of this entry further on, behind everything that is closed, with its true start. A
    /// look goes to the next point of its grid, a due entry a tick or a few later (spread by `chance`).
    #[must_use]
    pub fn moved_behind(&self, opened: Tick, shape: &Shape, chance: u64) -> Self {
        let due = match self.kind {
            Kind::Look { .. } => {
                let grid = Grid::of(self.key.id, shape);
                grid.open_from(self.key.due, shape, opened)
            }
            Kind::Due { .. } | Kind::Done { .. } => backup_due(shape, opened, chance),
        };
        Self {
            key: Key {
                due: due.max(self.key.due),
                ..self.key
            },
            ..self.clone()
        }
    }

    /// Tells whether the task may be published from another place as well. The entry was put further on than
    /// the task's start: its slot was closed, it is fired from a node's memory, or handing it over failed.
    #[must_use]
    pub fn is_moved(&self) -> bool {
        self.key.due != self.start
    }

    /// Tells whether a content is deleted with the entry, unless it is marked: that of a record, when it is
    /// kept apart. A stage that puts such an entry further on has finished only when the old place is marked:
    /// otherwise the eraser of the old place deletes the content of the copy.
    #[must_use]
    pub fn takes_content_along(&self) -> bool {
        matches!(self.spec.body, Body::Apart { .. }) && !self.spec.target.is_tracked()
    }

    /// Tells whether it is the place of a tracked task that was written again elsewhere: it says nothing about its task.
    #[must_use]
    pub fn is_withdrawn(&self) -> bool {
        let reason = match self.kind {
            Kind::Done { reason, .. } => Some(reason),
            Kind::Due { .. } | Kind::Look { .. } => None,
        };
        matches!(reason, Some(DoneReason::Moved { .. })) && self.spec.target.is_tracked()
    }

    /// Tells whether its look must be written before it is published.
    #[must_use]
    pub fn needs_look(&self) -> bool {
        matches!(self.kind, Kind::Due { first: true, .. }) && self.spec.target.is_tracked()
    }
}

/// Returns the due time of an entry that must wait in a slot behind `opened`: the end of one of the next three ticks.
#[must_use]
fn backup_due(shape: &Shape, opened: Tick, chance: u64) -> Millis {
    let jitter = i64::try_from(chance % 3).unwrap_or(0);
    shape.tick().end_of(opened.plus(1 + jitter))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{
        fixtures::{START, id, shape, spec},
        target::Target,
    };

    #[test]
    fn an_entry_is_left_a_minute_behind_its_removal() {
        let kept = Duration::from_secs(600);
        let minute_behind = START.after(kept + Duration::from_secs(60));
        assert!(!is_left(START, kept, Millis(minute_behind.0 - 1)));
        assert!(is_left(START, kept, minute_behind));
    }

    #[test]
    fn an_entry_whose_slot_has_closed_goes_into_one_that_is_open_and_keeps_its_start() {
        let spec = Arc::new(spec());
        let shape = shape();
        let grid = Grid::of(id(), &shape);
        for opened in [1_000, 1_001, 1_050, 9_999] {
            for chance in 0..4 {
                let due = Entry::due(id(), 0, 2, START, Arc::clone(&spec), 0);
                let look = Entry::look(id(), 0, grid.at(START), None, START, Arc::clone(&spec), 0);
                for entry in [due, look] {
                    let moved = entry.moved_behind(Tick(opened), &shape, chance);
                    let tick = shape.tick().tick_of(moved.key.due);
                    assert!(tick > Tick(opened) && moved.key.due >= entry.key.due);
                    assert_eq!((moved.start, moved.key.code), (START, entry.key.code));
                    if matches!(entry.kind, Kind::Look { .. }) {
                        assert_eq!(grid.at(moved.key.due), moved.key.due);
                    } else {
                        assert!(tick <= Tick(opened + 3));
                    }
                }
            }
        }
    }

    #[test]
    fn keys_of_one_instant_put_the_look_behind_the_first_due_entry_and_before_the_retries() {
        let codes = [
            KeyCode::due(0),
            KeyCode::LOOK,
            KeyCode::due(1),
            KeyCode::due(2),
        ];
        assert!(codes.is_sorted());
        assert_eq!(codes, [KeyCode(0), KeyCode(1), KeyCode(2), KeyCode(4)]);
        assert!(KeyCode::due(u32::MAX) > KeyCode::due(1_000_000));
    }

    #[test]
    fn an_entry_that_was_put_further_on_is_told_from_one_that_lies_at_its_start() {
        let due = Entry::due(id(), 0, 0, START, Arc::new(spec()), 0);
        assert!(!due.is_moved());
        let further = due.moved_behind(shape().tick().tick_of(START), &shape(), 0);
        assert!(further.is_moved());
        // However often handing it over has failed: it may have gone out where it lay before.
        assert!(
            Entry {
                spills: 1,
                ..further
            }
            .is_moved()
        );
    }

    #[test]
    fn only_a_record_takes_its_content_along_and_only_one_that_is_kept_apart() {
        let takes = |target: Target, body: Body| {
            let spec = Spec {
                target,
                body,
                ..spec()
            };
            Entry::due(id(), 0, 0, START, Arc::new(spec), 0).takes_content_along()
        };
        let record = || Target::Kafka {
            topic: "users".to_owned(),
            partition: None,
        };
        let apart = || Body::Apart { bytes: 2000 };
        assert!(takes(record(), apart()));
        assert!(!takes(record(), spec().body));
        assert!(!takes(spec().target, apart()));
    }
}
