//! The steps of the model: runs begin, late writes arrive, nodes look, the user changes the schedule.

use super::{
    super::search::{Step, Steps},
    BEGUN, CANCELLED, CHANGE, Changer, ENTRY, Flaw, GONE, Late, Look, NEXT, NONE, OLD, RUNS, Rec,
    Schedule, State,
};

type Next = Vec<(Step, State)>;

/// A run of the older generation that has its entry begins.
pub(super) fn of_runs(_: &Schedule, state: &State, next: &mut Next) {
    let mut steps = Steps { from: state, next };
    for place in 0..OLD {
        for time in 0..2 {
            if state.runs[place][time] == ENTRY {
                steps.add("begins", place as i64, |state| {
                    state.runs[place][time] |= BEGUN;
                    state.too_late |= state.changer == Changer::Answered;
                });
            }
        }
    }
}

/// A late write arrives, or never does.
pub(super) fn of_late(state: &State, next: &mut Next) {
    let Some(late) = state.late else { return };
    let mut steps = Steps { from: state, next };
    steps.add("late write vanishes", 0, |state| state.late = None);
    steps.add("late write arrives", 0, |state| {
        state.late = None;
        match late {
            Late::Record(old, new) if state.rec == old => state.rec = new,
            Late::Record(..) => {}
            Late::Entry(place, time) => {
                state.runs[usize::from(place)][usize::from(time)] |= ENTRY;
            }
        }
    });
}

/// A node begins a look, goes on with it, or dies.
pub(super) fn of_node(model: &Schedule, state: &State, node: usize, next: &mut Next) {
    let who = node as i64;
    let mut steps = Steps { from: state, next };
    let Some(look) = &state.looks[node] else {
        if state.rows != 0 || model.sweeps {
            steps.add("looks", who, |state| {
                state.looks[node] = Some(Look {
                    seen: state.rec,
                    rows: std::mem::take(&mut state.rows),
                    own: 0,
                });
            });
        }
        return;
    };
    if state.crashes > 0 {
        // The other node reads its rows again; a node that only stalled goes on.
        steps.add("dies", who, |state| {
            state.crashes -= 1;
            state.rows |= look.rows;
            state.looks[node] = None;
        });
        steps.add("stalls", who, |state| {
            state.crashes -= 1;
            state.rows |= look.rows;
        });
    }
    let seen = look.seen;
    if let Some((place, time)) = to_withdraw(model, state, &seen) {
        steps.add("withdraws", place as i64, |state| {
            withdraw(model, state, place, time)
        });
        return;
    }
    if !model.is_live(seen.generation) {
        steps.add("ends", who, |state| state.looks[node] = None);
        return;
    }
    let places = model.places(seen.generation);
    if seen.void != 0 {
        count(&mut steps, state, node);
        return;
    }
    if model.misses {
        for place in places.clone() {
            leave_out(model, &mut steps, state, (node, place));
        }
    }
    for place in places
        .clone()
        .filter(|place| !matches!(seen.times[*place], NONE | GONE))
    {
        let time = if model.flaw == Flaw::NodeTime {
            Schedule::time_of(place, node)
        } else {
            seen.times[place]
        };
        let is_own = look.own >> place & 1 == 1;
        let enters = model.flaw != Flaw::NoRepair || is_own;
        if enters && state.runs[place][usize::from(time)] & ENTRY == 0 {
            enter(&mut steps, state, node, place, time);
            return;
        }
    }
    let Some(place) = places.clone().find(|place| seen.times[*place] == NONE) else {
        steps.add("ends", who, |state| state.looks[node] = None);
        return;
    };
    let time = Schedule::time_of(place, node);
    if model.flaw == Flaw::EntryFirst && state.runs[place][usize::from(time)] & ENTRY == 0 {
        enter(&mut steps, state, node, place, time);
        return;
    }
    let mut new = seen;
    if model.trims || model.flaw == Flaw::TrimmedBlind {
        for earlier in places.filter(|earlier| *earlier < place) {
            let time = seen.times[earlier];
            let begun =
                time < 2 && state.runs[earlier][usize::from(time)] & (BEGUN | CANCELLED) != 0;
            if time < 2 && (begun || model.flaw == Flaw::TrimmedBlind) {
                new.times[earlier] = GONE;
            }
        }
    }
    new.times[place] = time;
    let old = if model.flaw == Flaw::NotConditional {
        state.rec
    } else {
        seen
    };
    if model.flaw == Flaw::NotConditional {
        new.generation = seen.generation;
    }
    let own = look.own | 1 << place;
    let on = move |state: &mut State, seen: Rec, own: u8| {
        if let Some(look) = &mut state.looks[node] {
            (look.seen, look.own) = (seen, own);
        }
    };
    write(
        &mut steps,
        state,
        (old, new),
        NEXT,
        ("decides", place),
        &|state, applied| {
            let seen = if applied { new } else { state.rec };
            on(state, seen, if applied { own } else { 0 });
        },
    );
    // It may rest until the row of its last write.
    if state.rows & NEXT != 0 || model.sweeps {
        steps.add("rests", who, |state| state.looks[node] = None);
    }
}

