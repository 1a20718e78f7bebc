//! The memory of claimed rows keeps the rows of tasks that were claimed through this node, so that the settle
//! stage need not read them first.
//!
//! A remembered row is a hint: the conditional write finds out when it is out of date. The memory is bounded
//! in rows and bytes, and the oldest are forgotten. A row is kept whole: the settle writes it again, with the
//! content that is inside.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, PoisonError},
};

use crate::{
    limits,
    model::{ids::TaskId, result::TaskResult, state::TaskRow},
    schema,
};

#[derive(Debug, Default)]
struct Rows {
    by_id: HashMap<TaskId, TaskRow>,
    order: VecDeque<TaskId>,
    bytes: usize,
}

impl Rows {
    fn remove(&mut self, id: TaskId) -> Option<TaskRow> {
        let row = self.by_id.remove(&id)?;
        self.bytes = self.bytes.saturating_sub(weight(&row));
        Some(row)
    }
}

/// About how many bytes of memory a row takes.
fn weight(row: &TaskRow) -> usize {
    let detail = &row.detail;
    let content = detail.spec.content().map_or(0, schema::content_bytes);
    let result = detail.result.as_ref().map_or(0, TaskResult::weight);
    let error = detail.error.as_ref().map_or(0, String::len);
    limits::CLAIMED_ROW_BYTES + content + result + error
}

/// The remembered rows.
#[derive(Debug, Default)]
pub struct ClaimedRows(Mutex<Rows>);

impl ClaimedRows {
    /// Remembers a row.
    pub fn remember(&self, row: TaskRow) {
        let mut rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let id = row.id;
        rows.bytes += weight(&row);
        match rows.by_id.insert(id, row) {
            Some(before) => rows.bytes = rows.bytes.saturating_sub(weight(&before)),
            None => rows.order.push_back(id),
        }
        while rows.order.len() > limits::CLAIMED_ROWS_MAX || rows.bytes > limits::CLAIMED_BYTES_MAX
        {
            let Some(oldest) = rows.order.pop_front() else {
                break;
            };
            rows.remove(oldest);
        }
    }

    /// Tells whether this attempt was claimed through this node and has not been settled through it.
    pub fn has(&self, id: TaskId, attempt: u32) -> bool {
        let rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let row = rows.by_id.get(&id);
        row.is_some_and(|row| row.attempt == attempt)
    }

    /// Takes a row out.
    pub fn take(&self, id: TaskId) -> Option<TaskRow> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{fixtures, state::State, time::Millis, wheel::WheelNumber};

    #[test]
    fn rows_are_bounded_in_bytes_and_the_oldest_are_forgotten() {
        let rows = ClaimedRows::default();
        let row = |number: u64| {
            let mut row = fixtures::row(State::Claimed, &std::sync::Arc::new(fixtures::spec()));
            row.id = TaskId::new(Millis(1000), WheelNumber::new(1).unwrap(), number);
            row.detail.error = Some("x".repeat(1024 * 1024));
            row
        };
        let (first, last) = (row(1).id, row(200).id);
        for number in 1..=200 {
            rows.remember(row(number));
        }
        assert!(rows.take(first).is_none());
        assert!(rows.has(last, row(200).attempt) && !rows.has(last, row(200).attempt + 1));
        let held = rows.0.lock().unwrap().bytes;
        assert!(held <= limits::CLAIMED_BYTES_MAX, "{held}");
        assert!(rows.take(last).is_some());
        for number in 1..=200 {
            rows.take(row(number).id);
        }
        assert_eq!(rows.0.lock().unwrap().bytes, 0);
    }
}
