//! This model searches for a task that runs again after its row has expired, because entries still lie ahead.
//!
//! The times are real. A task starts in thirty days; reschedules to sooner and to later race, lose and crash;
//! looks come every few days; a row lives as long as the life cycle says. Entries may fire late and messages
//! may wait, both for less than the seven days of the design ([`state::TERMINAL_TTL_MIN`]).
//!
//! The rules: no claim comes after the end of the task, and none before the start that was acknowledged last.
//! A task that has not ended has an entry ahead, or a message, or a worker.

mod world;

use std::{sync::Arc, time::Duration};

use tickwheel::model::{
    backoff::Backoff,
    decision::{Decision, Known, decide},
    entry::Entry,
    state::{self, Detail, Event, History, Outcome, Refusal, State as Life, TaskRow, Transition},
    target::Target,
    task::{Body, Content, Priority, Spec},
    time::Millis,
};
use uuid::Uuid;

use self::world::{Ahead, Message, Row, State, id, shape};
use super::search::{Model, Step, Steps, breaks, holds, whole};

const RESURRECTED: &str = "a task that had ended was claimed again";
const EARLY: &str = "a task was claimed before its start";
const LOST: &str = "nothing will ever come back to the task";

const DAY: Duration = Duration::from_secs(24 * 3600);

const START: Millis = Millis(100 * 86_400_000);

/// The claim timeout, which also sets the step between looks; it is long, so that there are few looks.
const STEP: Duration = Duration::from_secs(3 * 24 * 3600);

/// The end of the search: every row has expired and every entry has fired by then.
const HORIZON: Millis = Millis(START.0 + 50 * 86_400_000);

/// The targets of reschedules: long before the start, and long after it.
const STARTS: [Millis; 2] = [
    Millis(START.0 - 29 * 86_400_000),
    Millis(START.0 + 30 * 86_400_000),
];

/// The longest lag: a day less than the least life of a terminal row.
const LAG: Duration = Duration::from_secs(6 * 24 * 3600);

/// The part of the design that this variant leaves out or turns round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    None,
    /// A terminal row lives for seven days, whatever lies ahead.
    PlainTtl,
    /// A look acts on an absent row whatever its generation.
    LookIgnoresGeneration,
    /// A claim takes its message for current, whatever its generation.
    ClaimIgnoresGeneration,
    /// Entries and messages may lag without bound, which is the exception that the guarantees state.
    UnboundedLag,
    /// The row is moved before the new entry is put, and the old entries are withdrawn.
    RowBeforeEntry,
}

#[derive(Debug, Clone)]
struct Expiry {
    flaw: Flaw,
    changes: u8,
    faults: u8,
    spec: Arc<Spec>,
}

impl Expiry {
    fn new(flaw: Flaw) -> Self {
        let target = Target::Callback {
            name: "c".to_owned(),
        };
        Self {
            flaw,
            changes: 2,
            faults: 1,
            spec: Arc::new(Spec {
                indexed: Vec::new(),
                target,
                collection: String::new(),
                priority: Priority::Normal,
                max_attempts: 3,
                backoff: Backoff::QUICK,
                claim_timeout: STEP,
                heartbeat_timeout: Duration::from_secs(30),
                attempt_timeout: None,
                ordering_key: None,
                dead_retention: None,
                expire_after: None,
                retention: Duration::from_secs(60),
                create_time: Millis::EPOCH,
                asked_start: None,
                scheduled: None,
                key: None,
                notify: None,
                actions: None,
                kin: None,
                after: None,
                then: Vec::new(),
                body: Body::Inline(Content::default()),
            }),
        }
    }

    fn real(&self, row: Row) -> TaskRow {
        TaskRow {
            id: id(),
            state: row.life,
            generation: row.generation,
            attempt: row.attempt,
            tries: row.attempt,
            next: row.next,
            last: row.last,
            cancel_requested: false,
            nonce: Uuid::nil(),
            detail: Detail {
                spec: Arc::clone(&self.spec),
                start: row.start,
                fire_time: None,
                claim_time: None,
                end_time: None,
                worker: String::new(),
                result: None,
                error: None,
                died: None,
                erased: false,
                tree: None,
                children_time_passed: false,
                rounds: tickwheel::model::family::Rounds::default(),
                lived: 0,
                history: History::default(),
                next: None,
            },
        }
    }

    /// Applies an event to the row by the real life cycle, now.
    fn moved(&self, s: &State, event: Event) -> Result<Row, Refusal> {
        let base = s.row.map(|row| self.real(row));
        let Transition { row, ttl, .. } =
            state::next(id(), base.as_ref(), &self.spec, event, s.now, Uuid::nil())?;
        let ttl = match self.flaw {
            Flaw::PlainTtl => ttl.map(|_| state::TERMINAL_TTL_MIN),
            _ => ttl,
        };
        Ok(Row {
            life: row.state,
            generation: row.generation,
            attempt: row.attempt,
            next: row.next,
            last: row.last,
            start: row.detail.start,
            gone: ttl.map(|ttl| s.now.after(ttl)),
        })
    }

