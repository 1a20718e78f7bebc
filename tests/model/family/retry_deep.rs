//! This model searches for a way to run the failed part of a deeper tree again that lets a task run below one that has ended.
//!
//! A root has one child, which is a parent of one leaf. The leaf failed, and the own run of its parent may have failed, too. One
//! call runs the leaf again, another one the own run of the parent. One check serves the root, one the parent. Any process dies
//! between any two steps, and the end steps of each life are repeated at any time. The decisions are the real ones
//! ([`tickwheel::model::again`], [`family::check`]).
//!
//! Rows of children are opened from below, records and rows of parents from the root down. The round of a parent is its life as a
//! child. A run of a parent needs a round that its row has not begun: a check that has read the row before then finds the record
//! in another round, and leaves it alone.

use tickwheel::model::{
    again::{self, Standing},
    family::{self, Check, Tree},
};

use super::{
    super::search::{Model, Step, Steps, breaks, holds, whole},
    deep_world::{
        At, BRANCH, Flaw, Level, Parent, ROOT, Record, Then, World, begin, down, ends, mark,
        restart,
    },
};

const RUNS_AFTER: &str = "a task goes on below one that has ended";
const ENDS_EARLY: &str = "the record ends a tree whose own run goes on";
const STUCK: &str = "the tree never ends";

struct Deep {
    flaw: Flaw,
    /// The leaf failed, and is called again.
    leaf: bool,
    /// The own run of the branch failed, and is called again.
    own: bool,
    lives: u8,
    /// The checks of the root and the branch die.
    dying: bool,
}

impl Deep {
    /// Opens the tree of a parent, and those above it, then goes on.
    fn open(&self, who: usize, steps: &mut Steps<'_, World>, at: At) -> bool {
        let (from, number) = (steps.from, who as i64);
        let to = |at: At| move |world: &mut World| world.at[who] = at;
        match at {
            At::Mark(then) => steps.add("opens the row of what is to run", number, |world| {
                let parent = match then {
                    Then::Leaf { life } => {
                        world.rows[BRANCH] = world.rows[BRANCH].max(2 * (life + 1));
                        BRANCH
                    }
                    Then::Branch { round, run } => {
                        mark(world, round, run);
                        ROOT
                    }
                };
                world.at[who] = At::Read(parent, None, then);
            }),
            At::Read(parent, branch, then) => {
                let read = from.records[parent];
                let next = At::Row(parent, branch, read, then);
                steps.add("reads a record", number, to(next));
            }
            At::Row(parent, branch, read, then) => {
                let seen = Some(from.parents[parent].seen());
                let level = |round: u32, begins| Level {
                    read,
                    round: round as u8,
                    begins,
                };
                let next = match again::standing(read.tree, read.round.into(), seen) {
                    Standing::Open => down(branch, then),
                    Standing::Closing => {
                        let level = level(read.round.into(), true);
                        At::Swap(parent, branch, level, then)
                    }
                    Standing::Follow if parent == ROOT => {
                        At::Follow(ROOT, branch, read.round, then)
                    }
                    Standing::Ended(round) if parent == ROOT => {
                        At::Swap(ROOT, branch, level(round, true), then)
                    }
                    Standing::Follow => self.upwards(level(read.round.into(), false), then),
                    Standing::Ended(round) => self.upwards(level(round, true), then),
                    Standing::ReadAgain => restart(then),
                    Standing::Gone => At::Idle,
                };
                steps.add("reads the row of a parent", number, to(next));
            }
            At::MarkBranch(level, then) => {
                steps.add("opens the row of the branch", number, |world| {
                    mark(world, level.round, false);
                    world.at[who] = At::Read(ROOT, Some(level), then);
                });
            }
            At::Swap(parent, branch, level, then) => {
                steps.add("opens a record", number, |world| {
                    let closing = level.round == level.read.round;
                    let done = world.swap(parent, level.read, Tree::Open, level.round);
                    world.at[who] = match (done, closing) {
                        (false, _) => restart(then),
                        (true, true) => down(branch, then),
                        (true, false) => At::Follow(parent, branch, level.round, then),
                    };
                });
            }
            At::Follow(parent, branch, round, then) => {
                steps.add("a parent follows", number, |world| {
                    world.at[who] = match (world.follow(parent, round), self.flaw, parent) {
                        (false, ..) => restart(then),
                        (true, Flaw::FromBelow, BRANCH) => At::Read(ROOT, None, then),
                        (true, Flaw::FromBelow, _) => begin(then),
                        (true, ..) if parent == BRANCH => begin(then),
                        (true, ..) => down(branch, then),
                    };
                });
            }
            At::BranchRead { round, run } => {
                let read = from.records[BRANCH];
                let next = if read.round < round {
                    At::BranchSwap { read, round, run }
                } else {
                    At::BranchBegins { round, run }
                };
                steps.add("reads the record of the branch", number, to(next));
            }
            At::BranchSwap { read, round, run } => {
                steps.add("begins the round of the branch", number, |world| {
                    let done = world.swap(BRANCH, read, Tree::Open, round);
                    world.at[who] = if done {
                        At::BranchBegins { round, run }
                    } else {
                        At::Idle
                    };
                });
            }
            At::BranchBegins { round, run } => steps.add("the branch begins", number, |world| {
                if run {
                    world.branch_runs(round, self.flaw);
                } else {
                    world.follow(BRANCH, round);
                }
                world.at[who] = At::Idle;
            }),
            At::LeafBegins(life) => steps.add("the leaf begins", number, |world| {
                world.leaf_runs(life, self.lives);
                world.at[who] = At::Idle;
            }),
            _ => return false,
        }
        true
    }

