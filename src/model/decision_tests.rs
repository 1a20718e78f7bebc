//! The tests of decisions check the whole table of them, and the look that carries every tracked task through it.

use std::{sync::Arc, time::Duration};

use uuid::Uuid;

use super::*;
use crate::model::{
    entry::DoneReason,
    fixtures::{START, id, row, shape, spec},
    state::{Outcome, Refusal, next},
    target::Target,
    task::Spec,
};

const SECOND: Duration = Duration::from_secs(1);

/// Long after everything that a fixture waits for.
const NOW: Millis = Millis(START.0 + 3_600_000);

fn look_of(spec: &Arc<Spec>, generation: u32, published: Option<Millis>) -> Entry {
    Entry::look(id(), generation, NOW, published, START, Arc::clone(spec), 0)
}

fn end_event(row: Option<&TaskRow>, spec: &Arc<Spec>) -> Event {
    let known = Known {
        row,
        heartbeat: None,
    };
    match decide(&look_of(spec, 0, None), known, NOW, &shape()) {
        Decision::End { event } => event,
        other => panic!("{other:?}"),
    }
}

fn applied(row: &TaskRow, event: Event, now: Millis) -> TaskRow {
    let spec = Arc::clone(&row.detail.spec);
    next(id(), Some(row), &spec, event, now, Uuid::from_u128(1))
        .unwrap()
        .row
}

#[test]
fn a_look_that_lost_to_a_reschedule_does_not_expire_the_task() {
    let spec = Arc::new(Spec {
        expire_after: Some(SECOND),
        ..spec()
    });
    let waiting = row(State::New, &spec);
    let event = end_event(Some(&waiting), &spec);
    let start = NOW.after(SECOND * 1000);
    let moved = applied(&waiting, Event::Reschedule { start }, NOW);
    let again = next(id(), Some(&moved), &spec, event, NOW, Uuid::nil());
    assert_eq!(again.map(|made| made.row.state), Err(Refusal::Stale));
}

#[test]
fn a_look_that_lost_to_a_snooze_does_not_end_the_next_attempt() {
    let spec = Arc::new(spec());
    let last = TaskRow {
        tries: 3,
        attempt: 3,
        ..row(State::Claimed, &spec)
    };
    let event = end_event(Some(&last), &spec);
    let snoozed = Event::Settle {
        attempt: 3,
        outcome: Outcome::Snoozed { after: SECOND },
        answered: None,
        chance: 0,
    };
    let waiting = applied(&last, snoozed, NOW);
    let claim = Event::Claim {
        generation: 0,
        expected_attempt: 3,
        worker: "w".to_owned(),
        heartbeat: None,
        published: None,
    };
    let running = applied(&waiting, claim, NOW.after(SECOND));
    let again = next(
        id(),
        Some(&running),
        &spec,
        event,
        NOW.after(SECOND),
        Uuid::nil(),
    );
    assert_eq!(again.map(|made| made.row.state), Err(Refusal::Stale));
}

#[test]
fn a_terminal_row_outlives_every_look_of_its_task() {
    let spec = Arc::new(spec());
    for step in 0..64 {
        let id = id().with_look_step(crate::model::look_step::LookStep::from_low_bits(step));
        let waiting = TaskRow {
            id,
            ..row(State::New, &spec)
        };
        let month = START.after(SECOND * 30 * 24 * 3600);
        let look = Entry::look(id, 0, month, Some(START), START, Arc::clone(&spec), 0);
        let known = Known {
            row: Some(&waiting),
            heartbeat: None,
        };
        let Decision::Publish(publish) = decide(&look, known, month, &shape()) else {
            panic!("it is due");
        };
        let made = next(id, Some(&waiting), &spec, Event::Cancel, month, Uuid::nil()).unwrap();
        assert!(
            made.row.last >= publish.look_at.unwrap(),
            "step {step}: a look at {:?} behind {}",
            publish.look_at,
            made.row.last
        );
    }
}

/// The class of a decision, without its times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Drop,
    Publish { probes: bool },
    LookAgain,
    End(State),
    EndSteps,
}

fn class(decision: &Decision, row: Option<&TaskRow>, spec: &Arc<Spec>, now: Millis) -> Class {
    match decision {
        Decision::Drop => Class::Drop,
        Decision::Publish(publish) => Class::Publish {
            probes: publish.unless_queued_since.is_some(),
        },
        Decision::LookAgain { .. } => Class::LookAgain,
        Decision::End { event } => {
            let made = next(id(), row, spec, event.clone(), now, Uuid::nil());
            Class::End(made.expect("what was decided applies").row.state)
        }
        Decision::EndSteps => Class::EndSteps,
    }
}