/// Decides that a run which would go out late is void.
fn leave_out(
    model: &Schedule,
    steps: &mut Steps<'_, State>,
    state: &State,
    (node, place): (usize, usize),
) {
    let Some(look) = &state.looks[node] else {
        return;
    };
    let time = look.seen.times[place];
    if time > 1 {
        return;
    }
    let bits = state.runs[place][usize::from(time)];
    let withdraws_first = model.flaw == Flaw::WithdrawnFirst;
    if withdraws_first && bits == ENTRY {
        steps.add("withdraws first", place as i64, |state| {
            withdraw(model, state, place, usize::from(time));
        });
    }
    let is_withdrawn = withdraws_first && bits == ENTRY | CANCELLED;
    if bits != ENTRY && !is_withdrawn {
        return;
    }
    let mut new = look.seen;
    if model.flaw == Flaw::CountedAtOnce {
        new.times[place] = GONE;
        new.missed |= 1 << place;
    } else {
        new.void |= 1 << place;
    }
    rewrite(steps, state, node, new, ("leaves out", place));
}

/// Counts the void runs that were withdrawn; one that has begun all the same is void no more.
fn count(steps: &mut Steps<'_, State>, state: &State, node: usize) {
    let Some(look) = &state.looks[node] else {
        return;
    };
    let mut new = look.seen;
    for place in (0..RUNS).filter(|place| look.seen.void >> place & 1 == 1) {
        let time = usize::from(new.times[place]);
        if time < 2 && state.runs[place][time] & CANCELLED != 0 {
            new.times[place] = GONE;
            new.missed |= 1 << place;
        }
    }
    new.void = 0;
    rewrite(steps, state, node, new, ("counts", RUNS));
}

