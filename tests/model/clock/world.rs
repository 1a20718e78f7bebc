//! The world of the clock model has the row in the store, the copies of two tasks, two nodes and a registrar.

use std::time::Duration;

use tickwheel::model::{
    clock::{ClockRow, Position, Progress, Rules},
    ids::{NodeId, TaskId},
    ledger::{Ledger, Number},
    time::{Millis, Tick, TickLength},
    wheel::{Shape, WheelNumber},
};
use uuid::Uuid;

/// Ticks that can matter while at most three end.
pub(super) const TICKS: usize = 4;

/// The task that is registered and cancelled; if any task is lost, it is this one.
pub(super) const LATE: usize = 0;

/// A task that was registered long ago and lies in one of the ticks.
pub(super) const EARLY: usize = 1;

/// The wheel begins long after every lease of the model, since all leases ended at the epoch.
pub(super) const BEGIN: Tick = Tick(1000);

const SECOND: Duration = Duration::from_secs(1);

/// The row of a task in one tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Copy {
    None,
    /// The write was sent; no read sees it yet.
    InFlight,
    Visible,
    /// A read still sees the entry; a mark that overwrites it is on its way.
    MarkInFlight,
    /// Overwritten: it does not act any more.
    Marked,
    /// The entry is durable, and behind a tombstone that is newer.
    Shadowed,
    /// A tombstone and nothing else.
    Erased,
}

impl Copy {
    /// Tells whether a reader finds an entry that acts.
    pub(super) const fn acts(self) -> bool {
        matches!(self, Self::Visible | Self::MarkInFlight)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Registrar {
    /// The registrar is about to write, or to write again.
    Idle,
    /// The registrar has sent the entry for a tick; the second value is the hand as it was then.
    Writing(i64, Tick),
    /// The registrar knows that the entry is durable.
    Durable(i64, Tick),
    /// The task is acknowledged, and lies in this tick only.
    Acknowledged(i64),
    /// The task is acknowledged and fires from memory; its durable record lies in this tick.
    Near(i64),
    /// A client cancels, and has sent the mark that overwrites the entry.
    Cancelling(i64),
    /// The mark is durable.
    CancelDurable(i64),
    /// The client was told that the task is cancelled.
    Cancelled,
}

/// One unbroken ownership, as far as the node knows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Term {
    pub(super) opened: Tick,
    pub(super) ledger: Ledger,
    /// The next tick to read, from the position that the term began with.
    pub(super) cursor: Tick,
    pub(super) behind: Position,
    /// The entries that it has read and not published: number, task, tick.
    pub(super) held: Vec<(Number, u8, i64)>,
    pub(super) erased: Tick,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Node {
    /// The row by which it owns the wheel; none while it does not know.
    pub(super) owned: Option<ClockRow>,
    /// A swap to this row was sent and its outcome is unknown.
    pub(super) unknown: Option<ClockRow>,
    pub(super) term: Option<Term>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) clock: ClockRow,
    pub(super) copies: [[Copy; TICKS]; 2],
    pub(super) published: [bool; 2],
    /// An entry was published whose tick had not been opened.
    pub(super) too_early: bool,
    /// The early task has not been put anywhere yet.
    pub(super) unplaced: bool,
    pub(super) registrar: Registrar,
    /// The late task lies further on than at first, so it may be published from both places.
    pub(super) moved: bool,
    /// The number of cancels that may still come.
    pub(super) cancels: u8,
    pub(super) nodes: [Node; 2],
    /// A swap that timed out and may still be applied.
    pub(super) late: Option<ClockRow>,
}

pub(super) fn rules() -> Rules {
    Rules {
        // With two slots a tick shares its partition with the tick two later.
        shape: Shape::new(1, TickLength::new(SECOND).unwrap(), 2).unwrap(),
        look_ahead: 0,
        lease: SECOND * 5,
        grace: SECOND * 3,
        skew_max: SECOND,
        stall_max: SECOND * 15,
    }
}

pub(super) fn tick() -> TickLength {
    rules().shape.tick()
}

pub(super) fn node_id(node: usize) -> NodeId {
    NodeId(Uuid::from_u128(node as u128 + 1))
}

/// The tick of a number of the model, which counts from 1.
pub(super) fn tick_of(number: i64) -> Tick {
    BEGIN.plus(number)
}

/// The place of a task's entry in a tick: in the middle, the early task before the late one.
pub(super) fn position(task: usize, number: i64) -> Position {
    let due = Millis(tick().end_of(tick_of(number)).0 - 500 - task as i64 * 100);
    Position {
        due,
        id: TaskId::new(due, WheelNumber::new(0).unwrap(), 0),
    }
}

/// The row with a lease that has ended and an old wall clock, so that the next node that looks may take it.
pub(super) fn lapsed(row: ClockRow) -> ClockRow {
    ClockRow {
        lease_until: Millis::EPOCH,
        wall: Millis::EPOCH,
        ..row
    }
}

/// The row in the world in which the two nodes have exchanged names.
fn rename(row: &mut ClockRow) {
    row.owner = match row.owner {
        owner if owner == node_id(0) => node_id(1),
        owner if owner == node_id(1) => node_id(0),
        owner => owner,
    };
}

/// Orders two nodes in different states, in most cases.
fn weight(node: &Node) -> (Option<i64>, Option<i64>, Option<Reading>) {
    let version = |row: &ClockRow| row.version * 8 + row.opened.0 - BEGIN.0;
    let reading = |term: &Term| {
        let fired = term.ledger.fired();
        (term.cursor, term.erased, fired, term.held.len())
    };
    (
        node.owned.as_ref().map(version),
        node.unknown.as_ref().map(version),
        node.term.as_ref().map(reading),
    )
}

/// How far a term has read, erased and fired, and what it holds.
type Reading = (Tick, Tick, Position, usize);

impl Term {
    pub(super) fn new(row: &ClockRow) -> Self {
        let at = tick().tick_of(row.fired.due);
        let whole = row.fired == Position::behind(tick().end_of(at));
        Self {
            opened: row.opened,
            ledger: Ledger::new(row.fired),
            cursor: at.plus(i64::from(whole)),
            behind: row.fired,
            held: Vec::new(),
            erased: row.erased,
        }
    }