/// One look and what it finds.
#[derive(Debug, Clone)]
struct Case {
    row: Option<TaskRow>,
    heartbeat: Option<Millis>,
    look_generation: u32,
    published: Option<Millis>,
    now: Millis,
}

impl Case {
    fn waits_until(&self) -> Millis {
        self.row.as_ref().map_or(START, |row| {
            if row.state == State::Claimed {
                row.alive_until(self.heartbeat)
            } else {
                row.next
            }
        })
    }

    /// A look of a later generation at a dead task, ten minutes from its start on at most.
    fn is_redrive(&self) -> bool {
        let dead =
            |row: &TaskRow| row.state == State::Dead && row.generation < self.look_generation;
        self.row.as_ref().is_some_and(dead) && self.now.since(START) < SECOND * 600
    }

    /// The table, written down once more and in another way than the code.
    fn expected(&self, spec: &Spec) -> Class {
        let state = self.row.as_ref().map(|row| row.state);
        if state.is_none() && self.look_generation > 0 {
            return Class::Drop;
        }
        if self.is_redrive() {
            return Class::LookAgain;
        }
        if state.is_some_and(State::is_terminal) {
            return Class::EndSteps;
        }
        if self.now < self.waits_until() {
            return Class::LookAgain;
        }
        match &self.row {
            Some(row) if row.state == State::Claimed => {
                if row.cancel_requested {
                    return Class::End(State::Cancelled);
                }
                if row.tries == spec.max_attempts {
                    return Class::End(State::Dead);
                }
            }
            row => {
                let start = row.as_ref().map_or(START, |row| row.detail.start);
                if spec.is_expired(start, self.now) {
                    return Class::End(State::Expired);
                }
            }
        }
        let probes = self.published.is_some_and(|at| at >= self.waits_until());
        Class::Publish { probes }
    }
}

/// Every kind of row, with the instants at which it turns.
fn rows(spec: &Arc<Spec>) -> Vec<Option<TaskRow>> {
    let mut rows = vec![None];
    for state in State::ALL {
        for generation in [0, 2] {
            for tries in [1, 3] {
                for cancel_requested in [false, true] {
                    rows.push(Some(TaskRow {
                        generation,
                        attempt: 5,
                        // Used up only while the last attempt is claimed: no history leaves it so elsewhere.
                        tries: if state == State::Claimed { tries } else { 1 },
                        cancel_requested: cancel_requested && state == State::Claimed,
                        next: START.after(SECOND * 100),
                        ..row(state, spec)
                    }));
                }
            }
        }
    }
    rows
}

fn cases(spec: &Arc<Spec>) -> Vec<Case> {
    let mut cases = Vec::new();
    for row in rows(spec) {
        for seconds in [0, 99, 100, 101, 130, 100_000] {
            for heartbeat in [None, Some(START.after(SECOND * 100)), Some(START)] {
                for look_generation in [0, 1, 2] {
                    for published in [None, Some(START), Some(START.after(SECOND * 130))] {
                        cases.push(Case {
                            row: row.clone(),
                            heartbeat,
                            look_generation,
                            published,
                            now: START.after(SECOND * seconds),
                        });
                    }
                }
            }
        }
    }
    cases
}

/// Checks the rules for a decision beside its class.
fn check(case: &Case, decision: &Decision, spec: &Arc<Spec>) {
    let grid = Grid::of(id(), &shape());
    let (generation, attempt) = case
        .row
        .as_ref()
        .map_or((0, 0), |row| (row.generation, row.attempt));
    match decision {
        Decision::LookAgain { at, generation: of } if case.is_redrive() => {
            assert!(*at > case.now && *of == case.look_generation);
            assert_eq!(grid.at(*at), *at);
        }
        Decision::LookAgain { at, generation: of } => {
            assert!(*at > case.now && *at >= case.waits_until());
            assert_eq!((grid.at(*at), *of), (*at, generation));
        }
        Decision::Publish(publish) => {
            let at = publish.look_at.expect("its successor");
            assert!(at > case.now && grid.at(at) == at);
            assert!(publish.start <= case.now);
            assert_eq!(
                (publish.generation, publish.expected_attempt),
                (generation, attempt)
            );
            let claim = Event::Claim {
                generation: publish.generation,
                expected_attempt: publish.expected_attempt,
                worker: "w".to_owned(),
                heartbeat: case.heartbeat,
                published: None,
            };
            let claimed = next(id(), case.row.as_ref(), spec, claim, case.now, Uuid::nil());
            assert!(claimed.is_ok(), "what is published can be claimed");
        }
        Decision::Drop => assert!(case.row.is_none() && case.look_generation > 0),
        Decision::EndSteps => {
            assert!(case.row.as_ref().is_some_and(|row| row.state.is_terminal()));
        }
        Decision::End { .. } => {}
    }
}

