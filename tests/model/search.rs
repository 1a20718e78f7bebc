//! `search` visits every state that a model can reach, and shows the way to a broken one.
//!
//! The search remembers a state by 128 bits of its hash and eight bytes of its origin; it keeps the state
//! itself only until its successors are known. A model that must hold is searched depth first, which keeps
//! few states. A broken variant is searched breadth first, so that the way to the broken state is the
//! shortest.

use std::{
    collections::{HashSet, VecDeque},
    fmt,
    hash::{BuildHasherDefault, Hash, Hasher},
    time::{Duration, Instant},
};

use xxhash_rust::xxh3::xxh3_128;

/// An event, and the part of the world that it happened to.
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
    type State: Clone + Hash;

    /// The first state.
    fn first(&self) -> Self::State;

    /// Adds every state that can come next, always in the same order.
    fn steps(&self, state: &Self::State, next: &mut Vec<(Step, Self::State)>);

    /// Says what is wrong with a state.
    fn broken(&self, state: &Self::State) -> Option<&'static str>;
}

/// Collects the states behind one.
pub(super) struct Steps<'a, S> {
    pub(super) from: &'a S,
    pub(super) next: &'a mut Vec<(Step, S)>,
}

impl<S: Clone> Steps<'_, S> {
    pub(super) fn add(&mut self, name: &'static str, who: i64, change: impl FnOnce(&mut S)) {
        let mut state = self.from.clone();
        change(&mut state);
        self.next.push((Step(name, who), state));
    }
}

/// Tells whether the full bounds are set (`make prove`).
pub(super) fn whole() -> bool {
    std::env::var_os("TICKWHEEL_PROVE").is_some()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Breadth,
    Depth,
}

/// The result of a search.
#[derive(Debug)]
struct Found {
    /// Different states seen.
    states: usize,
    /// The first broken state, with the way to it.
    broken: Option<(&'static str, String)>,
    /// How long it took.
    time: Duration,
}

/// How a state was reached: the number of the state before, and which of its steps.
type Origin = (u32, u32);

/// Searches all of a model.
///
/// # Panics
/// When there are more than `states_max`: a search that was cut short proves nothing.
#[allow(
    clippy::disallowed_methods,
    reason = "how long a search takes is told, nothing depends on it"
)]
fn search<M: Model>(model: &M, order: Order, states_max: usize) -> Found {
    let began = Instant::now();
    let mut seen: HashSet<u128, BuildHasherDefault<Taken>> = HashSet::default();
    let mut origins: Vec<Origin> = vec![(0, 0)];
    let mut bytes = Bytes::default();
    let first = model.first();
    seen.insert(bytes.of(&first));
    let mut open = VecDeque::from([(0, first)]);
    let mut next = Vec::new();
    let mut broken = None;
    let take = |open: &mut VecDeque<_>| match order {
        Order::Breadth => open.pop_front(),
        Order::Depth => open.pop_back(),
    };
    while let Some((number, state)) = take(&mut open) {
        if let Some(what) = model.broken(&state) {
            broken = Some((what, way(model, &origins, number)));
            break;
        }
        model.steps(&state, &mut next);
        for (choice, (_, state)) in next.drain(..).enumerate() {
            if seen.insert(bytes.of(&state)) {
                open.push_back((origins.len() as u32, state));
                origins.push((number, choice as u32));
            }
        }
        assert!(seen.len() <= states_max, "more than {states_max} states");
    }
    Found {
        states: seen.len(),
        broken,
        time: began.elapsed(),
    }
}

/// Goes the way to a state again, by the choices that led there.
fn way<M: Model>(model: &M, origins: &[Origin], to: u32) -> String {
    let mut choices = Vec::new();
    let mut at = to;
    while at != 0 {
        let (before, choice) = origins[at as usize];
        choices.push(choice);
        at = before;
    }
    let mut state = model.first();
    let mut steps = Vec::new();
    for choice in choices.into_iter().rev() {
        let mut next = Vec::new();
        model.steps(&state, &mut next);
        let (step, there) = next.swap_remove(choice as usize);
        steps.push(step.to_string());
        state = there;
    }
    steps.join(", ")
}

/// A hasher that collects all bytes of a state, so that they are hashed in one go.
#[derive(Default)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn of(&mut self, state: &impl Hash) -> u128 {
        self.0.clear();
        state.hash(self);
        xxh3_128(&self.0)
    }
}

impl Hasher for Bytes {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Discriminants and lengths, all small.
    fn write_isize(&mut self, value: isize) {
        self.0.push(u8::try_from(value).unwrap());
    }

    fn write_usize(&mut self, value: usize) {
        self.0.push(u8::try_from(value).unwrap());
    }

    fn finish(&self) -> u64 {
        0
    }
}

/// A hasher that returns the hash that it is given.
#[derive(Default)]
struct Taken(u64);

impl Hasher for Taken {
    fn write(&mut self, _: &[u8]) {
        unreachable!("it is given hashes and nothing else");
    }

    fn write_u128(&mut self, value: u128) {
        self.0 = value as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// One line of the table in `tests/model/RESULTS.md`.
fn tell(name: &str, found: &Found) {
    let seconds = found.time.as_secs_f64();
    let verdict = match &found.broken {
        None => "holds".to_owned(),
        Some((what, way)) => format!("{what}: {way}"),
    };
    let per_second = found.states as f64 / seconds.max(1e-6);
    eprintln!(
        "| {name} | {} | {seconds:.1} s | {per_second:.0} | {verdict} |",
        found.states
    );
}

/// Searches a model that must hold. With fewer than `states_min` states a part of the model must
/// have got lost.
pub(super) fn holds<M: Model>(name: &str, model: &M, states_min: usize) {
    let found = search(model, Order::Depth, states_limit());
    tell(name, &found);
    assert!(
        found.broken.is_none(),
        "{name} is broken after {} states: {}",
        found.states,
        // The second search finds the shortest way.
        search(model, Order::Breadth, states_limit())
            .broken
            .map_or_else(String::new, |(what, way)| format!("{what}: {way}")),
    );
    assert!(
        found.states >= states_min,
        "{name}: {} states: the model lost a part",
        found.states
    );
}

/// Searches a broken variant, in which `what` must be found.
pub(super) fn breaks<M: Model>(name: &str, model: &M, what: &str) {
    let found = search(model, Order::Breadth, states_limit());
    tell(name, &found);
    let got = found.broken.map(|(got, _)| got);
    assert_eq!(
        got,
        Some(what),
        "{name}: not found in {} states",
        found.states
    );
}

/// The time and the memory of a run allow no more states.
fn states_limit() -> usize {
    if whole() { 120_000_000 } else { 2_000_000 }
}
