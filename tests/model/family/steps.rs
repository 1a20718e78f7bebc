//! The steps of the family model: what adds, checks, tasks and faults can do next.

use tickwheel::model::{
    family::{self, Add, Check, Tree},
    state::State,
};

use super::{
    super::search::{Step, Steps},
    Adds, Checks, Flaw, Late, Pending, World,
};

/// Adds all states that can come next. Without `faults` no process dies and no answer is lost.
pub(super) fn next(flaw: Flaw, from: &World, faults: bool, next: &mut Vec<(Step, World)>) {
    let began = next.len();
    let mut steps = Steps { from, next };
    tasks(flaw, &mut steps);
    pending(flaw, &mut steps);
    for who in 0..2 {
        add(flaw, who, faults, &mut steps);
        check(flaw, who, faults, &mut steps);
    }
    if faults {
        crashes(&mut steps);
    }
    for (_, world) in &mut next[began..] {
        tidy(flaw, world);
    }
}

/// Brings states that differ in nothing that matters together.
fn tidy(flaw: Flaw, world: &mut World) {
    let ended = world.tree.has_ended();
    let hopeless = |fresh: bool| flaw != Flaw::NoVersion && !fresh || ended;
    world.pending.retain(|(what, fresh)| match what {
        Pending::Row | Pending::Entry => true,
        Pending::Finish if flaw == Flaw::EndUnconditional => true,
        Pending::Close | Pending::Reopen | Pending::Finish => !hopeless(*fresh),
    });
    world.pending.sort_unstable();
    world.pending.dedup();
    world.adds.sort_unstable();
    world.checks.sort_unstable();
}

/// The own run, the first child, and the late one, whose end steps follow its end.
fn tasks(flaw: Flaw, steps: &mut Steps<'_, World>) {
    let from = steps.from;
    if !from.run {
        steps.add("run ends", 0, |world| world.run = true);
    }
    if !from.first {
        steps.add("first child ends", 0, |world| world.first = true);
    }
    let once = flaw == Flaw::EndStepsOnce;
    match from.end {
        Late::Rests if from.entry && !(once && from.late) => {
            steps.add("late child ends", 0, |world| {
                world.late = true;
                world.end = Late::Row;
                // Its entry goes with the first try of the steps.
                world.entry = !once;
            });
        }
        Late::Rests => {}
        Late::Row => steps.add("row of the late child ends", 0, |world| {
            world.row = 2;
            world.end = Late::Drop;
        }),
        Late::Drop => steps.add("late child drops", 0, |world| {
            world.end = Late::Rests;
            world.entry = false;
        }),
    }
}

fn added(flaw: Flaw, world: &mut World) {
    world.row = if flaw == Flaw::OneCell {
        1
    } else {
        world.row.max(1)
    };
}

/// The state that a conditional write must find, and the one that it makes.
const fn change(what: Pending) -> (Tree, Tree) {
    match what {
        Pending::Close => (Tree::Open, Tree::Closing),
        Pending::Reopen => (Tree::Closing, Tree::Open),
        Pending::Row | Pending::Entry | Pending::Finish => {
            (Tree::Closing, family::end(State::Succeeded, false, false))
        }
    }
}

fn may_apply(flaw: Flaw, world: &World, what: Pending, fresh: bool) -> bool {
    let (before, _) = change(what);
    let versioned = fresh || flaw == Flaw::NoVersion;
    world.tree == before && versioned || flaw == Flaw::EndUnconditional && what == Pending::Finish
}

/// Applies a conditional write: what others hold is stale then.
fn apply(world: &mut World, what: Pending) {
    world.tree = change(what).1;
    world.ends += u8::from(what == Pending::Finish);
    for (_, fresh) in &mut world.adds {
        *fresh = false;
    }
    for (_, fresh, _) in &mut world.checks {
        *fresh = false;
    }
    for (_, fresh) in &mut world.pending {
        *fresh = false;
    }
}

/// Writes whose outcome nobody knows are applied late.
fn pending(flaw: Flaw, steps: &mut Steps<'_, World>) {
    let from = steps.from;
    for (place, (what, fresh)) in from.pending.iter().enumerate() {
        match what {
            Pending::Row => steps.add("late row", 0, |world| {
                world.pending.remove(place);
                added(flaw, world);
            }),
            Pending::Entry => steps.add("late entry", 0, |world| {
                world.pending.remove(place);
                world.entry = true;
            }),
            Pending::Close | Pending::Reopen | Pending::Finish => {
                if may_apply(flaw, from, *what, *fresh) {
                    steps.add("late write of the record", 0, |world| {
                        world.pending.remove(place);
                        apply(world, *what);
                    });
                }
            }
        }
    }
}

