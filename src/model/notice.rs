//! The notice tells the end steps which ended tasks are told to somebody, and by which internal task.
//!
//! A task says where its ends are told ([`super::notify::Notify`]): those of its own run, and those of its tree. For each end
//! there is one internal task that tells it. Its id is computed from the ended task, its generation and the kind of the end, so
//! that stages that repeat the end steps register it once. Its start is the end, and it lies on the wheel of the task. A redrive
//! raises the generation: the next end is told again.
//!
//! A deletion raises the generation, too, and is no end. So a tombstone has no notice. Stages that delete or redrive a task have
//! the notice of its last end registered first.

use bytes::Bytes;

use super::{
    action::End,
    holder::Holder,
    ids::TaskId,
    internal_task::{RETENTION, internal_id, internal_task},
    notify::{Destination, Notify},
    row::{State, TaskRow},
};

/// The callback of the internal tasks that tell ends.
pub const CALLBACK: &str = "tickwheel.notify";

/// Names the purpose of the tasks that tell ends of runs in the hash of their ids. It never changes: a repetition must find the
/// same id.
const PURPOSE: u64 = 0x6e6f_7469_6679;

/// Names the purpose of the tasks that tell first claims in the hash of their ids. It never changes.
const CLAIM_PURPOSE: u64 = 0x0063_6c61_696d_6e6f;

/// Names the purpose of the tasks that tell ends of trees in the hash of their ids. It never changes.
const TREE_PURPOSE: u64 = 0x0074_7265_655f_6e6f;

/// An end that is to be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// The task that has ended, or whose tree has.
    pub task: TaskId,
    /// Its generation at the end, or the number of the attempt of a claim.
    pub generation: u32,
    /// How and when it ended.
    pub end: End,
    /// Claims up to the end.
    pub attempt: u32,
    /// Where it is told.
    pub to: Destination,
}

impl Notice {
    /// Returns the notice of an end of a task ([`super::action_task`] tells which it has), if somebody wants to know it.
    #[must_use]
    pub fn of(row: &TaskRow, end: End) -> Option<Self> {
        let notify = row.detail.spec.notify.as_ref()?;
        is_wanted(notify, end).then(|| Self::new(row, end, notify.to.clone()))
    }

    /// Makes the notice of an end of a task, told at this place.
    #[must_use]
    pub const fn new(row: &TaskRow, end: End, to: Destination) -> Self {
        Self {
            task: row.id,
            generation: row.generation_at(end),
            end,
            attempt: row.attempt,
            to,
        }
    }

    /// Returns the id of the task that tells it.
    #[must_use]
    pub fn id(&self) -> TaskId {
        let purpose = match self.end {
            End::Run(State::Claimed, _) => CLAIM_PURPOSE,
            End::Run(..) => PURPOSE,
            End::Tree(_) => TREE_PURPOSE,
        };
        internal_id(self.task, self.generation, self.end.at(), purpose)
    }

    /// Returns the task that tells it, with this payload, which is JSON.
    #[must_use]
    pub fn task(&self, payload: Bytes) -> Holder {
        internal_task(self.id(), CALLBACK, RETENTION, payload)
    }
}

fn is_wanted(notify: &Notify, end: End) -> bool {
    match end {
        End::Run(state, _) => notify.states.is_some_and(|states| states.has(state)),
        End::Tree(tree) => notify.tree.has(tree.outcome),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::{
        action_task::{end_of_run, end_of_tree},
        fixtures,
        kin::{TreeEnd, TreeOutcome},
        notify::{EndStates, TreeStates},
        task::Spec,
        time::Millis,
    };

    const END: Millis = Millis(1_003_000);

    fn topic() -> Destination {
        Destination::Kafka {
            topic: "ends".to_owned(),
        }
    }

    fn row(state: State, states: Option<EndStates>) -> TaskRow {
        noticed(state, states.map(|states| Notify::of_run(topic(), states)))
    }

    fn noticed(state: State, notify: Option<Notify>) -> TaskRow {
        let spec = Spec {
            notify,
            ..fixtures::spec()
        };
        let mut row = fixtures::row(state, &Arc::new(spec));
        row.detail.end_time = state.is_terminal().then_some(END);
        row
    }

    /// The notice of the end of the own run of a task.
    fn of_run(row: &TaskRow) -> Option<Notice> {
        Notice::of(row, end_of_run(row)?)
    }

    #[test]
    fn only_wanted_ends_are_told() {
        for state in State::ALL {
            let told = of_run(&row(state, Some(EndStates::ALL)));
            assert_eq!(told.is_some(), state.is_terminal(), "{state:?}");
            assert_eq!(of_run(&row(state, None)), None, "{state:?}");
            let dead = EndStates::of([State::Dead, State::Failed]);
            let told = of_run(&row(state, dead));
            let wanted = matches!(state, State::Dead | State::Failed);
            assert_eq!(told.is_some(), wanted, "{state:?}");
        }
    }

    #[test]
    fn ends_of_runs_and_of_trees_are_told_apart() {
        let faulted = TreeStates {
            faulted: true,
            ..TreeStates::NONE
        };
        for states in [None, EndStates::of([State::Dead])] {
            let notify = Notify {
                to: topic(),
                states,
                tree: faulted,
            };
            let mut row = noticed(State::Dead, Some(notify));
            assert_eq!(of_run(&row).is_some(), states.is_some());
            assert_eq!(end_of_tree(&row), None);
            for outcome in TreeOutcome::ALL {
                row.detail.tree = Some(TreeEnd { outcome, at: END });
                let told = Notice::of(&row, end_of_tree(&row).unwrap());
                assert_eq!(told.is_some(), outcome == TreeOutcome::Faulted);
                // Both ends may be in one millisecond.
                let ids = [
                    told.map(|told| told.id()),
                    of_run(&row).map(|told| told.id()),
                ];
                assert!(ids[0] != ids[1] || ids == [None, None]);
            }
        }
    }

    #[test]
    fn a_tombstone_tells_nothing() {
        let mut row = row(State::Dead, Some(EndStates::ALL));
        row.detail.erased = true;
        assert_eq!(of_run(&row), None);
    }

    #[test]
    fn each_end_has_one_task_and_another_end_another() {
        let ended = row(State::Dead, Some(EndStates::ALL));
        let notice = of_run(&ended).unwrap();
        let id = notice.id();
        assert_eq!(id, of_run(&ended).unwrap().id());
        assert!(id.is_internal());
        assert_eq!((id.first_start(), id.wheel()), (END, ended.id.wheel()));
        let again = TaskRow {
            generation: 1,
            ..ended
        };
        assert_ne!(of_run(&again).unwrap().id(), id);
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
        let notice = of_run(&row(State::Dead, Some(EndStates::ALL))).unwrap();
        assert_eq!(
            notice.id().to_string(),
            "0000000f-4df8-8001-bfff-f5b00913e6f9"
        );
        let tree = TreeEnd {
            outcome: TreeOutcome::Faulted,
            at: END,
        };
        let notice = Notice {
            end: End::Tree(tree),
            ..notice
        };
        assert_eq!(
            notice.id().to_string(),
            "0000000f-4df8-8001-bfff-3851d23f71f5"
        );
    }

    #[test]
    fn the_task_that_tells_goes_on_until_it_is_done() {
        let notice = of_run(&row(State::Failed, Some(EndStates::ALL))).unwrap();
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