    /// Moves the time to the next event, unless an entry or message would then be later than the
    /// design allows.
    fn passes(&self, steps: &mut Steps<'_, State>) {
        let s = steps.from;
        // A request never takes days.
        if s.pending != [None; 2] {
            return;
        }
        let gone = s.row.and_then(|row| row.gone);
        let lease = s.row.filter(|row| row.life == Life::Claimed);
        let moments = s.entries.iter().map(|entry| entry.due);
        let moments = moments.chain(s.messages.iter().map(|message| message.start));
        let moments = moments.chain(STARTS).chain([START]).chain(gone);
        let moments = moments.chain(lease.map(|row| row.next));
        let Some(next) = moments.filter(|moment| *moment > s.now).min() else {
            return;
        };
        let late = |since: Millis| since.after(LAG) < next && self.flaw != Flaw::UnboundedLag;
        if next > HORIZON {
            return;
        }
        let entries = s.entries.iter().any(|entry| late(entry.due));
        let messages = s.messages.iter().any(|m| late(m.since.max(m.start)));
        if !entries && !messages {
            let days = (next.0 - START.0) / 86_400_000;
            steps.add("time passes to day", days, |s| s.pass_to(next));
        }
    }

    fn fire(&self, index: usize, steps: &mut Steps<'_, State>) {
        let s = steps.from;
        let Ahead {
            due,
            generation,
            expected,
        } = s.entries[index];
        let spec = Arc::clone(&self.spec);
        let entry = match expected {
            Some(attempt) => {
                Entry::due(id(), generation, attempt, due, spec, 0).first_of_generation()
            }
            None => {
                let ignored = self.flaw == Flaw::LookIgnoresGeneration;
                let generation = if ignored { 0 } else { generation };
                Entry::look(id(), generation, due, None, START, spec, 0)
            }
        };
        let row = s.row.map(|row| self.real(row));
        let known = Known {
            row: row.as_ref(),
            heartbeat: None,
        };
        let name = if expected.is_some() { "fire" } else { "look" };
        let who = i64::from(generation);
        match decide(&entry, known, s.now, &shape()) {
            Decision::Publish(publish) => {
                let now = s.now;
                let publish = |s: &mut State| {
                    s.put(Ahead {
                        due: publish.look_at.unwrap(),
                        generation: publish.generation,
                        expected: None,
                    });
                    s.publish(Message {
                        generation: publish.generation,
                        expected: publish.expected_attempt,
                        start: publish.start,
                        since: now,
                    });
                };
                steps.add(name, who, |s| {
                    s.entries.remove(index);
                    publish(s);
                });
                if s.faults > 0 && s.now < due.after(DAY) {
                    steps.add("fires, crash before fired", who, |s| {
                        s.faults -= 1;
                        publish(s);
                    });
                }
            }
            Decision::LookAgain { at, generation } => steps.add("look again", who, |s| {
                s.entries.remove(index);
                s.put(Ahead {
                    due: at,
                    generation,
                    expected: None,
                });
            }),
            Decision::End { event } => {
                let ended = self.moved(s, event);
                steps.add("look ends", who, |s| {
                    s.entries.remove(index);
                    assert!(s.write(s.row, ended.unwrap()));
                });
            }
            Decision::Drop | Decision::EndSteps => steps.add("look is dropped", who, |s| {
                s.entries.remove(index);
            }),
        }
    }

    fn claim(&self, index: usize, steps: &mut Steps<'_, State>) {
        let s = steps.from;
        let message = s.messages[index];
        if s.now < message.start {
            return;
        }
        let ignored = self.flaw == Flaw::ClaimIgnoresGeneration;
        let current = s.row.map_or(0, |row| row.generation);
        let event = Event::Claim {
            generation: if ignored { current } else { message.generation },
            expected_attempt: message.expected,
            worker: String::new(),
            heartbeat: None,
            published: None,
        };
        let who = i64::from(message.generation);
        match self.moved(s, event) {
            Ok(to) => {
                let start = s.row.map_or(START, |row| row.start);
                let ended = s.ended;
                steps.add("claim", who, |s| {
                    s.messages.remove(index);
                    assert!(s.write(s.row, to));
                    if ended {
                        s.wrong = Some(RESURRECTED);
                    } else if s.now < start {
                        s.wrong = Some(EARLY);
                    }
                });
            }
            Err(Refusal::Early { not_before }) => {
                if message.start < not_before {
                    steps.add("message is held", who, |s| {
                        s.messages[index].start = not_before;
                    });
                }
            }
            Err(_) => steps.add("claim is refused", who, |s| {
                s.messages.remove(index);
            }),
        }
    }

