//! The adoption makes for the state machine a parent of a task that was registered without children.
//!
//! The row of a task tells whether it is a parent, in place of the spec that its entries have. The write names the row that it
//! replaces, so of an adoption and an end at the same moment one wins: the other reads again what has become of the task.

use std::sync::Arc;

use super::{
    event::Refusal,
    row::{Detail, TaskRow},
    task::Spec,
};

/// The row of a task, which has not ended, that may have children from now on. A task that may have them, or that was replaced by
/// another one of its key, stays as it is.
pub(super) fn adopted(base: TaskRow) -> Result<TaskRow, Refusal> {
    let spec = &base.detail.spec;
    if spec.is_parent() || base.detail.next.is_some() || !spec.target.is_tracked() {
        return Err(Refusal::Stale);
    }
    let mut kin = spec.kin.as_deref().copied().unwrap_or_default();
    kin.is_parent = true;
    let spec = Arc::new(Spec {
        kin: Some(Box::new(kin)),
        ..Spec::clone(spec)
    });
    let detail = Detail {
        spec,
        ..base.detail
    };
    Ok(TaskRow { detail, ..base })
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::model::{
        after::{After, Condition},
        event::Event,
        fixtures,
        holder::Holder,
        row::{Expect, State},
        state,
        time::Millis,
    };

    const NOW: Millis = Millis(fixtures::START.0 + 9);

    fn adopt(row: Option<&TaskRow>, spec: &Arc<Spec>) -> Result<state::Transition, Refusal> {
        let nonce = Uuid::from_u128(77);
        state::next(fixtures::id(), row, spec, Event::Adopt, NOW, nonce)
    }

    #[test]
    fn a_task_that_goes_on_becomes_a_parent_and_changes_in_nothing_else() {
        let spec = Arc::new(fixtures::spec());
        let first = adopt(None, &spec).unwrap();
        assert_eq!((first.expect, first.ttl), (Expect::Absent, None));
        assert!(first.row.detail.spec.is_parent() && first.row.state == State::New);
        for state in State::ALL.into_iter().filter(|state| !state.is_terminal()) {
            let row = fixtures::row(state, &spec);
            let made = adopt(Some(&row), &spec).unwrap();
            assert!(made.row.detail.spec.is_parent(), "{state:?}");
            assert_ne!(made.row.seen(), row.seen(), "{state:?}");
            let same = TaskRow {
                nonce: row.nonce,
                last: row.last,
                detail: row.detail.clone(),
                ..made.row.clone()
            };
            assert_eq!(same, row, "{state:?}");
            assert_eq!(adopt(Some(&made.row), &spec), Err(Refusal::Stale));
        }
    }

    #[test]
    fn a_task_that_waits_becomes_a_parent_and_waits_on() {
        let after = After {
            condition: Condition::AllEnded,
            later: false,
            deadline: None,
            tasks: 1,
        };
        let spec = Arc::new(Spec {
            after: Some(Box::new(after)),
            ..fixtures::spec()
        });
        let made = adopt(None, &spec).unwrap();
        assert!(made.row.waits_for_tasks() && made.row.detail.spec.is_parent());
    }

    #[test]
    fn a_task_that_has_ended_or_was_replaced_takes_no_children() {
        let spec = Arc::new(fixtures::spec());
        for state in State::ALL.into_iter().filter(|state| state.is_terminal()) {
            let row = fixtures::row(state, &spec);
            assert_eq!(adopt(Some(&row), &spec), Err(Refusal::Ended { state }));
        }
        let mut row = fixtures::row(State::Claimed, &spec);
        row.detail.next = Some(Arc::new(Holder {
            id: fixtures::id(),
            generation: 0,
            spec: Arc::clone(&spec),
        }));
        assert_eq!(adopt(Some(&row), &spec), Err(Refusal::Stale));
    }
}
