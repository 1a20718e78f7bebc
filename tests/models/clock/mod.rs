//! The clock of one wheel, two nodes and one late registration.
//!
//! [`tickwheel::model::clock::next`] decides every swap, the real [`Ledger`] says how far a node has fired. Around them is
//! what the stages do, in the smallest steps that another could come between: read the row, swap it, learn or not learn what
//! came of it, read a tick, publish, note the acknowledgement, erase. Swaps are applied, or their reply is lost, or they
//! time out and are applied later or never. A registration guesses an open slot from any old hand, its write becomes visible
//! at any later moment, then it looks at the clock. Leases and clocks are as bad as can be: a node may take the wheel at any
//! moment, and crash (or lose its lease, which is the same) at any moment, as often as it likes.
//!
//! The rule: a task whose registration was acknowledged is published, or its entry lies visible ahead of `fired`. What cannot
//! break it any more is not followed: a world in which the task is published, a node that has lost the wheel and would
//! only find that out, a registrar that crashed before it acknowledged. Worlds that differ in the names of the nodes are one,
//! so the names in a trace may change places.

mod world;

use tickwheel::model::{
    clock::{ClockRow, Move, Position, Situation, next},
    time::Millis,
};

use self::world::{
    BEGIN, Copy, Node, Registrar, SLOTS, State, Term, lapsed, node_id, position, rules, tick,
    tick_of,
};
use super::search::{Model, Step, breaks, holds};

const LOST: &str = "an acknowledged task is lost";

/// What is left out or turned round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    None,
    /// The registration is acknowledged without a look at the clock.
    NoCheck,
    /// The registration looks at the clock before its write is durable.
    CheckBeforeDurable,
    /// An entry counts as done when it was read, not when it was published.
    FiredBeforePublished,
    /// A swap whose outcome is unknown is taken for applied.
    UnknownIsApplied,
    /// A new owner reads on from `opened` instead of `fired`.
    BeginsAtOpened,
    /// The erasure of a tick takes the whole wheel with it.
    ErasesTooMuch,
}

/// One model.
#[derive(Debug, Clone, Copy)]
struct Clock {
    flaw: Flaw,
    /// Ticks that end.
    ticks: i64,
    /// Swaps of the row.
    versions: i64,
    /// Nodes hand the wheel over and resign.
    hands_over: bool,
    /// Ticks are erased once they have fired.
    erases: bool,
}

/// Collects the states behind one.
struct Steps<'a> {
    from: &'a State,
    next: &'a mut Vec<(Step, State)>,
}

impl Steps<'_> {
    fn add(&mut self, name: &'static str, who: i64, change: impl FnOnce(&mut State)) {
        let mut state = self.from.clone();
        change(&mut state);
        self.next.push((Step(name, who), state));
    }
}

impl Clock {
    const PROPOSED: Self = Self {
        flaw: Flaw::None,
        ticks: 2,
        versions: 3,
        hands_over: false,
        erases: false,
    };

    const fn with(flaw: Flaw) -> Self {
        Self {
            flaw,
            ..Self::PROPOSED
        }
    }

    /// Leaves out what has no consequence: a late swap of a version that has passed; a node that has lost the wheel, unless
    /// what it has read would let it erase.
    fn simplify(&self, state: &mut State) {
        let version = state.clock.version;
        if state.late.is_some_and(|row| row.version != version + 1) {
            state.late = None;
        }
        for node in &mut state.nodes {
            let lost =
                node.unknown.is_none() && node.owned.is_some_and(|row| row.version < version);
            if lost && !self.erases {
                node.forget();
            }
        }
        state.rename();
    }

    /// A node takes a row that is known to be in the store and to be its own.
    fn adopt(&self, node: &mut Node, row: ClockRow) {
        let begins = node.term.is_none();
        node.adopt(row);
        if self.flaw == Flaw::BeginsAtOpened && begins {
            let fired = Position::behind(tick().end_of(row.opened));
            node.term = Some(Term::new(&ClockRow { fired, ..row }));
        }
    }

