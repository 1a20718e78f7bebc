//! Rows of tasks that were claimed through this node, to settle them without reading first.
//!
//! A hint: the conditional write finds out when a remembered row is out of date. Bounded; the oldest are forgotten.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, PoisonError},
};

use crate::{
    limits,
    model::{ids::TaskId, state::TaskRow},
};

#[derive(Debug, Default)]
struct Rows {
    by_id: HashMap<TaskId, TaskRow>,
    order: VecDeque<TaskId>,
}

/// The remembered rows.
#[derive(Debug, Default)]
pub struct ClaimedRows(Mutex<Rows>);

impl ClaimedRows {
    /// Remembers a row.
    pub fn remember(&self, row: TaskRow) {
        let mut rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let id = row.id;
        if rows.by_id.insert(id, row).is_none() {
            rows.order.push_back(id);
        }
        while rows.order.len() > limits::CLAIMED_ROWS_MAX {
            if let Some(oldest) = rows.order.pop_front() {
                rows.by_id.remove(&oldest);
            }
        }
    }

    /// Takes a row out.
    pub fn take(&self, id: TaskId) -> Option<TaskRow> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .by_id
            .remove(&id)
    }
}
