//! This model searches for a run that is doubled, lost, or begins after the answer to a change that made it void.
//!
//! One schedule has a record, rows that make nodes look at it, runs that were decided on ahead, and one change of a user: other
//! settings, a pause, or a resume. Two nodes look, with different data about time zones, so they compute different times for
//! some runs. Nodes crash, or stall and go on when another has taken over; replies are lost; a write whose caller gave up is
//! applied late. A row cannot be read before the write that it belongs to has ended or is late: it lies seconds ahead.
//!
//! A run that would go out late may be left out: the record says that it is void, then it is withdrawn, then it is counted.
//!
//! The rules: each (generation, number) is at most one task. No run of the older generation begins behind the answer. If
//! nothing is under way, then nothing is left to do. The last one needs the sweep where writes may be late. A run that is left
//! out is counted, and never begins.

mod steps;

use super::search::{Model, Step, breaks, holds, whole};

const DOUBLED: &str = "a run has two tasks";
const TOO_LATE: &str = "a run began after the answer that made it void";
const MISSED_RAN: &str = "a run that was counted as missed has begun";
const UNCOUNTED: &str = "a run that was left out is not counted";
const LOST: &str = "nothing will ever come back to the schedule";

/// Runs of the first generation, and places for those of both.
const OLD: usize = 3;
const RUNS: usize = OLD + 1;

/// No run was decided on here, or one was dropped from the record.
const NONE: u8 = 255;
const GONE: u8 = 9;

/// Bits of a run: its entry was written, it has begun, it was cancelled.
const ENTRY: u8 = 1;
const BEGUN: u8 = 2;
const CANCELLED: u8 = 4;

/// Rows that make a node look: of the record that was there, of the change, of a look.
const DUE: u8 = 1;
const CHANGE: u8 = 2;
const NEXT: u8 = 4;

/// The change of the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Settings,
    Pause,
    Resume,
}

/// The part of the design that this variant leaves out or turns round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    None,
    /// The entry of a run is written before the record.
    EntryFirst,
    /// A look enters only the runs that it has decided on itself.
    NoRepair,
    /// The time of a run is that of the node which enters it.
    NodeTime,
    /// A change withdraws nothing, nor does anybody later.
    NoCancel,
    /// A change writes no row.
    NoChangeRow,
    /// The withdrawal of a run without an entry writes nothing.
    CancelNeedsEntry,
    /// A change that is asked for again is answered at once.
    AnsweredAtOnce,
    /// Runs are dropped from the record whatever their rows say.
    TrimmedBlind,
    /// The record is written whatever is there.
    NotConditional,
    /// A run that is left out is counted by the write that makes it void.
    CountedAtOnce,
    /// A run that is left out is withdrawn before the record says that it is void.
    WithdrawnFirst,
}

/// The record: its generation, and the times of the runs of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Rec {
    generation: u8,
    times: [u8; RUNS],
    /// Bits of the runs that are void because they would go out late, and of those that were counted as missed.
    void: u8,
    missed: u8,
}

/// A look of a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Look {
    /// The record as it was read or written last.
    seen: Rec,
    /// The rows that it began for: they are read again if it dies.
    rows: u8,
    /// The runs that it has decided on itself.
    own: u8,
}

/// A write that may be applied later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Late {
    Record(Rec, Rec),
    Entry(u8, u8),
}

/// How far the change is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Changer {
    Idle,
    Read,
    Write(Rec),
    Withdraw,
    /// Its node has died; the user may ask again.
    Died,
    Answered,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    rec: Rec,
    rows: u8,
    looks: [Option<Look>; 2],
    changer: Changer,
    /// Bits of each run, by its place and the time that it was given.
    runs: [[u8; 2]; RUNS],
    late: Option<Late>,
    too_late: bool,
    crashes: u8,
    lost: u8,
}

#[derive(Debug, Clone, Copy)]
struct Schedule {
    kind: Kind,
    flaw: Flaw,
    /// Runs of the first generation.
    old: usize,
    /// Rows of runs that have begun drop them from the record.
    trims: bool,
    /// Runs may be late.
    misses: bool,
    /// Somebody reads all schedules now and then.
    sweeps: bool,
    crashes: u8,
    lost: u8,
}

