//! The chain task makes for the end steps the task of a follow-up ([`super::chain`]), the same each time.
//!
//! Its id is computed: the start from the end of the task before it, the wheel from that task, and the rest is a hash of that
//! task, its generation, the kind of the end and the place of the follow-up. Its spec was complete when that task was registered.
//! So a stage that repeats its steps writes the same task over itself, whatever was configured meanwhile.

use std::sync::Arc;

use super::{
    action::End,
    chain::{FollowUp, Previous},
    holder::Holder,
    ids::TaskId,
    kin::{Kin, TreeOutcome},
    look_step::LookStep,
    preference::mix,
    result::TaskResult,
    row::{State, TaskRow},
    target::Target,
    task::{Body, Content, Spec},
};

/// Names follow-ups of ends of own runs in the hash of their ids. It never changes.
const THEN: u64 = 0x0000_0000_7468_656e;

/// Names follow-ups of ends of trees in the hash of their ids. It never changes.
const TREE_THEN: u64 = 0x7472_6565_7468_656e;

/// Returns the id of the follow-up of this place, of an end of a task in this generation.
#[must_use]
pub fn follow_id(
    task: TaskId,
    generation: u32,
    end: End,
    (place, follow): (usize, &FollowUp<Spec>),
) -> TaskId {
    let (high, low) = task.uuid().as_u64_pair();
    let what = match end {
        End::Run(..) => THEN,
        End::Tree(_) => TREE_THEN,
    };
    let purpose = mix(what) ^ place as u64;
    let hash = mix(high ^ mix(low ^ mix(u64::from(generation) ^ mix(purpose))));
    let start = follow.start.behind(end.at());
    let step = LookStep::covering(follow.task.claim_timeout);
    TaskId::new(start, task.wheel(), hash).with_look_step(step)
}

/// Returns the task that a follow-up joins the tree of: the parent of the task before it, or that task itself if it is the root.
#[must_use]
pub fn parent_of(row: &TaskRow) -> Option<TaskId> {
    let spec = &row.detail.spec;
    spec.parent().or_else(|| spec.is_parent().then_some(row.id))
}

/// Tells whether an end is what its task was made for: no follow-up of it undoes anything.
#[must_use]
pub const fn is_success(end: End) -> bool {
    match end {
        End::Run(state, _) => matches!(state, State::Succeeded),
        End::Tree(tree) => matches!(tree.outcome, TreeOutcome::Completed),
    }
}

/// Returns the task of a follow-up of an end. `result` is that of the task before it, if it was asked for.
#[must_use]
pub fn follow_up(
    row: &TaskRow,
    end: End,
    (place, follow): (usize, &FollowUp<Spec>),
    result: Option<TaskResult>,
) -> Holder {
    let id = follow_id(row.id, row.generation_at(end), end, (place, follow));
    let mut spec = follow.task.clone();
    spec.create_time = end.at();
    spec.asked_start = None;
    let parent = parent_of(row).filter(|_| follow.in_tree);
    spec.kin = parent.map(|parent| {
        Box::new(Kin {
            parent: Some(parent),
            undoes: row.detail.spec.undoes() || !is_success(end),
            ..Kin::default()
        })
    });
    let error = row.detail.error.clone().filter(|_| follow.with_result);
    let mut previous = Previous {
        task: row.id,
        state: row.state,
        tree: match end {
            End::Run(..) => None,
            End::Tree(tree) => Some(tree.outcome),
        },
        result,
        error,
    };
    if let Body::Inline(content) = &mut spec.body {
        if matches!(spec.target, Target::Http { .. }) && content.payload.is_empty() {
            sends(content, &mut previous);
        }
        let first = row.detail.spec.content();
        content.trace_parent = first.and_then(|first| first.trace_parent.clone());
        content.previous = Some(Box::new(previous));
    }
    Holder {
        id,
        generation: 0,
        spec: Arc::new(spec),
    }
}

