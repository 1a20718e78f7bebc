//! The steps of the task model cover entries, looks, workers, and clients that change the task.

use tickwheel::model::{
    decision::Decision,
    state::{self, Event, Outcome, Refusal},
};

use super::{
    super::search::Steps,
    Flaw, Task,
    world::{
        Changer, MESSAGES_MAX, State, Ticket, Worker, Write, asked, due, early, fired, looked,
    },
};

/// A step that is a fault, while there are faults left.
pub(super) trait Faults {
    fn fault(&mut self, name: &'static str, who: i64, change: impl FnOnce(&mut State));
}

impl Faults for Steps<'_, State> {
    fn fault(&mut self, name: &'static str, who: i64, change: impl FnOnce(&mut State)) {
        if self.from.faults > 0 {
            self.add(name, who, |s| {
                s.faults -= 1;
                change(s);
            });
        }
    }
}

const fn claim(ticket: Ticket) -> Event {
    Event::Claim {
        generation: ticket.generation,
        expected_attempt: ticket.expected_attempt,
        worker: String::new(),
        heartbeat: None,
        published: None,
    }
}

impl Task {
    /// Due entries come up; the first of a generation has its look written before it is published.
    pub(super) fn entries(&self, steps: &mut Steps<'_, State>) {
        if steps.from.messages.len() >= MESSAGES_MAX {
            return;
        }
        for (index, ticket) in steps.from.dues.iter().copied().enumerate() {
            let Decision::Publish(publish) = fired(ticket) else {
                panic!("a due entry is published");
            };
            let brings_look = publish.look_at.is_some();
            let who = i64::from(ticket.expected_attempt);
            steps.add("fire", who, |s| {
                s.dues.remove(index);
                s.publish(ticket);
                if brings_look {
                    s.add_look();
                }
            });
            if brings_look && self.flaw == Flaw::LookAfterPublish {
                steps.fault("fire, crash before the look", who, |s| {
                    s.dues.remove(index);
                    s.publish(ticket);
                });
                continue;
            }
            steps.fault("fire, crash before it is published", who, |s| {
                if brings_look {
                    s.add_look();
                }
            });
            steps.fault("fire, crash before fired", who, |s| {
                s.publish(ticket);
                if brings_look {
                    s.add_look();
                }
            });
        }
    }

    /// A look reads the row, then acts on its read.
    pub(super) fn looks(&self, steps: &mut Steps<'_, State>) {
        let from = steps.from;
        let Some(read) = from.read else {
            if from.looks > 0 {
                steps.add("look", 0, |s| s.read = Some(s.row));
            }
            return;
        };
        steps.fault("scanner crashes", 0, |s| s.read = None);
        let drops = match self.flaw {
            Flaw::DropsUnclaimed => read.is_none_or(|row| row.attempt == 0),
            Flaw::DropsRetrying => read.is_some_and(|row| row.state == state::State::Retrying),
            _ => false,
        };
        if drops {
            steps.add("look is dropped", 0, |s| {
                s.looks -= 1;
                s.read = None;
            });
            return;
        }
        // A lease that is kept alive has not ended. Otherwise the look comes after the end of the lease, or
        // again until then.
        if read.is_some_and(|row| from.is_live(&row)) && self.flaw != Flaw::RunsOn {
            let decision = looked(read, early(read), None);
            assert!(
                matches!(decision, Decision::LookAgain { .. }),
                "{decision:?}"
            );
            steps.add("look again", 0, |s| s.read = None);
            return;
        }
        for published in [None, Some(due(read))] {
            self.act(looked(read, due(read), published), steps);
        }
    }

    fn act(&self, decision: Decision, steps: &mut Steps<'_, State>) {
        match decision {
            Decision::Drop | Decision::EndSteps => steps.add("look is dropped", 0, |s| {
                s.looks -= 1;
                s.read = None;
            }),
            Decision::LookAgain { .. } => steps.add("look again", 0, |s| s.read = None),
            Decision::Publish(publish) => {
                assert!(publish.look_at.is_some(), "a look has a successor");
                let ticket = Ticket {
                    generation: publish.generation,
                    expected_attempt: publish.expected_attempt,
                    first: false,
                };
                let queued =
                    publish.unless_queued_since.is_some() && !steps.from.messages.is_empty();
                if queued {
                    steps.add("look, still queued", 0, |s| s.read = None);
                } else if steps.from.messages.len() < MESSAGES_MAX {
                    steps.add("look publishes", 0, |s| {
                        s.read = None;
                        s.publish(ticket);
                    });
                }
            }
            Decision::End { event } => self.end(event, steps),
        }
    }