impl Schedule {
    fn new(kind: Kind) -> Self {
        Self {
            kind,
            flaw: Flaw::None,
            old: if whole() { OLD } else { 2 },
            trims: false,
            misses: false,
            sweeps: true,
            crashes: 1,
            lost: 1,
        }
    }

    fn with(self, flaw: Flaw) -> Self {
        Self { flaw, ..self }
    }

    /// With a sweep a look may begin at any time, so rows decide about nothing.
    fn forget_what_does_not_matter(&self, state: &mut State) {
        if self.sweeps {
            state.rows = 0;
        }
        for look in state.looks.iter_mut().flatten() {
            if self.sweeps {
                look.rows = 0;
            }
            if self.flaw != Flaw::NoRepair {
                look.own = 0;
            }
        }
        if matches!(state.late, Some(Late::Record(old, _)) if old != state.rec) {
            // The record never returns to an old value.
            state.late = None;
        }
    }

    /// The places of the runs of a generation.
    fn places(&self, generation: u8) -> std::ops::Range<usize> {
        if generation == 1 {
            0..self.old
        } else {
            OLD..RUNS
        }
    }

    /// Tells whether runs of a generation are decided on.
    fn is_live(&self, generation: u8) -> bool {
        match self.kind {
            Kind::Settings => true,
            Kind::Pause => generation == 1,
            Kind::Resume => generation == 2,
        }
    }

    /// The time that a node computes: the two differ for the second run, and for the one behind the change.
    fn time_of(place: usize, node: usize) -> u8 {
        if place == 1 || place == OLD {
            node as u8
        } else {
            0
        }
    }

    /// Tells whether something is left to do that nobody is at.
    fn is_stuck(&self, state: &State) -> bool {
        let under_way = state.looks.iter().any(Option::is_some)
            || state.rows != 0
            || state.late.is_some()
            || self.sweeps
            || !matches!(
                state.changer,
                Changer::Idle | Changer::Died | Changer::Answered
            );
        if under_way {
            return false;
        }
        let rec = &state.rec;
        let open = |place: usize| rec.times[place] != NONE && rec.times[place] != GONE;
        let bits = |place: usize| state.runs[place][usize::from(rec.times[place])];
        let void_waits = rec.generation == 2
            && self
                .places(1)
                .any(|place| open(place) && bits(place) & (BEGUN | CANCELLED) == 0);
        let is_undone = |place: usize| {
            let is_void = rec.void >> place & 1 == 1;
            rec.times[place] == NONE || is_void || (open(place) && bits(place) & ENTRY == 0)
        };
        let undone = self.is_live(rec.generation) && self.places(rec.generation).any(is_undone);
        (void_waits && self.flaw != Flaw::NoCancel) || undone
    }
}

impl Model for Schedule {
    type State = State;

    fn first(&self) -> State {
        let paused = self.kind == Kind::Resume;
        State {
            rec: Rec {
                generation: 1,
                times: [NONE; RUNS],
                void: 0,
                missed: 0,
            },
            rows: if paused { 0 } else { DUE },
            looks: [None, None],
            changer: Changer::Idle,
            runs: [[0; 2]; RUNS],
            late: None,
            too_late: false,
            crashes: self.crashes,
            lost: self.lost,
        }
    }

    fn steps(&self, state: &State, next: &mut Vec<(Step, State)>) {
        steps::of_runs(self, state, next);
        steps::of_late(state, next);
        for node in 0..2 {
            steps::of_node(self, state, node, next);
        }
        steps::of_change(self, state, next);
        for (_, state) in next {
            self.forget_what_does_not_matter(state);
        }
    }

    fn broken(&self, state: &State) -> Option<&'static str> {
        if state.too_late {
            return Some(TOO_LATE);
        }
        if state
            .runs
            .iter()
            .any(|[one, other]| one & other & ENTRY != 0)
        {
            return Some(DOUBLED);
        }
        let bits = |place: usize| state.runs[place][0] | state.runs[place][1];
        if (0..RUNS).any(|place| state.rec.missed >> place & 1 == 1 && bits(place) & BEGUN != 0) {
            return Some(MISSED_RAN);
        }
        let is_uncounted = |place: usize| {
            let is_gone = state.rec.times[place] == GONE && state.rec.missed >> place & 1 == 0;
            is_gone && bits(place) & CANCELLED != 0
        };
        if self.places(state.rec.generation).any(is_uncounted) {
            return Some(UNCOUNTED);
        }
        self.is_stuck(state).then_some(LOST)
    }
}

