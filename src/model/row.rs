//! The row of a task holds for the state machine and the stores where the task stands.

use std::sync::Arc;

use uuid::Uuid;

use super::{
    action::End,
    history::{Ending, History},
    holder::Holder,
    ids::TaskId,
    kin::{Rounds, TreeEnd},
    result::TaskResult,
    task::Spec,
    time::Millis,
};

use crate::flaw::{self, Flaw};

pub use super::task_state::State;

/// The error of a task whose attempt was ended because it took too long.
pub const TIMED_OUT: &str = "the attempt took longer than its attempt_timeout";

/// The error of a task whose worker was lost, while it waits for its next attempt and after.
pub const WORKER_LOST: &str = "its worker stopped sending heartbeats";

/// The part of a row beside the columns that conditions name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detail {
    /// The task.
    pub spec: Arc<Spec>,
    /// Its start time: of the registration, or of the last reschedule or redrive.
    pub start: Millis,
    /// When the message of its last claim was handed to the queue.
    pub fire_time: Option<Millis>,
    /// When it was claimed last.
    pub claim_time: Option<Millis>,
    /// When it became terminal.
    pub end_time: Option<Millis>,
    /// The worker that claimed it last.
    pub worker: String,
    /// The result the callback returned.
    pub result: Option<TaskResult>,
    /// The last failure.
    pub error: Option<String>,
    /// The stamp of its last death that is over: it was redriven, or erased ([`super::dead_letter::stamp`]).
    pub died: Option<i64>,
    /// It was deleted by a person. The row is a tombstone.
    pub erased: bool,
    /// How its tree ended, once it has; only for a task that may have children.
    pub tree: Option<TreeEnd>,
    /// The tree ended since the time for further children had passed ([`super::family::held_until`]).
    pub children_time_passed: bool,
    /// How often it began again with its tree.
    pub rounds: Rounds,
    /// Its attempts before it was redriven or reopened last.
    pub lived: u32,
    /// Its attempts before the last one.
    pub history: History,
    /// The task that takes the place of this one, which was replaced: it never starts (again).
    pub next: Option<Arc<Holder>>,
}

/// The row of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskRow {
    /// The task.
    pub id: TaskId,
    /// Where it stands.
    pub state: State,
    /// Reschedules and redrives so far.
    pub generation: u32,
    /// Claims so far: the fencing token.
    pub attempt: u32,
    /// Claims that count against `max_attempts`: without snoozes and releases.
    pub tries: u32,
    /// Not before: the start (new), the end of the claim's lease (claimed), the next try (retrying).
    pub next: Millis,
    /// No entry written for the task, up to its last transition, lies behind this; only grows.
    pub last: Millis,
    /// Someone asked to cancel while an attempt was running.
    pub cancel_requested: bool,
    /// Names the write that made the row what it is.
    pub nonce: Uuid,
    /// The rest.
    pub detail: Detail,
}

impl TaskRow {
    /// Returns until when the live attempt is taken to live: for a heartbeat timeout after its last sign of life, but not
    /// beyond its own time limit.
    #[must_use]
    pub fn alive_until(&self, heartbeat: Option<Millis>) -> Millis {
        let silent = heartbeat.map_or(self.next, |at| {
            self.next.max(at.after(self.detail.spec.heartbeat_timeout))
        });
        self.attempt_ends().map_or(silent, |end| end.min(silent))
    }

    /// Returns when the last attempt has taken too long; none without a limit.
    #[must_use]
    pub fn attempt_ends(&self) -> Option<Millis> {
        let claimed = self.detail.claim_time?;
        let limit = self.detail.spec.attempt_timeout?;
        Some(claimed.after(limit))
    }

    /// Returns how an attempt ended that lived until `alive_until` and was not reported, and the error to tell.
    #[must_use]
    pub fn unreported(&self, alive_until: Millis) -> (Ending, &'static str) {
        if self.attempt_ends() == Some(alive_until) {
            (Ending::TimedOut, TIMED_OUT)
        } else {
            (Ending::Lost, WORKER_LOST)
        }
    }

