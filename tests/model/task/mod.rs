//! This model searches a tracked task with two workers and the looks of a scanner.
//!
//! [`tickwheel::model::state::next`] makes every move of the row and [`tickwheel::model::decision::decide`]
//! judges every entry; the model adds the stages, in the smallest steps that others could come between. The
//! queue delivers a message until it is claimed or proven stale, so also twice. A look acts on its read,
//! however old. A claim reads, decides and writes; its write may be applied without the worker learning of
//! it, or later. Workers crash while they hold a message or run, or are stopped and go on long after the end
//! of their lease. A node crashes between a look and its publication, and between the publication and
//! `fired`. A client cancels or reschedules at any moment.
//!
//! A running worker keeps its lease alive; otherwise its lease may have ended. The model has no other time.
//!
//! The rules: one attempt runs at a time, and only the live attempt is settled. A task that is not terminal
//! has an entry ahead.

mod steps;
mod world;

use self::world::{Changer, State, Ticket, Worker};
use super::search::{Model, Step, Steps, breaks, holds, whole};

const CONCURRENT: &str = "two attempts run at once";
const STALE: &str = "the report of a dead attempt was accepted";
const LOST: &str = "nothing will ever look at the task again";
const NO_LOOK: &str = "a task that is not terminal has neither a look nor its first entry ahead";

/// The part of the design that this variant leaves out or turns round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    None,
    /// The first look is written after the publication.
    LookAfterPublish,
    /// A claim takes its message for current, whatever attempt the message expects.
    ClaimIgnoresAttempt,
    /// A claim writes without a condition.
    ClaimIsUnconditional,
    /// A report is accepted from any attempt.
    SettleIgnoresAttempt,
    /// A look of a task that was not claimed is dropped.
    DropsUnclaimed,
    /// A look of a task that waits for its next attempt is dropped.
    DropsRetrying,
    /// A worker does not stop when its lease has ended.
    RunsOn,
    /// The offset is committed before the claim, so only a look brings a message back. This is
    /// slower, not wrong.
    CommitsBeforeClaim,
}

/// One model.
#[derive(Debug, Clone, Copy)]
struct Task {
    flaw: Flaw,
    faults: u8,
    changes: u8,
    /// Claims.
    attempts: u32,
    /// Workers also say "not now".
    snoozes: bool,
}

impl Task {
    const PROPOSED: Self = Self {
        flaw: Flaw::None,
        faults: 2,
        changes: 0,
        attempts: 3,
        snoozes: false,
    };

    const fn with(flaw: Flaw) -> Self {
        Self {
            flaw,
            ..Self::PROPOSED
        }
    }

    /// The main invariant of every task; the two others follow from it.
    fn has_entry_ahead(state: &State) -> bool {
        let generation = state.row.map_or(0, |row| row.generation);
        let first = |due: &Ticket| due.first && due.generation <= generation;
        state.looks > 0 || state.dues.iter().any(first)
    }
}

impl Model for Task {
    type State = State;

    fn first(&self) -> State {
        State {
            row: None,
            dues: vec![Ticket {
                generation: 0,
                expected_attempt: 0,
                first: true,
            }],
            looks: 0,
            read: None,
            messages: Vec::new(),
            workers: [Worker::Idle; 2],
            changers: [Changer::Idle; 2],
            late: None,
            faults: self.faults,
            changes: self.changes,
            stale_report: false,
        }
    }

    fn steps(&self, state: &State, next: &mut Vec<(Step, State)>) {
        if state.is_terminal() {
            // A terminal task stays so and refuses all events, as the table of the life cycle shows.
            return;
        }
        let mut steps = Steps { from: state, next };
        self.entries(&mut steps);
        self.looks(&mut steps);
        self.worker(0, &mut steps);
        self.worker(1, &mut steps);
        self.change(&mut steps);
        if let Some(write) = state.late {
            steps.add("claim is applied late", 0, |s| {
                s.late = None;
                s.write(write);
            });
        }
        // Workers are alike, and so are changers: one of two worlds that differ in their names is enough.
        for (_, state) in next {
            state.workers.sort_unstable();
            state.changers.sort_unstable();
        }
    }

    fn broken(&self, state: &State) -> Option<&'static str> {
        let running = state
            .workers
            .iter()
            .filter(|w| matches!(w, Worker::Runs(_)));
        if running.count() > 1 {
            return Some(CONCURRENT);
        }
        if state.stale_report {
            return Some(STALE);
        }
        if state.is_terminal() {
            return None;
        }
        let idle = |w: &Worker| matches!(w, Worker::Idle | Worker::Paused(_));
        let stuck = state.dues.is_empty() && state.looks == 0 && state.messages.is_empty();
        if stuck && state.workers.iter().all(idle) {
            return Some(LOST);
        }
        (self.flaw == Flaw::None && !Self::has_entry_ahead(state)).then_some(NO_LOOK)
    }
}

#[test]
fn a_task_is_run_by_one_worker_at_a_time_and_never_forgotten() {
    let task = Task {
        faults: if whole() { 4 } else { 2 },
        ..Task::PROPOSED
    };
    holds("task: claims, looks, retries", &task, 50_000);
}

#[test]
fn an_attempt_that_says_not_now_is_not_forgotten_either() {
    let task = Task {
        faults: if whole() { 3 } else { 1 },
        attempts: if whole() { 3 } else { 2 },
        snoozes: true,
        ..Task::PROPOSED
    };
    holds("task: snooze", &task, 10_000);
}

#[test]
fn a_task_that_is_cancelled_or_rescheduled_at_any_moment_is_never_forgotten() {
    let task = Task {
        changes: if whole() { 3 } else { 1 },
        faults: 0,
        attempts: 2,
        ..Task::PROPOSED
    };
    holds("task: cancel and reschedule", &task, 10_000);
}

#[test]
fn reschedules_that_race_do_not_forget_it() {
    let task = Task {
        changes: 2,
        faults: if whole() { 2 } else { 0 },
        attempts: 1,
        ..Task::PROPOSED
    };
    holds("task: two reschedules at once", &task, 10_000);
}

#[test]
fn a_crash_while_a_task_is_changed_does_not_forget_it() {
    let task = Task {
        changes: 1,
        faults: if whole() { 2 } else { 1 },
        attempts: if whole() { 2 } else { 1 },
        ..Task::PROPOSED
    };
    holds("task: crash while it is changed", &task, 10_000);
}

#[test]
fn a_message_that_is_forgotten_before_its_claim_is_brought_back_by_a_look() {
    let task = Task {
        attempts: if whole() { 3 } else { 2 },
        ..Task::with(Flaw::CommitsBeforeClaim)
    };
    holds("task: offset committed before the claim", &task, 10_000);
}

#[test]
fn every_broken_life_is_found() {
    let cases = [
        ("look after publish", Flaw::LookAfterPublish, LOST),
        (
            "look dropped at an unclaimed task",
            Flaw::DropsUnclaimed,
            LOST,
        ),
        ("look dropped at a retrying task", Flaw::DropsRetrying, LOST),
        (
            "claim without attempt",
            Flaw::ClaimIgnoresAttempt,
            CONCURRENT,
        ),
        (
            "claim without condition",
            Flaw::ClaimIsUnconditional,
            CONCURRENT,
        ),
        ("no self-termination", Flaw::RunsOn, CONCURRENT),
        ("settle without attempt", Flaw::SettleIgnoresAttempt, STALE),
    ];
    for (name, flaw, what) in cases {
        breaks(&format!("task, broken: {name}"), &Task::with(flaw), what);
    }
}
