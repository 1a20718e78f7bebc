//! Waits: why no attempt of a task begins now. Every stage that holds a task back asks [`first_wait`], and readers are shown it.
//!
//! The answer is as complete as what the caller has read. A stage that has asked neither for a turn nor for a limit is told of
//! neither, asks for the next of them, and holds a task back for the first that it finds.

use super::{
    ids::TaskId,
    row::{State, TaskRow},
    task::Spec,
    time::Millis,
};

/// Why no attempt of a task begins now. The order of the variants is the order in which they are found: what stands first keeps
/// the task waiting however the later ones stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wait {
    /// The own run of its parent has not succeeded yet.
    Parent,
    /// Tasks that it was registered to run after have not ended yet.
    Tasks,
    /// A worker has claimed it, and its attempt is taken to be alive.
    Claimed {
        /// Until then, unless its worker gives another sign of life.
        until: Millis,
    },
    /// Its start has not come.
    Start {
        /// The start.
        until: Millis,
    },
    /// Its next attempt is not due: the one before has failed, or was given back.
    Retry {
        /// When the next attempt is due.
        until: Millis,
    },
    /// The gate of this collection is not open. Empty is the gate of the whole callback.
    Gate(String),
    /// It cannot be told now whether a gate of its callback is open.
    GateUnknown,
    /// Another task of its sequence has the turn, or comes first.
    Turn,
    /// The memory for its content is in use.
    Memory,
    /// The limits of its callback are used up.
    Limit {
        /// When they may let it go.
        until: Millis,
    },
}

/// Whether the gates of a callback let a task go out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Passage {
    /// They do.
    Open,
    /// The task is held at the gate of this collection. Empty is the gate of the whole callback.
    Held(String),
    /// It cannot be told now.
    Unknown,
}

/// The knowledge of a caller about a task, beside its row. A thing that it has not asked for holds nothing back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The generation of the entry or message that asks for the task. It counts where the row is absent, or was not read.
    pub generation: u32,
    /// When that entry or message is due. It counts where the row is absent, or was not read.
    pub due: Millis,
    /// The last sign of life of its attempt.
    pub heartbeat: Option<Millis>,
    /// Its gates.
    pub gate: Passage,
    /// Another task of its sequence comes first.
    pub is_behind: bool,
    /// There is no memory for its content.
    pub lacks_memory: bool,
    /// When the limits of its callback may let it go, where they do not now.
    pub limited_until: Option<Millis>,
}

impl Seen {
    /// Of a task that an entry or a message of this generation asks for, from `due` on.
    #[must_use]
    pub const fn asked(generation: u32, due: Millis) -> Self {
        Self {
            generation,
            due,
            heartbeat: None,
            gate: Passage::Open,
            is_behind: false,
            lacks_memory: false,
            limited_until: None,
        }
    }
}

/// Returns the first thing for which a task waits. None says that an attempt of it may begin, as far as the caller has read, or
/// that it has ended.
///
/// `row` is none where it is absent, or was not read. Then `spec` and `seen` say what is waited for; else the row does.
#[must_use]
pub fn first_wait(spec: &Spec, row: Option<&TaskRow>, seen: Seen, now: Millis) -> Option<Wait> {
    let own = match row {
        Some(row) if row.state.is_terminal() => return None,
        Some(row) => of_row(row, seen.heartbeat, now),
        None => of_registered(spec, &seen, now),
    };
    own.or_else(|| of_others(seen))
}

/// Returns the first thing for which a task waits by its row alone, and the last sign of life of its attempt.
#[must_use]
pub fn of_row(row: &TaskRow, heartbeat: Option<Millis>, now: Millis) -> Option<Wait> {
    match row.state {
        _ if row.waits_for_parent() => Some(Wait::Parent),
        _ if row.waits_for_tasks() => Some(Wait::Tasks),
        State::Claimed => {
            let until = row.alive_until(heartbeat);
            (now < until).then_some(Wait::Claimed { until })
        }
        State::New => not_before(row.next, now),
        State::Retrying => (now < row.next).then_some(Wait::Retry { until: row.next }),
        State::Succeeded | State::Failed | State::Cancelled | State::Expired | State::Dead => None,
    }
}

/// Returns when the next attempt of a task is due. Behind an attempt that a worker has claimed, the next one is due as that was.
#[must_use]
pub fn due(id: TaskId, row: Option<&TaskRow>) -> Millis {
    match row {
        None => id.first_start(),
        Some(row) if row.state == State::Claimed => row.detail.start,
        Some(row) => row.next,
    }
}

/// A task without a row is of generation 0, or of one whose row was not read: what that waited for has ended.
fn of_registered(spec: &Spec, seen: &Seen, now: Millis) -> Option<Wait> {
    let is_first = seen.generation == 0;
    if is_first && spec.is_after_parent() {
        return Some(Wait::Parent);
    }
    if is_first && spec.after.is_some() {
        return Some(Wait::Tasks);
    }
    not_before(seen.due, now)
}

fn not_before(start: Millis, now: Millis) -> Option<Wait> {
    (now < start).then_some(Wait::Start { until: start })
}

