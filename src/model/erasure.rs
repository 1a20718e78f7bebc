//! The erasure rule makes for the state machine the row of a task that a person deletes after its end.
//!
//! The row stays as a tombstone, since an absent row means a new task. The content that the client gave and the texts that the
//! callback returned are gone from it. The generation grows, so that a redrive that has read the row before is refused: the
//! conditional write of a row compares the generation and not the content.

use std::sync::Arc;

use super::{
    dead_letter,
    history::History,
    row::{Detail, State, TaskRow},
    task::{Body, Content, Spec},
};

/// The row of a terminal task without its content, labels, result, errors and attempts. `died` names the death whose letter is to
/// be removed.
pub(super) fn erased(base: &TaskRow) -> TaskRow {
    let death = dead_letter::stamp(base).filter(|_| base.state == State::Dead);
    let died = death.max(base.detail.died);
    let spec = Spec {
        body: Body::Inline(Content::default()),
        then: Vec::new(),
        ..Spec::clone(&base.detail.spec)
    };
    let apart = base.detail.result.clone();
    let apart = apart.filter(|result| result.apart().is_some());
    TaskRow {
        generation: base.generation + 1,
        detail: Detail {
            spec: Arc::new(spec),
            worker: String::new(),
            // The bytes that are kept apart are deleted by whoever reads where they are.
            result: apart,
            error: None,
            erased: true,
            history: History::default(),
            died,
            ..base.detail.clone()
        },
        ..base.clone()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use uuid::Uuid;

    use super::*;
    use crate::model::{
        dead_letter::{letter, stamp},
        fixtures::{START, id, row, spec},
        state::{self, Event, Expect, Refusal, Transition},
        time::Millis,
    };

    const NOW: Millis = Millis(START.0 + 3_600_000);

    fn dead() -> TaskRow {
        let spec = Spec {
            body: Body::Inline(Content {
                payload: Bytes::from_static(b"secret"),
                labels: vec![("tenant".to_owned(), "acme".to_owned())],
                ..Content::default()
            }),
            ..spec()
        };
        let mut row = row(State::Dead, &Arc::new(spec));
        row.detail.end_time = Some(START);
        row.detail.worker = "w".to_owned();
        row.detail.error = Some("secret".to_owned());
        row.detail.result = Some(Bytes::from_static(b"secret").into());
        row
    }

    fn applied(row: &TaskRow, event: Event) -> Result<Transition, Refusal> {
        let spec = Arc::clone(&row.detail.spec);
        state::next(id(), Some(row), &spec, event, NOW, Uuid::from_u128(1))
    }

    #[test]
    fn nothing_that_a_client_gave_or_a_callback_returned_is_left() {
        let before = dead();
        let made = applied(&before, Event::Erase).unwrap();
        let written = format!("{:?}", made.row);
        for gone in ["secret", "acme"] {
            assert!(!written.contains(gone), "{written}");
        }
        assert_eq!((made.row.state, made.row.attempt), (State::Dead, 1));
        assert_eq!(made.row.detail.end_time, Some(START));
        assert!(made.ttl.is_some(), "a tombstone ends");
        assert_eq!(made.row.detail.died, stamp(&before));
        assert_eq!(letter(&made.row), None);
    }

    #[test]
    fn a_redrive_and_an_erasure_that_saw_the_same_row_exclude_each_other() {
        let before = dead();
        let erased = applied(&before, Event::Erase).unwrap();
        let redriven = applied(&before, Event::Redrive { start: NOW }).unwrap();
        for made in [&erased, &redriven] {
            assert_eq!(made.expect, before.seen());
            assert_ne!(made.row.seen(), before.seen());
        }
        let ended = Err(Refusal::Ended { state: State::Dead });
        for event in [Event::Redrive { start: NOW }, Event::Erase, Event::Cancel] {
            assert_eq!(applied(&erased.row, event), ended);
        }
        assert_eq!(applied(&redriven.row, Event::Erase), Err(Refusal::Stale));
    }

    #[test]
    fn a_task_that_has_not_ended_is_not_erased() {
        let none = state::next(
            id(),
            None,
            &Arc::new(spec()),
            Event::Erase,
            NOW,
            Uuid::nil(),
        );
        assert_eq!(none, Err(Refusal::Stale));
        for state in State::ALL {
            let made = applied(&row(state, &Arc::new(spec())), Event::Erase);
            assert_eq!(made.is_ok(), state.is_terminal(), "{state:?}");
            assert!(made.is_ok_and(|made| made.expect != Expect::Absent) || !state.is_terminal());
        }
    }
}
