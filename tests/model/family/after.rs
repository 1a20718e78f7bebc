//! This model searches for a child that starts before the run of its parent has succeeded, and for one that waits for ever.
//!
//! The run of the parent ends well or not, at any time, and pokes its check behind that. A child that waits for it is added by
//! two calls that may overlap: its rows first, then a row of its own, then a look at the run. Two checks release what they find.
//! Pokes alone must suffice where no process dies. Where some do, the look of the parent checks again and again, and helps.
//!
//! A conditional write finds the row as it is, so a release and an end exclude each other. Not in the model: the rest of the
//! tree, which is in the model above, since the row of the child under its parent is that of any other child.

use super::super::search::{Model, Step, Steps, breaks, holds};

const TOO_EARLY: &str = "a child starts though the run of its parent has not succeeded";
const LEFT: &str = "a child waits for ever";
const CHANGED: &str = "a child that was released waits again";

/// The part of the rules that this variant leaves out or turns round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    None,
    /// An add looks at the run before its rows are written.
    RunBeforeRows,
    /// An add that finds the run ended pokes nobody.
    NotPoked,
    /// A check releases whatever the run has come to.
    RunNotAsked,
    /// The row of a child that waits is written whatever it is.
    AwaitUnconditional,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Run {
    Open,
    Succeeded,
    Failed,
}

/// The row of the child itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Row {
    None,
    Waits,
    Released,
    Ended,
}

