//! The level says for a node which features of tasks its program knows, so that nodes of several versions can share a store.
//!
//! An older node that changes a task writes back what it knows of it and forgets the rest. So a task that needs a level is
//! taken only once every node of the cluster has it.

use super::{action::When, notify::TreeStates, task::Spec};

/// A level of the program. Each is a number that never changes its meaning; a program knows all up to its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level(u32);

impl Level {
    /// Programs that say nothing of their level.
    pub const FIRST: Self = Self(0);
    /// Knows follow-ups, tasks that wait for others, children that wait for the own run of their parent, and notices of trees.
    pub const CHAINS: Self = Self(1);
    /// Names the row that a conditional write replaces by the write that made it. Knows parents that were registered without
    /// children, and keys of parents and of tasks that wait for others.
    pub const NAMED_ROWS: Self = Self(2);
    /// Knows the rounds of trees, so that their failed parts may run again. The same version brought both.
    pub const ROUNDS: Self = Self(2);
    /// Knows that a tree was cancelled. The same version brought it.
    pub const CANCELLED_TREES: Self = Self(2);
    /// The level of this program.
    pub const OWN: Self = Self::ROUNDS;

    /// Returns the number that stores keep.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }

    /// Takes a stored number, which may be that of a later program.
    #[must_use]
    pub const fn from_number(number: u32) -> Self {
        Self(number)
    }
}

/// Returns the level that a task needs of every node, and the field of its registration that needs it.
#[must_use]
pub fn needed(spec: &Spec) -> (Level, &'static str) {
    let of_tree = spec
        .notify
        .as_ref()
        .is_some_and(|notify| notify.tree.completed || notify.tree.faulted);
    if let Some(field) = of_cancelled_tree(spec) {
        return (Level::CANCELLED_TREES, field);
    }
    if spec.key.is_some() && (spec.is_parent() || spec.after.is_some()) {
        (Level::NAMED_ROWS, "key")
    } else if spec.is_after_parent() {
        (Level::CHAINS, "after_parent")
    } else if !spec.then.is_empty() {
        (Level::CHAINS, "then")
    } else if spec.after.is_some() {
        (Level::CHAINS, "after")
    } else if of_tree {
        (Level::CHAINS, "notify")
    } else {
        (Level::FIRST, "")
    }
}

/// Returns the field of a task that names the end of a tree that was cancelled.
fn of_cancelled_tree(spec: &Spec) -> Option<&'static str> {
    let is_named = |when| {
        matches!(
            when,
            When::Tree(TreeStates {
                cancelled: true,
                ..
            })
        )
    };
    let actions = spec.actions.iter().flat_map(|actions| &actions.at_ends);
    if spec.then.iter().any(|follow| is_named(follow.when)) {
        Some("then")
    } else if actions.into_iter().any(|action| is_named(action.when)) {
        Some("actions")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{
        after::{After, Condition},
        chain::{FollowStart, FollowUp},
        fixtures::spec,
        kin::Kin,
        notify::{Destination, EndStates, Notify},
    };

    #[test]
    fn only_tasks_with_later_features_need_a_level() {
        let plain = spec();
        assert_eq!(needed(&plain).0, Level::FIRST);
        let follow_up = FollowUp {
            when: When::Run(EndStates::ALL),
            start: FollowStart::After(std::time::Duration::ZERO),
            with_result: false,
            in_tree: false,
            task: spec(),
        };
        let chained = Spec {
            then: vec![follow_up],
            ..spec()
        };
        assert_eq!(needed(&chained), (Level::CHAINS, "then"));
        let waiting = Spec {
            after: Some(Box::new(After {
                condition: Condition::AllEnded,
                later: false,
                deadline: None,
                tasks: 1,
            })),
            ..spec()
        };
        assert_eq!(needed(&waiting), (Level::CHAINS, "after"));
        let told = |tree| Spec {
            notify: Some(Notify {
                tree,
                ..Notify::of_run(
                    Destination::Kafka {
                        topic: "t".to_owned(),
                    },
                    EndStates::ALL,
                )
            }),
            ..spec()
        };
        assert_eq!(needed(&told(TreeStates::NONE)), (Level::FIRST, ""));
        let faulted = TreeStates {
            faulted: true,
            ..TreeStates::NONE
        };
        assert_eq!(needed(&told(faulted)), (Level::CHAINS, "notify"));
        let cancelled = When::Tree(TreeStates {
            cancelled: true,
            ..TreeStates::NONE
        });
        let mut undone = chained;
        undone.then[0].when = cancelled;
        assert_eq!(needed(&undone), (Level::CANCELLED_TREES, "then"));
        let child = Spec {
            kin: Some(Box::new(Kin {
                after_parent: true,
                ..Kin::default()
            })),
            ..spec()
        };
        assert_eq!(needed(&child), (Level::CHAINS, "after_parent"));
        let named = |spec: Spec| Spec {
            key: Some("k".to_owned()),
            ..spec
        };
        assert_eq!(needed(&named(waiting)), (Level::NAMED_ROWS, "key"));
        assert_eq!(needed(&named(spec())).0, Level::FIRST);
        assert!(Level::OWN > Level::FIRST);
    }
}
