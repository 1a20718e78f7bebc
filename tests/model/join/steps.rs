//! The steps of the model of joins: registrations, ends of dependencies, checks.

use tickwheel::model::join::Verdict;

use super::{
    super::search::{Step, Steps},
    Adds, Checks, Flaw, Join, Named, Row, Run, Told, World,
};

/// Adds every state that can come next.
pub(super) fn next(model: &Join, world: &World, next: &mut Vec<(Step, World)>) {
    let mut steps = Steps { from: world, next };
    for which in 0..2 {
        dependency(model, which, &mut steps);
    }
    for who in 0..model.adds {
        add(model, who, &mut steps);
    }
    for who in 0..model.checks {
        check(model, who, &mut steps);
    }
    if world.copies_old && world.listed {
        steps.add("no copy is old any more", 0, |world| {
            world.copies_old = false
        });
    }
    if world.comes_back && !world.copies_old {
        steps.add("a registration comes back", 0, |world| {
            world.comes_back = false;
            world.asked = true;
        });
    }
    if model.faults {
        if world.poked || world.asked || world.comes_back {
            steps.add("what a node remembers is lost", 0, |world| {
                (world.poked, world.asked, world.comes_back) = (false, false, false);
            });
        }
        model.look(world, next);
    }
}

fn dependency(model: &Join, which: usize, steps: &mut Steps<'_, World>) {
    let from = steps.from.dependencies[which];
    let to = |told: Told| move |world: &mut World| world.dependencies[which].told = told;
    let who = which as i64;
    if from.run == Run::Open {
        for run in [Run::Succeeded, Run::Failed] {
            steps.add("a dependency ends", who, |world| {
                world.dependencies[which].run = run;
            });
        }
        return;
    }
    match from.told {
        Told::Not => {
            let found = from.named == Named::Is;
            steps.add("its end asks for waiters", who, |world| {
                to(if found { Told::Found } else { Told::Done })(world);
            });
            if steps.from.copies_old {
                steps.add("its end knows of none", who, to(Told::Done));
            }
        }
        Told::Found => steps.add("its end tells", who, |world| {
            if model.flaw == Flaw::PokeBeforeOutcome {
                world.poked = true;
            } else {
                world.dependencies[which].outcome = Some(from.run);
            }
            to(Told::Written)(world);
        }),
        Told::Written => steps.add("its end pokes", who, |world| {
            if model.flaw == Flaw::PokeBeforeOutcome {
                world.dependencies[which].outcome = Some(from.run);
            } else {
                world.poked = true;
            }
            to(Told::Poked)(world);
        }),
        Told::Poked => steps.add("its end forgets the waiter", who, |world| {
            world.dependencies[which].named = Named::Removed;
            to(Told::Done)(world);
        }),
        Told::Done => {}
    }
    if model.faults && !matches!(from.told, Told::Not | Told::Done) {
        steps.add("its end dies", who, to(Told::Not));
    }
}

fn add(model: &Join, who: usize, steps: &mut Steps<'_, World>) {
    let from = steps.from;
    let number = who as i64;
    let to = |at: Adds| move |world: &mut World| world.adds[who] = at;
    let (look_first, reads_first) = (
        model.flaw != Flaw::RowBeforeLook,
        model.flaw == Flaw::ReadBeforeRows,
    );
    match from.adds[who] {
        Adds::Rows => steps.add("add writes its rows", number, |world| {
            world.listed = true;
            for dependency in &mut world.dependencies {
                if dependency.named == Named::Not {
                    dependency.named = Named::Is;
                }
            }
            to(if reads_first {
                Adds::Look
            } else {
                Adds::Read(0)
            })(world);
        }),
        Adds::Read(which) => steps.add("add reads a dependency", number, |world| {
            let one = &mut world.dependencies[which];
            if one.run != Run::Open {
                one.outcome = Some(one.run);
            }
            let behind = if reads_first { Adds::Rows } else { Adds::Look };
            let behind = if look_first { behind } else { Adds::Row };
            to(if which == 0 { Adds::Read(1) } else { behind })(world);
        }),
        Adds::Look => steps.add("add puts the look", number, |world| {
            world.look = true;
            to(if look_first { Adds::Row } else { Adds::Poke })(world);
        }),
        Adds::Row => steps.add("the task waits", number, |world| {
            if world.row == Row::None || model.flaw == Flaw::AwaitUnconditional {
                world.row = Row::Waits;
            }
            to(if look_first { Adds::Poke } else { Adds::Look })(world);
        }),
        Adds::Poke => steps.add("add pokes", number, |world| {
            world.poked |= model.flaw != Flaw::NotPoked;
            world.comes_back |= !matches!(
                model.flaw,
                Flaw::NotPoked | Flaw::NotCheckedAgain | Flaw::ReadBeforeRows
            );
            to(Adds::Acknowledge)(world);
        }),
        Adds::Acknowledge => steps.add("add acknowledges", number, |world| {
            world.acknowledged = true;
            to(Adds::Over)(world);
        }),
        Adds::Over => {}
    }
    if model.faults && from.adds[who] != Adds::Over {
        steps.add("add dies", number, to(Adds::Over));
    }
}

fn check(model: &Join, who: usize, steps: &mut Steps<'_, World>) {
    let from = steps.from;
    let number = who as i64;
    let to = |at: Checks| move |world: &mut World| world.checks[who] = at;
    match from.checks[who] {
        Checks::Idle => {
            if from.poked {
                steps.add("check begins", number, |world| {
                    world.poked = false;
                    to(Checks::Page { asks: false })(world);
                });
            }
            if from.asked {
                steps.add("check begins that asks", number, |world| {
                    world.asked = false;
                    to(Checks::Page { asks: true })(world);
                });
            }
        }
        // One that finds no row is dropped.
        Checks::Page { .. } if from.row != Row::Waits => {
            steps.add("check finds nobody", number, to(Checks::Idle));
        }
        Checks::Page { asks } => {
            let seen = from.dependencies.map(|one| one.outcome);
            let next = if asks {
                Checks::Ask { at: 0, seen }
            } else {
                Checks::Act { seen }
            };
            steps.add("check reads the rows", number, to(next));
        }
        Checks::Ask { at, mut seen } => {
            let one = from.dependencies[at];
            if seen[at].is_none() && one.run != Run::Open {
                seen[at] = Some(one.run);
            }
            let next = if at == 0 {
                Checks::Ask { at: 1, seen }
            } else {
                Checks::Act { seen }
            };
            let is_new = one.outcome.is_none() && seen[at].is_some();
            steps.add("check asks a dependency", number, |world| {
                world.dependencies[at].outcome = seen[at];
                world.poked |= is_new && model.flaw != Flaw::NotedInSilence;
                to(next)(world);
            });
        }
        Checks::Act { seen } => steps.add("check acts", number, |world| {
            let row = match model.verdict(seen) {
                Verdict::Goes(_) => Row::Released,
                Verdict::Failed(..) | Verdict::Missing(_) | Verdict::Lost | Verdict::Late(_) => {
                    Row::Ended
                }
                Verdict::Waits => world.row,
            };
            if world.row == Row::Waits && row != Row::Waits {
                world.row = row;
                world.released_once = true;
            }
            to(Checks::Idle)(world);
        }),
    }
    if model.faults && from.checks[who] != Checks::Idle {
        steps.add("check dies", number, to(Checks::Idle));
    }
}
