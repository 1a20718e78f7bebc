//! This model searches for two tasks of a sequence that run at once, for one that overtakes, and for a sequence that stands.
//!
//! Two members, A and B. A is registered, moved or cancelled while B waits, and two nodes claim, run, end and look. A process
//! dies between any two steps, or right after it has sent a write; a write whose reply is lost comes later or never. Messages
//! are old or come twice. A place closes at any time.
//!
//! [`ends`] tells whether both tasks can still end from every state, without another fault.
//!
//! Not in the model: clocks, rows of tasks that expire, starts in the future, a third member, and the publication of the next
//! task, which is a hint.

mod ends;
mod places;
mod steps;
mod world;

use super::search::{Model, Step, Steps, breaks, holds, whole};
use ends::{ends, stands};
use world::{A, At, B, BEHIND, Entry, Late, Life, NOBODY, Process, ROWS, Row, Task, Turn, World};

const TWO: &str = "two tasks run at once";
const NO_TURN: &str = "a task was claimed without its turn";
const OVERTAKEN: &str =
    "a task got the turn before one that was acknowledged with an earlier place";

/// The rule that a variant leaves out or turns round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    None,
    /// A claim does not ask for the turn.
    TurnNotAsked,
    /// A late place is written, and the turn is not touched.
    NotTouched,
    /// A task that waits for its next attempt passes the turn on.
    PassedAtRetry,
    /// A claim that is refused frees the turn.
    LoserFrees,
    /// A place that has closed is acknowledged.
    NoDeadline,
    /// A holder that is over is not cleared.
    HolderStays,
    /// Rows that are over are not cleared.
    RowsStay,
    /// A ghost is not cleared.
    GhostStays,
    /// The turn does not name the generation of its holder.
    NoGeneration,
    /// A task that may have lost its turn while it waited for its next attempt takes it without a write.
    NotRenewed,
}

/// The fate of A.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    /// It is registered, before B by its start.
    Registered,
    /// It is cancelled.
    Cancelled,
    /// It is moved from before B to behind it.
    MovedBehind,
    /// It is moved from behind B to before it.
    MovedBefore,
}

#[derive(Debug)]
struct Sequence {
    act: Act,
    flaw: Flaw,
    /// Replies are lost.
    late: bool,
    /// A registration whose place has closed tries again.
    again: bool,
    /// One or two nodes claim and look.
    nodes: usize,
    /// A task that waits for its next attempt lets the other go.
    skips: bool,
}

impl Sequence {
    /// The place of a member in this generation.
    const fn place(&self, member: usize, generation: u8) -> u8 {
        let before = matches!(self.act, Act::MovedBefore) == (generation == 1);
        match (member, before) {
            (B, _) => 2,
            (_, true) => 1,
            (_, false) => 3,
        }
    }
}

impl Model for Sequence {
    type State = World;

    fn first(&self) -> World {
        let is_new = self.act == Act::Registered;
        let task = |new: bool| Task {
            life: Life::Waits,
            generation: 0,
            entry: if new { Entry::None } else { Entry::Ahead },
            acknowledged: !new,
        };
        let first = if is_new { Row::Absent } else { Row::Sure };
        let call = match self.act {
            Act::Registered => Process::new(At::PlaceOpen, A, 0),
            Act::Cancelled => Process::IDLE,
            Act::MovedBehind | Act::MovedBefore => Process {
                row: 2,
                ..Process::new(At::PlaceOpen, A, 1)
            },
        };
        World {
            turn: Turn {
                holder: NOBODY,
                from: 0,
            },
            rows: [first, Row::Absent, Row::Absent, Row::Absent, Row::Sure],
            closed: [false; 5],
            tasks: [task(is_new), task(false)],
            processes: [call, Process::IDLE, Process::IDLE],
            spent: false,
            late: Late::None,
            cancel: self.act == Act::Cancelled,
            broken: None,
        }
    }

    fn steps(&self, state: &World, next: &mut Vec<(Step, World)>) {
        let from = next.len();
        let mut steps = Steps { from: state, next };
        self.all(&mut steps);
        for (_, world) in &mut next[from..] {
            world.forget();
        }
    }

    fn broken(&self, world: &World) -> Option<&'static str> {
        if world.runs(A) && world.runs(B) {
            return Some(TWO);
        }
        world.broken
    }
}