/// A conditional write of an add or a check: applied, refused, or unknown.
fn write(
    flaw: Flaw,
    steps: &mut Steps<'_, World>,
    faults: bool,
    (what, fresh): (Pending, bool),
    then: [&dyn Fn(&mut World); 3],
) {
    let [applied, refused, unknown] = then;
    if !may_apply(flaw, steps.from, what, fresh) {
        steps.add("refused", 0, |world| refused(world));
        return;
    }
    steps.add("applied", 0, |world| {
        apply(world, what);
        applied(world);
    });
    if faults {
        steps.add("unknown", 0, |world| {
            world.pending.push((what, fresh));
            unknown(world);
        });
        // It was applied, and nobody knows.
        steps.add("applied, unknown", 0, |world| {
            apply(world, what);
            unknown(world);
        });
    }
}

fn add(flaw: Flaw, who: usize, faults: bool, steps: &mut Steps<'_, World>) {
    let from = steps.from;
    let (at, fresh) = from.adds[who];
    let to = |at: Adds| move |world: &mut World| world.adds[who] = (at, false);
    let after = match flaw {
        Flaw::RecordBeforeRow => Adds::RowAfter,
        Flaw::EntryFirst => Adds::Acknowledge,
        _ => Adds::Entry,
    };
    match at {
        Adds::Row if flaw == Flaw::RecordBeforeRow => steps.add("add begins", 0, to(Adds::Read)),
        Adds::Row if flaw == Flaw::EntryFirst && !from.entry && !from.late => {
            steps.add("entry first", 0, |world| world.entry = true);
        }
        Adds::Row => {
            steps.add("add row", 0, |world| {
                added(flaw, world);
                to(Adds::Read)(world);
            });
            if faults {
                steps.add("add row, lost", 0, |world| {
                    world.pending.push((Pending::Row, false));
                    to(Adds::Over)(world);
                });
            }
        }
        Adds::Read => {
            let next = match family::add(from.tree) {
                Add::Reopen if flaw != Flaw::NotReopened => (Adds::Reopen, true),
                Add::Enter | Add::Reopen => (after, false),
                Add::Over => (Adds::Over, false),
            };
            steps.add("add reads", 0, |world| {
                world.adds[who] = next;
                if family::add(world.tree) == Add::Over {
                    world.acknowledged |= world.row == 2;
                    world.refused |= world.row != 2;
                }
            });
            if flaw == Flaw::OldRead && from.tree != Tree::Open {
                steps.add("add reads an old record", 0, to(after));
            }
        }
        Adds::Reopen => {
            let unknown = if flaw == Flaw::UnknownTakenForDone {
                after
            } else {
                Adds::Read
            };
            let then: [&dyn Fn(&mut World); 3] = [&to(after), &to(Adds::Read), &to(unknown)];
            write(flaw, steps, faults, (Pending::Reopen, fresh), then);
        }
        Adds::RowAfter => steps.add("add row", 0, |world| {
            added(flaw, world);
            to(Adds::Entry)(world);
        }),
        Adds::Entry => {
            steps.add("add entry", 0, |world| {
                world.entry = true;
                to(Adds::Acknowledge)(world);
            });
            if faults {
                steps.add("add entry, lost", 0, |world| {
                    world.pending.push((Pending::Entry, false));
                    to(Adds::Over)(world);
                });
            }
        }
        Adds::Acknowledge => steps.add("add acknowledges", 0, |world| {
            world.acknowledged = true;
            to(Adds::Over)(world);
        }),
        Adds::Over => {}
    }
}