/// The row by which the child is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Listed {
    Not,
    Is,
    /// A removal is final.
    Removed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Adds {
    Rows,
    Await,
    Run,
    /// With what it saw before its rows, in a variant.
    RowsLate(bool),
    Acknowledge,
    Over,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Checks {
    Idle,
    Page,
    Release,
    Remove,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    run: Run,
    /// The end steps of the run have poked.
    told: bool,
    poked: bool,
    listed: Listed,
    /// The row under the parent, which is never taken back while the child goes on.
    known: bool,
    row: Row,
    released_once: bool,
    adds: [Adds; 2],
    checks: [Checks; 2],
    acknowledged: bool,
}

struct After {
    flaw: Flaw,
    /// Processes die, and the looks of the parent go on.
    faults: bool,
}

impl After {
    fn add(&self, who: usize, steps: &mut Steps<'_, World>) {
        let from = steps.from;
        let ended = from.run != Run::Open;
        let to = |at: Adds| move |world: &mut World| world.adds[who] = at;
        match from.adds[who] {
            Adds::Rows if self.flaw == Flaw::RunBeforeRows => {
                steps.add("add looks at the run", 0, to(Adds::RowsLate(ended)));
            }
            Adds::Rows => steps.add("add writes its rows", 0, |world| {
                list(world);
                to(Adds::Await)(world);
            }),
            Adds::RowsLate(ended) => steps.add("add writes its rows", 0, |world| {
                list(world);
                world.poked |= ended;
                to(Adds::Await)(world);
            }),
            Adds::Await => steps.add("the child waits", 0, |world| {
                if world.row == Row::None || self.flaw == Flaw::AwaitUnconditional {
                    world.row = Row::Waits;
                }
                let seen = self.flaw == Flaw::RunBeforeRows;
                to(if seen { Adds::Acknowledge } else { Adds::Run })(world);
            }),
            Adds::Run => steps.add("add looks at the run", 0, |world| {
                world.poked |= ended && self.flaw != Flaw::NotPoked;
                to(Adds::Acknowledge)(world);
            }),
            Adds::Acknowledge => steps.add("add acknowledges", 0, |world| {
                world.acknowledged = true;
                to(Adds::Over)(world);
            }),
            Adds::Over => {}
        }
        if self.faults && !matches!(from.adds[who], Adds::Rows | Adds::Over) {
            steps.add("add dies", 0, to(Adds::Over));
        }
    }

    fn check(&self, who: usize, steps: &mut Steps<'_, World>) {
        let from = steps.from;
        let to = |at: Checks| move |world: &mut World| world.checks[who] = at;
        let ended = from.run != Run::Open || self.flaw == Flaw::RunNotAsked;
        match from.checks[who] {
            Checks::Idle if from.poked || self.faults && ended => {
                steps.add("check begins", 0, |world| {
                    world.poked = false;
                    to(if ended { Checks::Page } else { Checks::Idle })(world);
                });
            }
            Checks::Idle => {}
            Checks::Page => {
                // A child that is known for long, and not listed, is helped.
                let found = from.listed == Listed::Is || self.faults && from.known;
                let next = if found { Checks::Release } else { Checks::Idle };
                steps.add("check reads", 0, to(next));
            }
            Checks::Release => steps.add("check releases", 0, |world| {
                if matches!(world.row, Row::None | Row::Waits) {
                    let succeeds = world.run == Run::Succeeded || self.flaw == Flaw::RunNotAsked;
                    world.row = if succeeds { Row::Released } else { Row::Ended };
                    world.released_once = true;
                }
                to(Checks::Remove)(world);
            }),
            Checks::Remove => steps.add("check removes the row", 0, |world| {
                if world.listed == Listed::Is {
                    world.listed = Listed::Removed;
                }
                to(Checks::Idle)(world);
            }),
        }
        if self.faults && from.checks[who] != Checks::Idle {
            steps.add("check dies", 0, to(Checks::Idle));
        }
    }

    /// Goes on without faults, and tells whether the child waits no more.
    fn settles(&self, from: &World) -> bool {
        let calm = Self {
            flaw: self.flaw,
            faults: false,
        };
        let mut world = from.clone();
        for round in 0..64 {
            if !matches!(world.row, Row::None | Row::Waits) {
                return true;
            }
            let mut next = Vec::new();
            calm.steps(&world, &mut next);
            if self.faults && world.run != Run::Open && !world.poked {
                // The look of the parent.
                let mut looked = world.clone();
                looked.poked = true;
                if looked.known && looked.listed == Listed::Removed {
                    looked.listed = Listed::Is;
                }
                next.push((Step("look", 0), looked));
            }
            if next.is_empty() {
                return false;
            }
            world = next.swap_remove(round % next.len()).1;
        }
        false
    }
}

fn list(world: &mut World) {
    world.known = true;
    if world.listed == Listed::Not {
        world.listed = Listed::Is;
    }
}

impl Model for After {
    type State = World;

    fn first(&self) -> World {
        World {
            run: Run::Open,
            told: false,
            poked: false,
            listed: Listed::Not,
            known: false,
            row: Row::None,
            released_once: false,
            adds: [Adds::Rows; 2],
            checks: [Checks::Idle; 2],
            acknowledged: false,
        }
    }

    fn steps(&self, world: &World, next: &mut Vec<(Step, World)>) {
        let mut steps = Steps { from: world, next };
        if world.run == Run::Open {
            steps.add("the run succeeds", 0, |world| world.run = Run::Succeeded);
            steps.add("the run fails", 0, |world| world.run = Run::Failed);
        } else if !world.told {
            steps.add("the end of the run pokes", 0, |world| {
                world.told = true;
                world.poked = true;
            });
        }
        for who in 0..2 {
            self.add(who, &mut steps);
            self.check(who, &mut steps);
        }
    }

    fn broken(&self, world: &World) -> Option<&'static str> {
        if world.row == Row::Released && world.run != Run::Succeeded {
            return Some(TOO_EARLY);
        }
        if world.released_once && matches!(world.row, Row::None | Row::Waits) {
            return Some(CHANGED);
        }
        if !world.acknowledged || !matches!(world.row, Row::None | Row::Waits) {
            return None;
        }
        if self.faults {
            return (!self.settles(world)).then_some(LEFT);
        }
        let mut next = Vec::new();
        self.steps(world, &mut next);
        next.is_empty().then_some(LEFT)
    }
}

#[test]
fn a_child_starts_behind_the_run_of_its_parent_and_pokes_suffice() {
    let after = After {
        flaw: Flaw::None,
        faults: false,
    };
    holds("after the parent", &after, 100);
}

#[test]
fn a_child_that_waits_is_released_wherever_processes_die() {
    let after = After {
        flaw: Flaw::None,
        faults: true,
    };
    holds("after the parent, with deaths", &after, 100);
}

#[test]
fn each_rule_of_children_that_wait_is_needed() {
    for (flaw, what) in [
        (Flaw::RunBeforeRows, LEFT),
        (Flaw::NotPoked, LEFT),
        (Flaw::RunNotAsked, TOO_EARLY),
        (Flaw::AwaitUnconditional, CHANGED),
    ] {
        let faults = what == TOO_EARLY;
        let after = After { flaw, faults };
        breaks(&format!("after the parent: {flaw:?}"), &after, what);
    }
}
