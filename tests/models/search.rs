//! Breadth-first search over every state that a model can reach, with the shortest way to a broken one.

use std::{
    collections::{HashMap, hash_map::Entry},
    fmt,
    hash::{BuildHasherDefault, Hash, Hasher},
    rc::Rc,
};

/// What happened, and to whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step(pub(super) &'static str, pub(super) i64);

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.0, self.1)
    }
}

/// A world of few parts.
pub(super) trait Model {
    /// Everything that the future depends on.
    type State: Clone + Eq + Hash;

    /// Where it begins.
    fn first(&self) -> Self::State;

    /// Adds every state that can come next.
    fn steps(&self, state: &Self::State, next: &mut Vec<(Step, Self::State)>);

    /// Says what is wrong with a state.
    fn broken(&self, state: &Self::State) -> Option<&'static str>;
}

/// What a search came to.
#[derive(Debug)]
struct Found {
    /// Different states seen.
    states: usize,
    /// The first broken state, with the shortest way to it.
    broken: Option<(&'static str, String)>,
}

/// Searches all of a model.
///
/// # Panics
/// When there are more than `states_max`: a search that was cut short proves nothing.
fn search<M: Model>(model: &M, states_max: usize) -> Found {
    let first = Rc::new(model.first());
    let mut seen: HashMap<Rc<M::State>, (), BuildHasherDefault<Mixer>> = HashMap::default();
    seen.insert(Rc::clone(&first), ());
    // Every state in the order it was found, with the step to it and the number of the state before.
    let mut order = vec![(first, Step("first", 0), 0)];
    let mut next = Vec::new();
    let mut at = 0;
    while let Some((state, _, _)) = order.get(at) {
        let state = Rc::clone(state);
        if let Some(what) = model.broken(&state) {
            let broken = Some((what, way(&order, at)));
            return Found {
                states: order.len(),
                broken,
            };
        }
        model.steps(&state, &mut next);
        for (step, state) in next.drain(..) {
            if let Entry::Vacant(place) = seen.entry(Rc::new(state)) {
                order.push((Rc::clone(place.key()), step, at));
                place.insert(());
            }
        }
        assert!(order.len() <= states_max, "more than {states_max} states");
        at += 1;
    }
    Found {
        states: order.len(),
        broken: None,
    }
}

fn way<S>(order: &[(Rc<S>, Step, usize)], to: usize) -> String {
    let mut steps = Vec::new();
    let mut at = to;
    while at != 0 {
        let (_, step, before) = &order[at];
        steps.push(step.to_string());
        at = *before;
    }
    steps.reverse();
    steps.join(", ")
}

/// A hash that is fast where nothing is optimised: eight bytes a step, multiplied and rotated.
#[derive(Default)]
struct Mixer(u64);

impl Mixer {
    const fn take(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.take(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.take(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.take(value);
    }

    fn write_i64(&mut self, value: i64) {
        self.take(value.cast_unsigned());
    }

    fn write_usize(&mut self, value: usize) {
        self.take(value as u64);
    }

    fn write_isize(&mut self, value: isize) {
        self.take(value.cast_unsigned() as u64);
    }

    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 29)
    }
}

/// Searches a model that must hold.
pub(super) fn holds<M: Model>(model: &M, states_max: usize) -> usize {
    let found = search(model, states_max);
    if let Some((what, way)) = found.broken {
        panic!("{what} after {} states: {way}", found.states);
    }
    eprintln!("{} states", found.states);
    found.states
}

/// Searches a broken variant, in which `what` must be found.
pub(super) fn breaks<M: Model>(model: &M, states_max: usize, what: &str) {
    let found = search(model, states_max);
    match found.broken {
        Some((got, way)) if got == what => eprintln!("{} states: {way}", found.states),
        other => panic!("{what} was not found in {} states: {other:?}", found.states),
    }
}
