//! The chain codec converts follow-ups, and what they follow, to and from messages for specs and contents.

use std::time::Duration;

use bytes::Bytes;
use uuid::Uuid;

use super::{
    Malformed,
    action::{when_from, when_to},
    kin::outcome_from,
    v1,
};
use crate::model::{
    chain::{FollowStart, FollowUp, Previous},
    ids::TaskId,
    kin::TreeOutcome,
    notify::TreeStates,
    result::{Place, TaskResult},
    row::State,
    time::{Millis, whole_millis},
};

/// Converts a follow-up whose task was converted before.
pub(super) fn follow_to<T>(follow: &FollowUp<T>, task: v1::TaskSpec) -> v1::FollowUp {
    let (states, tree) = when_to(follow.when);
    let start = match follow.start {
        FollowStart::After(wait) => {
            v1::follow_up::Start::AfterMs(whole_millis(wait).unsigned_abs())
        }
        FollowStart::At(at) => v1::follow_up::Start::AtMs(at.0),
    };
    v1::FollowUp {
        states,
        completed: tree.completed,
        faulted: tree.faulted,
        cancelled: tree.cancelled,
        start: Some(start),
        with_result: follow.with_result,
        in_tree: follow.in_tree,
        task: Some(task),
        task_left_open: 0,
    }
}

/// Reads a follow-up from its message, whose task was read before.
///
/// # Errors
/// [`Malformed`] when a field that must be there is missing or out of range.
pub(super) fn follow_from<T>(message: &v1::FollowUp, task: T) -> Result<FollowUp<T>, Malformed> {
    let tree = TreeStates {
        completed: message.completed,
        faulted: message.faulted,
        cancelled: message.cancelled,
    };
    let when = when_from(&message.states, tree, "then.states")?;
    let start = message.start.as_ref();
    let start = match start.ok_or(Malformed::Missing("then.start"))? {
        v1::follow_up::Start::AfterMs(millis) => {
            let millis = (*millis).min(i64::MAX.unsigned_abs());
            FollowStart::After(Duration::from_millis(millis))
        }
        v1::follow_up::Start::AtMs(millis) => FollowStart::At(Millis(*millis)),
    };
    Ok(FollowUp {
        when,
        start,
        with_result: message.with_result,
        in_tree: message.in_tree,
        task,
    })
}

pub(super) fn previous_to(previous: &Previous) -> v1::Previous {
    let result = previous.result.as_ref();
    v1::Previous {
        task: Bytes::copy_from_slice(previous.task.uuid().as_bytes()),
        state: previous.state.number().into(),
        tree: previous.tree.map(TreeOutcome::number),
        result: result.and_then(TaskResult::bytes).cloned(),
        result_content_type: result
            .map(|result| result.content_type.clone())
            .unwrap_or_default(),
        result_bytes: result.and_then(TaskResult::apart).map(|(_, bytes)| bytes),
        error: previous.error.clone(),
    }
}

pub(super) fn previous_from(message: v1::Previous) -> Result<Previous, Malformed> {
    let wrong = || Malformed::OutOfRange("previous.task");
    let id = Uuid::from_slice(&message.task).map_err(|_| wrong())?;
    let state = i8::try_from(message.state)
        .ok()
        .and_then(State::from_number);
    let state = state.filter(|state| state.is_terminal());
    let gone = |bytes| Place::Apart { attempt: 0, bytes };
    let place = message.result.map(Place::Inline);
    let place = place.or_else(|| message.result_bytes.map(gone));
    Ok(Previous {
        task: TaskId::from_uuid(id).ok_or_else(wrong)?,
        state: state.ok_or(Malformed::OutOfRange("previous.state"))?,
        tree: message
            .tree
            .map(|number| outcome_from(number, "previous.tree"))
            .transpose()?,
        result: place.map(|place| TaskResult {
            content_type: message.result_content_type,
            place,
        }),
        error: message.error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::{
            action::When,
            fixtures,
            notify::EndStates,
            task::{Content, Spec},
        },
        schema::{
            decode_content, decode_spec, encode_content, encode_short, encode_spec,
            follow_ups_bytes, in_tree_bytes, spec_to_message,
        },
    };

    fn follow(when: When, start: FollowStart, task: Spec) -> FollowUp<Spec> {
        FollowUp {
            when,
            start,
            with_result: true,
            in_tree: true,
            task,
        }
    }

    fn chain() -> Spec {
        let tree = When::Tree(TreeStates {
            completed: true,
            cancelled: true,
            ..TreeStates::NONE
        });
        let last = follow(tree, FollowStart::At(Millis(9)), fixtures::spec());
        let wait = FollowStart::After(Duration::from_secs(60));
        let middle = Spec {
            then: vec![last],
            ..fixtures::spec()
        };
        Spec {
            then: vec![
                follow(When::Run(EndStates::ALL), wait, middle),
                follow(When::Run(EndStates::ALL), wait, fixtures::spec()),
            ],
            ..fixtures::spec()
        }
    }

    #[test]
    fn follow_ups_survive_their_messages() {
        let spec = chain();
        assert_eq!(decode_spec(encode_spec(&spec)), Ok(spec.clone()));
        assert_eq!(decode_spec(encode_short(&spec)), Ok(spec.clone()));
        let more = encode_spec(&spec).len() - encode_spec(&fixtures::spec()).len();
        assert_eq!(follow_ups_bytes(&spec.then), more);
        assert!(in_tree_bytes(&spec) <= encode_spec(&spec).len());
    }

    #[test]
    fn what_a_task_follows_survives_its_content() {
        let inside = TaskResult {
            content_type: "text/plain".to_owned(),
            place: Place::Inline(Bytes::from_static(b"7")),
        };
        let gone = TaskResult {
            content_type: String::new(),
            place: Place::Apart {
                attempt: 0,
                bytes: 70_000,
            },
        };
        for result in [None, Some(inside), Some(gone)] {
            let previous = Previous {
                task: fixtures::id(),
                state: State::Dead,
                tree: Some(TreeOutcome::Faulted),
                result,
                error: Some("no".to_owned()),
            };
            let content = Content {
                previous: Some(Box::new(previous)),
                ..Content::default()
            };
            assert_eq!(decode_content(encode_content(&content)), Ok(content));
        }
    }

    #[test]
    fn what_is_missing_or_out_of_range_is_refused() {
        let whole = spec_to_message(&chain()).then.swap_remove(0);
        let wrong = |message: v1::FollowUp| {
            let message = v1::TaskSpec {
                then: vec![message],
                ..spec_to_message(&fixtures::spec())
            };
            decode_spec(prost::Message::encode_to_vec(&message).into()).unwrap_err()
        };
        let without = v1::FollowUp {
            task: None,
            ..whole.clone()
        };
        assert_eq!(wrong(without), Malformed::Missing("then.task"));
        let without = v1::FollowUp {
            start: None,
            ..whole.clone()
        };
        assert_eq!(wrong(without), Malformed::Missing("then.start"));
        let without = v1::FollowUp {
            states: Vec::new(),
            ..whole
        };
        assert_eq!(wrong(without), Malformed::OutOfRange("then.states"));
        let live = v1::Previous {
            task: Bytes::copy_from_slice(fixtures::id().uuid().as_bytes()),
            state: 1,
            ..v1::Previous::default()
        };
        assert_eq!(
            previous_from(live),
            Err(Malformed::OutOfRange("previous.state"))
        );
    }
}
