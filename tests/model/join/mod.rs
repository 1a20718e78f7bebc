//! This model searches for a task that starts before those that it waits for have ended, and for one that waits for ever.
//!
//! A waiter has two dependencies. Each of them ends well or not at any time, and its end steps tell the waiter. Two calls, which
//! may overlap, register the waiter: marks and rows first, then the rows of the dependencies, then its look, then its own row,
//! then two pokes. Two checks decide, by [`join::decide`]. Where no process dies, pokes suffice: also where the copy of the marks
//! is old by which the end steps of a dependency ask. Where some do, the look of the waiter asks all dependencies again.
//!
//! A conditional write finds the row of the waiter as it is, so a release and an end exclude each other. Rows are plain writes of
//! which the newest wins, so an outcome stays. Not in the model: the life of rows, slots and clocks, and trees: a dependency with
//! a tree ends when that has ended.

mod circles;
mod steps;

use tickwheel::model::{
    family::{Outcome, TreeOutcome},
    ids::TaskId,
    join::{self, After, Condition, Seen, Verdict},
    state::State,
    time::Millis,
    wheel::WheelNumber,
};

use super::search::{Model, Step, breaks, holds};

const TOO_EARLY: &str = "a task starts before those that it waits for have ended so";
const FOR_NOTHING: &str = "a wait ends though nothing is wrong";
const LEFT: &str = "a task waits for ever";
const CHANGED: &str = "a task that was let go waits again";

/// The part of the rules that this variant leaves out or turns round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    None,
    /// A registration reads the dependencies before its rows are written.
    ReadBeforeRows,
    /// A registration pokes nobody.
    NotPoked,
    /// A registration does not come back when old copies of the marks are gone.
    NotCheckedAgain,
    /// The row of the waiter is written before its look.
    RowBeforeLook,
    /// The row of the waiter is written whatever it is.
    AwaitUnconditional,
    /// An end pokes the waiter before the outcome is in its row.
    PokeBeforeOutcome,
    /// A look asks the rows of the waiter alone.
    LookAsksRows,
    /// A look that finds no row drops the task.
    LookDropped,
    /// A check that notes an end does not ask for another one.
    NotedInSilence,
    /// One end is enough.
    AnyEnd,
    /// The end of a dependency counts, however it ended.
    HowNotAsked,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Run {
    Open,
    Succeeded,
    Failed,
}

/// Where the end steps of a dependency are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Told {
    Not,
    /// They have read the row that names the waiter.
    Found,
    Written,
    Poked,
    Done,
}

/// The row of a dependency that names the waiter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Named {
    Not,
    Is,
    /// A removal is final.
    Removed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Dependency {
    run: Run,
    told: Told,
    named: Named,
    /// The row of the waiter: how it ended.
    outcome: Option<Run>,
}

/// The row of the waiter itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Row {
    None,
    Waits,
    Released,
    Ended,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Adds {
    Rows,
    Read(usize),
    Look,
    Row,
    Poke,
    Acknowledge,
    Over,
}

/// Where a check is: with what it has seen of each dependency, and whether it asks these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Checks {
    Idle,
    Page { asks: bool },
    Ask { at: usize, seen: [Option<Run>; 2] },
    Act { seen: [Option<Run>; 2] },
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    dependencies: [Dependency; 2],
    /// Both rows of the waiter are there.
    listed: bool,
    row: Row,
    released_once: bool,
    look: bool,
    /// A poke by rows, and one that asks the dependencies.
    poked: bool,
    asked: bool,
    /// A registration comes back once no copy is old any more.
    comes_back: bool,
    /// Copies of the marks may be from before the first registration.
    copies_old: bool,
    adds: [Adds; 2],
    checks: [Checks; 2],
    acknowledged: bool,
}

struct Join {
    flaw: Flaw,
    condition: Condition,
    /// Processes die, and looks come.
    faults: bool,
    adds: usize,
    checks: usize,
}

fn id(number: usize) -> TaskId {
    TaskId::new(Millis(1), WheelNumber::new(0).unwrap(), number as u64)
}

impl Join {
    /// Returns the verdict of the rules on what was seen.
    fn verdict(&self, seen: [Option<Run>; 2]) -> Verdict {
        let after = After {
            condition: self.condition,
            later: false,
            deadline: None,
            tasks: if self.flaw == Flaw::AnyEnd { 1 } else { 2 },
        };
        let of = |(place, run): (usize, Option<Run>)| {
            let state = match run {
                Some(Run::Failed) if self.flaw != Flaw::HowNotAsked => State::Failed,
                Some(Run::Failed | Run::Succeeded) => State::Succeeded,
                Some(Run::Open) | None => return (id(place), Seen::Open),
            };
            let outcome = Outcome {
                state,
                tree: if state == State::Failed {
                    TreeOutcome::Faulted
                } else {
                    TreeOutcome::Completed
                },
                at: Millis(1),
            };
            (id(place), Seen::Ended(outcome))
        };
        let mut seen: Vec<(TaskId, Seen)> = seen.into_iter().enumerate().map(of).collect();
        if self.flaw == Flaw::AnyEnd {
            seen.retain(|(_, seen)| matches!(seen, Seen::Ended(_)));
        }
        join::decide(&after, &seen, Millis(2))
    }