/// Searches one act with so many nodes.
fn kept(name: &str, act: Act, nodes: usize, states_min: usize) {
    let model = Sequence {
        act,
        flaw: Flaw::None,
        late: false,
        again: false,
        nodes,
        skips: false,
    };
    holds(name, &model, states_min);
    ends(name, &model);
}

/// Searches one act with two nodes, perhaps with replies that are lost, or with a second try.
fn kept_with(name: &str, act: Act, (late, again): (bool, bool)) {
    let model = Sequence {
        act,
        flaw: Flaw::None,
        late,
        again,
        nodes: 2,
        skips: false,
    };
    holds(name, &model, 100_000);
}

#[test]
fn a_sequence_keeps_its_order_and_never_stands_while_a_task_is_registered() {
    kept("ordering: registered, 1 node", Act::Registered, 1, 5_000);
    if whole() {
        kept_with("ordering: registered", Act::Registered, (false, false));
        let name = "ordering: registered, tried twice";
        kept_with(name, Act::Registered, (false, true));
        let name = "ordering: registered, lost replies";
        kept_with(name, Act::Registered, (true, false));
    }
}

#[test]
fn a_sequence_keeps_its_order_and_never_stands_while_a_task_is_cancelled() {
    kept("ordering: cancelled", Act::Cancelled, 2, 100_000);
    if whole() {
        let name = "ordering: cancelled, lost replies";
        kept_with(name, Act::Cancelled, (true, false));
    }
}

#[test]
fn a_sequence_keeps_its_order_and_never_stands_while_a_task_is_moved() {
    for (way, act) in [("behind", Act::MovedBehind), ("before", Act::MovedBefore)] {
        kept(&format!("ordering: moved {way}, 1 node"), act, 1, 5_000);
        if whole() {
            let name = format!("ordering: moved {way}");
            kept_with(&name, act, (false, false));
            kept_with(&format!("{name}, lost replies"), act, (true, false));
        }
    }
}

/// Searches one act of a sequence that goes on while a task waits for its next attempt.
fn kept_skipping(name: &str, act: Act, nodes: usize) {
    let model = Sequence {
        act,
        flaw: Flaw::None,
        late: false,
        again: false,
        nodes,
        skips: true,
    };
    holds(name, &model, 5_000);
    ends(name, &model);
}

#[test]
fn a_sequence_that_skips_runs_one_task_at_a_time_and_never_stands() {
    kept_skipping("ordering: skips, registered, 1 node", Act::Registered, 1);
    kept_skipping("ordering: skips, cancelled, 1 node", Act::Cancelled, 1);
    kept_skipping("ordering: skips, moved, 1 node", Act::MovedBehind, 1);
    if whole() {
        kept_skipping("ordering: skips, registered", Act::Registered, 2);
        kept_skipping("ordering: skips, cancelled", Act::Cancelled, 2);
        kept_skipping("ordering: skips, moved behind", Act::MovedBehind, 2);
        kept_skipping("ordering: skips, moved before", Act::MovedBefore, 2);
    }
}

#[test]
fn a_turn_that_is_taken_again_without_a_write_is_found() {
    let model = Sequence {
        act: Act::Cancelled,
        flaw: Flaw::NotRenewed,
        late: false,
        again: false,
        nodes: 2,
        skips: true,
    };
    breaks("ordering: NotRenewed", &model, OVERTAKEN);
}

#[test]
fn every_broken_sequence_is_found() {
    let variant = |act, flaw, nodes| Sequence {
        act,
        flaw,
        late: false,
        again: false,
        nodes,
        skips: false,
    };
    for (act, flaw, what) in [
        (Act::Cancelled, Flaw::TurnNotAsked, NO_TURN),
        (Act::Registered, Flaw::NotTouched, OVERTAKEN),
        (Act::Cancelled, Flaw::PassedAtRetry, OVERTAKEN),
        (Act::Cancelled, Flaw::LoserFrees, OVERTAKEN),
        (Act::Registered, Flaw::NoDeadline, OVERTAKEN),
        (Act::MovedBehind, Flaw::NoGeneration, NO_TURN),
    ] {
        breaks(&format!("ordering: {flaw:?}"), &variant(act, flaw, 2), what);
    }
    for (act, flaw) in [
        (Act::MovedBehind, Flaw::HolderStays),
        (Act::MovedBehind, Flaw::RowsStay),
        (Act::Registered, Flaw::GhostStays),
    ] {
        stands(&format!("ordering: {flaw:?}"), &variant(act, flaw, 1));
    }
}
