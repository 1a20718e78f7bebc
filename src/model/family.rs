//! The rules of families decide for registration, end steps and looks when the tree of a task has ended.
//!
//! A task that may have children is a parent. It says so when it is registered, or its row says so from its first child on
//! ([`super::adoption`]). Its tree ends once: after its own run and after the trees of all its children. Each child has a row of
//! the index under its parent, which is written before its entry. So a parent has no set of children in any record, and 100,000
//! of them cost no more than one, each.
//!
//! One record decides when the tree ends. It goes from open to closing, and all rows are read between. An add that comes
//! meanwhile finds it closing and opens it again, which is another version: the end that was about to be written is refused by
//! the store. `tests/model/family` searches all of this.
//!
//! A child may wait for the own run of its parent. It has one more row, in a bucket of its own, and a row of its own instead of
//! an entry. The check of the parent releases it: into the wheel if that run has succeeded, else to its end. The row in the
//! bucket is written before the own run of the parent is looked at, and read after that run has ended. So one of the two sees
//! the other.
//!
//! A row has two sides. An add writes it at a fixed early time, the end of its child at a fixed later one. So the end stays,
//! whichever arrives last. The add of a later round of the tree is a little later than the refusal of one before.
//!
//! The failed part of a tree may run again ([`super::again`]). Each task has rounds, beginning with 0, and the round of a parent
//! is that of its tree. The row of a child is opened for its next round first, at a time that the round gives and no clock ever
//! shows, so late writes of the rounds before lose. Then the record of the parent is opened: in its next round if it had ended,
//! which needs the parent's own row above first, and so on up to the root. The rows of the parents follow, from the root down.
//! Only then does the child begin its round. So nothing runs below a parent whose row says that its tree has ended. A child whose
//! row is open for a round that it has not begun is what a call leaves that died: the check of its parent lets it begin.

use std::time::Duration;

use super::{
    ids::TaskId,
    preference::mix,
    row::{State, TaskRow},
    time::Millis,
};

pub use super::kin::{Again, Kin, Rounds, TreeEnd};

/// The write time of a row by an add to a tree that was never opened again, in microseconds: every end is later.
pub const ADDED_WRITTEN: i64 = 1;

/// The write time of the end of a child in round 0: behind all adds and refusals, and before all clocks.
const ENDED_WRITTEN: i64 = 1 << 40;

/// The write times of the rows of later rounds begin here: no clock gets there.
const AGAIN_WRITTEN: i64 = 1 << 62;

/// Returns the write time of a row by an add to a tree in this round. A child that was refused in a round before may be added
/// then: a removal is final against all writes that are as old.
#[must_use]
pub const fn added_written(round: u32) -> i64 {
    ADDED_WRITTEN + 2 * round as i64
}

/// Returns the time at which the row of a child is removed whose add to a tree was refused in this round.
#[must_use]
pub const fn refused_written(round: u32) -> i64 {
    added_written(round) + 1
}

/// Returns the write time of a row that is opened for a round, in which the own run of the child runs again or not. Round 0 is
/// that of the add.
#[must_use]
pub const fn opened_written(round: u32, run: bool) -> i64 {
    if round == 0 {
        ADDED_WRITTEN
    } else {
        AGAIN_WRITTEN + 4 * round as i64 + run as i64
    }
}

/// Returns the write time of the end of a child in a round. The looks of the child write it again at any time, and what gives the
/// row an end of life is later.
#[must_use]
pub const fn ended_written(round: u32) -> i64 {
    if round == 0 {
        ENDED_WRITTEN
    } else {
        opened_written(round, true) + 1
    }
}

/// Returns the write time of what gives the row of an ended child an end of life; `stamp` is the present one. An earlier version
/// has written ends of round 0 at the times of the clock.
#[must_use]
pub const fn let_go_written(round: u32, stamp: i64) -> i64 {
    if round == 0 {
        stamp
    } else {
        opened_written(round, true) + 2
    }
}

/// In how many buckets the rows of the children of one parent lie.
pub const BUCKETS: u8 = 16;

/// The bucket behind those, in which the children lie that wait for the own run of their parent.
pub const WAITING: u8 = BUCKETS;

