//! The way decides for the reschedule stage how a tracked task gets the start that its caller wants.

use std::sync::Arc;

use crate::{
    flow::base::read::find::is_hidden,
    model::{
        again,
        entry::Entry,
        ids::TaskId,
        kin::{Again, Runs},
        state::{Event, State, TaskRow},
        task::Spec,
        time::Millis,
    },
    schema::Opened,
};

/// The wish of a caller for a task.
#[derive(Debug, Clone, Copy)]
pub(super) enum Wanted {
    /// To start at this time, if it waits.
    Moved(Millis),
    /// To start at this time (now), also if it is dead.
    Run(Millis),
    /// To start at this time (now), only if it is dead.
    Redriven(Millis),
    /// To start at this time, since what it waits for has come.
    Released(Millis),
    /// To start at this time (now) in this round, if its own run is one of those that may begin again in it.
    Again(Millis, Opened),
}

impl Wanted {
    /// Returns the new start.
    pub(super) const fn start(self) -> Millis {
        match self {
            Self::Moved(start)
            | Self::Run(start)
            | Self::Redriven(start)
            | Self::Released(start)
            | Self::Again(start, _) => start,
        }
    }
}

/// How a tracked task gets its new start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RestartKind {
    /// From a start that it waits for.
    Move,
    /// From its death.
    Redrive,
    /// From its wait for its parent, or for other tasks.
    Release,
    /// From its end, in this round.
    Again(Opened),
}

impl RestartKind {
    /// Returns the way from this row; none when it is too late. A dead task that is not shown any more stays as it is.
    pub(super) fn of(row: Option<&TaskRow>, wanted: Wanted, now: Millis) -> Option<Self> {
        if let Wanted::Again(_, opened) = wanted {
            let runs = |row: &&TaskRow| {
                again::is_one(row, opened.run) && row.detail.rounds.round < opened.round
            };
            let row = row.filter(runs).filter(|row| !is_hidden(row, now));
            return row.map(|_| Self::Again(opened));
        }
        let released = matches!(wanted, Wanted::Released(_));
        let Some(row) = row else {
            return Some(if released { Self::Release } else { Self::Move });
        };
        if released || row.waits() {
            let goes = released && row.waits();
            return goes.then_some(Self::Release);
        }
        match (row.state, wanted) {
            (State::New | State::Retrying, Wanted::Moved(_) | Wanted::Run(_)) => Some(Self::Move),
            // The end of a task of a tree was counted there, and stays: its key must not be taken back for it.
            (State::Dead, Wanted::Run(_) | Wanted::Redriven(_))
                if !is_hidden(row, now) && row.detail.spec.kin.is_none() =>
            {
                Some(Self::Redrive)
            }
            _ => None,
        }
    }

    /// Tells whether there is no way only because the end of a dead task counts in its tree.
    pub(super) fn is_of_tree(row: &TaskRow, wanted: Wanted, now: Millis) -> bool {
        let runs = matches!(wanted, Wanted::Run(_) | Wanted::Redriven(_));
        let is_dead = row.state == State::Dead && !is_hidden(row, now);
        runs && is_dead && row.detail.spec.kin.is_some()
    }

    /// Tells whether the task has ended before: what its end left is undone.
    pub(super) const fn is_from_end(self) -> bool {
        matches!(self, Self::Redrive | Self::Again(_))
    }

    /// Returns the event of the way.
    pub(super) const fn event(self, start: Millis) -> Event {
        match self {
            Self::Move => Event::Reschedule { start },
            Self::Redrive => Event::Redrive { start },
            Self::Release => Event::Release { start },
            Self::Again(Opened { round, run }) => Event::Again {
                round,
                what: match run {
                    Runs::Succeeded => Again::Reopen { start },
                    Runs::None | Runs::Failed => Again::Run { start },
                },
            },
        }
    }
}

/// Returns the entry by which a task waits for its start, or for its next attempt.
pub(super) fn waiting(id: TaskId, row: Option<&TaskRow>, spec: &Arc<Spec>, stamp: i64) -> Entry {
    let (generation, attempt) = stage_of(row);
    let due = row.map_or_else(|| id.first_start(), |row| row.next);
    let entry = Entry::due(id, generation, attempt, due, Arc::clone(spec), stamp);
    if row.is_some_and(|row| row.state == State::Retrying) {
        entry
    } else {
        entry.first_of_generation()
    }
}

/// The generation and the attempt of a task; both are 0 without a row.
pub(super) fn stage_of(row: Option<&TaskRow>) -> (u32, u32) {
    row.map_or((0, 0), |row| (row.generation, row.attempt))
}
