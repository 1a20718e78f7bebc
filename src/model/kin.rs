//! The kin tells specs and rows where a task stands in its tree, and how the tree ended.

use super::{ids::TaskId, time::Millis};

/// The place of a task in its tree, as it was registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Kin {
    /// The task that it is a child of.
    pub parent: Option<TaskId>,
    /// It may have children.
    pub is_parent: bool,
    /// It starts when the own run of its parent has succeeded, and not before.
    pub after_parent: bool,
}

/// The end of a tree, as the row of its parent has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeEnd {
    /// Its own run or a child failed.
    pub faulted: bool,
    /// When the row was written.
    pub at: Millis,
}
