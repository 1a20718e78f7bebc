//! The chain says for a task which tasks follow its ends, and for a follow-up which task it follows.
//!
//! A follow-up is a whole task that its client gave with the task before it. It may have follow-ups itself, so a chain is as
//! long as it was written. [`super::chain_task`] makes the task of a follow-up.

use std::time::Duration;

use super::{
    action::{End, When},
    ids::TaskId,
    kin::TreeOutcome,
    result::TaskResult,
    task_state::State,
    time::Millis,
};

/// A task that is registered when another one ends: `T` is the task as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FollowUp<T> {
    /// At which ends of the other task.
    pub when: When,
    /// When it starts.
    pub start: FollowStart,
    /// The result of the other task goes with it.
    pub with_result: bool,
    /// It is a child in the tree of the other task.
    pub in_tree: bool,
    /// The task, whose place in a tree is not set.
    pub task: T,
}

/// The start of a follow-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FollowStart {
    /// So long after the end of the task before it.
    After(Duration),
    /// At this time, but not before that end.
    At(Millis),
}

/// The task that another one follows, as it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Previous {
    /// The task.
    pub task: TaskId,
    /// How its own run ended.
    pub state: State,
    /// How its tree ended, for a task that follows the end of a tree.
    pub tree: Option<TreeOutcome>,
    /// Its result, if that was asked for: inside, or only how large it was when its bytes were gone.
    pub result: Option<TaskResult>,
    /// Its last error, if its result was asked for.
    pub error: Option<String>,
}

/// Why a task cannot have these follow-ups, although each field of them is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// They are too large, with what their callbacks add.
    #[error(
        "the tasks in `then` have {bytes} bytes together as encoded, with what their callbacks add; at most {most} are allowed: make payloads and headers shorter, or register the later tasks from a callback"
    )]
    TooLarge {
        /// Their size.
        bytes: usize,
        /// The limit.
        most: usize,
    },
    /// A follow-up in a tree is too large for its row there.
    #[error(
        "a task in `then` that is in a tree has {bytes} bytes as encoded without its payload; at most {most} are allowed: make its headers, its actions and its own `then` shorter"
    )]
    TooLargeForTree {
        /// Its size.
        bytes: usize,
        /// The limit.
        most: usize,
    },
}

impl<T> FollowUp<T> {
    /// Returns it with another form of its task.
    #[must_use]
    pub fn map<U>(self, convert: impl FnOnce(T) -> U) -> FollowUp<U> {
        FollowUp {
            when: self.when,
            start: self.start,
            with_result: self.with_result,
            in_tree: self.in_tree,
            task: convert(self.task),
        }
    }
}

impl FollowStart {
    /// Returns when a follow-up of an end starts.
    #[must_use]
    pub fn behind(self, end: Millis) -> Millis {
        let start = match self {
            Self::After(wait) => end.after(wait),
            Self::At(at) => at.max(end),
        };
        start.clamp(Millis::EPOCH, Millis::MAX)
    }
}

/// Returns the follow-ups of an end of a task whose own run ended as `run`, with their places.
pub fn due<T>(
    then: &[FollowUp<T>],
    end: End,
    run: State,
) -> impl Iterator<Item = (usize, &FollowUp<T>)> {
    let then = then.iter().enumerate();
    then.filter(move |(_, follow)| follow.when.has(end, run))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_follow_up_starts_behind_the_end_and_not_before_its_own_time() {
        let end = Millis(1000);
        let wait = Duration::from_millis(7);
        assert_eq!(FollowStart::After(wait).behind(end), Millis(1007));
        assert_eq!(FollowStart::At(Millis(5)).behind(end), end);
        assert_eq!(FollowStart::At(Millis(5000)).behind(end), Millis(5000));
        let never = FollowStart::After(Duration::MAX).behind(end);
        assert_eq!(never, Millis::MAX);
    }
}