    /// A worker succeeds; when it has died, nothing happens until its lease has ended.
    fn settle(&self, steps: &mut Steps<'_, State>) {
        let Some(row) = steps.from.row.filter(|row| row.life == Life::Claimed) else {
            return;
        };
        let event = Event::Settle {
            attempt: row.attempt,
            outcome: Outcome::Succeeded { result: None },
            chance: 0,
            answered: None,
        };
        if let Ok(to) = self.moved(steps.from, event) {
            steps.add("succeed", i64::from(row.attempt), |s| {
                assert!(s.write(Some(row), to));
            });
        }
    }

    fn change(&self, steps: &mut Steps<'_, State>) {
        let s = steps.from;
        for (at, pending) in s.pending.into_iter().enumerate() {
            let Some((from, to)) = pending else { continue };
            steps.add("row of the reschedule", at as i64, |s| {
                s.pending[at] = None;
                let applied = s.write(from, to);
                if applied && self.flaw == Flaw::RowBeforeEntry {
                    s.entries.retain(|entry| entry.generation >= to.generation);
                }
            });
            if s.faults > 0 {
                steps.add("changer crashes", at as i64, |s| {
                    s.faults -= 1;
                    s.pending[at] = None;
                });
            }
        }
        if s.changes == 0 {
            return;
        }
        // A task without a row is found by an entry of its first generation.
        if s.row.is_none() && !s.entries.iter().any(|entry| entry.generation == 0) {
            return;
        }
        if let Ok(to) = self.moved(s, Event::Cancel) {
            steps.add("cancel", 0, |s| {
                s.changes -= 1;
                assert!(s.write(s.row, to));
            });
        }
        let Some(at) = s.pending.iter().position(Option::is_none) else {
            return;
        };
        for start in STARTS.into_iter().filter(|start| *start > s.now) {
            if let Ok(to) = self.moved(s, Event::Reschedule { start }) {
                steps.add(
                    "reschedule by days",
                    (start.0 - START.0) / 86_400_000,
                    |s| {
                        s.changes -= 1;
                        s.pending[at] = Some((s.row, to));
                        if self.flaw != Flaw::RowBeforeEntry {
                            s.put(Ahead {
                                due: start,
                                generation: to.generation,
                                expected: Some(to.attempt),
                            });
                        }
                    },
                );
            }
        }
    }
}

impl Model for Expiry {
    type State = State;

    fn first(&self) -> State {
        State {
            now: Millis(START.0 - 30 * 86_400_000),
            row: None,
            ended: false,
            wrong: None,
            entries: vec![Ahead {
                due: START,
                generation: 0,
                expected: Some(0),
            }],
            messages: Vec::new(),
            pending: [None; 2],
            changes: self.changes,
            faults: self.faults,
        }
    }

    fn steps(&self, state: &State, next: &mut Vec<(Step, State)>) {
        let mut steps = Steps { from: state, next };
        self.passes(&mut steps);
        for index in 0..state.entries.len() {
            if state.now >= state.entries[index].due {
                self.fire(index, &mut steps);
            }
        }
        for index in 0..state.messages.len() {
            self.claim(index, &mut steps);
        }
        self.settle(&mut steps);
        self.change(&mut steps);
        for (_, state) in next {
            state.pending.sort_unstable();
        }
    }

    fn broken(&self, state: &State) -> Option<&'static str> {
        if state.wrong.is_some() {
            return state.wrong;
        }
        let busy = !state.messages.is_empty() || state.pending != [None; 2];
        let stuck = state.entries.is_empty() && !busy && !state.ended;
        let claimed = state.row.is_some_and(|row| row.life == Life::Claimed);
        (stuck && !claimed).then_some(LOST)
    }
}

#[test]
#[ignore = "searches for fifteen seconds: make test-all"]
fn a_task_that_has_ended_stays_so_when_its_row_expires() {
    let expiry = Expiry {
        changes: if whole() { 3 } else { 2 },
        faults: u8::from(whole()),
        ..Expiry::new(Flaw::None)
    };
    holds("expiry: two reschedules, terminal rows", &expiry, 50_000);
}

#[test]
fn every_broken_expiry_is_found() {
    let cases = [
        ("row lives for seven days only", Flaw::PlainTtl, RESURRECTED),
        (
            "look ignores the generation",
            Flaw::LookIgnoresGeneration,
            RESURRECTED,
        ),
        (
            "claim ignores the generation",
            Flaw::ClaimIgnoresGeneration,
            RESURRECTED,
        ),
        ("fired lags without bound", Flaw::UnboundedLag, RESURRECTED),
        ("row moved before the entry", Flaw::RowBeforeEntry, LOST),
    ];
    for (name, flaw, what) in cases {
        breaks(&format!("expiry, broken: {name}"), &Expiry::new(flaw), what);
    }
}
