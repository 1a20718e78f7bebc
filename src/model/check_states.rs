//! The states of a check say which answers to its question are "yes": ends of the own run of a task, ends of its tree, and states
//! of a task that goes on.
//!
//! An end has a time, so a check knows whether the task had ended so by the time of the check, however late it asks. A state of a
//! task that goes on has none: it is that of the moment in which the check asks.

use super::{
    kin::TreeEnd,
    notify::{EndStates, TreeStates},
    task_state::State,
    time::Millis,
};

/// A state of a task that has not ended; numbers are what stores keep, and never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Live {
    /// It waits for its start.
    Scheduled = 1,
    /// It was handed to the queue.
    Enqueued = 2,
    /// A worker has claimed it.
    Claimed = 3,
    /// Its worker has sent a heartbeat.
    Processing = 4,
    /// It waits for its next attempt.
    Retrying = 5,
    /// It waits for other tasks.
    Waiting = 6,
    /// Its own run has ended, and its tree has not.
    WaitingForChildren = 7,
}

impl Live {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Scheduled,
        Self::Enqueued,
        Self::Claimed,
        Self::Processing,
        Self::Retrying,
        Self::Waiting,
        Self::WaitingForChildren,
    ];

    /// Returns the number that stores keep.
    #[must_use]
    pub const fn number(self) -> i32 {
        self as i32
    }

    /// Reads a stored number.
    #[must_use]
    pub fn from_number(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|live| live.number() == number)
    }
}

/// The states that a check asks for; at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckStates {
    /// Ends of the own run; none for none of them.
    pub run: Option<EndStates>,
    /// Ends of the tree.
    pub tree: TreeStates,
    /// A bit for each state of a task that goes on.
    live: u8,
}

/// A task as a check finds it.
#[derive(Debug, Clone, Copy)]
pub struct Found {
    /// How its own run has ended, and when.
    pub run: Option<(State, Millis)>,
    /// How its tree has ended.
    pub tree: Option<TreeEnd>,
    /// Its state, if it goes on.
    pub live: Option<Live>,
}

impl CheckStates {
    /// Collects them; none when there is none.
    #[must_use]
    pub fn of(
        run: Option<EndStates>,
        tree: TreeStates,
        live: impl IntoIterator<Item = Live>,
    ) -> Option<Self> {
        let live = live.into_iter().fold(0, |bits, live| bits | bit(live));
        let is_some = run.is_some() || !tree.is_empty() || live != 0;
        is_some.then_some(Self { run, tree, live })
    }

    /// Returns the states of a task that goes on.
    pub fn live(self) -> impl Iterator<Item = Live> {
        let all = Live::ALL.into_iter();
        all.filter(move |live| self.live & bit(*live) != 0)
    }

    /// Tells whether a task had come to one of them by this time, as far as it is known.
    #[must_use]
    pub fn has(self, found: Found, by: Millis) -> bool {
        let Found { run, tree, live } = found;
        let has_run = |(state, at): (State, Millis)| {
            at <= by && self.run.is_some_and(|states| states.has(state))
        };
        let has_tree = |end: TreeEnd| end.at <= by && self.tree.has(end.outcome);
        run.is_some_and(has_run)
            || tree.is_some_and(has_tree)
            || live.is_some_and(|live| self.live & bit(live) != 0)
    }
}

const fn bit(live: Live) -> u8 {
    1 << (live as u8 - 1)
}

/// Ends of the own run alone.
impl From<EndStates> for CheckStates {
    fn from(states: EndStates) -> Self {
        Self {
            run: Some(states),
            tree: TreeStates::NONE,
            live: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::kin::TreeOutcome;

    const BY: Millis = Millis(1000);

    fn found() -> Found {
        Found {
            run: None,
            tree: None,
            live: None,
        }
    }

    #[test]
    fn ends_count_by_their_time_and_other_states_by_the_moment() {
        let dead = EndStates::of([State::Dead]);
        let tree = TreeStates {
            faulted: true,
            ..TreeStates::NONE
        };
        let live = [Live::Scheduled, Live::WaitingForChildren];
        let states = CheckStates::of(dead, tree, live).unwrap();
        let later = Millis(BY.0 + 1);
        for (at, has) in [(BY, true), (later, false)] {
            let run = |state| Found {
                run: Some((state, at)),
                ..found()
            };
            let tree = |outcome| Found {
                tree: Some(TreeEnd { outcome, at }),
                ..found()
            };
            assert_eq!(states.has(run(State::Dead), BY), has);
            assert_eq!(states.has(tree(TreeOutcome::Faulted), BY), has);
            assert!(!states.has(run(State::Failed), BY));
            assert!(!states.has(tree(TreeOutcome::Completed), BY));
        }
        for state in Live::ALL {
            let live = Some(state);
            let found = Found { live, ..found() };
            let is_one = matches!(state, Live::Scheduled | Live::WaitingForChildren);
            assert_eq!(states.has(found, BY), is_one, "{state:?}");
        }
        assert!(!states.has(found(), BY));
        assert_eq!(states.live().collect::<Vec<_>>(), live);
    }

    #[test]
    fn a_check_asks_for_a_state_at_least() {
        assert_eq!(CheckStates::of(None, TreeStates::NONE, []), None);
        let all = CheckStates::from(EndStates::ALL);
        assert_eq!(
            CheckStates::of(Some(EndStates::ALL), TreeStates::NONE, []),
            Some(all)
        );
        for live in Live::ALL {
            assert_eq!(Live::from_number(live.number()), Some(live));
        }
        assert_eq!(Live::from_number(0), None);
    }
}
