//! This search tells whether both tasks of a sequence can still end, from every state that there may be.
//!
//! It keeps all states and the steps between them, and goes back from the states in which both have ended, over steps that are
//! no faults.

use std::collections::{HashMap, VecDeque};

use super::{A, B, Entry, Life, Model as _, Sequence, Step, World};

/// Steps that nobody may count on.
fn is_fault(step: Step) -> bool {
    let Step(name, _) = step;
    name.starts_with("crash") || name.starts_with("late") || name.starts_with("old")
}

/// Tells whether nothing is left to do: A may never have been written.
fn is_end(world: &World) -> bool {
    let ended = |member: usize| world.tasks[member].life == Life::Ended;
    let [a, _] = world.tasks;
    ended(B) && (ended(A) || a.entry == Entry::None && !a.acknowledged)
}

/// Returns how many states there are, and one from which the end cannot be reached.
fn searched(model: &Sequence) -> (usize, Option<World>) {
    let first = model.first();
    let mut numbers = HashMap::from([(first, 0_u32)]);
    let mut states = vec![first];
    let mut before: Vec<Vec<u32>> = vec![Vec::new()];
    let mut next = Vec::new();
    let mut at = 0;
    while at < states.len() {
        let state = states[at];
        model.steps(&state, &mut next);
        for (step, world) in next.drain(..) {
            let number = *numbers.entry(world).or_insert_with(|| {
                states.push(world);
                before.push(Vec::new());
                states.len() as u32 - 1
            });
            if !is_fault(step) {
                before[number as usize].push(at as u32);
            }
        }
        at += 1;
    }
    let mut reaches = vec![false; states.len()];
    let mut open: VecDeque<u32> = VecDeque::new();
    for (number, state) in states.iter().enumerate() {
        if is_end(state) {
            reaches[number] = true;
            open.push_back(number as u32);
        }
    }
    while let Some(number) = open.pop_front() {
        for from in &before[number as usize] {
            if !std::mem::replace(&mut reaches[*from as usize], true) {
                open.push_back(*from);
            }
        }
    }
    let stuck = reaches.iter().position(|reaches| !reaches);
    (states.len(), stuck.map(|number| states[number]))
}

/// Checks that no sequence stands for ever.
pub(super) fn ends(name: &str, model: &Sequence) {
    let (states, stuck) = searched(model);
    assert!(stuck.is_none(), "{name} stands: {stuck:#?}");
    eprintln!("| {name}, ends | {states} | | | holds |");
}

/// Checks that a broken variant lets a sequence stand.
pub(super) fn stands(name: &str, model: &Sequence) {
    let (states, stuck) = searched(model);
    assert!(stuck.is_some(), "{name}: not found in {states} states");
    eprintln!("| {name} | {states} | | | the sequence stands |");
}
