//! The world of the model of deep retries: a root, a branch and a leaf, with their records, rows and processes.

use tickwheel::model::{again::Seen, family::Tree};

/// The part of the rules that this variant leaves out or turns round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flaw {
    None,
    /// The record of a parent is opened, and its row above is not.
    ParentUnmarked,
    /// The parent goes on before the root does.
    FromBelow,
    /// A run of a parent begins in the round that its tree has.
    SameRound,
    /// A check goes on though record and row are of different rounds.
    OtherRound,
    /// No check completes what a call has left.
    NoHelp,
    /// The end steps of a tree do not name its round.
    NoRound,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Record {
    pub(super) tree: Tree,
    pub(super) version: u8,
    pub(super) round: u8,
}

/// The row of a parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Parent {
    pub(super) round: u8,
    /// Its own run has ended.
    pub(super) is_over: bool,
    /// Its tree has ended.
    pub(super) ended: bool,
}

impl Parent {
    pub(super) fn seen(self) -> Seen {
        Seen {
            round: self.round.into(),
            is_over: self.is_over,
            has_ended: self.ended,
            erased: false,
        }
    }
}

pub(super) const ROOT: usize = 0;
pub(super) const BRANCH: usize = 1;

/// The step of a call, or of a check that completes one, once the trees are open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Then {
    Leaf { life: u8 },
    Branch { round: u8, run: bool },
}

/// The parent whose record and row were read, with the round that it is to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Level {
    pub(super) read: Record,
    pub(super) round: u8,
    pub(super) begins: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum At {
    Idle,
    /// The row of the leaf, or of the branch, is opened.
    Mark(Then),
    /// The record of a parent is read. The branch is there when the root is to be opened for it.
    Read(usize, Option<Level>, Then),
    Row(usize, Option<Level>, Record, Then),
    MarkBranch(Level, Then),
    Swap(usize, Option<Level>, Level, Then),
    Follow(usize, Option<Level>, u8, Then),
    BranchRead {
        round: u8,
        run: bool,
    },
    BranchSwap {
        read: Record,
        round: u8,
        run: bool,
    },
    BranchBegins {
        round: u8,
        run: bool,
    },
    LeafBegins(u8),
    Check(usize, Parent),
    Rows(usize, Parent, Record),
    Close(usize, Parent, Record, Tree),
    /// The record is read once more before something is completed.
    Again(usize, Then),
    End(usize, u8),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct World {
    pub(super) records: [Record; 2],
    pub(super) parents: [Parent; 2],
    pub(super) leaf: u8,
    pub(super) leaf_lives: bool,
    /// `2 n` is open for round n, `2 n + 1` is the end of round n; of the branch, and of the leaf.
    pub(super) rows: [u8; 2],
    /// The own run of the branch is to run again in the round that its row is open for.
    pub(super) run: bool,
    pub(super) at: [At; 4],
    pub(super) reruns: u8,
}

impl World {
    pub(super) fn is_open(&self, below: usize) -> bool {
        self.rows[below].is_multiple_of(2)
    }

    pub(super) fn swap(&mut self, who: usize, read: Record, tree: Tree, round: u8) -> bool {
        let record = &mut self.records[who];
        if record.version != read.version {
            return false;
        }
        *record = Record {
            tree,
            version: read.version + 1,
            round,
        };
        true
    }

    pub(super) fn follow(&mut self, who: usize, round: u8) -> bool {
        let parent = &mut self.parents[who];
        let applies = parent.is_over && parent.round < round;
        if applies {
            (parent.round, parent.ended) = (round, false);
        }
        applies
    }

    pub(super) fn branch_runs(&mut self, round: u8, flaw: Flaw) {
        let branch = &mut self.parents[BRANCH];
        let is_new = branch.round < round || flaw == Flaw::SameRound && branch.round == round;
        if branch.is_over && is_new && self.reruns > 0 {
            *branch = Parent {
                round,
                is_over: false,
                ended: false,
            };
            self.reruns -= 1;
        }
    }

    pub(super) fn leaf_runs(&mut self, life: u8, lives: u8) {
        if self.leaf == life && !self.leaf_lives && life + 1 < lives {
            (self.leaf, self.leaf_lives) = (life + 1, true);
        }
    }
}

/// Opens the row of the branch for a round, in which its own run runs again or not.
pub(super) fn mark(world: &mut World, round: u8, run: bool) {
    if 2 * round > world.rows[ROOT] {
        world.rows[ROOT] = 2 * round;
        world.run = run;
    } else if 2 * round == world.rows[ROOT] {
        world.run |= run;
    }
}

/// The end steps of what has ended.
pub(super) fn ends(world: &mut World) {
    let branch = world.parents[BRANCH];
    if branch.is_over && branch.ended {
        world.rows[ROOT] = world.rows[ROOT].max(2 * branch.round + 1);
    }
    if !world.leaf_lives {
        world.rows[BRANCH] = world.rows[BRANCH].max(2 * world.leaf + 1);
    }
}

/// Goes on below a root that is open: with the branch, if that is to be opened, too.
pub(super) fn down(branch: Option<Level>, then: Then) -> At {
    match branch {
        None => begin(then),
        Some(level) if level.begins => At::Swap(BRANCH, None, level, then),
        Some(level) => At::Follow(BRANCH, None, level.round, then),
    }
}

pub(super) fn begin(then: Then) -> At {
    match then {
        Then::Leaf { life: u8::MAX } => At::Idle,
        Then::Leaf { life } => At::LeafBegins(life),
        Then::Branch { round, run } => At::BranchRead { round, run },
    }
}

pub(super) fn restart(then: Then) -> At {
    match then {
        // A check that only follows begins anew.
        Then::Leaf { life: u8::MAX } => At::Idle,
        Then::Leaf { .. } => At::Read(BRANCH, None, then),
        Then::Branch { .. } => At::Read(ROOT, None, then),
    }
}