/// Writes the record of a look on its condition, and goes on with what is there.
fn rewrite(
    steps: &mut Steps<'_, State>,
    state: &State,
    node: usize,
    new: Rec,
    name: (&'static str, usize),
) {
    let Some(look) = &state.looks[node] else {
        return;
    };
    let (old, own) = (look.seen, look.own);
    write(steps, state, (old, new), NEXT, name, &|state, applied| {
        let seen = if applied { new } else { state.rec };
        if let Some(look) = &mut state.looks[node] {
            (look.seen, look.own) = (seen, if applied { own } else { 0 });
        }
    });
}

/// Writes the record on a condition, with a row before it: applied, lost against another, or with a lost reply.
fn write(
    steps: &mut Steps<'_, State>,
    state: &State,
    (old, new): (Rec, Rec),
    row: u8,
    (name, place): (&'static str, usize),
    then: &dyn Fn(&mut State, bool),
) {
    let place = place as i64;
    if state.rec != old {
        steps.add("loses", place, |state| {
            state.rows |= row;
            then(state, false);
        });
        return;
    }
    steps.add(name, place, |state| {
        state.rows |= row;
        state.rec = new;
        then(state, true);
    });
    if state.lost == 0 {
        return;
    }
    steps.add("decides, reply lost", place, |state| {
        state.lost -= 1;
        state.rows |= row;
        state.rec = new;
        then(state, false);
    });
    if state.late.is_none() {
        steps.add("decides late", place, |state| {
            state.lost -= 1;
            state.rows |= row;
            state.late = Some(Late::Record(old, new));
            then(state, false);
        });
    }
}

fn enter(steps: &mut Steps<'_, State>, state: &State, node: usize, place: usize, time: u8) {
    let bits = (place, usize::from(time));
    steps.add("enters", place as i64, |state| {
        state.runs[bits.0][bits.1] |= ENTRY
    });
    // Without a death the node writes it again until it is acknowledged.
    if state.lost > 0 && state.crashes > 0 && state.late.is_none() {
        steps.add("dies, its entry is late", place as i64, |state| {
            (state.lost, state.crashes) = (state.lost - 1, state.crashes - 1);
            state.late = Some(Late::Entry(place as u8, time));
            if let Some(look) = state.looks[node].take() {
                state.rows |= look.rows;
            }
        });
    }
}

/// The first run that is void, by the change or because it would be late, and has neither begun nor was withdrawn.
fn to_withdraw(model: &Schedule, state: &State, seen: &Rec) -> Option<(usize, usize)> {
    if model.flaw == Flaw::NoCancel {
        return None;
    }
    let is_old = |place: usize| seen.generation == 2 && place < OLD;
    let is_void = |place: &usize| is_old(*place) || seen.void >> place & 1 == 1;
    let runs = (0..RUNS).filter(is_void);
    let runs = runs.map(|place| (place, usize::from(seen.times[place])));
    runs.into_iter().find(|(place, time)| {
        let needs = if model.flaw == Flaw::CancelNeedsEntry {
            ENTRY
        } else {
            0
        };
        *time < 2 && {
            let bits = state.runs[*place][*time];
            bits & (BEGUN | CANCELLED) == 0 && bits & needs == needs
        }
    })
}

/// An entry that arrives later finds the row of a cancelled task.
fn withdraw(model: &Schedule, state: &mut State, place: usize, time: usize) {
    let bits = &mut state.runs[place][time];
    if model.flaw != Flaw::CancelNeedsEntry || *bits & ENTRY != 0 {
        *bits |= CANCELLED | ENTRY;
    }
}

/// The user's change goes on, or its node dies.
pub(super) fn of_change(model: &Schedule, state: &State, next: &mut Next) {
    let mut steps = Steps { from: state, next };
    if state.crashes > 0
        && matches!(
            state.changer,
            Changer::Read | Changer::Write(_) | Changer::Withdraw
        )
    {
        steps.add("change dies", 0, |state| {
            state.crashes -= 1;
            state.changer = Changer::Died;
        });
    }
    match state.changer {
        Changer::Idle | Changer::Died => {
            steps.add("asks", 0, |state| state.changer = Changer::Read);
        }
        Changer::Read if state.rec.generation == 2 => {
            let at_once = model.flaw == Flaw::AnsweredAtOnce;
            steps.add("finds its change", 0, |state| {
                state.changer = if at_once {
                    Changer::Answered
                } else {
                    Changer::Withdraw
                };
            });
        }
        Changer::Read => steps.add("reads", 0, |state| {
            state.changer = Changer::Write(state.rec)
        }),
        Changer::Write(seen) => {
            let new = Rec {
                generation: 2,
                ..seen
            };
            let row = if model.flaw == Flaw::NoChangeRow {
                0
            } else {
                CHANGE
            };
            write(
                &mut steps,
                state,
                (seen, new),
                row,
                ("changes", RUNS),
                &|state, applied| {
                    state.changer = if applied {
                        Changer::Withdraw
                    } else {
                        Changer::Read
                    };
                },
            );
        }
        Changer::Withdraw => match to_withdraw(model, state, &state.rec) {
            Some((place, time)) => {
                steps.add("change withdraws", place as i64, |state| {
                    withdraw(model, state, place, time);
                });
            }
            None => steps.add("answers", 0, |state| state.changer = Changer::Answered),
        },
        Changer::Answered => {}
    }
}
