//! The dispatch names for all stages one way of a task to its target: the publication that a claim must find.
//!
//! Two dispatches of a task differ in generation or in attempt; a repetition of one is the same value. The
//! types that carry only a part of it keep that part: a claim and its event have no start, since the row has
//! it; a version of [leftovers](crate::flow::base::entries::leftovers) is generation and attempt; a decision names
//! no id, since its entry does.

use std::sync::Arc;

use super::{
    decision::Publish,
    entry::{Entry, Kind},
    ids::TaskId,
    state::TaskRow,
    task::Spec,
    time::Millis,
};

/// One way of a task to its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dispatch {
    /// The task.
    pub id: TaskId,
    /// Generation that the claim must find.
    pub generation: u32,
    /// Attempt that the claim must find.
    pub expected_attempt: u32,
    /// When it is due: it never goes out before, and is not to be claimed before. Lateness is measured from
    /// this time.
    pub start: Millis,
}

impl Dispatch {
    /// Returns the first one of a task that starts at `start`.
    #[must_use]
    pub const fn first(id: TaskId, start: Millis) -> Self {
        Self {
            id,
            generation: 0,
            expected_attempt: 0,
            start,
        }
    }

    /// Returns the one that a decision about an entry of a task asks for.
    #[must_use]
    pub const fn asked(id: TaskId, publish: &Publish) -> Self {
        Self {
            id,
            generation: publish.generation,
            expected_attempt: publish.expected_attempt,
            start: publish.start,
        }
    }

    /// Returns the next one of a task with a row: as it waits for its start or for its next attempt.
    #[must_use]
    pub const fn next_of(row: &TaskRow) -> Self {
        Self {
            id: row.id,
            generation: row.generation,
            expected_attempt: row.attempt,
            start: row.next,
        }
    }

    /// Returns the due entry that stands for it, at its start.
    #[must_use]
    pub fn entry(&self, spec: Arc<Spec>, written: i64) -> Entry {
        let Self {
            id,
            generation,
            expected_attempt,
            start,
        } = *self;
        Entry::due(id, generation, expected_attempt, start, spec, written)
    }

    /// Returns the one that a due entry stands for; none for looks and marks.
    #[must_use]
    pub const fn of_entry(entry: &Entry) -> Option<Self> {
        match entry.kind {
            Kind::Due {
                expected_attempt, ..
            } => Some(Self {
                id: entry.key.id,
                generation: entry.key.generation,
                expected_attempt,
                start: entry.start,
            }),
            Kind::Look { .. } | Kind::Done { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{
        entry::DoneReason,
        fixtures::{START, id, spec},
    };

    #[test]
    fn an_entry_that_was_put_further_on_stands_for_the_same_dispatch() {
        let dispatch = Dispatch {
            id: id(),
            generation: 2,
            expected_attempt: 3,
            start: START,
        };
        let mut entry = dispatch.entry(Arc::new(spec()), 1);
        assert_eq!(Dispatch::of_entry(&entry), Some(dispatch));
        entry.key.due = Millis(START.0 + 60_000);
        assert_eq!(Dispatch::of_entry(&entry), Some(dispatch));
    }

    #[test]
    fn looks_and_marks_stand_for_none() {
        let spec = Arc::new(spec());
        let look = Entry::look(id(), 0, START, None, START, Arc::clone(&spec), 1);
        let mark =
            Entry::due(id(), 0, 0, START, spec, 1).marked_done(DoneReason::Cancelled, START, 2);
        assert_eq!(
            [look, mark].map(|entry| Dispatch::of_entry(&entry)),
            [None, None]
        );
    }
}
