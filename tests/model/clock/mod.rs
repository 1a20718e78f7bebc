//! This model searches the clock of one wheel of two slots, with two nodes, a late registration
//! and an early task.
//!
//! [`tickwheel::model::clock::next`] decides every swap. The real [`tickwheel::model::ledger::Ledger`] says
//! how far a node has fired, and the real shape gives slot and span of a tick. The model adds the stages, in
//! the smallest steps that others could come between: read the row, swap it, learn the outcome or not, read a
//! tick, publish, note the acknowledgement, erase. A swap is applied, or its reply is lost, or it times out
//! and is applied later or never. A registration guesses an open slot from any old hand. Its write becomes
//! visible at any later moment, also when its tick has been erased and its slot is that of another tick. Then
//! it looks at the clock. A near task is also kept in memory. A mark cancels a task without a row. Leases and
//! clocks are as bad as can be: a node may take the wheel at any moment, and crash (or lose its lease, which
//! is the same) at any moment, as often as it likes. A task whose node has died may be taken into the
//! memory of another one that finds its record, again and again.
//!
//! The rules: an acknowledged task is published, or its entry lies visible ahead of `fired`. No task is
//! published from a tick that was not open, and none after its cancel was answered. The search leaves out
//! worlds that cannot break the rules any more: all is published, a node has lost the wheel and would only
//! find that out, a registrar crashed before its answer. Worlds that differ only in the names of the nodes
//! count as one, so the names in a trace may change places.

mod registrar;
mod scanner;
mod world;

use tickwheel::model::clock::ClockRow;

use self::world::{BEGIN, Copy, EARLY, LATE, Node, Registrar, State, TICKS, lapsed, rules, tick};
use super::search::{Model, Step, Steps, breaks, holds, whole};

const LOST: &str = "an acknowledged task is lost";
const TOO_EARLY: &str = "a task was published before its tick was open";
const CANCELLED: &str = "a task was published whose cancel was confirmed";

/// The part of the protocol that this variant leaves out or turns round.
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
    /// A new owner reads on from `opened`: there is no `fired` hand.
    BeginsAtOpened,
    /// The erasure of a tick takes the whole partition with it.
    ErasesPartition,
    /// A slot is read without bounds of due time.
    ReadsWholeSlot,
    /// A near task is kept in memory only.
    NearWithoutRecord,
    /// The record of a near task is marked before the task is published.
    MarksBeforePublish,
    /// A node that takes over what a dead one held marks the record when it takes the task.
    MarksInherited,
    /// The reader passes the record of a task that some node holds in memory.
    PassesHeld,
    /// A cancellation does not look at the clock behind its mark.
    CancelWithoutCheck,
    /// A task that was put further on is cancelled only there.
    CancelsMoved,
    /// A cancellation that came too late leaves the task overwritten.
    CancelledIsNotKept,
}

/// One model.
#[derive(Debug, Clone, Copy)]
struct Clock {
    flaw: Flaw,
    /// The number of ticks that end.
    ticks: i64,
    /// The number of swaps of the row.
    versions: i64,
    /// Nodes hand the wheel over and resign.
    hands_over: bool,
    /// Ticks are erased once they have fired.
    erases: bool,
    /// There is a task that was registered before.
    early: bool,
    /// The late task may be kept in memory, too.
    near: bool,
    /// How often the late task may be cancelled.
    cancels: u8,
}

impl Clock {
    const PROPOSED: Self = Self {
        flaw: Flaw::None,
        ticks: 2,
        versions: 3,
        hands_over: false,
        erases: false,
        early: false,
        near: true,
        cancels: 0,
    };

    const fn with(flaw: Flaw) -> Self {
        Self {
            flaw,
            ..Self::PROPOSED
        }
    }

    /// Leaves out worlds without consequences: a late swap of a version that has passed, and a node that has
    /// lost the wheel, unless its reads would let it erase.
    fn simplify(&self, state: &mut State) {
        let version = state.clock.version;
        if state.late.is_some_and(|row| row.version != version + 1) {
            state.late = None;
        }
        // A node may still publish the entries that it has read, which matters only to tasks that
        // must not be published.
        let harmless = !self.erases && self.cancels == 0;
        for node in &mut state.nodes {
            let lost =
                node.unknown.is_none() && node.owned.is_some_and(|row| row.version < version);
            if lost && harmless {
                node.forget();
            }
        }
        state.rename();
    }
}

impl Model for Clock {
    type State = State;

    fn first(&self) -> State {
        let clock = lapsed(ClockRow::first(&rules().shape, tick().end_of(BEGIN)));
        State {
            clock,
            copies: [[Copy::None; TICKS]; 2],
            published: [false, !self.early],
            too_early: false,
            unplaced: self.early,
            registrar: Registrar::Idle,
            moved: false,
            cancels: self.cancels,
            nodes: [Node::default(), Node::default()],
            late: None,
        }
    }

