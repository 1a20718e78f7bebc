//! What clients were told and what handlers did: all that the invariants may judge a run by, beside what is in the store at
//! its end. Times are milliseconds of the run, by a clock that is always right; `wall` is what a node's clock showed.

use std::collections::{BTreeMap, BTreeSet};

use tickwheel::model::{
    clock::ClockRow,
    entry::Key,
    ids::TaskId,
    state::{Outcome, TaskRow},
    wheel::WheelNumber,
};

use super::plan::Request;

/// A task whose registration was acknowledged.
#[derive(Debug, Clone)]
pub(crate) struct Registered {
    /// Its number in the plan.
    pub(crate) number: usize,
    pub(crate) id: TaskId,
    /// It is for a callback, not a record.
    pub(crate) tracked: bool,
    /// The start that the client was told.
    pub(crate) start: i64,
    pub(crate) answered: i64,
}

/// What a client was told about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    /// It holds: the task is cancelled, or starts at this instant.
    Cancelled,
    Rescheduled(i64),
    /// An attempt runs; no further one follows.
    CancelRequested,
    /// Nothing has changed.
    TooLate,
    NotFound,
    /// Nobody knows.
    Unknown,
}

/// A call of a client.
#[derive(Debug, Clone)]
pub(crate) struct Called {
    pub(crate) request: Request,
    pub(crate) asked: i64,
    pub(crate) answered: i64,
    pub(crate) told: Told,
}

/// An attempt that a worker was given.
#[derive(Debug, Clone)]
pub(crate) struct Claimed {
    pub(crate) attempt: u32,
    pub(crate) asked: i64,
    pub(crate) answered: i64,
    /// The latest time that the answering node's clock showed between the two.
    pub(crate) wall: i64,
    /// The content that came with it, as a length.
    pub(crate) body: Option<usize>,
}

/// An execution of a handler.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) attempt: u32,
    pub(crate) worker: usize,
    pub(crate) began: i64,
    /// It does nothing behind this, whatever happens to its process.
    pub(crate) deadline: i64,
    /// When it stopped doing anything; none while it runs.
    pub(crate) ended: Option<i64>,
    /// It came to its end, and was not stopped on the way.
    pub(crate) whole: bool,
    pub(crate) outcome: Option<Outcome>,
}

/// A report of an attempt that was answered.
#[derive(Debug, Clone)]
pub(crate) struct Reported {
    pub(crate) attempt: u32,
    pub(crate) answered: i64,
    /// It was taken; else the attempt was not the live one.
    pub(crate) taken: bool,
    pub(crate) outcome: Outcome,
}

/// All of one task.
#[derive(Debug, Clone, Default)]
pub(crate) struct Story {
    pub(crate) registered: Option<Registered>,
    pub(crate) calls: Vec<Called>,
    pub(crate) claims: Vec<Claimed>,
    pub(crate) runs: Vec<Run>,
    pub(crate) reports: Vec<Reported>,
}

/// A swap of a clock row that a node was told is applied.
#[derive(Debug, Clone)]
pub(crate) struct Swap {
    pub(crate) wheel: WheelNumber,
    pub(crate) from: ClockRow,
    pub(crate) to: ClockRow,
}

/// All of a run.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) stories: BTreeMap<TaskId, Story>,
    pub(crate) swaps: Vec<Swap>,
    /// Of each node, when its clock began to be off by how much: in order of time.
    pub(crate) clock_errors: Vec<(i64, usize, i64)>,
    /// Writes of entries that nobody was told are durable: they may come up whenever they like.
    pub(crate) unsure: BTreeMap<Key, usize>,
    /// What lay in what was erased, at any time that was looked at.
    pub(crate) leftovers: BTreeSet<String>,
    /// Rows of tasks that had ended when they were looked at: they may be gone at the end of a run of days.
    pub(crate) rows: BTreeMap<TaskId, TaskRow>,
    /// What broke a rule while it happened.
    pub(crate) broken: Vec<String>,
}

impl History {
    pub(crate) fn of(&mut self, id: TaskId) -> &mut Story {
        self.stories.entry(id).or_default()
    }

    pub(crate) fn begin_write(&mut self, key: Key) {
        *self.unsure.entry(key).or_default() += 1;
    }

    pub(crate) fn end_write(&mut self, key: Key) {
        if let Some(count) = self.unsure.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                self.unsure.remove(&key);
            }
        }
    }

    /// The latest time that a node's clock showed within an interval: a clock may have been set back in it.
    pub(crate) fn latest_wall(&self, node: usize, from: i64, to: i64) -> i64 {
        let (mut error, mut latest) = (0, i64::MIN);
        let changes = self
            .clock_errors
            .iter()
            .filter(|(at, of, _)| *of == node && *at <= to);
        for (at, _, next) in changes {
            if *at > from {
                latest = latest.max(at + error);
            }
            error = *next;
        }
        latest.max(to + error)
    }

    /// The largest error of any clock, ahead of the right time, that was in force within an interval.
    pub(crate) fn ahead_within(&self, from: i64, to: i64) -> i64 {
        let mut in_force: BTreeMap<usize, i64> = BTreeMap::new();
        let mut largest = 0;
        for (at, node, error) in &self.clock_errors {
            if *at > to {
                break;
            }
            if *at > from {
                largest = largest.max(*in_force.get(node).unwrap_or(&0));
            }
            in_force.insert(*node, *error);
            if *at > from {
                largest = largest.max(*error);
            }
        }
        in_force.values().copied().max().unwrap_or(0).max(largest)
    }
}
