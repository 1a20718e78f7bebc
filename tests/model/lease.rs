//! This model searches the lease of an attempt; any number of seconds may pass between any two steps.
//!
//! [`tickwheel::model::state::next`] claims and buries, [`tickwheel::model::decision::decide`] judges a look;
//! the model adds the signs of life between them. A worker sends a heartbeat, a node notes its own time and
//! writes it, the write becomes visible, the answer arrives. The worker's deadline moves only if the answer
//! arrives before it, and counts from the sending. A look and a claim note the time, read the row, read the
//! heartbeat and decide; time may pass before each step. The clocks of the nodes differ by no more than the
//! worker's margin.
//!
//! The rules: one attempt is alive at a time, and no live attempt is declared dead.

use std::{sync::Arc, time::Duration};

use tickwheel::model::{
    backoff::Backoff,
    decision::{Decision, Known, decide},
    entry::Entry,
    ids::TaskId,
    look_step::LookStep,
    state::{self, Detail, Event, History, State as Life, TaskRow},
    target::Target,
    task::{Body, Content, Priority, Spec},
    time::{Millis, TickLength},
    wheel::{Shape, WheelNumber},
};
use uuid::Uuid;

use super::search::{Model, Step, Steps, breaks, holds, whole};

const CONCURRENT: &str = "two attempts are alive at once";
const BURIED: &str = "an attempt that is alive was declared dead";

/// The heartbeat timeout in seconds, and how much earlier the worker stops.
const TIMEOUT: i64 = 4;
const MARGIN: i64 = 1;

/// Long after the start of the task.
const BEGIN: i64 = 10_000;

const START: Millis = Millis(1_000_000);

/// The part of the design that this variant leaves out or turns round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    None,
    /// The time of the decision is taken after the heartbeat was read.
    TimeAfterHeartbeat,
    /// The decision does not read the heartbeat.
    NoHeartbeat,
    /// The lease counts from the answer of the claim.
    LeaseFromAnswer,
    /// The worker keeps no margin.
    NoMargin,
}

#[derive(Debug, Clone)]
struct Lease {
    flaw: Flaw,
    /// Seconds that pass.
    seconds: i64,
    /// How far the clock of the node that looks and claims is ahead of the clock of the node that
    /// takes heartbeats.
    ahead: i64,
    heartbeats: u8,
    attempts: u32,
    spec: Arc<Spec>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Beat {
    None,
    /// The worker sent it at this time.
    Sent(i64),
    /// The node has noted its own time.
    Taken(i64, i64),
    /// A read finds the heartbeat.
    Written(i64),
}

/// A worker that runs an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Run {
    attempt: u32,
    deadline: i64,
    beat: Beat,
}

