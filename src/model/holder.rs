//! The holder of a key names for records of keys, and for rows of replaced tasks, a task and all that is needed to write it.

use std::sync::Arc;

use super::{ids::TaskId, task::Spec};

/// A task that holds a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The task.
    pub id: TaskId,
    /// Reschedules and redrives of the task up to the redrive that was begun last; 0 before there was one.
    pub generation: u32,
    /// The task, so that a request that finds the record can write it.
    pub spec: Arc<Spec>,
}