/// How long after it was written the row of a child may be without an entry: then the check of its parent completes the add.
pub const ADD_OPEN: Duration = Duration::from_secs(60);

/// How long after the end of its own run the looks of a parent repeat the end steps of that run, at least.
const RUN_STEPS_REPEATED: Duration = Duration::from_secs(3600);

/// Returns how long after the end of its own run the looks of a parent repeat the end steps of that run: one look at least is
/// due by then.
#[must_use]
pub fn run_steps_repeated(parent: TaskId) -> Duration {
    RUN_STEPS_REPEATED.max(parent.look_step().duration() * 2)
}

/// The state of the record of a parent. A record that is not there is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tree {
    /// Children may be added.
    Open,
    /// Somebody reads whether all children have ended.
    Closing,
    /// The tree has ended, and nothing in it failed.
    Completed,
    /// The tree has ended, and its own run or a child failed.
    Faulted,
}

impl Tree {
    /// Returns the number that stores keep.
    #[must_use]
    pub const fn number(self) -> i32 {
        match self {
            Self::Open => 1,
            Self::Closing => 2,
            Self::Completed => 3,
            Self::Faulted => 4,
        }
    }

    /// Reads a stored number.
    #[must_use]
    pub fn from_number(number: i32) -> Option<Self> {
        let all = [Self::Open, Self::Closing, Self::Completed, Self::Faulted];
        all.into_iter().find(|tree| tree.number() == number)
    }

    /// Tells whether the tree has ended.
    #[must_use]
    pub const fn has_ended(self) -> bool {
        matches!(self, Self::Completed | Self::Faulted)
    }
}

/// The next step of an add whose row is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Add {
    /// The child is admitted: its entry may be written.
    Enter,
    /// The record is to be opened again first.
    Reopen,
    /// The tree has ended. The child was added if its row says how it ended; else it is refused.
    Over,
}

/// Decides about an add by the record of its parent, which was read serially after the row was acknowledged.
#[must_use]
pub const fn add(tree: Tree) -> Add {
    match tree {
        Tree::Open => Add::Enter,
        Tree::Closing => Add::Reopen,
        Tree::Completed | Tree::Faulted => Add::Over,
    }
}

/// The next step of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// Nothing: the own run goes on, and its end checks again.
    Stop,
    /// Look for a child that has not ended. If there is none, write that the tree is closing.
    Sweep,
    /// Read all rows from the first one. If one has not ended, open the record again, else write the end.
    Read,
    /// The tree has ended: do its end steps.
    EndSteps,
}

/// Decides about a check by the record, which was read serially; `run_ended` says that the own run was seen ended before.
#[must_use]
pub const fn check(tree: Tree, run_ended: bool) -> Check {
    match tree {
        Tree::Completed | Tree::Faulted => Check::EndSteps,
        _ if !run_ended => Check::Stop,
        Tree::Open => Check::Sweep,
        // The check that wrote it may be dead: any check takes it over.
        Tree::Closing => Check::Read,
    }
}

/// Returns how a tree ends whose own run ended so, and of whose children one faulted or none.
#[must_use]
pub const fn end(run: State, child_faulted: bool) -> Tree {
    if child_faulted || faults(run) {
        Tree::Faulted
    } else {
        Tree::Completed
    }
}

/// Tells whether the end of a task makes its tree, and that of its parent, a faulted one. A cancelled task does not.
#[must_use]
pub const fn faults(state: State) -> bool {
    match state {
        State::Failed | State::Dead | State::Expired => true,
        State::New | State::Claimed | State::Retrying | State::Succeeded | State::Cancelled => {
            false
        }
    }
}

/// The end of a child, with all of its own tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// How its own run ended.
    pub state: State,
    /// Its run, or a task below it, failed.
    pub faulted: bool,
    /// When it ended.
    pub at: Millis,
}

impl Outcome {
    /// Returns the end of a task that has ended with all of its tree; none for one that has not.
    #[must_use]
    pub fn of(row: &TaskRow) -> Option<Self> {
        Some(Self {
            state: row.state,
            faulted: faults(row.state) || row.detail.tree.is_some_and(|tree| tree.faulted),
            at: row.ended_at()?,
        })
    }
}