    /// A look ends the task, or finds that the task has moved on and looks again.
    fn end(&self, event: Event, steps: &mut Steps<'_, State>) {
        let row = steps.from.row;
        let live = row.is_some_and(|row| steps.from.is_live(&row)) && self.flaw != Flaw::RunsOn;
        let now = if live { early(row) } else { due(row) };
        match asked(row, event, now) {
            Ok(write) => steps.add("look ends", 0, |s| {
                assert!(s.write(write));
                s.looks -= 1;
                s.read = None;
            }),
            Err(_) => steps.add("look again", 0, |s| s.read = None),
        }
    }

    pub(super) fn worker(&self, at: usize, steps: &mut Steps<'_, State>) {
        let (from, who) = (steps.from, at as i64);
        match from.workers[at] {
            Worker::Idle => {
                let mut before = None;
                for ticket in from.messages.iter().copied() {
                    if before.replace(ticket) == Some(ticket) {
                        continue;
                    }
                    steps.add("receive", who, |s| {
                        s.workers[at] = Worker::Has(ticket);
                        if self.flaw == Flaw::CommitsBeforeClaim {
                            s.consume(ticket);
                        }
                    });
                }
            }
            Worker::Has(ticket) => {
                self.decide_claim(at, ticket, steps);
                steps.fault("worker crashes", who, |s| s.workers[at] = Worker::Idle);
            }
            Worker::Claims(ticket, write) => {
                self.write_claim(at, ticket, write, steps);
                steps.fault("worker crashes", who, |s| s.workers[at] = Worker::Idle);
            }
            Worker::Runs(attempt) => {
                self.settle(at, attempt, steps);
                steps.fault("worker crashes", who, |s| s.workers[at] = Worker::Idle);
                steps.fault("worker stops", who, |s| {
                    s.workers[at] = Worker::Paused(attempt)
                });
            }
            Worker::Paused(attempt) => self.settle(at, attempt, steps),
            Worker::Retries(ticket) => {
                steps.add("retry is put", who, |s| {
                    s.workers[at] = Worker::Idle;
                    s.add_due(ticket);
                });
                steps.fault("worker crashes", who, |s| s.workers[at] = Worker::Idle);
            }
        }
    }

    /// Reads the row and decides on the claim. A claim that loses the race against another write
    /// decides again.
    fn decide_claim(&self, at: usize, ticket: Ticket, steps: &mut Steps<'_, State>) {
        let (row, who) = (steps.from.row, at as i64);
        if steps.from.attempt() >= self.attempts {
            // The model ends here, since more attempts would only repeat these steps.
            return;
        }
        let live = row.is_some_and(|row| steps.from.is_live(&row)) && self.flaw != Flaw::RunsOn;
        let decided = if self.flaw == Flaw::ClaimIgnoresAttempt {
            let current = Ticket {
                expected_attempt: row.map_or(0, |row| row.attempt),
                ..ticket
            };
            asked(row, claim(current), due(row))
        } else {
            let too_early = asked(row, claim(ticket), early(row));
            assert!(
                too_early.is_err(),
                "claimed too early: {row:?} {too_early:?}"
            );
            if live {
                too_early
            } else {
                asked(row, claim(ticket), due(row))
            }
        };
        match decided {
            Ok(write) => steps.add("decide to claim", who, |s| {
                s.workers[at] = Worker::Claims(ticket, write);
            }),
            Err(
                Refusal::Stale | Refusal::Held { .. } | Refusal::Ended { .. } | Refusal::HasTree,
            ) => {
                steps.add("claim is refused", who, |s| {
                    s.workers[at] = Worker::Idle;
                    s.consume(ticket);
                });
            }
            // The claim is never early: it would wait, and its turn comes when the time of the row has come.
            Err(Refusal::Early { .. } | Refusal::Running) => {}
        }
    }