/// Makes the result of the task before it the body of a request that has none.
fn sends(content: &mut Content, previous: &mut Previous) {
    let bytes = previous.result.as_ref().and_then(TaskResult::bytes);
    let Some(bytes) = bytes.cloned() else { return };
    content.payload = bytes;
    if let Some(TaskResult { content_type, .. }) = previous.result.take() {
        "application/json".clone_into(&mut content.content_type);
        if !content_type.is_empty() {
            content.content_type = content_type;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, time::Duration};

    use bytes::Bytes;

    use super::*;
    use crate::model::{
        action::When,
        chain::FollowStart,
        fixtures,
        http_call::{HttpCall, Method},
        kin::TreeEnd,
        notify::EndStates,
        time::Millis,
    };

    const MINUTE: Duration = Duration::from_secs(60);

    fn follow(with_result: bool) -> FollowUp<Spec> {
        FollowUp {
            when: When::Run(EndStates::ALL),
            start: FollowStart::After(MINUTE),
            with_result,
            in_tree: false,
            task: fixtures::spec(),
        }
    }

    fn row(kin: Option<Kin>) -> TaskRow {
        let spec = Spec {
            kin: kin.map(Box::new),
            ..fixtures::spec()
        };
        let mut row = fixtures::row(State::Succeeded, &Arc::new(spec));
        row.detail.end_time = Some(Millis(fixtures::START.0 + 5));
        row
    }

    fn end(row: &TaskRow) -> End {
        End::Run(row.state, row.detail.end_time.unwrap())
    }

    #[test]
    fn a_repetition_makes_the_same_task_and_each_place_another() {
        let row = row(None);
        let (end, follow) = (end(&row), follow(false));
        let first = follow_up(&row, end, (0, &follow), None);
        assert_eq!(first, follow_up(&row, end, (0, &follow), None));
        assert_eq!(first.id.first_start(), end.at().after(MINUTE));
        assert_eq!(first.id.wheel(), row.id.wheel());
        let covered = first.id.look_step().duration();
        assert!(covered >= follow.task.claim_timeout);
        assert!(!first.id.is_internal());
        assert_eq!(first.spec.create_time, end.at());
        let tree = End::Tree(TreeEnd {
            outcome: TreeOutcome::Faulted,
            at: end.at(),
        });
        let ids = [
            first.id,
            follow_id(row.id, 0, end, (1, &follow)),
            follow_id(row.id, 1, end, (0, &follow)),
            follow_id(row.id, 0, tree, (0, &follow)),
        ];
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 4);
    }

    /// A repetition by a later version must find the same task.
    #[test]
    fn ids_of_follow_ups_are_fixed() {
        let row = row(None);
        let id = follow_id(fixtures::id(), 0, end(&row), (0, &follow(false)));
        assert_eq!(id.to_string(), "00000010-2e99-8001-8ffe-c854b4130227");
    }

    #[test]
    fn a_follow_up_tells_what_it_follows() {
        let row = row(None);
        let result = TaskResult::from(Bytes::from_static(b"7"));
        let made = follow_up(&row, end(&row), (0, &follow(true)), Some(result.clone()));
        let previous = made.spec.content().unwrap().previous.as_deref().unwrap();
        assert_eq!((previous.task, previous.state), (row.id, State::Succeeded));
        assert_eq!(previous.result, Some(result));
        assert_eq!(made.spec.kin, None);
    }

    #[test]
    fn a_request_without_a_body_sends_the_result() {
        let row = row(None);
        let mut follow = follow(true);
        follow.task.target = Target::Http {
            callback: "http:a".to_owned(),
            call: Box::new(HttpCall {
                url: "http://a.example".to_owned(),
                method: Method::Post,
                headers: Vec::new(),
                timeout: None,
                message_id: None,
            }),
        };
        let result = TaskResult::from(Bytes::from_static(b"7"));
        let made = follow_up(&row, end(&row), (0, &follow), Some(result));
        let content = made.spec.content().unwrap();
        assert_eq!(content.payload, Bytes::from_static(b"7"));
        assert_eq!(content.content_type, "application/json");
        assert_eq!(content.previous.as_deref().unwrap().result, None);
    }

    #[test]
    fn a_follow_up_joins_its_tree_beside_the_task_or_below_the_root() {
        let mut follow = follow(false);
        follow.in_tree = true;
        let parent = TaskId::new(fixtures::START, fixtures::id().wheel(), 99);
        let child = row(Some(Kin {
            parent: Some(parent),
            ..Kin::default()
        }));
        let root = row(Some(Kin {
            is_parent: true,
            ..Kin::default()
        }));
        let below = |row: &TaskRow| {
            let made = follow_up(row, end(row), (0, &follow), None);
            made.spec.parent()
        };
        let undoes = |row: &TaskRow| {
            let made = follow_up(row, end(row), (0, &follow), None);
            made.spec.undoes()
        };
        assert!(!undoes(&child) && !undoes(&root));
        let mut failed = child.clone();
        failed.state = State::Dead;
        assert!(undoes(&failed), "it follows what is no success");
        let kin = Kin {
            undoes: true,
            ..*child.detail.spec.kin.as_deref().unwrap()
        };
        assert!(undoes(&row(Some(kin))), "it follows what undoes");
        assert_eq!(below(&child), Some(parent));
        assert_eq!(below(&root), Some(root.id));
    }
}