    /// Goes on without faults, and tells whether the waiter waits no more once its dependencies have ended.
    fn settles(&self, from: &World) -> bool {
        let calm = Self {
            faults: false,
            ..*self
        };
        let mut world = from.clone();
        world.copies_old = false;
        for dependency in &mut world.dependencies {
            if dependency.run == Run::Open {
                dependency.run = Run::Succeeded;
            }
        }
        for round in 0..64 {
            if !matches!(world.row, Row::None | Row::Waits) {
                return true;
            }
            let mut next = Vec::new();
            calm.steps(&world, &mut next);
            self.look(&world, &mut next);
            if next.is_empty() {
                return false;
            }
            world = next.swap_remove(round % next.len()).1;
        }
        false
    }

    /// The look of the waiter, if it has one.
    fn look(&self, from: &World, next: &mut Vec<(Step, World)>) {
        if !from.look || from.asked || matches!(from.row, Row::Released | Row::Ended) {
            return;
        }
        let mut world = from.clone();
        if world.row == Row::None {
            if self.flaw == Flaw::LookDropped {
                world.look = false;
                next.push((Step("look drops", 0), world));
                return;
            }
            world.row = Row::Waits;
        }
        world.asked = self.flaw != Flaw::LookAsksRows;
        world.poked |= self.flaw == Flaw::LookAsksRows;
        next.push((Step("look", 0), world));
    }
}

impl Model for Join {
    type State = World;

    fn first(&self) -> World {
        let dependency = Dependency {
            run: Run::Open,
            told: Told::Not,
            named: Named::Not,
            outcome: None,
        };
        let first = if self.flaw == Flaw::ReadBeforeRows {
            Adds::Read(0)
        } else {
            Adds::Rows
        };
        let adds = [first, if self.adds > 1 { first } else { Adds::Over }];
        World {
            dependencies: [dependency; 2],
            listed: false,
            row: Row::None,
            released_once: false,
            look: false,
            poked: false,
            asked: false,
            comes_back: false,
            // Coming back would hide what these leave out.
            copies_old: !matches!(self.flaw, Flaw::ReadBeforeRows | Flaw::NotPoked),
            adds,
            checks: [Checks::Idle; 2],
            acknowledged: false,
        }
    }

    fn steps(&self, world: &World, next: &mut Vec<(Step, World)>) {
        steps::next(self, world, next);
    }

    fn broken(&self, world: &World) -> Option<&'static str> {
        let runs = world.dependencies.map(|dependency| dependency.run);
        let all = |run: Run| runs.iter().all(|one| *one == run);
        let good = match self.condition {
            Condition::AllSucceeded => all(Run::Succeeded),
            Condition::AllEnded => !runs.contains(&Run::Open),
        };
        if world.row == Row::Released && !good {
            return Some(TOO_EARLY);
        }
        let bad = self.condition == Condition::AllSucceeded && runs.contains(&Run::Failed);
        if world.row == Row::Ended && !bad {
            return Some(FOR_NOTHING);
        }
        if world.released_once && matches!(world.row, Row::None | Row::Waits) {
            return Some(CHANGED);
        }
        if !matches!(world.row, Row::None | Row::Waits) {
            return None;
        }
        if self.faults {
            // A row is seen by people, whether its registration was answered or not.
            let counts = world.acknowledged || world.row == Row::Waits;
            return (counts && !self.settles(world)).then_some(LEFT);
        }
        let mut next = Vec::new();
        self.steps(world, &mut next);
        (world.acknowledged && next.is_empty()).then_some(LEFT)
    }
}

fn model(flaw: Flaw, condition: Condition, faults: bool) -> Join {
    Join {
        flaw,
        condition,
        faults,
        adds: 2,
        checks: 1,
    }
}

#[test]
fn a_waiter_goes_behind_those_that_it_waits_for_and_pokes_suffice() {
    for condition in [Condition::AllSucceeded, Condition::AllEnded] {
        let join = model(Flaw::None, condition, false);
        holds(&format!("join: {condition:?}"), &join, 1000);
        let join = Join {
            adds: 1,
            checks: 2,
            ..join
        };
        holds(&format!("join: {condition:?}, 2 checks"), &join, 1000);
    }
}

#[test]
fn a_waiter_goes_or_ends_wherever_processes_die() {
    for condition in [Condition::AllSucceeded, Condition::AllEnded] {
        let join = Join {
            adds: 1,
            ..model(Flaw::None, condition, true)
        };
        holds(&format!("join: {condition:?}, deaths"), &join, 1000);
    }
}

#[test]
fn each_rule_of_joins_is_needed() {
    for (flaw, what, faults) in [
        (Flaw::ReadBeforeRows, LEFT, false),
        (Flaw::NotPoked, LEFT, false),
        (Flaw::NotCheckedAgain, LEFT, false),
        (Flaw::PokeBeforeOutcome, LEFT, false),
        (Flaw::NotedInSilence, LEFT, false),
        (Flaw::RowBeforeLook, LEFT, true),
        (Flaw::LookAsksRows, LEFT, true),
        (Flaw::LookDropped, LEFT, true),
        (Flaw::AnyEnd, TOO_EARLY, false),
        (Flaw::HowNotAsked, TOO_EARLY, false),
        (Flaw::AwaitUnconditional, CHANGED, false),
    ] {
        let condition = Condition::AllSucceeded;
        let join = Join {
            adds: 1 + usize::from(flaw == Flaw::AwaitUnconditional),
            checks: 1 + usize::from(flaw == Flaw::NotedInSilence),
            ..model(flaw, condition, faults)
        };
        breaks(&format!("join: {flaw:?}"), &join, what);
    }
}
