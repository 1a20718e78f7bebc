//! The wish to be told says for a task or a callback where somebody is told of an end, and of which ends.

use super::{http_call::HttpCall, kin::TreeOutcome, task_state::State};

/// Where, and for which ends, somebody is told; it names at least one end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notify {
    /// Where.
    pub to: Destination,
    /// For which ends of the own run; none for none of them.
    pub states: Option<EndStates>,
    /// For which ends of the tree.
    pub tree: TreeStates,
}

/// Where an end is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// By a record in this topic.
    Kafka {
        /// The topic.
        topic: String,
    },
    /// By a request to this URL.
    Http(Box<HttpCall>),
}

/// A set of ends of a tree, which may be empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeStates {
    /// Nothing of it failed.
    pub completed: bool,
    /// Something of it failed.
    pub faulted: bool,
    /// It was cancelled as a whole.
    pub cancelled: bool,
}

/// A set of terminal states, and of the state at a first claim; at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndStates(u8);

/// The bit of a first claim.
const CLAIMED: u8 = 1 << 5;

impl Destination {
    /// Returns the name of its kind, for metrics.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Kafka { .. } => "kafka",
            Self::Http(_) => "http",
        }
    }
}

impl Notify {
    /// Makes the wish to be told of these ends of the own run.
    #[must_use]
    pub const fn of_run(to: Destination, states: EndStates) -> Self {
        Self {
            to,
            states: Some(states),
            tree: TreeStates::NONE,
        }
    }
}

impl TreeStates {
    /// No end of a tree.
    pub const NONE: Self = Self {
        completed: false,
        faulted: false,
        cancelled: false,
    };

    /// Tells whether no end is one of them.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        !self.completed && !self.faulted && !self.cancelled
    }

    /// Tells whether an end of a tree is one of them.
    #[must_use]
    pub const fn has(self, outcome: TreeOutcome) -> bool {
        match outcome {
            TreeOutcome::Completed => self.completed,
            TreeOutcome::Faulted => self.faulted,
            TreeOutcome::Cancelled => self.cancelled,
        }
    }
}

impl EndStates {
    /// All terminal states. A claim is told by those alone that name it.
    pub const ALL: Self = Self(0b1_1111);

    /// Collects terminal states, and the one of a claim; none when there is none, or one of them is another.
    #[must_use]
    pub fn of(states: impl IntoIterator<Item = State>) -> Option<Self> {
        let mut bits = 0;
        for state in states {
            bits |= Self::bit(state)?;
        }
        (bits != 0).then_some(Self(bits))
    }

    /// Tells whether a state is one of them.
    #[must_use]
    pub fn has(self, state: State) -> bool {
        Self::bit(state).is_some_and(|bit| self.0 & bit != 0)
    }

    /// Tells whether a first claim is one of them.
    #[must_use]
    pub const fn has_claim(self) -> bool {
        self.0 & CLAIMED != 0
    }

    /// Returns them, in the order of [`State::ALL`].
    pub fn iter(self) -> impl Iterator<Item = State> {
        State::ALL.into_iter().filter(move |state| self.has(*state))
    }

    fn bit(state: State) -> Option<u8> {
        if state == State::Claimed {
            return Some(CLAIMED);
        }
        let first = State::Succeeded.number();
        let place = state.is_terminal().then(|| state.number() - first)?;
        u8::try_from(place).ok().map(|place| 1 << place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_terminal_states_only() {
        assert_eq!(EndStates::of([State::Dead, State::New]), None);
        assert_eq!(EndStates::of([]), None);
        let all = State::ALL.into_iter().filter(|state| state.is_terminal());
        assert_eq!(EndStates::of(all), Some(EndStates::ALL));
        assert_eq!(EndStates::ALL.iter().count(), 5);
        assert!(!EndStates::ALL.has_claim());
        let claimed = EndStates::of([State::Dead, State::Claimed]).unwrap();
        assert!(claimed.has_claim() && claimed.has(State::Claimed) && claimed.has(State::Dead));
        assert_eq!(claimed.iter().count(), 2);
        let dead = EndStates::of([State::Dead, State::Dead]);
        assert_eq!(
            dead.map(|dead| dead.iter().collect()),
            Some(vec![State::Dead])
        );
    }

    #[test]
    fn a_tree_ends_in_one_of_three_ways() {
        for bits in 0..8 {
            let states = TreeStates {
                completed: bits & 1 != 0,
                faulted: bits & 2 != 0,
                cancelled: bits & 4 != 0,
            };
            let has = TreeOutcome::ALL.map(|outcome| states.has(outcome));
            assert_eq!(has, [states.completed, states.faulted, states.cancelled]);
            assert_eq!(states.is_empty(), bits == 0);
        }
    }
}