    /// The branch is to be opened, and so may be the root.
    fn upwards(&self, level: Level, then: Then) -> At {
        match self.flaw {
            Flaw::ParentUnmarked => At::Read(ROOT, Some(level), then),
            Flaw::FromBelow => down(Some(level), then),
            _ => At::MarkBranch(level, then),
        }
    }

    fn call(&self, who: usize, steps: &mut Steps<'_, World>) {
        let (from, number) = (steps.from, who as i64);
        let at = from.at[who];
        if at == At::Idle {
            if who == 0 && self.leaf && !from.leaf_lives && from.leaf + 1 < self.lives {
                let then = Then::Leaf { life: from.leaf };
                steps.add("call finds the failed leaf", number, |world| {
                    world.at[who] = At::Mark(then);
                });
            }
            let branch = from.parents[BRANCH];
            if who == 1 && self.own && branch.is_over && from.reruns > 0 {
                let (record, row) = (from.records[BRANCH], u32::from(branch.round));
                let round = again::next_round(record.tree, record.round.into(), row);
                let round = match self.flaw {
                    Flaw::SameRound if !record.tree.has_ended() => record.round,
                    _ => round as u8,
                };
                let then = Then::Branch { round, run: true };
                steps.add("call finds the failed branch", number, |world| {
                    world.at[who] = At::Mark(then);
                });
            }
            return;
        }
        self.open(who, steps, at);
        steps.add("call dies", number, |world| world.at[who] = At::Idle);
    }

    /// The check of the root is process 2, that of the branch process 3.
    fn check(&self, who: usize, steps: &mut Steps<'_, World>) {
        let (from, number) = (steps.from, who as i64);
        let at = from.at[who];
        let to = |at: At| move |world: &mut World| world.at[who] = at;
        match at {
            At::Idle => {
                let parent = from.parents[who - 2];
                if parent.is_over && !parent.ended {
                    let next = At::Check(who - 2, parent);
                    steps.add("check reads the parent", number, to(next));
                }
                return;
            }
            At::Check(parent, row) => {
                let read = from.records[parent];
                let differs = read.round != row.round && self.flaw != Flaw::OtherRound;
                let follows = Then::Leaf { life: u8::MAX };
                let next = match family::check(read.tree, true) {
                    _ if differs && read.tree.has_ended() => At::Idle,
                    _ if differs => At::Read(parent, None, follows),
                    Check::EndSteps => At::End(parent, row.round),
                    Check::Sweep | Check::Read => At::Rows(parent, row, read),
                    Check::Stop => At::Idle,
                };
                steps.add("check reads the record", number, to(next));
            }
            At::Rows(parent, row, read) => {
                let next = self.rows(from, parent, row, read);
                steps.add("check reads the rows", number, to(next));
            }
            At::Close(parent, row, read, tree) => {
                steps.add("check writes the record", number, |world| {
                    let done = world.swap(parent, read, tree, read.round);
                    world.at[who] = match tree {
                        Tree::Completed | Tree::Faulted if done => At::End(parent, row.round),
                        _ if done => At::Check(parent, row),
                        _ => At::Idle,
                    };
                });
            }
            At::Again(parent, then) => {
                let has_ended = from.records[parent].tree.has_ended();
                let next = if has_ended {
                    At::Idle
                } else {
                    At::Read(parent, None, then)
                };
                steps.add("check reads the record again", number, to(next));
            }
            At::End(parent, round) => {
                steps.add("a parent says that it has ended", number, |world| {
                    let row = &mut world.parents[parent];
                    let is_it = row.round == round || self.flaw == Flaw::NoRound;
                    row.ended |= row.is_over && is_it;
                    world.at[who] = At::Idle;
                });
            }
            _ => {
                self.open(who, steps, at);
            }
        }
        if self.dying {
            steps.add("check dies", number, to(At::Idle));
        }
    }

