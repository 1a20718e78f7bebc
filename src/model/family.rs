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
//!
//! A parent may say that children are to come. Behind the end of its own run its tree is held open then, for a time, or until its
//! record says that all were added. A hold only puts off the first step of an end, which is a hint: no add relies on it.
//!
//! A tree may be cancelled as a whole. Its record says so first, by one conditional write, in whatever state it is, and each
//! later write leaves that as it is. Adds that find it there are refused, and the end that a check was about to write is refused
//! by the store. Behind the write, checks cancel the children that their rows name, and write the same into the records of those
//! that are parents. A child whose add came before is named by its row. Children that undo something are passed over
//! ([`Kin::undoes`]): the tree ends behind them.

use std::time::Duration;

use super::{
    ids::TaskId,
    preference::mix,
    row::{State, TaskRow},
    time::Millis,
};

pub use super::kin::{Again, Kin, Rounds, TreeEnd, TreeOutcome};

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
pub const fn opened_written(round: u32, runs: bool) -> i64 {
    if round == 0 {
        ADDED_WRITTEN
    } else {
        AGAIN_WRITTEN + 4 * round as i64 + runs as i64
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
    /// The tree has ended, and was cancelled before.
    Cancelled,
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
            Self::Cancelled => 5,
        }
    }

    /// Reads a stored number.
    #[must_use]
    pub fn from_number(number: i32) -> Option<Self> {
        let all = [
            Self::Open,
            Self::Closing,
            Self::Completed,
            Self::Faulted,
            Self::Cancelled,
        ];
        all.into_iter().find(|tree| tree.number() == number)
    }

    /// Tells whether the tree has ended.
    #[must_use]
    pub const fn has_ended(self) -> bool {
        self.outcome().is_some()
    }

    /// Returns how the tree has ended; none while it goes on.
    #[must_use]
    pub const fn outcome(self) -> Option<TreeOutcome> {
        match self {
            Self::Open | Self::Closing => None,
            Self::Completed => Some(TreeOutcome::Completed),
            Self::Faulted => Some(TreeOutcome::Faulted),
            Self::Cancelled => Some(TreeOutcome::Cancelled),
        }
    }
}

/// The record of a parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Family {
    /// The state of its tree.
    pub tree: Tree,
    /// How often the tree was opened again after its end.
    pub round: u32,
    /// When the tree was cancelled as a whole; none when it was not. Once written it stays.
    pub cancelled: Option<Millis>,
    /// All children were added, as its client or its run has said. Once written it stays, also in later rounds.
    pub complete: bool,
}

impl Family {
    /// The meaning of a record that is not there.
    pub const NEW: Self = Self {
        tree: Tree::Open,
        round: 0,
        cancelled: None,
        complete: false,
    };
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
        Tree::Completed | Tree::Faulted | Tree::Cancelled => Add::Over,
    }
}

/// Tells whether the record of a parent lets a child in that comes now: a tree that is cancelled takes only what undoes
/// something. The record was read before the row of the child is written.
#[must_use]
pub const fn takes(is_cancelled: bool, undoes: bool) -> bool {
    !is_cancelled || undoes
}

/// The next step of a cancel of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancel {
    /// Write into the record that the tree is cancelled.
    Write,
    /// It was cancelled before.
    Before,
    /// The tree has ended otherwise.
    Late,
}

/// Decides about a cancel of a tree by its record, which was read serially.
#[must_use]
pub const fn cancel(tree: Tree, is_cancelled: bool) -> Cancel {
    match tree {
        Tree::Cancelled => Cancel::Before,
        Tree::Completed | Tree::Faulted => Cancel::Late,
        Tree::Open | Tree::Closing if is_cancelled => Cancel::Before,
        Tree::Open | Tree::Closing => Cancel::Write,
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
        Tree::Completed | Tree::Faulted | Tree::Cancelled => Check::EndSteps,
        _ if !run_ended => Check::Stop,
        Tree::Open => Check::Sweep,
        // The check that wrote it may be dead: any check takes it over.
        Tree::Closing => Check::Read,
    }
}

/// Returns until when the tree of a parent is held open for children to come, by its row and by the marks of its record. None
/// where it is not: its run goes on, which holds the tree by itself, or was cancelled, so that it adds none.
#[must_use]
pub fn held_until(row: &TaskRow, complete: bool, is_cancelled: bool) -> Option<Millis> {
    let kin = row.detail.spec.kin.as_deref()?;
    let within = kin.children_within.filter(|_| kin.is_parent)?;
    let is_over = row.state.is_terminal() && row.state != State::Cancelled;
    let waits = is_over && !complete && !is_cancelled;
    row.detail
        .end_time
        .filter(|_| waits)
        .map(|end| end.after(within))
}

/// The next step of a wish to note that all children were added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completion {
    /// Write it into the record.
    Write,
    /// It was written before.
    Before,
    /// The tree has ended without.
    Late,
    /// The tree was cancelled.
    Cancelled,
}

/// Decides about such a wish by the record of the parent, which was read serially.
#[must_use]
pub const fn complete(tree: Tree, is_complete: bool, is_cancelled: bool) -> Completion {
    match tree {
        Tree::Cancelled => Completion::Cancelled,
        _ if is_complete => Completion::Before,
        Tree::Completed | Tree::Faulted => Completion::Late,
        Tree::Open | Tree::Closing if is_cancelled => Completion::Cancelled,
        Tree::Open | Tree::Closing => Completion::Write,
    }
}

/// Returns how a tree ends whose own run ended so, and of whose children one faulted or none; `is_cancelled` says that its record
/// was marked so.
#[must_use]
pub const fn end(run: State, child_faulted: bool, is_cancelled: bool) -> Tree {
    if is_cancelled {
        Tree::Cancelled
    } else if child_faulted || faults(run) {
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
    /// How it ended with all below it. A task that has no tree is completed or faulted.
    pub tree: TreeOutcome,
    /// When it ended.
    pub at: Millis,
}

impl Outcome {
    /// Returns the end of a task that has ended with all of its tree; none for one that has not.
    #[must_use]
    pub fn of(row: &TaskRow) -> Option<Self> {
        let own = if faults(row.state) {
            TreeOutcome::Faulted
        } else {
            TreeOutcome::Completed
        };
        Some(Self {
            state: row.state,
            tree: row.detail.tree.map_or(own, |tree| tree.outcome),
            at: row.ended_at()?,
        })
    }

    /// Tells whether it faults the tree above. A part that was cancelled does not, whatever failed in it.
    #[must_use]
    pub fn faults(&self) -> bool {
        self.tree == TreeOutcome::Faulted
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
        "the tree of {0} has ended; register the task without `parent`, or under a task that goes on; `children_within` of a parent holds its tree open for children to come"
    )]
    Ended(TaskId),
    /// The tree of the parent was cancelled.
    #[error(
        "the tree of {0} was cancelled, and takes no more tasks; register the task without `parent`, or under a task that goes on"
    )]
    Cancelled(TaskId),
    /// The row of the child has no room for it.
    #[error(
        "all fields of a child but its payload have {0} bytes as encoded; at most 3500 are allowed; make its headers shorter"
    )]
    TooLarge(usize),
}

#[cfg(test)]
#[path = "family_tests.rs"]
mod tests;