    fn write_claim(&self, at: usize, ticket: Ticket, write: Write, steps: &mut Steps<'_, State>) {
        let (who, attempt) = (at as i64, write.to.attempt);
        if self.flaw == Flaw::ClaimIsUnconditional {
            steps.add("claim", who, |s| {
                s.row = Some(write.to);
                s.workers[at] = Worker::Runs(attempt);
                s.consume(ticket);
            });
            return;
        }
        if !steps.from.clone().write(write) {
            steps.add("claim conflicts", who, |s| {
                s.workers[at] = Worker::Has(ticket)
            });
            return;
        }
        steps.add("claim", who, |s| {
            assert!(s.write(write));
            s.workers[at] = Worker::Runs(attempt);
            s.consume(ticket);
        });
        steps.fault("claim, reply lost", who, |s| {
            assert!(s.write(write));
            s.workers[at] = Worker::Idle;
            s.consume(ticket);
        });
        steps.fault("claim, timed out", who, |s| {
            s.late = Some(write);
            s.workers[at] = Worker::Idle;
            s.consume(ticket);
        });
    }

    /// Reports how an attempt ended, from a worker that may have been stopped meanwhile.
    fn settle(&self, at: usize, attempt: u32, steps: &mut Steps<'_, State>) {
        let (row, who) = (steps.from.row, at as i64);
        let reported = if self.flaw == Flaw::SettleIgnoresAttempt {
            steps.from.attempt()
        } else {
            attempt
        };
        let retry = Outcome::Retry {
            error: String::new(),
            after: None,
        };
        let snooze = Outcome::Snoozed {
            after: std::time::Duration::ZERO,
        };
        let mut outcomes = vec![
            ("succeed", Outcome::Succeeded { result: None }),
            ("retry", retry),
        ];
        if self.snoozes {
            outcomes.push(("snooze", snooze));
        }
        for (name, outcome) in outcomes {
            let event = Event::Settle {
                attempt: reported,
                outcome,
                chance: 0,
                answered: None,
            };
            let Ok(write) = asked(row, event, due(row)) else {
                steps.add("report is refused", who, |s| s.workers[at] = Worker::Idle);
                continue;
            };
            steps.add(name, who, |s| {
                s.stale_report = s.attempt() != attempt;
                assert!(s.write(write));
                s.workers[at] = if write.to.state.is_terminal() {
                    Worker::Idle
                } else {
                    Worker::Retries(Ticket {
                        generation: write.to.generation,
                        expected_attempt: attempt,
                        first: false,
                    })
                };
            });
        }
    }

    /// A client cancels, or writes the entry of a new start and then moves the row. Two clients
    /// may do that at once.
    pub(super) fn change(&self, steps: &mut Steps<'_, State>) {
        let row = steps.from.row;
        for at in 0..2 {
            let Changer::Put(write) = steps.from.changers[at] else {
                continue;
            };
            let who = at as i64;
            steps.fault("changer crashes", who, |s| s.changers[at] = Changer::Idle);
            if steps.from.clone().write(write) {
                steps.add("rescheduled", who, |s| {
                    assert!(s.write(write));
                    s.changers[at] = Changer::Idle;
                });
            } else {
                steps.add("not rescheduled", who, |s| s.changers[at] = Changer::Idle);
            }
        }
        if steps.from.changes == 0 {
            return;
        }
        if let Ok(write) = asked(row, Event::Cancel, due(row)) {
            steps.add("cancel", 0, |s| {
                assert!(s.write(write));
                s.changes -= 1;
            });
        }
        // The changers are alike, so the first idle one begins.
        let idle = (0..2).find(|at| steps.from.changers[*at] == Changer::Idle);
        let start = due(row);
        if let (Ok(write), Some(at)) = (asked(row, Event::Reschedule { start }, start), idle) {
            steps.add("reschedule", at as i64, |s| {
                s.changes -= 1;
                s.changers[at] = Changer::Put(write);
                s.add_due(Ticket {
                    generation: write.to.generation,
                    expected_attempt: write.to.attempt,
                    first: true,
                });
            });
        }
    }
}