/// Returns the bucket that the row of a child lies in.
#[must_use]
pub fn bucket(child: TaskId) -> u8 {
    let (high, low) = child.uuid().as_u64_pair();
    // The remainder is below the number of buckets.
    (mix(high ^ mix(low)) % u64::from(BUCKETS)) as u8
}

/// Returns the random part of the id of a task that is registered with its whole tree: the same for each repetition. `path` is
/// its place below the root, by the places among its siblings.
#[must_use]
pub fn seed(root: TaskId, path: &[u32]) -> u64 {
    let (high, low) = root.uuid().as_u64_pair();
    let first = mix(high ^ mix(low));
    path.iter()
        .fold(first, |seed, place| mix(seed ^ mix(u64::from(*place) + 1)))
}

/// Why a child is not added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The parent is not known.
    #[error(
        "the parent {0} is not known; give the id of a task that this service has registered and still keeps"
    )]
    NoParent(TaskId),
    /// The parent is a record of Kafka.
    #[error(
        "the task {0} is a record of Kafka, and nothing tells when it has ended; register the child under a task that has a callback or a URL"
    )]
    NeverEnds(TaskId),
    /// Another task takes the place of the parent, which had no children.
    #[error(
        "the task {0} was replaced by another one of its key, and takes no children; register the child under that one"
    )]
    Replaced(TaskId),
    /// The parent has ended, with its tree if it has one.
    #[error(
        "the tree of {0} has ended; register the task without `parent`, or under a task that goes on"
    )]
    Ended(TaskId),
    /// The row of the child has no room for it.
    #[error(
        "all fields of a child but its payload have {0} bytes as encoded; at most 3500 are allowed; make its headers shorter"
    )]
    TooLarge(usize),
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use uuid::Uuid;

    use super::*;
    use crate::model::{
        fixtures,
        state::{self, Detail, Event, Refusal},
        task::Spec,
    };

    fn row(state: State, is_parent: bool, tree: Option<TreeEnd>) -> TaskRow {
        let kin = Kin {
            is_parent,
            ..Kin::default()
        };
        let spec = Spec {
            kin: Some(Box::new(kin)),
            ..fixtures::spec()
        };
        let row = fixtures::row(state, &Arc::new(spec));
        let detail = Detail {
            tree,
            end_time: state.is_terminal().then_some(Millis(5)),
            ..row.detail
        };
        TaskRow { detail, ..row }
    }

    #[test]
    fn an_add_enters_an_open_tree_opens_a_closing_one_and_is_late_for_another() {
        assert_eq!(add(Tree::Open), Add::Enter);
        assert_eq!(add(Tree::Closing), Add::Reopen);
        for tree in [Tree::Completed, Tree::Faulted] {
            assert_eq!(add(tree), Add::Over);
        }
    }

    #[test]
    fn a_check_waits_for_the_own_run_and_takes_over_what_is_closing() {
        for tree in [Tree::Open, Tree::Closing] {
            assert_eq!(check(tree, false), Check::Stop);
        }
        assert_eq!(check(Tree::Open, true), Check::Sweep);
        assert_eq!(check(Tree::Closing, true), Check::Read);
        for tree in [Tree::Completed, Tree::Faulted] {
            assert_eq!(check(tree, true), Check::EndSteps);
        }
    }

    #[test]
    fn a_tree_faults_by_its_own_run_or_by_a_child() {
        for state in State::ALL.into_iter().filter(|state| state.is_terminal()) {
            let bad = matches!(state, State::Failed | State::Dead | State::Expired);
            let expected = if bad { Tree::Faulted } else { Tree::Completed };
            assert_eq!(end(state, false), expected, "{state:?}");
            assert_eq!(end(state, true), Tree::Faulted, "{state:?}");
        }
    }

    #[test]
    fn a_parent_has_an_outcome_once_its_tree_has_ended() {
        let at = |at| TreeEnd {
            faulted: true,
            at: Millis(at),
        };
        let outcome = |state, faulted, at| {
            Some(Outcome {
                state,
                faulted,
                at: Millis(at),
            })
        };
        assert_eq!(Outcome::of(&row(State::Claimed, false, None)), None);
        let own = Outcome::of(&row(State::Dead, false, None));
        assert_eq!(own, outcome(State::Dead, true, 5));
        assert_eq!(Outcome::of(&row(State::Succeeded, true, None)), None);
        let whole = Outcome::of(&row(State::Succeeded, true, Some(at(9))));
        assert_eq!(whole, outcome(State::Succeeded, true, 9));
    }

    #[test]
    fn a_child_that_waits_is_let_go_or_ends_and_nothing_else() {
        let kin = Kin {
            parent: Some(fixtures::id()),
            after_parent: true,
            ..Kin::default()
        };
        let spec = Arc::new(Spec {
            kin: Some(Box::new(kin)),
            ..fixtures::spec()
        });
        let (id, now) = (fixtures::id(), Millis(fixtures::START.0 + 9));
        let next = |row: Option<&TaskRow>, event| {
            state::next(id, row, &spec, event, now, Uuid::from_u128(1))
        };
        let waits = next(None, Event::Await).unwrap().row;
        assert!(waits.waits_for_parent() && !waits.state.is_terminal());
        assert_eq!(next(Some(&waits), Event::Await), Err(Refusal::Stale));
        // The row may not be there yet.
        for before in [None, Some(&waits)] {
            let start = Millis(now.0 + 70);
            let gone = next(before, Event::Release { start }).unwrap().row;
            assert_eq!((gone.state, gone.generation), (State::New, 1));
            assert_eq!((gone.next, gone.detail.start), (start, start));
            assert!(!gone.waits_for_parent());
            for late in [Event::Release { start }, Event::ParentFailed, Event::Await] {
                assert_eq!(next(Some(&gone), late), Err(Refusal::Stale));
            }
            let left = next(before, Event::ParentFailed).unwrap().row;
            assert_eq!(left.state, State::Cancelled);
            assert_eq!(left.detail.error.as_deref(), Some(state::PARENT_FAILED));
            let ended = Err(Refusal::Ended {
                state: State::Cancelled,
            });
            assert_eq!(next(Some(&left), Event::Release { start }), ended);
        }
        assert_eq!(
            next(Some(&waits), Event::Cancel).unwrap().row.state,
            State::Cancelled
        );
        let claim = Event::Claim {
            generation: 0,
            expected_attempt: 0,
            worker: "w".to_owned(),
            heartbeat: None,
            published: None,
        };
        for event in [claim, Event::Expire, Event::Kept] {
            assert_eq!(next(Some(&waits), event), Err(Refusal::Stale));
        }
        let start = now;
        let moved = next(Some(&waits), Event::Reschedule { start });
        assert_eq!(moved, Err(Refusal::Running));
    }

    #[test]
    fn numbers_are_read_back() {
        for number in 1..=4 {
            let tree = Tree::from_number(number).unwrap();
            assert_eq!((tree.number(), tree.has_ended()), (number, number > 2));
        }
        assert_eq!(Tree::from_number(0), None);
    }

    #[test]
    fn each_round_of_a_row_wins_over_those_before() {
        let stamp = 1_800_000_000_000_000;
        let mut before = 0;
        for round in [0, 1, 2, u32::MAX - 1, u32::MAX] {
            let opened = opened_written(round, false);
            assert!(opened > before && opened <= opened_written(round, true));
            let ended = ended_written(round);
            assert!(ended > opened_written(round, true));
            before = let_go_written(round, stamp);
            assert!(before > ended);
        }
    }

    #[test]
    fn each_round_of_a_tree_adds_behind_the_refusals_before_and_before_all_ends() {
        let mut before = 0;
        for round in [0, 1, 2, u32::MAX - 1, u32::MAX] {
            let (added, refused) = (added_written(round), refused_written(round));
            assert!(before < added && added < refused && refused < ended_written(0));
            before = refused;
        }
    }

    /// Stored places never change: a repetition by a later version must find the same rows and ids.
    #[test]
    fn places_of_children_are_fixed() {
        let id = fixtures::id();
        assert!(bucket(id) < BUCKETS);
        let seeds = [
            seed(id, &[]),
            seed(id, &[0]),
            seed(id, &[1]),
            seed(id, &[0, 0]),
        ];
        for (place, one) in seeds.iter().enumerate() {
            assert!(!seeds[place + 1..].contains(one), "{place}");
        }
        assert_eq!(seed(id, &[3, 1]), seed(id, &[3, 1]));
    }
}