    fn registration(&self, steps: &mut Steps<'_>) {
        let from = steps.from;
        let opened = from.clock.opened;
        match from.registrar {
            Registrar::Idle => {
                // It knows any hand that there ever was, and writes behind it.
                for guess in BEGIN.0..=opened.0 {
                    let slot = guess + 1 - BEGIN.0;
                    if slot <= self.ticks + 1 {
                        self.write(slot, steps);
                    }
                }
            }
            Registrar::Writing(slot, seen) => {
                if matches!(
                    from.copy_at(slot),
                    Copy::Visible | Copy::Shadowed | Copy::Erased
                ) {
                    steps.add("durable", slot, |s| {
                        s.registrar = Registrar::Durable(slot, seen)
                    });
                }
            }
            Registrar::Durable(slot, seen) => {
                let hand = match self.flaw {
                    Flaw::NoCheck => BEGIN,
                    Flaw::CheckBeforeDurable => seen,
                    _ => opened,
                };
                if tick_of(slot) > hand {
                    steps.add("acknowledge", slot, |s| {
                        s.registrar = Registrar::Acknowledged
                    });
                } else {
                    steps.add("again", slot, |s| s.registrar = Registrar::Idle);
                }
            }
            Registrar::Acknowledged => {}
        }
    }

    fn write(&self, slot: i64, steps: &mut Steps<'_>) {
        let (opened, there) = (steps.from.clock.opened, steps.from.copy_at(slot));
        let mut write = |copy: Copy| {
            steps.add("write", slot, |s| {
                *s.copy(slot) = copy;
                s.registrar = Registrar::Writing(slot, opened);
            });
        };
        match there {
            Copy::None => write(Copy::InFlight),
            // Beside a tombstone: older or newer than it.
            Copy::Erased => {
                write(Copy::Shadowed);
                write(Copy::InFlight);
            }
            Copy::InFlight | Copy::Visible | Copy::Shadowed => {}
        }
    }

    /// What a node may propose now: at every tick, as one that stays or one that leaves the wheel to the other.
    fn proposals(&self, node: usize, row: &ClockRow, term: Option<&Term>) -> Vec<ClockRow> {
        let mut rows: Vec<ClockRow> = Vec::new();
        let other = node_id(1 - node);
        for ended in 0..=self.ticks {
            for (leaving, preferred) in [(false, None), (true, None), (false, Some(other))] {
                if (leaving || preferred.is_some()) && !self.hands_over {
                    continue;
                }
                let now = tick().end_of(BEGIN.plus(ended));
                let s = Situation {
                    me: node_id(node),
                    now,
                    median_wall: None,
                    preferred,
                    leaving,
                    free_since: Some(Millis::EPOCH),
                    avoid_until: None,
                    progress: term.map(Term::progress),
                };
                let Move::Swap { to, .. } = next(row, &rules(), &s) else {
                    continue;
                };
                assert!(row.may_become(&to, &rules().shape), "{row:?} {to:?}");
                let to = lapsed(to);
                // A renewal and nothing else changes nothing here: no lease holds anyway.
                let news = ClockRow {
                    version: row.version,
                    ..to
                } != *row;
                if news && !rows.contains(&to) {
                    rows.push(to);
                }
            }
        }
        rows
    }