    /// Tells whether a claim that expects so many attempts would come too late: there were more, or the task has ended.
    #[must_use]
    pub const fn has_passed(&self, expected_attempt: u32) -> bool {
        self.attempt > expected_attempt || self.state.is_terminal()
    }

    /// Tells whether the task has ended, with all of its tree if it may have children.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.state.is_terminal() && !self.waits_for_children()
    }

    /// Returns when the task ended, with all of its tree; none while it goes on.
    #[must_use]
    pub fn ended_at(&self) -> Option<Millis> {
        let tree = self.detail.tree.map(|tree| tree.at);
        tree.or(self.detail.end_time).filter(|_| self.has_ended())
    }

    /// Tells whether it waits for the own run of its parent. Its release makes it a task of the next generation, so nothing of
    /// this one is ever published.
    #[must_use]
    pub fn waits_for_parent(&self) -> bool {
        let Rounds { awaits, .. } = self.detail.rounds;
        let waits = self.generation == 0 || awaits;
        self.state == State::New && waits && self.detail.spec.is_after_parent()
    }

    /// Tells whether it waits for other tasks. Its release makes it a task of the next generation, too.
    #[must_use]
    pub fn waits_for_tasks(&self) -> bool {
        self.state == State::New && self.generation == 0 && self.detail.spec.after.is_some()
    }

    /// Tells whether it waits for the own run of its parent, or for other tasks.
    #[must_use]
    pub fn waits(&self) -> bool {
        self.waits_for_parent() || self.waits_for_tasks()
    }

    /// Tells whether its own run has ended and its tree has not, as far as the row knows.
    #[must_use]
    pub fn waits_for_children(&self) -> bool {
        let is_open = self.detail.tree.is_none() && self.detail.spec.is_parent();
        is_open && self.state.is_terminal()
    }

    /// Returns the generation in which the own run of the task began: its end is told by it.
    #[must_use]
    pub const fn run_generation(&self) -> u32 {
        self.generation.saturating_sub(self.detail.rounds.opened)
    }

    /// Returns the number of the first attempt since it was registered, redriven or reopened.
    #[must_use]
    pub const fn first_attempt(&self) -> u32 {
        self.detail.lived.saturating_add(1)
    }

    /// Returns the generation by which an end of the task, or of its tree, is told.
    #[must_use]
    pub const fn generation_at(&self, end: End) -> u32 {
        match end {
            // A move raises the generation, and is no new life.
            End::Run(State::Claimed, _) => self.first_attempt(),
            End::Run(..) => self.run_generation(),
            End::Tree(_) => self.generation,
        }
    }

    /// Returns what a conditional write must still find to replace this row.
    #[must_use]
    pub const fn seen(&self) -> Expect {
        Expect::Row {
            state: self.state,
            generation: self.generation,
            attempt: self.attempt,
            cancel_requested: self.cancel_requested,
            nonce: self.nonce,
        }
    }
}

/// The row that a conditional write must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// No row.
    Absent,
    /// A row with these values. The nonce alone names it, since each write has its own. The others say to people, and to
    /// stages that lost a race, how far the task was.
    Row {
        /// The state.
        state: State,
        /// The generation.
        generation: u32,
        /// The attempt.
        attempt: u32,
        /// The cancel flag.
        cancel_requested: bool,
        /// The name of the write that made the row.
        nonce: Uuid,
    },
}

impl Expect {
    /// Tells whether a row is the expected one.
    #[must_use]
    pub fn holds(&self, row: Option<&TaskRow>) -> bool {
        let seen = row.map_or(Self::Absent, TaskRow::seen);
        seen == *self || (flaw::is(Flaw::RowsNotNamed) && seen.unnamed() == self.unnamed())
    }

    /// The values without the name of the write.
    const fn unnamed(self) -> Self {
        match self {
            Self::Absent => Self::Absent,
            Self::Row {
                state,
                generation,
                attempt,
                cancel_requested,
                ..
            } => Self::Row {
                state,
                generation,
                attempt,
                cancel_requested,
                nonce: Uuid::nil(),
            },
        }
    }
}
