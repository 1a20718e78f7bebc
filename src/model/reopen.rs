//! The wish to reopen a task of a tree that has succeeded: whether it begins a round, is a repetition, or cannot be done.

use super::{
    again::{can_reopen, is_cancelled},
    row::{State, TaskRow},
};

/// Why a task is not reopened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotReopened {
    /// The task is in no tree.
    NoTree,
    /// It, or a tree that it is in, was cancelled as a whole.
    Cancelled,
    /// This is the number of its last attempt, and the request names another one.
    OtherAttempt(u32),
    /// Another worker had its last attempt.
    OtherWorker,
    /// It has not succeeded.
    State(State),
    /// Another task has its key.
    KeyTaken,
    /// A task above it is not kept any more.
    Gone,
}

/// Decides on a wish to reopen a task by its row, which is none before its first claim. True when it is to begin a round, false
/// when it goes on in a later round already: the wish is a repetition.
///
/// # Errors
/// Why it cannot be reopened.
pub fn reopens(
    row: Option<&TaskRow>,
    attempt: Option<u32>,
    worker: Option<&str>,
) -> Result<bool, NotReopened> {
    let Some(row) = row else {
        return Err(NotReopened::State(State::New));
    };
    if row.detail.spec.kin.is_none() {
        return Err(NotReopened::NoTree);
    }
    if attempt.is_some_and(|attempt| attempt != row.attempt) {
        return Err(NotReopened::OtherAttempt(row.attempt));
    }
    if worker.is_some_and(|worker| worker != row.detail.worker) {
        return Err(NotReopened::OtherWorker);
    }
    if is_cancelled(row) {
        return Err(NotReopened::Cancelled);
    }
    if !row.state.is_terminal() && row.detail.rounds.round > 0 {
        return Ok(false);
    }
    if row.detail.next.is_some() {
        return Err(NotReopened::KeyTaken);
    }
    let state = NotReopened::State(row.state);
    can_reopen(row).then_some(true).ok_or(state)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use uuid::Uuid;

    use super::*;
    use crate::model::{
        event::Event,
        fixtures,
        kin::{Again, Kin},
        state,
        task::Spec,
    };

    fn child(state: State) -> TaskRow {
        let kin = Kin {
            parent: Some(fixtures::id()),
            ..Kin::default()
        };
        let spec = Spec {
            kin: Some(Box::new(kin)),
            ..fixtures::spec()
        };
        fixtures::row(state, &Arc::new(spec))
    }

    fn reopened(row: &TaskRow) -> TaskRow {
        let start = fixtures::START;
        let event = Event::Again {
            round: 1,
            what: Again::Reopen { start },
        };
        let spec = Arc::clone(&row.detail.spec);
        let made = state::next(row.id, Some(row), &spec, event, start, Uuid::nil());
        made.unwrap().row
    }

    #[test]
    fn a_wish_to_reopen_is_for_the_last_attempt_and_repeated_without_harm() {
        let mut row = child(State::Succeeded);
        (row.attempt, row.detail.worker) = (3, "w".to_owned());
        let asks = |row: &TaskRow, attempt, worker| reopens(Some(row), attempt, worker);
        for (attempt, worker) in [(None, None), (Some(3), None), (Some(3), Some("w"))] {
            assert_eq!(asks(&row, attempt, worker), Ok(true));
        }
        assert_eq!(asks(&row, Some(2), None), Err(NotReopened::OtherAttempt(3)));
        let other = asks(&row, Some(3), Some("v"));
        assert_eq!(other, Err(NotReopened::OtherWorker));
        let open = reopened(&row);
        assert_eq!(asks(&open, Some(3), None), Ok(false), "a repetition");
        let first = child(State::Claimed);
        assert_eq!(
            asks(&first, None, None),
            Err(NotReopened::State(State::Claimed))
        );
        let failed = child(State::Failed);
        assert_eq!(
            asks(&failed, None, None),
            Err(NotReopened::State(State::Failed))
        );
        assert_eq!(
            reopens(None, None, None),
            Err(NotReopened::State(State::New))
        );
        let plain = fixtures::row(State::Succeeded, &Arc::new(fixtures::spec()));
        assert_eq!(asks(&plain, None, None), Err(NotReopened::NoTree));
    }
}
