//! The dead letter record tells the end steps which deaths go to a topic of the user's, and by which internal task.
//!
//! A callback may name a topic of dead letters. For each death of its tasks there is one internal task that publishes the
//! record. Its id is computed from the dead task and its generation, so stages that repeat the end steps register it once. It
//! names the topic that was set when the task died, and the error, which a redrive would forget. The payload is read when the
//! record is published: a redrive keeps it, and a deletion erases it.

use bytes::Bytes;

use super::{
    holder::Holder,
    ids::TaskId,
    internal_task::{RETENTION, internal_id, internal_task},
    row::{State, TaskRow},
    time::Millis,
};

/// The callback of the internal tasks that publish such records.
pub const CALLBACK: &str = "tickwheel.dead_letter_topic";

/// Names the purpose of these tasks in the hash of their ids. It never changes: a repetition must find the same id.
const PURPOSE: u64 = 0x6465_6164_746f_7063;

/// Longest error of a record: with it the internal task is small enough to travel with its payload.
pub const ERROR_CHARS_MAX: usize = 200;

/// How long after a death, beside two of its looks, a redrive still has the record published first. Later the look of the dead
/// task has surely done so, and a topic that was set meanwhile is not for that death.
const REPAIRED_FOR: std::time::Duration = std::time::Duration::from_secs(3600);

/// A death that has a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetterRecord {
    /// The dead task.
    pub task: TaskId,
    /// Its generation at its death.
    pub generation: u32,
    /// When it died.
    pub end: Millis,
    /// Its attempts.
    pub attempt: u32,
    /// Its last error, cut.
    pub error: String,
    /// Where the record goes.
    pub topic: String,
}

/// Tells whether the row of a task says of a death that may have a record.
#[must_use]
pub fn may_have_one(row: &TaskRow) -> bool {
    row.state == State::Dead && !row.detail.erased && row.detail.end_time.is_some()
}

/// Tells whether a stage that ends a death, such as a redrive, may be the first to ask for its record.
#[must_use]
pub fn may_lack_its_record(row: &TaskRow, now: Millis) -> bool {
    let repaired = row.id.look_step().duration().saturating_mul(2) + REPAIRED_FOR;
    let end = row.detail.end_time;
    may_have_one(row) && end.is_some_and(|end| now.since(end) < repaired)
}

impl DeadLetterRecord {
    /// Returns the record of a dead task for a topic.
    #[must_use]
    pub fn of(row: &TaskRow, topic: &str) -> Option<Self> {
        if !may_have_one(row) {
            return None;
        }
        let error = row.detail.error.as_deref().unwrap_or_default();
        Some(Self {
            task: row.id,
            generation: row.run_generation(),
            end: row.detail.end_time?,
            attempt: row.attempt,
            error: error.chars().take(ERROR_CHARS_MAX).collect(),
            topic: topic.to_owned(),
        })
    }

    /// Returns the id of the task that publishes it.
    #[must_use]
    pub fn id(&self) -> TaskId {
        internal_id(self.task, self.generation, self.end, PURPOSE)
    }

    /// Returns the task that publishes it, with this payload, which is JSON.
    #[must_use]
    pub fn task(&self, payload: Bytes) -> Holder {
        internal_task(self.id(), CALLBACK, RETENTION, payload)
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::*;
    use crate::model::fixtures;

    const END: Millis = Millis(1_003_000);

    fn row(state: State) -> TaskRow {
        let mut row = fixtures::row(state, &Arc::new(fixtures::spec()));
        row.detail.end_time = state.is_terminal().then_some(END);
        row.detail.error = Some("no route\nto host".to_owned());
        row
    }

    #[test]
    fn only_a_death_has_a_record_and_a_tombstone_has_none() {
        for state in State::ALL {
            let record = DeadLetterRecord::of(&row(state), "dlt");
            assert_eq!(record.is_some(), state == State::Dead, "{state:?}");
        }
        let mut erased = row(State::Dead);
        erased.detail.erased = true;
        assert_eq!(DeadLetterRecord::of(&erased, "dlt"), None);
        let record = DeadLetterRecord::of(&row(State::Dead), "dlt").unwrap();
        assert_eq!(
            (record.topic.as_str(), record.error.as_str(), record.end),
            ("dlt", "no route\nto host", END)
        );
        let mut long = row(State::Dead);
        long.detail.error = Some("é".repeat(5000));
        let cut = DeadLetterRecord::of(&long, "dlt").unwrap().error;
        assert_eq!(cut.chars().count(), ERROR_CHARS_MAX);
    }

    /// Stored ids never change: a repetition by a later version must find the same task.
    #[test]
    fn each_death_has_one_task_and_another_death_another() {
        let dead = row(State::Dead);
        let record = DeadLetterRecord::of(&dead, "dlt").unwrap();
        let id = record.id();
        assert_eq!(id.to_string(), "0000000f-4df8-8001-bfff-86f93d71bc08");
        assert!(id.is_internal());
        assert_eq!((id.first_start(), id.wheel()), (END, dead.id.wheel()));
        let elsewhere = DeadLetterRecord::of(&dead, "other").unwrap();
        assert_eq!(elsewhere.id(), id, "the topic is no part of it");
        let again = TaskRow {
            generation: dead.generation + 1,
            ..dead
        };
        assert_ne!(DeadLetterRecord::of(&again, "dlt").unwrap().id(), id);
        let task = record.task(Bytes::from_static(b"{}"));
        assert_eq!((task.id, task.spec.callback()), (id, Some(CALLBACK)));
    }

    #[test]
    fn a_redrive_asks_for_the_record_of_a_recent_death_only() {
        let dead = row(State::Dead);
        assert!(may_lack_its_record(&dead, END));
        let hour = END.after(Duration::from_secs(3600));
        assert!(may_lack_its_record(&dead, hour));
        let years = END.after(Duration::from_secs(400 * 24 * 3600));
        assert!(!may_lack_its_record(&dead, years));
        assert!(!may_lack_its_record(&row(State::Failed), END));
    }
}
