//! The notice tells the end steps which ended tasks are told to somebody, and by which internal task.
//!
//! A task says where its end is told ([`super::notify::Notify`]). For each end there is one internal task that tells it. Its id
//! is computed from the ended task and its generation, so that stages that repeat the end steps register it once. Its start is
//! the end of the task, and it lies on the wheel of the task. A redrive raises the generation: the next end is told again.
//!
//! A deletion raises the generation, too, and is no end. So a tombstone has no notice. Stages that delete or redrive a task have
//! the notice of its last end registered first.

use bytes::Bytes;

use super::{
    holder::Holder,
    ids::TaskId,
    internal_task::{RETENTION, internal_id, internal_task},
    notify::Destination,
    row::{State, TaskRow},
    time::Millis,
};

/// The callback of the internal tasks that tell ends.
pub const CALLBACK: &str = "tickwheel.notify";

/// Names the purpose of these tasks in the hash of their ids. It never changes: a repetition must find the same id.
const PURPOSE: u64 = 0x6e6f_7469_6679;

/// An end that is to be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// The task that has ended.
    pub task: TaskId,
    /// Its generation at the end.
    pub generation: u32,
    /// How it ended.
    pub state: State,
    /// When it ended.
    pub end: Millis,
    /// Claims up to the end.
    pub attempt: u32,
    /// Where it is told.
    pub to: Destination,
}

impl Notice {
    /// Returns the end that the row of a task tells of, if somebody wants to know it.
    #[must_use]
    pub fn of(row: &TaskRow) -> Option<Self> {
        let notify = row.detail.spec.notify.as_ref()?;
        if row.detail.erased || !notify.states.has(row.state) {
            return None;
        }
        Some(Self {
            task: row.id,
            generation: row.generation,
            state: row.state,
            end: row.detail.end_time?,
            attempt: row.attempt,
            to: notify.to.clone(),
        })
    }

    /// Returns the id of the task that tells it.
    #[must_use]
    pub fn id(&self) -> TaskId {
        internal_id(self.task, self.generation, self.end, PURPOSE)
    }

    /// Returns the task that tells it, with this payload, which is JSON.
    #[must_use]
    pub fn task(&self, payload: Bytes) -> Holder {
        internal_task(self.id(), CALLBACK, RETENTION, payload)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::{
        fixtures,
        notify::{EndStates, Notify},
        task::Spec,
    };

    const END: Millis = Millis(1_003_000);

    fn row(state: State, states: Option<EndStates>) -> TaskRow {
        let notify = states.map(|states| Notify {
            to: Destination::Kafka {
                topic: "ends".to_owned(),
            },
            states,
        });
        let spec = Spec {
            notify,
            ..fixtures::spec()
        };
        let mut row = fixtures::row(state, &Arc::new(spec));
        row.detail.end_time = state.is_terminal().then_some(END);
        row
    }

    #[test]
    fn only_wanted_ends_are_told() {
        for state in State::ALL {
            let told = Notice::of(&row(state, Some(EndStates::ALL)));
            assert_eq!(told.is_some(), state.is_terminal(), "{state:?}");
            assert_eq!(Notice::of(&row(state, None)), None, "{state:?}");
            let dead = EndStates::of([State::Dead, State::Failed]);
            let told = Notice::of(&row(state, dead));
            let wanted = matches!(state, State::Dead | State::Failed);
            assert_eq!(told.is_some(), wanted, "{state:?}");
        }
    }

    #[test]
    fn a_tombstone_tells_nothing() {
        let mut row = row(State::Dead, Some(EndStates::ALL));
        row.detail.erased = true;
        assert_eq!(Notice::of(&row), None);
    }

    #[test]
    fn each_end_has_one_task_and_another_end_another() {
        let ended = row(State::Dead, Some(EndStates::ALL));
        let notice = Notice::of(&ended).unwrap();
        let id = notice.id();
        assert_eq!(id, Notice::of(&ended).unwrap().id());
        assert!(id.is_internal());
        assert_eq!((id.first_start(), id.wheel()), (END, ended.id.wheel()));
        let again = TaskRow {
            generation: 1,
            ..ended
        };
        assert_ne!(Notice::of(&again).unwrap().id(), id);
        let other = Notice {
            task: TaskId::new(fixtures::START, ended_wheel(), 8),
            ..notice
        };
        assert_ne!(other.id(), id);
    }

    fn ended_wheel() -> crate::model::wheel::WheelNumber {
        fixtures::id().wheel()
    }

    /// Stored ids never change: a repetition by a later version must find the same task.
    #[test]
    fn the_id_of_a_notice_is_fixed() {
        let notice = Notice::of(&row(State::Dead, Some(EndStates::ALL))).unwrap();
        assert_eq!(
            notice.id().to_string(),
            "0000000f-4df8-8001-bfff-f5b00913e6f9"
        );
    }

    #[test]
    fn the_task_that_tells_goes_on_until_it_is_done() {
        let notice = Notice::of(&row(State::Failed, Some(EndStates::ALL))).unwrap();
        let task = notice.task(Bytes::from_static(b"{}"));
        assert_eq!(task.spec.callback(), Some(CALLBACK));
        assert_eq!(
            (task.spec.max_attempts, task.spec.expire_after),
            (u32::MAX, None)
        );
        assert!(task.spec.claim_timeout <= task.id.look_step().duration());
        assert!(task.spec.notify.is_none());
    }
}
