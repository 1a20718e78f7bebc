//! This model searches for a way to run the failed part of a tree again that never lets a task run in a tree that has ended.
//!
//! Nothing of it is built yet: it is the ground for `retry-failed`. A parent whose own run has succeeded has one child, which
//! failed. Two calls run it again, and may overlap; two checks end the tree. The end steps of the child are repeated at any time,
//! also those of a life that is over. Any process dies between any two steps. The child may fail once more, and be run again.
//!
//! These rules turn out to suffice:
//! - The row of the child under its parent is written at a time that its life gives, not the clock: an end of life 0, then the
//!   opening for life 1, then the end of life 1. So a late write of an old end loses.
//! - A call opens that row first, then the record, whatever it says, by a conditional write of a new version and round. Then the
//!   row of the parent follows to that round, by a write that the end steps of a tree of an older round cannot pass. Only then
//!   does the child run again, if it is still in the life that failed.
//! - A check of a child whose row is open, and which has ended in the life before, reads the record again. If that is open, the
//!   row of the parent follows, and the child runs again. Its old end is not written.

use tickwheel::model::family::{self, Check, Tree};

use super::super::search::{Model, Step, Steps, breaks, holds};

const RUNS_AFTER: &str = "a child runs in a tree that has ended";
const STUCK: &str = "the tree never ends";

/// The part of the rules that this variant leaves out or turns round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    None,
    /// The end of a child is written at the time of its write.
    EndAtNow,
    /// A call opens the record before the row of the child.
    RecordFirst,
    /// A call runs the child again before it opens anything.
    ChildFirst,
    /// Writes of the record do not name its version.
    NoVersion,
    /// The end steps of a tree do not name the round.
    NoRound,
    /// A call that finds the record open does not ask for the round of the parent.
    RoundNotAsked,
    /// A call lets the row of the parent follow only where that says that the tree has ended.
    OnlyIfEnded,
    /// No check runs a child again whose call died.
    NoHelp,
    /// A check ends such a child again.
    HelpGoesBack,
    /// A check runs it again, and does not ask for the round of the parent.
    HelpUnfollowed,
    /// A check runs it again, and does not read the record behind the row.
    HelpUnread,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Record {
    tree: Tree,
    version: u8,
    round: u8,
}