fn check(flaw: Flaw, who: usize, faults: bool, steps: &mut Steps<'_, World>) {
    let from = steps.from;
    let (at, fresh, read) = from.checks[who];
    let to = |at: Checks, fresh: bool, read: u8| {
        move |world: &mut World| world.checks[who] = (at, fresh, read)
    };
    let idle = to(Checks::Idle, false, 0);
    match at {
        Checks::Idle => look(flaw, who, steps),
        Checks::Sweep => sweep(flaw, who, fresh, steps),
        Checks::Close => {
            let behind = if flaw == Flaw::RowsBeforeClosing {
                Checks::Finish
            } else {
                Checks::Read
            };
            let then: [&dyn Fn(&mut World); 3] = [&to(behind, true, 0), &idle, &idle];
            write(flaw, steps, faults, (Pending::Close, fresh), then);
        }
        Checks::Read => {
            for page in [1, 2] {
                if read & page != 0 {
                    continue;
                }
                let ended = if page == 1 { from.first } else { from.row != 1 };
                let early = flaw == Flaw::RowsBeforeClosing;
                match (ended, read | page) {
                    (false, _) if early => steps.add("a row is open", 0, idle),
                    (false, _) => {
                        steps.add("a row is open", 0, to(Checks::Reopen, fresh, page));
                    }
                    (true, 3) if early => steps.add("all read", 0, to(Checks::Close, fresh, 0)),
                    (true, 3) => steps.add("all read", 0, to(Checks::Finish, fresh, 0)),
                    (true, read) => steps.add("page read", 0, to(Checks::Read, fresh, read)),
                }
            }
        }
        Checks::Finish => {
            let then: [&dyn Fn(&mut World); 3] = [&idle, &idle, &idle];
            write(flaw, steps, faults, (Pending::Finish, fresh), then);
        }
        Checks::Reopen => {
            let helps = read == 2 && flaw != Flaw::NoHelp;
            let behind = if helps {
                Checks::HelpRead
            } else {
                Checks::Idle
            };
            let then: [&dyn Fn(&mut World); 3] = [&to(behind, false, 0), &idle, &idle];
            write(flaw, steps, faults, (Pending::Reopen, fresh), then);
        }
        Checks::HelpRead => {
            let behind = if family::add(from.tree) == Add::Enter {
                Checks::Help
            } else {
                Checks::Idle
            };
            steps.add("help reads", 0, to(behind, false, 0));
        }
        Checks::Help => steps.add("help", 0, |world| {
            world.entry = true;
            idle(world);
        }),
    }
}

/// A look or a poke: it reads the record.
fn look(flaw: Flaw, who: usize, steps: &mut Steps<'_, World>) {
    let from = steps.from;
    let to = |at: Checks| move |world: &mut World| world.checks[who] = (at, true, 0);
    let run_ended = from.run || flaw == Flaw::OwnRunSkipped;
    match family::check(from.tree, run_ended) {
        Check::Stop => {}
        Check::EndSteps if !from.up => steps.add("end steps of the tree", 0, |world| {
            world.up = true;
        }),
        Check::EndSteps => {}
        Check::Read if flaw == Flaw::NotTakenOver => {}
        Check::Read => steps.add("takes over", 0, to(Checks::Read)),
        Check::Sweep => steps.add("check begins", 0, to(Checks::Sweep)),
    }
}

/// A sweep reads rows behind the record. It may have read each of them before it changed, so that it finds none open.
fn sweep(flaw: Flaw, who: usize, fresh: bool, steps: &mut Steps<'_, World>) {
    let to = |at: Checks| move |world: &mut World| world.checks[who] = (at, fresh, 0);
    if steps.from.row == 1 && flaw != Flaw::NoHelp {
        let at = if flaw == Flaw::HelpUnread {
            Checks::Help
        } else {
            Checks::HelpRead
        };
        steps.add("sweep finds the late child", 0, to(at));
    }
    let at = if flaw == Flaw::RowsBeforeClosing {
        Checks::Read
    } else {
        Checks::Close
    };
    steps.add("sweep finds none", 0, to(at));
}

/// A process may die anywhere: what it held is gone.
fn crashes(steps: &mut Steps<'_, World>) {
    let from = steps.from;
    for who in 0..2 {
        if !matches!(from.adds[who].0, Adds::Row | Adds::Over) {
            steps.add("add dies", 0, |world| world.adds[who] = (Adds::Over, false));
        }
        if from.checks[who].0 != Checks::Idle {
            steps.add("check dies", 0, |world| {
                world.checks[who] = (Checks::Idle, false, 0);
            });
        }
    }
    if from.end != Late::Rests {
        steps.add("end steps die", 0, |world| world.end = Late::Rests);
    }
}
