//! This model searches for a cancel of a tree that is forgotten, comes too late for an end that was decided before, or leaves a
//! child that was added in the same moment.
//!
//! A parent gets a child by an add while its tree is cancelled. Two checks run at once. Any process dies between any two steps,
//! and the answer of the cancel is lost: its write is applied then, later or never. The child of a cancelled tree ends only if a
//! check tells it to. From each state without any further fault the tree comes to its end.
//!
//! The decisions are the real ones ([`family::cancel`], [`family::takes`], [`family::add`], [`family::check`], [`family::end`]).
//! A version of the record is held as fresh or stale. Not in the model: deeper trees, each level of which is such a tree, and
//! children that undo something, which checks pass over.

use std::collections::HashSet;

use tickwheel::model::{
    family::{self, Add, Cancel, Check, Tree},
    state::State,
};

use super::super::search::{Model, Step, Steps, breaks, holds};

const LOST: &str = "a tree whose cancel was answered has ended otherwise";
const RUNS_AFTER: &str = "a child can run in a tree that has ended";
const TAKEN: &str = "a child that came behind the answer of the cancel was taken";
const STUCK: &str = "the tree never ends";

/// The part of the rules that this variant leaves out or turns round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    None,
    /// A later write of the record leaves the cancel out.
    Forgotten,
    /// The end names no version of the record.
    EndUnconditional,
    /// An add does not ask the record before its row is written.
    NotAsked,
    /// Children are told by one check alone.
    ToldOnce,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Adds {
    Ask,
    Row,
    Read,
    Reopen,
    Entry,
    Over,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Cancels {
    Read,
    Write,
    Over,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Checks {
    Idle,
    /// Children are told, then the check goes on with what the record asked for, or stops.
    Tell(bool, bool),
    Sweep,
    Close,
    Read,
    Finish,
    Reopen,
    HelpRead,
    Help,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    run: bool,
    tree: Tree,
    cancelled: bool,
    /// The row of the child: none, added, ended.
    row: u8,
    /// Something lets the child run.
    entry: bool,
    /// The child has ended or will never run.
    over: bool,
    add: (Adds, bool),
    /// The add began behind the answer of the cancel, and was taken.
    behind: bool,
    taken: bool,
    cancel: (Cancels, bool),
    answered: bool,
    /// A write of the cancel whose outcome nobody knows; whether it names the present version.
    pending: Option<bool>,
    /// With whether the version that they hold is the present one, and whether that says that the tree is cancelled.
    checks: [(Checks, bool, bool); 2],
    told: bool,
    up: bool,
}

struct Cancelled {
    flaw: Flaw,
    asks_for_end: bool,
}

/// Writes the record: what others hold is stale then.
fn write(flaw: Flaw, world: &mut World, tree: Tree) {
    world.tree = tree;
    world.cancelled &= flaw != Flaw::Forgotten || tree == Tree::Cancelled;
    stale(world);
}

fn stale(world: &mut World) {
    world.add.1 = false;
    world.cancel.1 = false;
    world.pending = world.pending.map(|_| false);
    for (_, fresh, _) in &mut world.checks {
        *fresh = false;
    }
}

fn cancel_is_written(world: &mut World) {
    world.cancelled = true;
    stale(world);
}

fn next(flaw: Flaw, from: &World, faults: bool, next: &mut Vec<(Step, World)>) {
    let began = next.len();
    let mut steps = Steps { from, next };
    tasks(&mut steps);
    add(flaw, faults, &mut steps);
    cancel(faults, &mut steps);
    for who in 0..2 {
        check(flaw, who, faults, &mut steps);
    }
    for (_, world) in &mut next[began..] {
        // Checks are alike, and a stale write is never applied.
        world.checks.sort_unstable();
        world.pending = world
            .pending
            .filter(|fresh| *fresh && !world.tree.has_ended());
    }
}

fn tasks(steps: &mut Steps<'_, World>) {
    let from = steps.from;
    if !from.run {
        steps.add("run ends", 0, |world| world.run = true);
    }
    if from.entry && !from.over && !from.cancelled {
        steps.add("child ends", 0, |world| world.over = true);
    }
    if from.over && from.row == 1 {
        steps.add("row of the child ends", 0, |world| world.row = 2);
    }
}

fn add(flaw: Flaw, faults: bool, steps: &mut Steps<'_, World>) {
    let from = steps.from;
    let (at, fresh) = from.add;
    let to = |at: Adds, fresh: bool| move |world: &mut World| world.add = (at, fresh);
    match at {
        Adds::Ask => steps.add("add asks", 0, |world| {
            world.behind = world.answered;
            let takes = flaw == Flaw::NotAsked || family::takes(world.cancelled, false);
            world.add = (if takes { Adds::Row } else { Adds::Over }, false);
        }),
        Adds::Row => steps.add("add row", 0, |world| {
            world.row = world.row.max(1);
            world.add = (Adds::Read, false);
        }),
        Adds::Read => match family::add(from.tree) {
            Add::Enter => steps.add("add reads", 0, to(Adds::Entry, false)),
            Add::Reopen => steps.add("add reads", 0, to(Adds::Reopen, true)),
            Add::Over => steps.add("add is refused", 0, |world| {
                world.row = if world.row == 1 { 0 } else { world.row };
                world.add = (Adds::Over, false);
            }),
        },
        Adds::Reopen if fresh => steps.add("add opens", 0, |world| {
            write(flaw, world, Tree::Open);
            world.add = (Adds::Entry, false);
        }),
        Adds::Reopen => steps.add("add has lost", 0, to(Adds::Read, false)),
        Adds::Entry => steps.add("add entry", 0, |world| {
            world.entry = true;
            world.taken = true;
            world.add = (Adds::Over, false);
        }),
        Adds::Over => {}
    }
    if faults && at != Adds::Over {
        steps.add("add dies", 0, to(Adds::Over, false));
    }
}

fn cancel(faults: bool, steps: &mut Steps<'_, World>) {
    let from = steps.from;
    let (at, fresh) = from.cancel;
    let to = |at: Cancels, fresh: bool| move |world: &mut World| world.cancel = (at, fresh);
    if from.pending == Some(true) {
        steps.add("late cancel", 0, |world| {
            cancel_is_written(world);
            world.pending = None;
        });
    }
    match at {
        Cancels::Read => match family::cancel(from.tree, from.cancelled) {
            Cancel::Write => steps.add("cancel reads", 0, to(Cancels::Write, true)),
            Cancel::Before => steps.add("cancelled before", 0, |world| {
                world.answered = true;
                world.cancel = (Cancels::Over, false);
            }),
            Cancel::Late => steps.add("too late", 0, to(Cancels::Over, false)),
        },
        Cancels::Write if fresh => {
            steps.add("cancel", 0, |world| {
                cancel_is_written(world);
                world.answered = true;
                world.cancel = (Cancels::Over, false);
            });
            if faults {
                steps.add("cancel, lost", 0, |world| {
                    world.pending = Some(true);
                    world.cancel = (Cancels::Read, false);
                });
                steps.add("cancel, unanswered", 0, |world| {
                    cancel_is_written(world);
                    world.cancel = (Cancels::Over, false);
                });
            }
        }
        Cancels::Write => steps.add("cancel has lost", 0, to(Cancels::Read, false)),
        Cancels::Over => {}
    }
    if faults && at != Cancels::Over {
        steps.add("cancel dies", 0, to(Cancels::Over, false));
    }
}

fn check(flaw: Flaw, who: usize, faults: bool, steps: &mut Steps<'_, World>) {
    let from = steps.from;
    let (at, fresh, cancelled) = from.checks[who];
    let to = |at: Checks| move |world: &mut World| world.checks[who] = (at, fresh, cancelled);
    let idle = move |world: &mut World| world.checks[who] = (Checks::Idle, false, false);
    // A write that names an old version is refused, and the record is read again.
    let may_write = fresh || flaw == Flaw::EndUnconditional && at == Checks::Finish;
    match at {
        Checks::Idle => look(flaw, who, steps),
        Checks::Tell(goes_on, sweeps) => steps.add("children are told", who as i64, |world| {
            // With or without an entry: one that comes later runs nothing.
            world.over |= world.row == 1;
            world.told = true;
            world.checks[who].0 = match (goes_on, sweeps) {
                (false, _) => Checks::Idle,
                (true, true) => Checks::Sweep,
                (true, false) => Checks::Read,
            };
        }),
        Checks::Sweep => {
            if from.row == 1 && !from.over && !from.entry {
                steps.add("sweep finds a row", who as i64, to(Checks::HelpRead));
            }
            if from.row == 1 {
                steps.add("sweep finds the child", who as i64, idle);
            }
            // It may have read the row before that was written.
            steps.add("sweep finds none", who as i64, to(Checks::Close));
        }
        Checks::Close | Checks::Finish | Checks::Reopen if !may_write => {
            steps.add("refused", who as i64, idle);
        }
        Checks::Close => steps.add("closes", who as i64, |world| {
            write(flaw, world, Tree::Closing);
            world.checks[who] = (Checks::Read, true, world.cancelled);
        }),
        Checks::Read if from.row == 1 => steps.add("a row is open", who as i64, to(Checks::Reopen)),
        Checks::Read => steps.add("all have ended", who as i64, to(Checks::Finish)),
        Checks::Finish => steps.add("ends", who as i64, |world| {
            write(flaw, world, family::end(State::Succeeded, false, cancelled));
            idle(world);
        }),
        Checks::Reopen => steps.add("opens", who as i64, |world| {
            write(flaw, world, Tree::Open);
            idle(world);
        }),
        Checks::HelpRead if family::add(from.tree) == Add::Enter => {
            steps.add("help reads", who as i64, to(Checks::Help));
        }
        Checks::HelpRead => steps.add("help reads", who as i64, idle),
        Checks::Help => steps.add("help", who as i64, |world| {
            world.entry = true;
            idle(world);
        }),
    }
    if faults && at != Checks::Idle {
        steps.add("check dies", who as i64, idle);
    }
}

/// A look or a poke: it reads the record, and tells the children of a tree that is cancelled first.
fn look(flaw: Flaw, who: usize, steps: &mut Steps<'_, World>) {
    let from = steps.from;
    let tells = from.cancelled && !(flaw == Flaw::ToldOnce && from.told);
    let (goes_on, sweeps) = match family::check(from.tree, from.run) {
        Check::EndSteps if !from.up => {
            steps.add("end steps of the tree", who as i64, |world| world.up = true);
            return;
        }
        Check::EndSteps => return,
        Check::Stop if !tells => return,
        Check::Stop => (false, false),
        Check::Sweep => (true, true),
        Check::Read => (true, false),
    };
    let at = match (tells, sweeps) {
        (true, _) => Checks::Tell(goes_on, sweeps),
        (false, true) => Checks::Sweep,
        (false, false) => Checks::Read,
    };
    steps.add("check begins", who as i64, |world| {
        world.checks[who] = (at, true, world.cancelled);
    });
}

impl Cancelled {
    /// Tells whether the tree can come to its end from here without any further fault.
    fn ends(&self, from: &World) -> bool {
        let mut seen = HashSet::from([from.clone()]);
        let mut open = vec![from.clone()];
        while let Some(world) = open.pop() {
            if world.up {
                return true;
            }
            let mut calm = Vec::new();
            next(self.flaw, &world, false, &mut calm);
            // The next one is looked at first: most ways lead to the end.
            for (_, to) in calm {
                if seen.insert(to.clone()) {
                    open.push(to);
                }
            }
        }
        false
    }
}

impl Model for Cancelled {
    type State = World;

    fn first(&self) -> World {
        World {
            run: false,
            tree: Tree::Open,
            cancelled: false,
            row: 0,
            entry: false,
            over: false,
            add: (Adds::Ask, false),
            behind: false,
            taken: false,
            cancel: (Cancels::Read, false),
            answered: false,
            pending: None,
            checks: [(Checks::Idle, false, false); 2],
            told: false,
            up: false,
        }
    }

    fn steps(&self, world: &World, all: &mut Vec<(Step, World)>) {
        next(self.flaw, world, true, all);
    }

    fn broken(&self, world: &World) -> Option<&'static str> {
        if world.tree.has_ended() {
            if world.answered && world.tree != Tree::Cancelled {
                return Some(LOST);
            }
            if world.entry && !world.over {
                return Some(RUNS_AFTER);
            }
        }
        if world.behind && world.taken {
            return Some(TAKEN);
        }
        (self.asks_for_end && !self.ends(world)).then_some(STUCK)
    }
}

#[test]
fn a_tree_that_is_cancelled_ends_so_and_takes_nothing_more() {
    let model = Cancelled {
        flaw: Flaw::None,
        asks_for_end: true,
    };
    holds("family: cancel", &model, 1000);
}

#[test]
fn each_rule_of_a_cancel_is_needed() {
    for (flaw, what) in [
        (Flaw::Forgotten, LOST),
        (Flaw::EndUnconditional, LOST),
        (Flaw::NotAsked, TAKEN),
        (Flaw::ToldOnce, STUCK),
    ] {
        let asks_for_end = what == STUCK;
        let model = Cancelled { flaw, asks_for_end };
        breaks(&format!("family: cancel: {flaw:?}"), &model, what);
    }
}