/// The row of the parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Parent {
    ended: bool,
    round: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Child {
    life: u8,
    lives: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Calls {
    Begin,
    Row { life: u8 },
    Record { life: u8 },
    Swap { life: u8, read: Record },
    Parent { life: u8, round: u8 },
    Child { life: u8 },
    Acknowledge,
    Over,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Checks {
    Idle,
    Record {
        parent: Parent,
    },
    Rows {
        parent: Parent,
        read: Record,
    },
    Swap {
        parent: Parent,
        read: Record,
        to: Tree,
    },
    Follow {
        life: u8,
        round: u8,
    },
    Again {
        life: u8,
    },
    Help {
        life: u8,
    },
    End {
        parent: Parent,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    record: Record,
    parent: Parent,
    child: Child,
    /// The row of the child: `2 n` is open for life n, `2 n + 1` is the end of life n.
    row: u8,
    calls: [Calls; 2],
    checks: [Checks; 2],
    acknowledged: bool,
}

struct Retry {
    flaw: Flaw,
    calls: usize,
    checks: usize,
    lives: u8,
}

impl World {
    fn is_open(&self) -> bool {
        self.row.is_multiple_of(2)
    }

    fn swap(&mut self, flaw: Flaw, read: Record, tree: Tree, round: u8) -> bool {
        if self.record.version != read.version && flaw != Flaw::NoVersion {
            return false;
        }
        let version = self.record.version + 1;
        self.record = Record {
            tree,
            version,
            round,
        };
        true
    }
}

impl Retry {
    fn call(&self, who: usize, steps: &mut Steps<'_, World>) {
        let (from, number) = (steps.from, who as i64);
        let to = |at: Calls| move |world: &mut World| world.calls[who] = at;
        let failed = !from.child.lives && from.child.life + 1 < self.lives;
        match from.calls[who] {
            Calls::Begin if failed => {
                let life = from.child.life;
                steps.add(
                    "call finds the failed child",
                    number,
                    to(match self.flaw {
                        Flaw::RecordFirst => Calls::Record { life },
                        Flaw::ChildFirst => Calls::Child { life },
                        _ => Calls::Row { life },
                    }),
                );
            }
            Calls::Begin => {}
            Calls::Row { life } => steps.add("call opens the row", number, |world| {
                world.row = world.row.max(2 * (life + 1));
                to(match self.flaw {
                    Flaw::RecordFirst => Calls::Child { life },
                    _ => Calls::Record { life },
                })(world);
            }),
            Calls::Record { life } => {
                let (read, was) = (from.record, from.record.tree);
                let round = read.round;
                let next = match was {
                    Tree::Open if self.flaw == Flaw::RoundNotAsked => Calls::Child { life },
                    Tree::Open => Calls::Parent { life, round },
                    _ => Calls::Swap { life, read },
                };
                steps.add("call reads the record", number, to(next));
            }
            Calls::Swap { life, read } => steps.add("call opens the record", number, |world| {
                let round = read.round + u8::from(read.tree.has_ended());
                let next = if world.swap(self.flaw, read, Tree::Open, round) {
                    Calls::Parent { life, round }
                } else {
                    Calls::Record { life }
                };
                to(next)(world);
            }),
            Calls::Parent { life, round } => {
                steps.add("the parent follows", number, |world| {
                    if self.flaw != Flaw::OnlyIfEnded || world.parent.ended {
                        follow(world, round);
                    }
                    let behind = match self.flaw {
                        Flaw::RecordFirst => Calls::Row { life },
                        Flaw::ChildFirst => Calls::Acknowledge,
                        _ => Calls::Child { life },
                    };
                    to(behind)(world);
                });
            }
            Calls::Child { life } => steps.add("call runs the child again", number, |world| {
                again(world, life, self.lives);
                to(match self.flaw {
                    Flaw::ChildFirst => Calls::Row { life },
                    _ => Calls::Acknowledge,
                })(world);
            }),
            Calls::Acknowledge => steps.add("call acknowledges", number, |world| {
                world.acknowledged = true;
                to(Calls::Over)(world);
            }),
            Calls::Over => {}
        }
        if !matches!(from.calls[who], Calls::Begin | Calls::Over) {
            steps.add("call dies", number, to(Calls::Over));
        }
    }

    fn check(&self, who: usize, steps: &mut Steps<'_, World>) {
        let (from, number) = (steps.from, who as i64);
        let to = |at: Checks| move |world: &mut World| world.checks[who] = at;
        match from.checks[who] {
            // A parent whose row says that its tree has ended is not checked.
            Checks::Idle if !from.parent.ended => {
                let parent = from.parent;
                steps.add(
                    "check reads the parent",
                    number,
                    to(Checks::Record { parent }),
                );
            }
            Checks::Idle => {}
            Checks::Record { parent } => {
                let read = from.record;
                let next = match family::check(read.tree, true) {
                    Check::EndSteps => Checks::End { parent },
                    Check::Sweep | Check::Read => Checks::Rows { parent, read },
                    Check::Stop => Checks::Idle,
                };
                steps.add("check reads the record", number, to(next));
            }
            Checks::Rows { parent, read } => {
                let to_tree = match (from.is_open(), read.tree) {
                    (true, Tree::Closing) => Some(Tree::Open),
                    (true, _) => None,
                    (false, Tree::Open) => Some(Tree::Closing),
                    (false, _) => Some(Tree::Faulted),
                };
                let half_done =
                    from.is_open() && !from.child.lives && from.row > 2 * from.child.life;
                let life = from.child.life;
                let next = match to_tree {
                    Some(tree) => Checks::Swap {
                        parent,
                        read,
                        to: tree,
                    },
                    None if half_done && self.flaw == Flaw::HelpUnread => Checks::Follow {
                        life,
                        round: read.round,
                    },
                    None if half_done && self.flaw != Flaw::NoHelp => Checks::Again { life },
                    None => Checks::Idle,
                };
                steps.add("check reads the rows", number, to(next));
            }
            Checks::Swap {
                parent,
                read,
                to: tree,
            } => {
                steps.add("check writes the record", number, |world| {
                    let done = world.swap(self.flaw, read, tree, read.round);
                    let next = match tree {
                        Tree::Completed | Tree::Faulted if done => Checks::End { parent },
                        _ if done => Checks::Record { parent },
                        _ => Checks::Idle,
                    };
                    to(next)(world);
                });
            }
            // The tree may have ended before the row was opened.
            Checks::Again { life } => {
                let Record { tree, round, .. } = from.record;
                let next = match (tree, self.flaw) {
                    (Tree::Open, Flaw::HelpUnfollowed) => Checks::Help { life },
                    (Tree::Open, _) => Checks::Follow { life, round },
                    _ => Checks::Idle,
                };
                steps.add("check reads the record again", number, to(next));
            }
            Checks::Follow { life, round } => {
                steps.add("the parent follows a check", number, |world| {
                    follow(world, round);
                    to(Checks::Help { life })(world);
                });
            }
            Checks::Help { life } => steps.add("check helps", number, |world| {
                if self.flaw == Flaw::HelpGoesBack {
                    world.row = world.row.max(2 * life + 3);
                } else {
                    again(world, life, self.lives);
                }
                to(Checks::Idle)(world);
            }),
            Checks::End { parent } => steps.add("the parent says that it ended", number, |world| {
                if world.parent.round == parent.round || self.flaw == Flaw::NoRound {
                    world.parent.ended = true;
                }
                to(Checks::Idle)(world);
            }),
        }
        if from.checks[who] != Checks::Idle {
            steps.add("check dies", number, to(Checks::Idle));
        }
    }

    /// Goes on without deaths, and tells whether the tree comes to its end.
    fn settles(&self, from: &World) -> bool {
        let mut world = from.clone();
        for _ in 0..64 {
            if world.parent.ended {
                return true;
            }
            if world.child.lives {
                world.child.lives = false;
            }
            world.row = world.row.max(2 * world.child.life + 1);
            // One check alone, from its begin.
            world.calls = [Calls::Over; 2];
            if world.checks[0] == Checks::Idle {
                world.checks[1] = Checks::Idle;
            }
            let mut next = Vec::new();
            let mut steps = Steps {
                from: &world,
                next: &mut next,
            };
            self.check(0, &mut steps);
            // The first step is never its death.
            let Some((_, first)) = next.into_iter().next() else {
                return false;
            };
            world = first;
        }
        false
    }
}

/// Takes the row of the parent to a round.
fn follow(world: &mut World, round: u8) {
    if world.parent.round < round {
        world.parent = Parent {
            ended: false,
            round,
        };
    }
}

/// Runs the child again if it is in this life still, and has ended.
fn again(world: &mut World, life: u8, lives: u8) {
    let child = &mut world.child;
    if child.life == life && !child.lives && life + 1 < lives {
        *child = Child {
            life: life + 1,
            lives: true,
        };
    }
}

impl Model for Retry {
    type State = World;

    fn first(&self) -> World {
        World {
            record: Record {
                tree: Tree::Open,
                version: 0,
                round: 0,
            },
            parent: Parent {
                ended: false,
                round: 0,
            },
            child: Child {
                life: 0,
                lives: false,
            },
            row: 0,
            calls: [
                Calls::Begin,
                if self.calls > 1 {
                    Calls::Begin
                } else {
                    Calls::Over
                },
            ],
            checks: [Checks::Idle; 2],
            acknowledged: false,
        }
    }

    fn steps(&self, world: &World, next: &mut Vec<(Step, World)>) {
        let mut steps = Steps { from: world, next };
        if world.record.version > 8 {
            return;
        }
        if world.child.lives {
            steps.add("the child ends", 0, |world| world.child.lives = false);
        }
        // The end steps of any life that is over, again and again.
        let over = world.child.life + u8::from(!world.child.lives);
        for life in 0..over {
            let end = 2 * life + 1;
            let wins = end > world.row || self.flaw == Flaw::EndAtNow && end != world.row;
            if wins {
                steps.add("end steps of a life", i64::from(life), |world| {
                    world.row = end
                });
            }
        }
        for who in 0..self.calls {
            self.call(who, &mut steps);
        }
        for who in 0..self.checks {
            self.check(who, &mut steps);
        }
    }

    fn broken(&self, world: &World) -> Option<&'static str> {
        if world.parent.ended && world.child.lives {
            return Some(RUNS_AFTER);
        }
        (!world.parent.ended && !self.settles(world)).then_some(STUCK)
    }
}

#[test]
fn a_failed_child_runs_again_and_the_tree_ends_behind_it() {
    for (calls, checks, lives) in [(1, 2, 3), (2, 1, 3), (2, 2, 2)] {
        let retry = Retry {
            flaw: Flaw::None,
            calls,
            checks,
            lives,
        };
        let name = format!("retry: {calls} calls, {checks} checks, {lives} lives");
        holds(&name, &retry, 1000);
    }
}

#[test]
fn each_rule_of_a_retry_is_needed() {
    for (flaw, what) in [
        (Flaw::EndAtNow, RUNS_AFTER),
        (Flaw::RecordFirst, RUNS_AFTER),
        (Flaw::ChildFirst, RUNS_AFTER),
        (Flaw::NoVersion, RUNS_AFTER),
        (Flaw::NoRound, RUNS_AFTER),
        (Flaw::RoundNotAsked, RUNS_AFTER),
        (Flaw::OnlyIfEnded, RUNS_AFTER),
        (Flaw::HelpGoesBack, RUNS_AFTER),
        (Flaw::HelpUnfollowed, RUNS_AFTER),
        (Flaw::HelpUnread, RUNS_AFTER),
        (Flaw::NoHelp, STUCK),
    ] {
        let retry = Retry {
            flaw,
            calls: 2,
            checks: 2,
            lives: 3,
        };
        breaks(&format!("retry: {flaw:?}"), &retry, what);
    }
}