#[test]
fn every_look_does_what_is_listed_and_leaves_a_successor_or_an_end() {
    let mut count = 0;
    for expire_after in [None, Some(SECOND * 1000)] {
        let spec = Arc::new(Spec {
            expire_after,
            ..spec()
        });
        for case in cases(&spec) {
            let look = look_of(&spec, case.look_generation, case.published);
            let known = Known {
                row: case.row.as_ref(),
                heartbeat: case.heartbeat,
            };
            let decision = decide(&look, known, case.now, &shape());
            let got = class(&decision, case.row.as_ref(), &spec, case.now);
            assert_eq!(got, case.expected(&spec), "{case:?}");
            check(&case, &decision, &spec);
            count += 1;
        }
    }
    assert_eq!(count, 2 * 65 * 6 * 3 * 3 * 3);
}

#[test]
fn a_task_that_waits_for_workers_is_looked_at_ever_more_seldom() {
    let spec = Arc::new(spec());
    let known = Known {
        row: None,
        heartbeat: None,
    };
    let mut waits = Vec::new();
    let (mut now, mut published) = (START.after(SECOND * 60), None);
    for _ in 0..20 {
        let look = Entry::look(id(), 0, now, published, START, Arc::clone(&spec), 0);
        let Decision::Publish(publish) = decide(&look, known, now, &shape()) else {
            panic!("it is due");
        };
        waits.push(publish.look_at.unwrap().since(now));
        (now, published) = (publish.look_at.unwrap(), Some(now));
    }
    assert!(waits[0] < SECOND * 100 && waits[19] > SECOND * 300);
    assert!(waits.iter().all(|wait| *wait <= SECOND * 900), "{waits:?}");
}

#[test]
fn a_due_entry_decides_alone_and_only_the_first_of_a_tracked_task_brings_its_look() {
    let tracked = Arc::new(spec());
    let published = Arc::new(Spec {
        target: Target::Kafka {
            topic: "t".to_owned(),
            partition: None,
        },
        ..spec()
    });
    let grid = Grid::of(id(), &shape());
    let rows = rows(&tracked);
    for spec in [&tracked, &published] {
        for (generation, expected_attempt) in [(0, 0), (0, 4), (3, 4)] {
            for first in [false, true] {
                for now in [START.before(SECOND), START, NOW] {
                    let due = Entry::due(
                        id(),
                        generation,
                        expected_attempt,
                        START,
                        Arc::clone(spec),
                        0,
                    );
                    let due = if first {
                        due.first_of_generation()
                    } else {
                        due
                    };
                    let brings_look = first && spec.target.is_tracked();
                    assert_eq!(due.needs_look(), brings_look);
                    let expected = Decision::Publish(Publish {
                        generation,
                        expected_attempt,
                        start: START,
                        look_at: brings_look.then(|| grid.one_step_after(START.max(now))),
                        unless_queued_since: None,
                    });
                    for row in &rows {
                        let known = Known {
                            row: row.as_ref(),
                            heartbeat: None,
                        };
                        assert_eq!(decide(&due, known, now, &shape()), expected);
                    }
                }
            }
        }
    }
}

#[test]
fn a_mark_does_nothing_and_replaces_what_it_marks() {
    let spec = Arc::new(spec());
    let row = row(State::New, &spec);
    for entry in [
        Entry::due(id(), 0, 0, START, Arc::clone(&spec), 40),
        look_of(&spec, 0, None),
    ] {
        for written in [0, 40, 90] {
            let mark = entry.marked_done(DoneReason::Cancelled, NOW, written);
            assert_eq!(mark.key, entry.key);
            assert!(mark.written > entry.written && mark.written >= written);
            for row in [None, Some(&row)] {
                let known = Known {
                    row,
                    heartbeat: None,
                };
                assert_eq!(decide(&mark, known, NOW, &shape()), Decision::Drop);
            }
        }
    }
}
