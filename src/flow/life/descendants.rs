//! The tasks below a root are told here between the stages that register trees.

use std::time::Duration;

use super::incoming::Incoming;
use crate::model::{draft::TaskDraft, ids::TaskId, time::Millis};

/// A task below the root of a tree, to register.
#[derive(Debug, Clone)]
pub struct NewChild {
    /// When it is to start.
    pub start: ChildStart,
    /// The task, as far as it was given; its parent is set at the registration.
    pub draft: TaskDraft,
    /// Its own children.
    pub children: Vec<NewChild>,
}

/// When a task below a root starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildStart {
    /// This long after the start of the root.
    After(Duration),
    /// At this time, but not before the root.
    At(Millis),
}

impl ChildStart {
    pub(super) fn of(self, root: Millis) -> Millis {
        match self {
            Self::After(wait) => root.after(wait),
            Self::At(at) => at.max(root),
        }
    }
}

/// A task below a root, completed.
#[derive(Debug)]
pub(super) struct Grown {
    /// Where it lies in the request.
    pub(super) at: String,
    /// The task.
    pub(super) task: Incoming,
}

/// The tasks below a root whose rows are durable.
#[derive(Debug)]
pub(super) struct Prepared {
    /// The root.
    pub(super) root: TaskId,
    /// The tasks below it, which have no entries yet.
    pub(super) below: Vec<Incoming>,
}

/// Counts the tasks below a root.
#[must_use]
pub fn count(children: &[NewChild]) -> usize {
    let below = children.iter().map(|child| 1 + count(&child.children));
    below.sum()
}
