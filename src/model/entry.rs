//! Entries of the wheel, and what a firing entry means.
//!
//! There are two kinds that act: `due` ("publish this at its time", also a retry) and `look` ("look at this task
//! again"). One invariant carries every tracked task: from its first publish on, while it is not terminal, a look of
//! it lies ahead of the `fired` hand. So one scan finds first fires, retries, lost messages, dead claimers and dead
//! heartbeats alike. A third kind, `done`, overwrites an entry that must not act any more: a row that stays costs less
//! than a tombstone in front of later reads.

use std::sync::Arc;

use super::{
    ids::TaskId,
    look::Grid,
    restart,
    state::{Event, State, TaskRow},
    task::{Body, Spec},
    time::{Millis, Tick},
    wheel::{Shape, Slot, WheelNumber},
};

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

/// What an entry does when its time has come.
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
    },
    /// Nothing.
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
    /// The task's generation: how often it had been rescheduled.
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

    /// Returns the place in this wheel's order that this key has in the order of all wheels: behind it lie the same keys of
    /// the wheel. A bound stays as it is.
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
    /// What it does.
    pub kind: Kind,
    /// The true start time: later than nothing, earlier than `key.due` for an entry that had to be put into a later slot.
    pub start: Millis,
    /// How often handing it over has failed and it was put again further on.
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
            kind: Kind::Look { published },
            start,
            spills: 0,
            spec,
            written,
        }
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

    /// Returns the entry further on, behind everything that is closed: a look at the next point of its grid, a due entry a
    /// tick or a few later (spread by `chance`), its true start kept.
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

    /// Tells whether the task may be published from another place as well: the entry was put further on than the task's
    /// start, because its slot was closed, because it is fired from a node's memory, or because handing it over failed.
    #[must_use]
    pub fn is_moved(&self) -> bool {
        self.key.due != self.start
    }

    /// Tells whether a content is deleted with it, unless it is marked: that of a record, when it is kept apart. Who puts such an
    /// entry further on has not done so until the old place is marked: else the copy is left without its content by whoever
    /// erases that.
    #[must_use]
    pub fn takes_content_along(&self) -> bool {
        matches!(self.spec.body, Body::Apart { .. }) && !self.spec.target.is_tracked()
    }

    /// Tells whether its look must be written before it is published.
    #[must_use]
    pub fn needs_look(&self) -> bool {
        matches!(self.kind, Kind::Due { first: true, .. }) && self.spec.target.is_tracked()
    }
}

/// Returns the due time of an entry that must wait in a slot behind `opened`: the end of one of the next three ticks.
#[must_use]
pub fn backup_due(shape: &Shape, opened: Tick, chance: u64) -> Millis {
    let jitter = i64::try_from(chance % 3).unwrap_or(0);
    shape.tick().end_of(opened.plus(1 + jitter))
}

/// What is known of a task when one of its entries fires.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    /// Its row; absent means never claimed, never rescheduled, never cancelled.
    pub row: Option<&'a TaskRow>,
    /// When its live attempt last gave a sign of life.
    pub heartbeat: Option<Millis>,
}

/// What to do about a firing entry. A successor is durable before anything is published.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Nothing: the entry is done, or belongs to a generation that never came to be.
    Drop,
    /// Publish it; what is read of the task's row, if anything, is checked again by the claim.
    Publish(Publish),
    /// Look again later; nothing else.
    LookAgain {
        /// When.
        at: Millis,
        /// Generation of the successor.
        generation: u32,
    },
    /// Move the task to a terminal state, then do its end steps.
    End {
        /// The move.
        event: Event,
    },
    /// The task is terminal: repeat its end steps, then drop.
    EndSteps,
}

/// A publication that a firing entry asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Publish {
    /// Generation that the claim must find.
    pub generation: u32,
    /// Attempt that the claim must find.
    pub expected_attempt: u32,
    /// The task is not to be claimed before this.
    pub start: Millis,
    /// The look to write first; none where one lies ahead already.
    pub look_at: Option<Millis>,
    /// Publish only if what was published at this instant is no longer waiting in the queue.
    pub unless_queued_since: Option<Millis>,
}

/// Decides what a firing entry means.
///
/// A due entry decides alone (`known` is not looked at): its row is not read, the claim finds out what is stale.
#[must_use]
pub fn decide(entry: &Entry, known: Known<'_>, now: Millis, shape: &Shape) -> Decision {
    let grid = Grid::of(entry.key.id, shape);
    match entry.kind {
        Kind::Done { .. } => Decision::Drop,
        Kind::Due {
            expected_attempt,
            first,
        } => Decision::Publish(Publish {
            generation: entry.key.generation,
            expected_attempt,
            start: entry.start,
            look_at: (first && entry.spec.target.is_tracked())
                .then(|| grid.one_step_after(entry.key.due.max(now))),
            unless_queued_since: None,
        }),
        Kind::Look { published } => look(entry, known, now, grid, published),
    }
}