/// Someone who decides about an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Judge {
    Idle,
    /// It began at this time, and has noted the time and read the row.
    Row {
        asked: i64,
        noted: i64,
        row: Row,
    },
    /// It has read the heartbeat as well.
    Known {
        asked: i64,
        noted: i64,
        row: Row,
        beat: Option<i64>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Row {
    life: Life,
    attempt: u32,
    next: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    now: i64,
    row: Row,
    /// The last sign of life of each attempt.
    beats: [Option<i64>; 4],
    runs: Vec<Run>,
    look: Judge,
    claim: Judge,
    /// A message that expects this attempt is in the queue.
    messages: [bool; 4],
    /// Heartbeats that may still be sent.
    heartbeats: u8,
}

const fn millis(second: i64) -> Millis {
    Millis((BEGIN + second) * 1000)
}

impl Lease {
    fn new(flaw: Flaw) -> Self {
        let content = Content::default();
        let attempts = 3;
        Self {
            flaw,
            seconds: if whole() { 16 } else { 10 },
            ahead: MARGIN,
            heartbeats: if whole() { 4 } else { 2 },
            attempts,
            spec: Arc::new(Spec {
                indexed: Vec::new(),
                target: Target::Callback {
                    name: "c".to_owned(),
                },
                collection: String::new(),
                priority: Priority::Normal,
                max_attempts: attempts,
                backoff: Backoff::QUICK,
                claim_timeout: Duration::from_secs(60),
                heartbeat_timeout: Duration::from_secs(TIMEOUT.unsigned_abs()),
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
                body: Body::Inline(content),
            }),
        }
    }

    fn id() -> TaskId {
        let step = LookStep::covering(Duration::from_secs(60));
        TaskId::new(START, WheelNumber::new(0).unwrap(), 7).with_look_step(step)
    }

    fn real(&self, row: Row) -> TaskRow {
        TaskRow {
            id: Self::id(),
            state: row.life,
            generation: 0,
            attempt: row.attempt,
            tries: row.attempt,
            next: millis(row.next),
            last: millis(row.next),
            cancel_requested: false,
            nonce: Uuid::nil(),
            detail: Detail {
                spec: Arc::clone(&self.spec),
                start: START,
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

    /// Applies an event by the real life cycle, and returns the columns that matter here.
    fn moved(&self, row: Row, event: Event, now: i64) -> Option<Row> {
        let (id, real) = (Self::id(), self.real(row));
        let made =
            state::next(id, Some(&real), &self.spec, event, millis(now), Uuid::nil()).ok()?;
        Some(Row {
            life: made.row.state,
            attempt: made.row.attempt,
            next: made.row.next.0 / 1000 - BEGIN,
        })
    }

    fn deadline(&self, from: i64) -> i64 {
        let margin = if self.flaw == Flaw::NoMargin {
            0
        } else {
            MARGIN
        };
        from + TIMEOUT - margin
    }

    /// The time that the decision uses.
    fn time_of(&self, noted: i64, now: i64) -> i64 {
        if self.flaw == Flaw::TimeAfterHeartbeat {
            now + self.ahead
        } else {
            noted
        }
    }

    fn worker(&self, at: usize, steps: &mut Steps<'_, State>) {
        let (run, now, who) = (steps.from.runs[at], steps.from.now, at as i64);
        match run.beat {
            Beat::None => {
                if steps.from.heartbeats > 0 {
                    steps.add("heartbeat is sent", who, |s| {
                        s.heartbeats -= 1;
                        s.runs[at].beat = Beat::Sent(now);
                    });
                }
            }
            Beat::Sent(sent) => steps.add("heartbeat is taken", who, |s| {
                s.runs[at].beat = Beat::Taken(sent, now);
            }),
            Beat::Taken(sent, taken) => steps.add("heartbeat is written", who, |s| {
                let last = &mut s.beats[run.attempt as usize];
                *last = (*last).max(Some(taken));
                s.runs[at].beat = Beat::Written(sent);
            }),
            Beat::Written(sent) => steps.add("heartbeat is answered", who, |s| {
                // A worker whose deadline has passed is gone and cannot take an answer.
                s.runs[at].beat = Beat::None;
                s.runs[at].deadline = self.deadline(sent).max(run.deadline);
            }),
        }
        steps.add("worker dies", who, |s| {
            s.runs.remove(at);
        });
    }

    /// Reads, in the order of the flow: the time, the row, the heartbeat.
    fn reads(&self, judge: Judge, from: &State) -> Option<Judge> {
        let ahead = self.ahead;
        match judge {
            Judge::Idle => Some(Judge::Row {
                asked: from.now,
                noted: from.now + ahead,
                row: from.row,
            }),
            Judge::Row { asked, noted, row } => Some(Judge::Known {
                asked,
                noted,
                row,
                beat: from.beats[row.attempt as usize].filter(|_| self.flaw != Flaw::NoHeartbeat),
            }),
            Judge::Known { .. } => None,
        }
    }

    fn look(&self, steps: &mut Steps<'_, State>) {
        let from = steps.from;
        if let Some(read) = self.reads(from.look, from) {
            steps.add("look reads", 0, |s| s.look = read);
            return;
        }
        let Judge::Known {
            noted, row, beat, ..
        } = from.look
        else {
            return;
        };
        let now = self.time_of(noted, from.now);
        let (id, start) = (Self::id(), START);
        let entry = Entry::look(id, 0, millis(now), None, start, Arc::clone(&self.spec), 0);
        let real = self.real(row);
        let known = Known {
            row: Some(&real),
            heartbeat: beat.map(millis),
        };
        let shape = Shape::new(1, TickLength::new(Duration::from_secs(1)).unwrap(), 64).unwrap();
        match decide(&entry, known, millis(now), &shape) {
            Decision::Publish(publish) => steps.add("look publishes", 0, |s| {
                s.look = Judge::Idle;
                s.messages[publish.expected_attempt as usize] = true;
            }),
            Decision::End { event } => {
                // The event carries the heartbeat that was read; the write is conditional on the row.
                let ended = self.moved(row, event, now).filter(|_| from.row == row);
                steps.add("look ends the task", 0, |s| {
                    s.look = Judge::Idle;
                    s.row = ended.unwrap_or(s.row);
                });
            }
            Decision::Drop | Decision::LookAgain { .. } | Decision::EndSteps => {
                steps.add("look again", 0, |s| s.look = Judge::Idle);
            }
        }
    }

    fn claim(&self, steps: &mut Steps<'_, State>) {
        let from = steps.from;
        let wanted = from.messages[from.row.attempt as usize] && from.row.life == Life::Claimed;
        if (from.claim != Judge::Idle || wanted)
            && let Some(read) = self.reads(from.claim, from)
        {
            steps.add("claim reads", 0, |s| s.claim = read);
        }
        let Judge::Known {
            asked,
            noted,
            row,
            beat,
        } = from.claim
        else {
            return;
        };
        let event = Event::Claim {
            generation: 0,
            expected_attempt: row.attempt,
            worker: String::new(),
            heartbeat: beat.map(millis),
            published: None,
        };
        let made = self.moved(row, event, self.time_of(noted, from.now));
        match made.filter(|_| from.row == row) {
            Some(made) => {
                let lease_from = match self.flaw {
                    Flaw::LeaseFromAnswer => from.now,
                    _ => asked,
                };
                steps.add("claim", i64::from(made.attempt), |s| {
                    s.claim = Judge::Idle;
                    s.row = made;
                    let deadline = self.deadline(lease_from);
                    if from.now < deadline {
                        let beat = Beat::None;
                        s.runs.push(Run {
                            attempt: made.attempt,
                            deadline,
                            beat,
                        });
                    }
                });
            }
            None => steps.add("claim is refused", 0, |s| s.claim = Judge::Idle),
        }
    }
}

impl Model for Lease {
    type State = State;

    fn first(&self) -> State {
        // The attempt was claimed a moment ago, through the node whose clock is behind.
        State {
            now: 0,
            row: Row {
                life: Life::Claimed,
                attempt: 1,
                next: TIMEOUT,
            },
            beats: [None; 4],
            runs: vec![Run {
                attempt: 1,
                deadline: self.deadline(0),
                beat: Beat::None,
            }],
            look: Judge::Idle,
            claim: Judge::Idle,
            messages: [false; 4],
            heartbeats: self.heartbeats,
        }
    }

    fn steps(&self, state: &State, next: &mut Vec<(Step, State)>) {
        if state.row.life != Life::Claimed {
            return;
        }
        let mut steps = Steps { from: state, next };
        if state.now < self.seconds {
            steps.add("a second passes", state.now + 1, |s| {
                s.now += 1;
                let now = s.now;
                s.runs.retain(|run| now < run.deadline);
            });
        }
        for at in 0..state.runs.len() {
            self.worker(at, &mut steps);
        }
        self.look(&mut steps);
        self.claim(&mut steps);
    }

    fn broken(&self, state: &State) -> Option<&'static str> {
        if state.runs.len() > 1 {
            return Some(CONCURRENT);
        }
        let buried = state.row.life == Life::Dead && !state.runs.is_empty();
        buried.then_some(BURIED)
    }
}

#[test]
fn one_attempt_is_alive_at_a_time() {
    holds("lease: heartbeats", &Lease::new(Flaw::None), 10_000);
}

#[test]
fn an_attempt_that_is_alive_is_not_declared_dead() {
    let mut last = Lease::new(Flaw::None);
    // The first attempt is the last one.
    last.attempts = 1;
    last.spec = Arc::new(Spec {
        max_attempts: 1,
        ..(*last.spec).clone()
    });
    holds("lease: the last attempt", &last, 1000);
    last.flaw = Flaw::TimeAfterHeartbeat;
    breaks("lease, broken: burial by an old heartbeat", &last, BURIED);
}

#[test]
fn every_broken_lease_is_found() {
    let cases = [
        (
            "time taken after the heartbeat was read",
            Flaw::TimeAfterHeartbeat,
        ),
        ("heartbeat not read", Flaw::NoHeartbeat),
        ("lease counted from the answer", Flaw::LeaseFromAnswer),
        ("no margin", Flaw::NoMargin),
    ];
    for (name, flaw) in cases {
        breaks(
            &format!("lease, broken: {name}"),
            &Lease::new(flaw),
            CONCURRENT,
        );
    }
    let skewed = Lease {
        ahead: MARGIN + 1,
        ..Lease::new(Flaw::None)
    };
    breaks(
        "lease, broken: clocks apart by more than the margin",
        &skewed,
        CONCURRENT,
    );
}