    fn rows(&self, from: &World, parent: usize, row: Parent, read: Record) -> At {
        let close = |tree| At::Close(parent, row, read, tree);
        match (from.is_open(parent), read.tree) {
            (true, Tree::Closing) => return close(Tree::Open),
            (false, Tree::Open) => return close(Tree::Closing),
            (false, _) => return close(Tree::Faulted),
            (true, _) => {}
        }
        let opened = from.rows[parent] / 2;
        let then = if parent == BRANCH {
            let left = !from.leaf_lives && from.leaf < opened;
            left.then_some(Then::Leaf {
                life: opened.saturating_sub(1),
            })
        } else {
            let branch = from.parents[BRANCH];
            let left = branch.is_over && branch.ended && branch.round < opened;
            left.then_some(Then::Branch {
                round: opened,
                run: from.run,
            })
        };
        match then.filter(|_| self.flaw != Flaw::NoHelp) {
            Some(then) => At::Again(parent, then),
            None => At::Idle,
        }
    }

    /// Goes on without deaths and calls, and tells whether the tree comes to its end.
    fn settles(&self, from: &World) -> bool {
        let mut world = from.clone();
        world.at = [At::Idle; 4];
        for _ in 0..96 {
            if world.parents[ROOT].ended {
                return true;
            }
            world.leaf_lives = false;
            world.parents[BRANCH].is_over = true;
            ends(&mut world);
            // The check of the branch goes first: that of the root waits for it.
            let who = [3, 2].into_iter().find(|who| {
                let parent = world.parents[who - 2];
                world.at[*who] != At::Idle || !parent.ended && self.moves(&world, *who)
            });
            let Some(who) = who else { return false };
            let mut next = Vec::new();
            let mut steps = Steps {
                from: &world,
                next: &mut next,
            };
            self.check(who, &mut steps);
            // The first step is never its death.
            let Some((_, first)) = next.into_iter().next() else {
                return false;
            };
            world = first;
        }
        false
    }

    /// Tells whether a check that begins now would do anything but stop.
    fn moves(&self, world: &World, who: usize) -> bool {
        let parent = who - 2;
        let (row, read) = (world.parents[parent], world.records[parent]);
        let sweeps = matches!(family::check(read.tree, true), Check::Sweep | Check::Read);
        let stops = sweeps && self.rows(world, parent, row, read) == At::Idle;
        row.is_over && (read.round != row.round || !stops)
    }
}

impl Model for Deep {
    type State = World;

    fn first(&self) -> World {
        let record = Record {
            tree: Tree::Open,
            version: 0,
            round: 0,
        };
        let parent = Parent {
            round: 0,
            is_over: true,
            ended: false,
        };
        World {
            records: [record; 2],
            parents: [parent; 2],
            leaf: 0,
            leaf_lives: false,
            rows: [0; 2],
            run: false,
            at: [At::Idle; 4],
            reruns: u8::from(self.own),
        }
    }

    fn steps(&self, world: &World, next: &mut Vec<(Step, World)>) {
        let mut steps = Steps { from: world, next };
        if world.records.iter().any(|record| record.version > 8) {
            return;
        }
        if world.leaf_lives {
            steps.add("the leaf ends", 0, |world| world.leaf_lives = false);
        }
        if !world.parents[BRANCH].is_over {
            steps.add("the run of the branch ends", 0, |world| {
                world.parents[BRANCH].is_over = true;
            });
        }
        steps.add("end steps", 0, ends);
        for who in 0..2 {
            self.call(who, &mut steps);
        }
        for who in 2..4 {
            self.check(who, &mut steps);
        }
    }

    fn broken(&self, world: &World) -> Option<&'static str> {
        let [root, branch] = world.parents;
        if root.ended && !branch.ended || branch.ended && (world.leaf_lives || !branch.is_over) {
            return Some(RUNS_AFTER);
        }
        let record = world.records[BRANCH];
        if record.tree.has_ended() && record.round == branch.round && !branch.is_over {
            return Some(ENDS_EARLY);
        }
        (!root.ended && !self.settles(world)).then_some(STUCK)
    }
}

#[test]
fn a_failed_leaf_runs_again_below_two_trees_that_have_ended() {
    let mut parts = vec![(true, false, true), (false, true, true)];
    // Both at once are some millions of states.
    parts.extend(whole().then_some((true, true, false)));
    for (leaf, own, dying) in parts {
        let deep = Deep {
            flaw: Flaw::None,
            leaf,
            own,
            lives: 2,
            dying,
        };
        let name = format!("deep retry: leaf {leaf}, own run {own}, checks die {dying}");
        holds(&name, &deep, 1000);
    }
}

#[test]
fn each_rule_of_a_deep_retry_is_needed() {
    for (flaw, what) in [
        (Flaw::ParentUnmarked, RUNS_AFTER),
        (Flaw::FromBelow, RUNS_AFTER),
        (Flaw::SameRound, ENDS_EARLY),
        (Flaw::OtherRound, ENDS_EARLY),
        (Flaw::NoRound, RUNS_AFTER),
        (Flaw::NoHelp, STUCK),
    ] {
        let deep = Deep {
            flaw,
            leaf: true,
            own: true,
            lives: 2,
            dying: true,
        };
        breaks(&format!("deep retry: {flaw:?}"), &deep, what);
    }
}