    fn steps(&self, state: &State, next: &mut Vec<(Step, State)>) {
        let answering = matches!(
            state.registrar,
            Registrar::Cancelling(_) | Registrar::CancelDurable(_)
        );
        if state.published == [true; 2] && !answering {
            return;
        }
        let mut steps = Steps { from: state, next };
        if state.unplaced {
            self.place_early(&mut steps);
            return;
        }
        for number in 1..=self.ticks + 1 {
            match state.copy_at(LATE, number) {
                Copy::InFlight => steps.add("visible", number, |s| {
                    *s.copy(LATE, number) = Copy::Visible;
                }),
                Copy::MarkInFlight => steps.add("mark visible", number, |s| {
                    *s.copy(LATE, number) = Copy::Marked;
                }),
                Copy::None | Copy::Visible | Copy::Marked | Copy::Shadowed | Copy::Erased => {}
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
        if state.too_early {
            return Some(TOO_EARLY);
        }
        if state.registrar == Registrar::Cancelled && state.published[LATE] {
            return Some(CANCELLED);
        }
        let promised = matches!(state.registrar, Registrar::Acknowledged(_));
        let lost = |task: usize| !state.published[task] && !state.is_ahead(task);
        let late = promised && lost(LATE);
        let early = !state.unplaced && lost(EARLY);
        (late || early).then_some(LOST)
    }
}

#[test]
fn an_acknowledged_task_is_never_lost() {
    let clock = Clock {
        versions: if whole() { 4 } else { 3 },
        ..Clock::PROPOSED
    };
    holds("clock: late and near registration", &clock, 50_000);
}

#[test]
fn an_acknowledged_task_is_not_lost_when_nodes_hand_over_and_resign() {
    let clock = Clock {
        ticks: if whole() { 2 } else { 1 },
        hands_over: true,
        ..Clock::PROPOSED
    };
    holds("clock: hand-over", &clock, 20_000);
}

#[test]
#[ignore = "searches for ten seconds: make test-all"]
fn an_acknowledged_task_is_not_lost_to_the_erasure_of_what_has_fired() {
    let clock = Clock {
        versions: if whole() { 3 } else { 2 },
        erases: true,
        ..Clock::PROPOSED
    };
    holds("clock: erase, wrap", &clock, 50_000);
}

#[test]
#[ignore = "searches for ten seconds: make test-all"]
fn tasks_that_wait_together_are_not_lost() {
    let clock = Clock {
        versions: if whole() { 4 } else { 2 },
        early: true,
        near: false,
        ..Clock::PROPOSED
    };
    holds("clock: two tasks", &clock, 50_000);
}

#[test]
fn a_task_is_cancelled_or_kept_and_never_both() {
    let clock = Clock {
        versions: if whole() { 4 } else { 2 },
        cancels: 1,
        near: false,
        ..Clock::PROPOSED
    };
    holds("clock: cancel without a row", &clock, 20_000);
}

#[test]
#[ignore = "searches the clock once for each flaw: make test-all"]
fn every_broken_clock_is_found() {
    let erasing = |flaw| Clock {
        erases: true,
        ..Clock::with(flaw)
    };
    let cancelling = |flaw| Clock {
        cancels: 1,
        ..Clock::with(flaw)
    };
    let cases = [
        ("no check after the write", Clock::with(Flaw::NoCheck), LOST),
        (
            "hand read before the ack",
            Clock::with(Flaw::CheckBeforeDurable),
            LOST,
        ),
        ("no fired hand", Clock::with(Flaw::BeginsAtOpened), LOST),
        (
            "fired moved before publish",
            Clock::with(Flaw::FiredBeforePublished),
            LOST,
        ),
        (
            "unknown taken for applied",
            Clock::with(Flaw::UnknownIsApplied),
            LOST,
        ),
        ("partition delete", erasing(Flaw::ErasesPartition), LOST),
        (
            "slot read without bounds",
            Clock::with(Flaw::ReadsWholeSlot),
            TOO_EARLY,
        ),
        (
            "near task in memory only",
            Clock::with(Flaw::NearWithoutRecord),
            LOST,
        ),
        (
            "record marked before publish",
            Clock::with(Flaw::MarksBeforePublish),
            LOST,
        ),
        (
            "inherited task marked",
            Clock::with(Flaw::MarksInherited),
            LOST,
        ),
        (
            "record of a held task passed",
            Clock::with(Flaw::PassesHeld),
            LOST,
        ),
        (
            "cancel without check",
            cancelling(Flaw::CancelWithoutCheck),
            CANCELLED,
        ),
        (
            "cancel of one copy of two",
            cancelling(Flaw::CancelsMoved),
            CANCELLED,
        ),
        (
            "cancelled too late and not kept",
            cancelling(Flaw::CancelledIsNotKept),
            LOST,
        ),
    ];
    for (name, clock, what) in cases {
        breaks(&format!("clock, broken: {name}"), &clock, what);
    }
}