#[test]
fn no_run_is_doubled_or_lost_whatever_nodes_die_and_replies_are_lost() {
    for kind in [Kind::Settings, Kind::Pause, Kind::Resume] {
        let model = Schedule {
            crashes: if whole() { 2 } else { 1 },
            ..Schedule::new(kind)
        };
        holds(&format!("schedule, {kind:?}"), &model, 500);
    }
}

#[test]
fn rows_alone_bring_nodes_back_where_no_write_is_late() {
    for kind in [Kind::Settings, Kind::Pause, Kind::Resume] {
        let model = Schedule {
            sweeps: false,
            crashes: 2,
            lost: 0,
            ..Schedule::new(kind)
        };
        holds(&format!("schedule without sweep, {kind:?}"), &model, 200);
    }
}

#[test]
fn runs_whose_rows_say_that_they_have_begun_may_leave_the_record() {
    let model = Schedule {
        trims: true,
        ..Schedule::new(Kind::Settings)
    };
    holds("schedule, record trimmed", &model, 500);
}

#[test]
fn runs_that_are_left_out_are_counted_and_never_begin() {
    for kind in [Kind::Settings, Kind::Pause] {
        let model = Schedule {
            misses: true,
            trims: true,
            ..Schedule::new(kind)
        };
        holds(&format!("schedule, late runs, {kind:?}"), &model, 500);
        let by_rows = Schedule {
            sweeps: false,
            lost: 0,
            ..model
        };
        holds(&format!("late runs without sweep, {kind:?}"), &by_rows, 200);
    }
}

#[test]
fn the_order_of_writes_of_a_late_run_is_needed() {
    for (flaw, found) in [
        (Flaw::CountedAtOnce, MISSED_RAN),
        (Flaw::WithdrawnFirst, UNCOUNTED),
    ] {
        let model = Schedule {
            misses: true,
            trims: true,
            ..Schedule::new(Kind::Settings).with(flaw)
        };
        breaks(&format!("late runs, {flaw:?}"), &model, found);
    }
}

#[test]
fn every_part_of_the_order_of_writes_is_needed() {
    let of = |kind: Kind| Schedule::new(kind);
    let by_rows = |kind: Kind| Schedule {
        sweeps: false,
        lost: 0,
        ..Schedule::new(kind)
    };
    breaks(
        "entry before record",
        &of(Kind::Settings).with(Flaw::EntryFirst),
        DOUBLED,
    );
    breaks(
        "entered by its decider only",
        &by_rows(Kind::Settings).with(Flaw::NoRepair),
        LOST,
    );
    breaks(
        "time of the node",
        &of(Kind::Settings).with(Flaw::NodeTime),
        DOUBLED,
    );
    breaks(
        "nothing withdrawn",
        &of(Kind::Pause).with(Flaw::NoCancel),
        TOO_LATE,
    );
    breaks(
        "change without a row",
        &by_rows(Kind::Resume).with(Flaw::NoChangeRow),
        LOST,
    );
    let needs_entry = of(Kind::Pause).with(Flaw::CancelNeedsEntry);
    breaks("withdrawal needs an entry", &needs_entry, TOO_LATE);
    let at_once = of(Kind::Pause).with(Flaw::AnsweredAtOnce);
    breaks("second request answered at once", &at_once, TOO_LATE);
    breaks(
        "record trimmed blindly",
        &of(Kind::Settings).with(Flaw::TrimmedBlind),
        TOO_LATE,
    );
    breaks(
        "record not conditional",
        &of(Kind::Settings).with(Flaw::NotConditional),
        DOUBLED,
    );
    let no_sweep = Schedule {
        sweeps: false,
        ..of(Kind::Resume)
    };
    breaks("late write without sweep", &no_sweep, LOST);
}
