//! The memory of claimed rows keeps the rows of tasks that were claimed through this node, so that the settle
//! stage need not read them first.
//!
//! A remembered row is a hint: the conditional write finds out when it is out of date. The memory is bounded
//! in rows and bytes, and the oldest are forgotten. A row is kept whole: the settle writes it again, with the
//! content that is inside.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;

use crate::{
    limits,
    model::{ids::TaskId, state::TaskRow},
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

/// About how many bytes of memory a row takes: it, and its id in both collections.
fn weight(row: &TaskRow) -> usize {
    2 * size_of::<TaskId>() + row.weight()
}

/// The remembered rows.
#[derive(Debug, Default)]
pub struct ClaimedRows(Mutex<Rows>);

impl ClaimedRows {
    /// Remembers a row.
    pub fn remember(&self, row: TaskRow) {
        let mut rows = self.0.lock();
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
        let rows = self.0.lock();
        let row = rows.by_id.get(&id);
        row.is_some_and(|row| row.attempt == attempt)
    }

    /// Takes a row out.
    pub fn take(&self, id: TaskId) -> Option<TaskRow> {
        self.0.lock().remove(id)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::{
        fixtures,
        history::{Answered, Attempt},
        holder::Holder,
        state::State,
        task::{Body, Content, Spec},
        time::Millis,
        wheel::WheelNumber,
    };

    #[test]
    fn rows_are_bounded_in_bytes_and_the_oldest_are_forgotten() {
        let rows = ClaimedRows::default();
        let row = |number: u64| {
            let mut row = fixtures::row(State::Claimed, &Arc::new(fixtures::spec()));
            row.id = id(number);
            row.detail.error = Some("x".repeat(1024 * 1024));
            row
        };
        let (first, last) = (row(1).id, row(200).id);
        for number in 1..=200 {
            rows.remember(row(number));
        }
        assert!(rows.take(first).is_none());
        assert!(rows.has(last, row(200).attempt) && !rows.has(last, row(200).attempt + 1));
        let held = rows.0.lock().bytes;
        assert!(held <= limits::CLAIMED_BYTES_MAX, "{held}");
        assert!(rows.take(last).is_some());
        for number in 1..=200 {
            rows.take(row(number).id);
        }
        assert_eq!(rows.0.lock().bytes, 0);
    }

    fn id(number: u64) -> TaskId {
        TaskId::new(Millis(1000), WheelNumber::new(1).unwrap(), number)
    }

    /// Returns how many rows like this one are remembered at most.
    fn fill(row: &TaskRow) -> usize {
        let rows = ClaimedRows::default();
        for number in 0..limits::CLAIMED_ROWS_MAX as u64 + 1 {
            let (id, row) = (id(number), row.clone());
            rows.remember(TaskRow { id, ..row });
        }
        let rows = rows.0.lock();
        assert_eq!(rows.order.len(), rows.by_id.len());
        rows.order.len()
    }

    #[test]
    fn rows_are_bounded_by_all_that_they_and_their_tasks_own() {
        let plain = fixtures::row(State::Claimed, &Arc::new(fixtures::spec()));
        let laden = fixtures::row(State::Claimed, &Arc::new(fixtures::laden()));
        let text = || "x".repeat(fixtures::LADEN_BYTES);
        let mut tried = plain.clone();
        tried.detail.history.attempts.push(Attempt {
            attempt: 1,
            worker: String::new(),
            claimed: None,
            ended: None,
            ending: None,
            error: Some(text()),
            answered: None,
        });
        let mut answered = plain.clone();
        answered.detail.history.answered = Some(Answered {
            status: 500,
            response: text(),
        });
        let mut replaced = plain;
        replaced.detail.next = Some(Arc::new(Holder {
            id: id(1),
            generation: 0,
            spec: Arc::clone(&laden.detail.spec),
        }));
        for row in [laden, tried, answered, replaced] {
            let kept = fill(&row);
            let most = limits::CLAIMED_BYTES_MAX / fixtures::LADEN_BYTES;
            assert!(kept <= most, "{kept} rows are kept");
        }
    }

    #[test]
    fn plain_rows_are_bounded_by_their_number_first() {
        let content = Content {
            payload: vec![7; 100].into(),
            ..Content::default()
        };
        let spec = Spec {
            body: Body::Inline(content),
            ..fixtures::spec()
        };
        let row = fixtures::row(State::Claimed, &Arc::new(spec));
        assert_eq!(fill(&row), limits::CLAIMED_ROWS_MAX);
    }
}