    fn swaps(&self, node: usize, steps: &mut Steps<'_>) {
        let (from, me, who) = (steps.from, node_id(node), node as i64);
        let state = &from.nodes[node];
        if let Some(to) = state.unknown {
            self.settle(node, to, steps);
            return;
        }
        if state.owned.is_none() && state.term.is_some() {
            steps.add("read clock", who, |s| {
                if s.clock.owner == me {
                    s.nodes[node].owned = Some(s.clock);
                } else {
                    s.nodes[node].forget();
                }
            });
            return;
        }
        let row = state.owned.unwrap_or(from.clock);
        if row.version != from.clock.version {
            steps.add("conflict", who, |s| s.nodes[node].forget());
            return;
        }
        if row.version >= self.versions {
            return;
        }
        for to in self.proposals(node, &row, state.term.as_ref()) {
            steps.add("swap", who, |s| {
                s.clock = to;
                if to.owner == me {
                    self.adopt(&mut s.nodes[node], to);
                } else {
                    s.nodes[node].forget();
                }
            });
            steps.add("swap, reply lost", who, |s| {
                s.clock = to;
                s.nodes[node].unknown = Some(to);
            });
            if from.late.is_none() {
                steps.add("swap, timed out", who, |s| {
                    s.late = Some(to);
                    s.nodes[node].unknown = Some(to);
                });
            }
        }
    }

    /// What the clock stage does about an unknown outcome: a serial read, or none if that fails, too.
    fn settle(&self, node: usize, to: ClockRow, steps: &mut Steps<'_>) {
        let (row, me, who) = (steps.from.clock, node_id(node), node as i64);
        if self.flaw == Flaw::UnknownIsApplied {
            steps.add("assume applied", who, |s| {
                s.nodes[node].unknown = None;
                self.adopt(&mut s.nodes[node], to);
            });
            return;
        }
        steps.add("serial read", who, |s| {
            let node = &mut s.nodes[node];
            node.unknown = None;
            if row.version >= to.version && row.owner == to.owner && row.owner == me {
                self.adopt(node, row);
            } else if row.owner == me && node.term.is_some() {
                node.owned = Some(row);
            } else {
                node.forget();
            }
        });
        steps.add("serial read fails", who, |s| {
            s.nodes[node].unknown = None;
            s.nodes[node].owned = None;
        });
    }

    fn stages(&self, node: usize, steps: &mut Steps<'_>) {
        let Some(term) = &steps.from.nodes[node].term else {
            return;
        };
        let who = node as i64;
        if term.cursor <= term.opened {
            let slot = term.cursor.0 - BEGIN.0;
            let at = position(slot);
            let found = steps.from.copy_at(slot) == Copy::Visible && at > term.behind;
            let early = self.flaw == Flaw::FiredBeforePublished;
            with_term(steps, node, "read slot", slot, |term| {
                if found {
                    let number = term.ledger.note(at);
                    if early {
                        term.ledger.done(number);
                    } else {
                        term.held.push(number);
                    }
                }
                term.ledger
                    .reached(Position::behind(tick().end_of(term.cursor)));
                term.cursor = term.cursor.plus(1);
            });
        }
        for number in &term.held {
            steps.add("publish", who, |s| {
                s.published = true;
                if let Some(term) = &mut s.nodes[node].term {
                    term.ledger.done(*number);
                }
            });
        }
        if self.erases
            && let Some(slot) = term.erasable()
        {
            self.erase(node, slot, steps);
        }
        steps.add("lease ends", who, |s| s.nodes[node].forget());
    }
}

impl Clock {
    fn erase(&self, node: usize, slot: i64, steps: &mut Steps<'_>) {
        let through = if self.flaw == Flaw::ErasesTooMuch {
            self.ticks + 1
        } else {
            slot
        };
        for survives in [false, true] {
            steps.add("erase", slot, |s| {
                for slot in slot..=through {
                    let copy = s.copy(slot);
                    *copy = erased(*copy, survives);
                }
                if let Some(term) = &mut s.nodes[node].term {
                    term.erased = tick_of(slot);
                }
            });
        }
    }
}

fn with_term(
    steps: &mut Steps<'_>,
    node: usize,
    name: &'static str,
    what: i64,
    change: impl FnOnce(&mut Term),
) {
    steps.add(name, what, |s| {
        if let Some(term) = &mut s.nodes[node].term {
            change(term);
        }
    });
}