/// Decides what a node owes a task whose look it finds at its start, when everything that was in a queue or in memory is
/// gone with the process before it: the publication, now or at its time. Its look stands as it is.
#[must_use]
pub fn resume(entry: &Entry, known: Known<'_>, now: Millis, shape: &Shape) -> Option<Publish> {
    let owed = |start, generation, expected_attempt| Publish {
        generation,
        expected_attempt,
        start,
        look_at: None,
        unless_queued_since: None,
    };
    match (decide(entry, known, now, shape), known.row) {
        (Decision::Publish(publish), _) => Some(owed(
            publish.start,
            publish.generation,
            publish.expected_attempt,
        )),
        (Decision::LookAgain { .. }, None) => Some(owed(entry.key.id.first_start(), 0, 0)),
        (Decision::LookAgain { .. }, Some(row))
            if matches!(row.state, State::New | State::Retrying) =>
        {
            Some(owed(row.next, row.generation, row.attempt))
        }
        (Decision::LookAgain { .. }, Some(_))
        | (Decision::Drop | Decision::End { .. } | Decision::EndSteps, _) => None,
    }
}

fn look(
    entry: &Entry,
    known: Known<'_>,
    now: Millis,
    grid: Grid,
    published: Option<Millis>,
) -> Decision {
    let Some(row) = known.row else {
        // Generation 0 still has its own entry or look; a later one that left no row never came to be.
        if entry.key.generation > 0 {
            return Decision::Drop;
        }
        return unclaimed(
            &Unclaimed {
                start: entry.key.id.first_start(),
                not_before: entry.key.id.first_start(),
                generation: 0,
                attempt: 0,
                published,
            },
            entry,
            now,
            grid,
        );
    };
    if restart::is_under_way(entry, row, now) {
        return Decision::LookAgain {
            at: grid.backed_off(now, now.since(entry.start)),
            generation: entry.key.generation,
        };
    }
    match row.state {
        State::Succeeded | State::Failed | State::Cancelled | State::Expired | State::Dead => {
            Decision::EndSteps
        }
        State::New | State::Retrying => unclaimed(
            &Unclaimed {
                start: row.detail.start,
                not_before: row.next,
                generation: row.generation,
                attempt: row.attempt,
                published,
            },
            entry,
            now,
            grid,
        ),
        State::Claimed => claimed(row, known.heartbeat, now, grid, published),
    }
}

fn claimed(
    row: &TaskRow,
    heartbeat: Option<Millis>,
    now: Millis,
    grid: Grid,
    published: Option<Millis>,
) -> Decision {
    let alive_until = row.alive_until(heartbeat);
    if now < alive_until {
        return Decision::LookAgain {
            at: grid.at(alive_until),
            generation: row.generation,
        };
    }
    if row.cancel_requested || row.tries >= row.detail.spec.max_attempts {
        let event = Event::Abandoned {
            attempt: row.attempt,
            heartbeat,
        };
        return Decision::End { event };
    }
    Decision::Publish(Publish {
        generation: row.generation,
        expected_attempt: row.attempt,
        start: row.detail.start,
        look_at: Some(grid.one_step_after(now)),
        unless_queued_since: published.filter(|at| *at >= alive_until),
    })
}

struct Unclaimed {
    start: Millis,
    not_before: Millis,
    generation: u32,
    attempt: u32,
    published: Option<Millis>,
}

fn unclaimed(task: &Unclaimed, entry: &Entry, now: Millis, grid: Grid) -> Decision {
    if now < task.not_before {
        return Decision::LookAgain {
            at: grid.one_step_after(task.not_before),
            generation: task.generation,
        };
    }
    if entry.spec.is_expired(task.start, now) {
        return Decision::End {
            event: Event::Expire,
        };
    }
    Decision::Publish(Publish {
        generation: task.generation,
        expected_attempt: task.attempt,
        start: task.not_before,
        look_at: Some(match task.published {
            Some(_) => grid.backed_off(now, now.since(task.not_before)),
            None => grid.one_step_after(now),
        }),
        unless_queued_since: task.published.filter(|at| *at >= task.not_before),
    })
}

#[cfg(test)]
#[path = "entry_tests.rs"]
mod tests;