/// The wait of a task that is due: for people, for other tasks, or for the node.
fn of_others(seen: Seen) -> Option<Wait> {
    match seen.gate {
        Passage::Held(gate) => return Some(Wait::Gate(gate)),
        Passage::Unknown => return Some(Wait::GateUnknown),
        Passage::Open => {}
    }
    if seen.is_behind {
        return Some(Wait::Turn);
    }
    if seen.lacks_memory {
        return Some(Wait::Memory);
    }
    let until = seen.limited_until?;
    Some(Wait::Limit { until })
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::*;
    use crate::model::{
        after::{After, Condition},
        fixtures::{START, id, row, spec},
        kin::{Kin, Rounds},
    };

    const SECOND: Duration = Duration::from_secs(1);
    const NOW: Millis = Millis(START.0 + 3_600_000);

    /// Everything that a caller can have seen holds the task back.
    fn all() -> Seen {
        Seen {
            gate: Passage::Held("eu".to_owned()),
            is_behind: true,
            lacks_memory: true,
            limited_until: Some(NOW.after(SECOND)),
            ..Seen::asked(0, NOW.after(SECOND))
        }
    }

    fn waiter() -> Spec {
        let after = After {
            condition: Condition::AllSucceeded,
            later: false,
            deadline: None,
            tasks: 1,
        };
        Spec {
            after: Some(Box::new(after)),
            ..spec()
        }
    }

    fn child() -> Spec {
        let kin = Kin {
            parent: Some(id()),
            after_parent: true,
            ..Kin::default()
        };
        Spec {
            kin: Some(Box::new(kin)),
            ..spec()
        }
    }

    #[test]
    fn what_others_hold_back_is_found_in_one_order() {
        let until = NOW.after(SECOND);
        let mut seen = all();
        let mut found = Vec::new();
        let mut ask = |seen: &Seen| found.push(first_wait(&spec(), None, seen.clone(), NOW));
        ask(&seen);
        seen.due = NOW;
        ask(&seen);
        seen.gate = Passage::Unknown;
        ask(&seen);
        seen.gate = Passage::Open;
        ask(&seen);
        seen.is_behind = false;
        ask(&seen);
        seen.lacks_memory = false;
        ask(&seen);
        seen.limited_until = None;
        ask(&seen);
        let expected = [
            Some(Wait::Start { until }),
            Some(Wait::Gate("eu".to_owned())),
            Some(Wait::GateUnknown),
            Some(Wait::Turn),
            Some(Wait::Memory),
            Some(Wait::Limit { until }),
            None,
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_row_says_what_the_task_waits_for_whatever_asks_for_it() {
        let (later, plain) = (NOW.after(SECOND), Arc::new(spec()));
        let of = |state, next| TaskRow {
            next,
            ..row(state, &plain)
        };
        let cases = [
            (of(State::New, later), Some(Wait::Start { until: later })),
            (
                of(State::Retrying, later),
                Some(Wait::Retry { until: later }),
            ),
            (
                of(State::Claimed, later),
                Some(Wait::Claimed { until: later }),
            ),
            (of(State::New, NOW), None),
            (of(State::Retrying, NOW), None),
            (of(State::Claimed, NOW), None),
        ];
        for (row, expected) in cases {
            let seen = Seen::asked(0, NOW.after(SECOND * 9));
            assert_eq!(first_wait(&plain, Some(&row), seen, NOW), expected);
            // Gates and the rest come behind that.
            let seen = first_wait(&plain, Some(&row), all(), NOW);
            let gate = Wait::Gate("eu".to_owned());
            assert_eq!(seen, expected.or(Some(gate)));
        }
        for state in State::ALL.into_iter().filter(|state| state.is_terminal()) {
            let ended = of(state, later);
            assert_eq!(first_wait(&plain, Some(&ended), all(), NOW), None);
        }
    }

    #[test]
    fn an_attempt_is_alive_for_a_time_behind_its_last_sign_of_life() {
        let claimed = TaskRow {
            next: NOW,
            ..row(State::Claimed, &Arc::new(spec()))
        };
        let until = NOW.after(SECOND * 30);
        assert_eq!(of_row(&claimed, None, NOW), None);
        let alive = of_row(&claimed, Some(NOW), NOW);
        assert_eq!(alive, Some(Wait::Claimed { until }));
        assert_eq!(of_row(&claimed, Some(NOW), until), None);
        assert_eq!(due(claimed.id, Some(&claimed)), START);
    }

    #[test]
    fn a_task_waits_for_its_parent_or_for_others_until_a_later_generation() {
        for (spec, expected) in [(child(), Wait::Parent), (waiter(), Wait::Tasks)] {
            let spec = Arc::new(spec);
            let first = first_wait(&spec, None, all(), NOW);
            assert_eq!(first, Some(expected.clone()));
            let released = first_wait(&spec, None, Seen::asked(1, NOW), NOW);
            assert_eq!(released, None);
            let written = row(State::New, &spec);
            let seen = first_wait(&spec, Some(&written), all(), NOW);
            assert_eq!(seen, Some(expected));
            let gone = TaskRow {
                generation: 1,
                ..written
            };
            assert_eq!(of_row(&gone, None, NOW), None);
        }
        // In a round of its tree it waits once more.
        let mut again = row(State::New, &Arc::new(child()));
        again.generation = 3;
        again.detail.rounds = Rounds {
            awaits: true,
            ..Rounds::default()
        };
        assert_eq!(of_row(&again, None, NOW), Some(Wait::Parent));
    }

    #[test]
    fn a_task_is_due_by_its_row_and_else_by_its_id() {
        let next = NOW.after(SECOND);
        let retrying = TaskRow {
            next,
            ..row(State::Retrying, &Arc::new(spec()))
        };
        assert_eq!((due(id(), None), due(id(), Some(&retrying))), (START, next));
    }
}