/// A range delete of a tick: what is in flight is older or newer than it.
fn erased(copy: Copy, survives: bool) -> Copy {
    match copy {
        Copy::InFlight if survives => Copy::InFlight,
        Copy::InFlight | Copy::Shadowed => Copy::Shadowed,
        Copy::None | Copy::Visible | Copy::Erased => Copy::Erased,
    }
}

impl Model for Clock {
    type State = State;

    fn first(&self) -> State {
        let clock = lapsed(ClockRow::first(&rules().shape, tick().end_of(BEGIN)));
        State {
            clock,
            copies: [Copy::None; SLOTS],
            published: false,
            registrar: Registrar::Idle,
            nodes: [Node::default(), Node::default()],
            late: None,
        }
    }

    fn steps(&self, state: &State, next: &mut Vec<(Step, State)>) {
        if state.published {
            return;
        }
        let mut steps = Steps { from: state, next };
        for slot in 1..=self.ticks + 1 {
            if state.copy_at(slot) == Copy::InFlight {
                steps.add("visible", slot, |s| *s.copy(slot) = Copy::Visible);
            }
        }
        self.registration(&mut steps);
        if let Some(row) = state.late {
            steps.add("applied late", 0, |s| s.clock = row);
        }
        for node in 0..2 {
            self.swaps(node, &mut steps);
            self.stages(node, &mut steps);
        }
        for (_, state) in next {
            self.simplify(state);
        }
    }

    fn broken(&self, state: &State) -> Option<&'static str> {
        let ahead = (1..=self.ticks + 1)
            .any(|slot| state.copy_at(slot) == Copy::Visible && position(slot) > state.clock.fired);
        let acknowledged = state.registrar == Registrar::Acknowledged;
        (acknowledged && !state.published && !ahead).then_some(LOST)
    }
}

#[test]
fn an_acknowledged_task_is_never_lost() {
    let states = holds(&Clock::PROPOSED, 150_000);
    assert!(states > 50_000, "{states} states: the model lost a part");
}

#[test]
fn an_acknowledged_task_is_not_lost_when_nodes_hand_over_and_resign() {
    let clock = Clock {
        ticks: 1,
        hands_over: true,
        ..Clock::PROPOSED
    };
    let states = holds(&clock, 80_000);
    assert!(states > 20_000, "{states} states: the model lost a part");
}

#[test]
fn an_acknowledged_task_is_not_lost_to_the_erasure_of_what_has_fired() {
    let clock = Clock {
        versions: 2,
        erases: true,
        ..Clock::PROPOSED
    };
    let states = holds(&clock, 200_000);
    assert!(states > 50_000, "{states} states: the model lost a part");
}

#[test]
fn a_registration_that_does_not_look_at_the_clock_is_lost() {
    breaks(&Clock::with(Flaw::NoCheck), 50_000, LOST);
}

#[test]
fn a_registration_that_looks_before_its_write_is_durable_is_lost() {
    breaks(&Clock::with(Flaw::CheckBeforeDurable), 50_000, LOST);
}

#[test]
fn a_task_that_counts_as_fired_before_it_is_published_is_lost() {
    breaks(&Clock::with(Flaw::FiredBeforePublished), 50_000, LOST);
}

#[test]
fn a_swap_of_unknown_outcome_that_is_taken_for_applied_loses_a_task() {
    breaks(&Clock::with(Flaw::UnknownIsApplied), 100_000, LOST);
}

#[test]
fn a_new_owner_that_does_not_go_back_to_fired_loses_a_task() {
    breaks(&Clock::with(Flaw::BeginsAtOpened), 50_000, LOST);
}

#[test]
fn an_erasure_of_more_than_has_fired_loses_a_task() {
    let clock = Clock {
        erases: true,
        ..Clock::with(Flaw::ErasesTooMuch)
    };
    breaks(&clock, 100_000, LOST);
}
