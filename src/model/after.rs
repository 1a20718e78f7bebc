//! The wait of a task tells specs and drafts for what others a task waits, and how long.

use super::{ids::TaskId, time::Millis};

/// The ends that a task waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Condition {
    /// All succeed. The first that does not ends the wait.
    #[default]
    AllSucceeded,
    /// All end, in whatever way.
    AllEnded,
}

/// The wait of a task, as its spec has it. The tasks that it waits for are in rows of the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct After {
    /// The ends.
    pub condition: Condition,
    /// Tasks that are not known yet may be among them.
    pub later: bool,
    /// It waits until then at most.
    pub deadline: Option<Millis>,
    /// How many tasks it waits for.
    pub tasks: u32,
}

/// The wait of a task, as it was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The rules.
    pub after: After,
    /// The tasks that it waits for, each once.
    pub ids: Vec<TaskId>,
}
