//! `History` records the answers to clients and the runs of handlers for the invariants, which use no other
//! facts but the store at the end. Times are milliseconds of the run, by a clock that is always right; `wall`
//! is the time of a node's clock.

use std::collections::{BTreeMap, BTreeSet};

use tickwheel::model::{
    clock::ClockRow,
    entry::Key,
    ids::TaskId,
    state::{Outcome, TaskRow},
    wheel::WheelNumber,
};

use super::{plan::Request, scene::Step};

/// A task whose registration was acknowledged.
#[derive(Debug, Clone)]
pub(crate) struct Registered {
    /// Its number in the plan.
    pub(crate) number: usize,
    pub(crate) id: TaskId,
    /// The task is for a callback, not a record.
    pub(crate) tracked: bool,
    /// The start in the answer to the client.
    pub(crate) start: i64,
    pub(crate) answered: i64,
}

/// The answer to a call of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    /// It holds: the task is cancelled, or starts at this instant.
    Cancelled,
    Rescheduled(i64),
    /// An attempt runs; no further one follows.
    CancelRequested,
    /// The task has not changed.
    TooLate,
    NotFound,
    /// The outcome is not known.
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

/// An attempt that was given to a worker.
#[derive(Debug, Clone)]
pub(crate) struct Claimed {
    pub(crate) attempt: u32,
    pub(crate) asked: i64,
    pub(crate) answered: i64,
    /// The latest time of the answering node's clock between the two.
    pub(crate) wall: i64,
    /// The length of its content.
    pub(crate) body: Option<usize>,
}

/// An execution of a handler.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) attempt: u32,
    pub(crate) worker: usize,
    pub(crate) began: i64,
    /// The handler does nothing after this time, whatever happens to its process.
    pub(crate) deadline: i64,
    /// When it stopped; none while it runs.
    pub(crate) ended: Option<i64>,
    /// The handler came to its end, and was not stopped on the way.
    pub(crate) whole: bool,
    pub(crate) outcome: Option<Outcome>,
}

/// A report of an attempt that was answered.
#[derive(Debug, Clone)]
pub(crate) struct Reported {
    pub(crate) attempt: u32,
    pub(crate) answered: i64,
    /// The report was accepted; otherwise the attempt was not the live one.
    pub(crate) taken: bool,
    pub(crate) outcome: Outcome,
}

/// The answer to the registration of a task of a scene.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    Created,
    Existing,
    Replaced,
    KeyTaken,
    /// It may not be added to its parent, or not wait for others.
    Refused,
}

/// The registration of a task of a scene.
#[derive(Debug, Clone)]
pub(crate) struct Entered {
    /// The id that its client made.
    pub(crate) id: Option<TaskId>,
    /// When it was sent first.
    pub(crate) asked: i64,
    /// The answers: which, about which task, and when.
    pub(crate) answers: Vec<(Entry, TaskId, i64)>,
    /// Some request had no answer.
    pub(crate) unsure: bool,
}

impl Entered {
    /// The id of the task that was registered for it, and when that was known; none when it was not, or is not known.
    pub(crate) fn task(&self) -> Option<(TaskId, i64)> {
        let new = |entry: &Entry| matches!(entry, Entry::Created | Entry::Replaced);
        let mut answers = self.answers.iter();
        let made = answers.find(|(entry, id, _)| new(entry) || self.id == Some(*id));
        let made = made.filter(|(entry, ..)| *entry != Entry::Refused);
        made.map(|(_, id, at)| (*id, *at))
    }
}

/// A call of the operator of a scene that was answered, or given up.
#[derive(Debug, Clone)]
pub(crate) struct Ordered {
    pub(crate) step: Step,
    pub(crate) asked: i64,
    pub(crate) answered: i64,
    /// It was done, as the answer says.
    pub(crate) done: bool,
    /// The tasks that it told to run, or changed.
    pub(crate) tasks: Vec<TaskId>,
    /// The time from which a schedule counts.
    pub(crate) anchor: Option<i64>,
}

/// All events of a scene.
#[derive(Debug, Clone, Default)]
pub(crate) struct SceneStory {
    pub(crate) entered: BTreeMap<usize, Entered>,
    pub(crate) orders: Vec<Ordered>,
    /// Parents whose trees were seen to have ended: when that was asked, and answered.
    pub(crate) trees: BTreeMap<TaskId, (i64, i64)>,
    /// Figures of the service about itself at rest, and those of a reader of everything.
    pub(crate) figures: Vec<(String, u64, u64)>,
}

/// All events of one task.
#[derive(Debug, Clone, Default)]
pub(crate) struct Story {
    /// The scene and the item that its payload names.
    pub(crate) place: Option<(usize, usize)>,
    /// The task that it follows.
    pub(crate) previous: Option<TaskId>,
    /// The time of a schedule that it stands for.
    pub(crate) scheduled: Option<i64>,
    pub(crate) registered: Option<Registered>,
    pub(crate) calls: Vec<Called>,
    pub(crate) claims: Vec<Claimed>,
    pub(crate) runs: Vec<Run>,
    pub(crate) reports: Vec<Reported>,
}

/// A swap of a clock row that its node knows as applied.
#[derive(Debug, Clone)]
pub(crate) struct Swap {
    pub(crate) wheel: WheelNumber,
    pub(crate) from: ClockRow,
    pub(crate) to: ClockRow,
}

/// All events of a run.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) stories: BTreeMap<TaskId, Story>,
    pub(crate) swaps: Vec<Swap>,
    /// For each node, when its clock began to have which error, in order of time.
    pub(crate) clock_errors: Vec<(i64, usize, i64)>,
    /// Writes of entries without an acknowledgement, which may come up at any time.
    pub(crate) unsure: BTreeMap<Key, usize>,
    /// Entries that lay in erased ticks at any look.
    pub(crate) leftovers: BTreeSet<String>,
    /// Rows of tasks that had ended at a look: they may be gone at the end of a run of days.
    pub(crate) rows: BTreeMap<TaskId, TaskRow>,
    pub(crate) scenes: BTreeMap<usize, SceneStory>,
    /// Rules that were broken during the run.
    pub(crate) broken: Vec<String>,
}

impl History {
    pub(crate) fn of(&mut self, id: TaskId) -> &mut Story {
        self.stories.entry(id).or_default()
    }

    pub(crate) fn scene(&mut self, number: usize) -> &mut SceneStory {
        self.scenes.entry(number).or_default()
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

    /// The latest time of a node's clock within an interval, in which the clock may have been set back.
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
