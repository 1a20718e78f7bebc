//! The kin tells specs and rows where a task stands in its tree, and how the tree ended.

use std::time::Duration;

use super::{ids::TaskId, time::Millis};

/// The error of a task that waited for the own run of its parent, which did not succeed.
pub const PARENT_FAILED: &str = "the own run of its parent did not succeed";

/// The place of a task in its tree, as it was registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Kin {
    /// The task that it is a child of.
    pub parent: Option<TaskId>,
    /// It may have children.
    pub is_parent: bool,
    /// It starts when the own run of its parent has succeeded, and not before.
    pub after_parent: bool,
    /// It follows an end that was no success, or a task that does: a cancel of its tree passes over it. The service sets it.
    pub undoes: bool,
    /// Its tree is held open for children to come for so long behind the end of its own run.
    pub children_within: Option<Duration>,
}

/// How often a task of a tree began again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rounds {
    /// The round of the task: how often it began again, or how often its tree was opened again if it may have children.
    pub round: u32,
    /// How often its tree was opened since its own run began: each time raised the generation, and is no new run.
    pub opened: u32,
    /// It waits once more for the own run of its parent, or did so when it ended.
    pub awaits: bool,
}

/// The part of a task that goes on when its tree, or that of its parent, was opened again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// Its tree. Its own run stays as it ended.
    Tree,
    /// Its own run has failed, and runs again.
    Run {
        /// The start.
        start: Millis,
    },
    /// Its own run has succeeded, and runs again since its owner asks for it.
    Reopen {
        /// The start.
        start: Millis,
    },
    /// It was cancelled with the own run of its parent, and waits for that once more.
    Wait,
    /// Nothing: it cannot run, and ends the round as it ended the one before.
    Nothing,
}

/// The runs that may begin again in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Runs {
    /// None: its tree goes on alone, or it waits for its parent again.
    #[default]
    None,
    /// One that has failed.
    Failed,
    /// One that has succeeded.
    Succeeded,
}

impl Runs {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::None, Self::Failed, Self::Succeeded];

    /// Returns the number that stores keep.
    #[must_use]
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// Reads a stored number.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.number() == number)
    }
}

/// How a tree has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TreeOutcome {
    /// Nothing of it failed.
    Completed,
    /// Its own run or a child failed.
    Faulted,
    /// It was cancelled as a whole before its end, whatever became of its tasks.
    Cancelled,
}

impl TreeOutcome {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Completed, Self::Faulted, Self::Cancelled];

    /// Returns the number that stores keep.
    #[must_use]
    pub const fn number(self) -> i32 {
        match self {
            Self::Completed => 0,
            Self::Faulted => 1,
            Self::Cancelled => 2,
        }
    }

    /// Reads a stored number.
    #[must_use]
    pub fn from_number(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.number() == number)
    }

    /// Returns the name that people read.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Faulted => "faulted",
            Self::Cancelled => "cancelled",
        }
    }
}

/// The end of a tree, as the row of its parent has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeEnd {
    /// How it ended.
    pub outcome: TreeOutcome,
    /// When the row was written.
    pub at: Millis,
}