    pub(super) fn progress(&self) -> Progress {
        Progress {
            fired: self.ledger.fired(),
            erased: self.erased,
            idle: self.held.is_empty(),
            stalled_since: None,
        }
    }

    /// The tick that may be erased next.
    pub(super) fn erasable(&self) -> Option<i64> {
        let next = self.erased.plus(1);
        (next <= tick().last_ended(self.ledger.fired().due)).then_some(next.0 - BEGIN.0)
    }
}

impl Node {
    /// Takes a row that is known to be in the store and to be ours.
    pub(super) fn adopt(&mut self, row: ClockRow) {
        self.owned = Some(row);
        match &mut self.term {
            Some(term) => term.opened = row.opened,
            None => self.term = Some(Term::new(&row)),
        }
    }

    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}

impl State {
    /// The nodes are alike, so one of two worlds that differ in their names is enough.
    pub(super) fn rename(&mut self) {
        if weight(&self.nodes[0]) <= weight(&self.nodes[1]) {
            return;
        }
        self.nodes.swap(0, 1);
        rename(&mut self.clock);
        self.late.iter_mut().for_each(rename);
        for node in &mut self.nodes {
            node.owned
                .iter_mut()
                .chain(&mut node.unknown)
                .for_each(rename);
        }
    }

    pub(super) fn copy(&mut self, task: usize, number: i64) -> &mut Copy {
        &mut self.copies[task][usize::try_from(number - 1).unwrap()]
    }

    pub(super) fn copy_at(&self, task: usize, number: i64) -> Copy {
        self.copies[task][usize::try_from(number - 1).unwrap()]
    }

    /// Tells whether an entry of the task that acts lies ahead of `fired`.
    pub(super) fn is_ahead(&self, task: usize) -> bool {
        (1..=TICKS as i64).any(|number| {
            self.copy_at(task, number).acts() && position(task, number) > self.clock.fired
        })
    }
}
