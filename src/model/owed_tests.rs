//! Every pair of rows that the state machine can make has its debts listed, and no change of a row forgets one.
//!
//! The search goes through all histories of a few events, for tasks with every feature that an end concerns. The clock stands
//! still but for ends that are days old, which are cases of their own.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use uuid::Uuid;

use super::{
    action::When,
    chain::{FollowStart, FollowUp},
    event::{Event, Outcome},
    fixtures::{START, id, spec},
    kin::{Again, Kin, TreeOutcome},
    notify::{Destination, EndStates, Notify},
    owed::{Asked, Debt, Debts, Forgetting, Owes, before, forgets, of_change, of_claim, of_end},
    row::{State, TaskRow},
    state::next,
    task::Spec,
    time::Millis,
};

const DAY: Duration = Duration::from_secs(24 * 3600);
const TOLD_WITHIN: Duration = Duration::from_secs(6 * 24 * 3600);
/// The length of the histories: a death, its redrive or its round, and another end.
const EVENTS_MAX: usize = 6;

fn asked(at: Millis, is_first: bool) -> Asked {
    Asked {
        at,
        expired_by: at,
        told_within: TOLD_WITHIN,
        is_first,
    }
}

fn set(debts: Debts) -> BTreeSet<Debt> {
    debts.in_order().collect()
}

fn follow(in_tree: bool) -> FollowUp<Spec> {
    FollowUp {
        when: When::Run(EndStates::ALL),
        start: FollowStart::After(Duration::ZERO),
        with_result: false,
        in_tree,
        task: spec(),
    }
}

/// All ends, and the first claim.
fn claims_and_ends() -> EndStates {
    let ends = State::ALL.into_iter().filter(|state| state.is_terminal());
    EndStates::of(ends.chain([State::Claimed])).unwrap()
}

/// Tasks with every feature that an end concerns: outside of trees, roots, inner parents and leaves.
fn specs() -> Vec<Spec> {
    let told = Spec {
        max_attempts: 1,
        ordering_key: Some("lane".to_owned()),
        notify: Some(Notify::of_run(
            Destination::Kafka {
                topic: "ends".to_owned(),
            },
            claims_and_ends(),
        )),
        then: vec![follow(false)],
        ..spec()
    };
    let plain = Spec {
        max_attempts: 1,
        ..spec()
    };
    let of_tree = |parent, is_parent| Spec {
        kin: Some(Box::new(Kin {
            parent,
            is_parent,
            ..Kin::default()
        })),
        then: vec![follow(false), follow(true)],
        ..told.clone()
    };
    let leaf = of_tree(Some(id()), false);
    let inner = of_tree(Some(id()), true);
    let root = of_tree(None, true);
    vec![plain, told, leaf, inner, root]
}

fn events(row: Option<&TaskRow>) -> Vec<Event> {
    let (generation, attempt) = row.map_or((0, 0), |row| (row.generation, row.attempt));
    let settled = |outcome| Event::Settle {
        attempt,
        outcome,
        answered: None,
        chance: 0,
    };
    let error = || "e".to_owned();
    let round = row.map_or(0, |row| row.detail.rounds.round);
    let again = |what| Event::Again {
        round: round + 1,
        what,
    };
    let mut events = vec![
        Event::Claim {
            generation,
            expected_attempt: attempt,
            worker: "w".to_owned(),
            heartbeat: None,
            published: None,
        },
        settled(Outcome::Succeeded { result: None }),
        settled(Outcome::Failed { error: error() }),
        settled(Outcome::Retry {
            error: error(),
            after: None,
        }),
        Event::Cancel,
        Event::Expire,
        Event::Redrive { start: START },
        Event::Erase,
        again(Again::Tree),
        again(Again::Run { start: START }),
        again(Again::Reopen { start: START }),
        again(Again::Nothing),
    ];
    events.extend(TreeOutcome::ALL.map(|outcome| Event::TreeEnded {
        outcome,
        time_passed: false,
        round,
    }));
    events
}

/// Calls `check` with every row before an event, and every row behind it, of all histories.
fn search(mut check: impl FnMut(&Event, Option<&TaskRow>, &TaskRow)) -> usize {
    let mut pairs = 0;
    for spec in specs() {
        let spec = Arc::new(spec);
        let mut rows: Vec<Option<TaskRow>> = vec![None];
        for step in 0..EVENTS_MAX {
            // Each write is younger than the one before.
            let now = START.after(Duration::from_secs(60) * u32::try_from(step).unwrap());
            let mut found = Vec::new();
            for row in &rows {
                for event in events(row.as_ref()) {
                    let nonce = Uuid::from_u128(1);
                    let made = next(id(), row.as_ref(), &spec, event.clone(), now, nonce);
                    let Ok(made) = made else { continue };
                    check(&event, row.as_ref(), &made.row);
                    pairs += 1;
                    if !found.contains(&Some(made.row.clone())) {
                        found.push(Some(made.row));
                    }
                }
            }
            rows = found;
        }
    }
    pairs
}

#[test]
fn every_end_lists_all_that_it_owes() {
    let mut ends = BTreeSet::new();
    let pairs = search(|event, _, row| {
        if !row.state.is_terminal() {
            return;
        }
        let debts = set(of_end(row, &asked(row.detail.end_time.unwrap(), true)));
        let (spec, erased) = (&row.detail.spec, row.detail.erased);
        let goes_on = row.waits_for_children();
        assert_eq!(debts.contains(&Debt::Turn), spec.ordering_key.is_some());
        assert_eq!(
            debts.contains(&Debt::Letter),
            row.state == State::Dead && !erased
        );
        assert_eq!(
            debts.contains(&Debt::RunReport),
            spec.notify.is_some() && !erased,
            "{event:?} {row:?}"
        );
        let began = row.attempt >= row.first_attempt() && !erased;
        assert_eq!(
            debts.contains(&Debt::Claim),
            spec.notify.is_some() && began,
            "{event:?} {row:?}"
        );
        let tree_is_over = spec.kin.is_some() && row.detail.tree.is_some() && !erased;
        assert_eq!(
            debts.contains(&Debt::TreeReport),
            tree_is_over && spec.notify.is_some()
        );
        assert_eq!(debts.contains(&Debt::Removal), erased);
        // The parent is told by the end of the whole tree, and a parent is checked itself before.
        assert_eq!(
            debts.contains(&Debt::Parent),
            goes_on || spec.parent().is_some()
        );
        assert_eq!(debts.contains(&Debt::Waiters), !goes_on);
        assert_eq!(debts.contains(&Debt::Listing), !goes_on);
        ends.insert((
            row.state.number(),
            goes_on,
            erased,
            row.detail.tree.is_some(),
        ));
    });
    assert!(pairs > 1000, "{pairs} pairs");
    assert!(ends.len() >= 20, "{ends:?}");
}

/// The two rows of a change say what it owes, whichever event made it.
#[test]
fn a_change_owes_what_its_rows_say() {
    let (mut ends, mut claims, mut nothing) = (0, 0, 0);
    search(|event, row, made| {
        let was_over = row.is_some_and(|row| row.state.is_terminal());
        let expected = match event {
            Event::Claim { .. } => {
                let is_first = made.attempt == made.first_attempt();
                let is_told = made.detail.spec.notify.is_some();
                if is_first && is_told {
                    Owes::FirstClaim
                } else {
                    Owes::Nothing
                }
            }
            // The tree goes on, and its end comes once more.
            Event::Again {
                what: Again::Tree, ..
            } => Owes::Nothing,
            _ if made.state.is_terminal() => Owes::End,
            _ => Owes::Nothing,
        };
        let owes = of_change(row, made);
        assert_eq!(owes, expected, "{event:?} {was_over} {row:?} {made:?}");
        match owes {
            Owes::End => ends += 1,
            Owes::FirstClaim => claims += 1,
            Owes::Nothing => nothing += 1,
        }
        // A row that is written over itself, with another end of its life in the store, owes nothing.
        let again = TaskRow {
            nonce: Uuid::from_u128(2),
            ..made.clone()
        };
        assert_eq!(of_change(Some(made), &again), Owes::Nothing);
    });
    assert!(
        ends > 500 && claims > 20 && nothing > 100,
        "{ends} {claims} {nothing}"
    );
}

/// A debt that the row before has, and the row behind does not, is paid before, or the change has undone it.
#[test]
fn no_change_of_a_row_forgets_what_its_end_owes() {
    let mut forgotten = BTreeSet::new();
    search(|event, row, made| {
        let Some(row) = row.filter(|row| row.state.is_terminal()) else {
            return;
        };
        let Some(forgetting) = forgets(row, made) else {
            // The end of a tree pays the end of its own run as well, and a round of nothing keeps the end.
            let now = made.detail.end_time.unwrap();
            let mut lost =
                &set(of_end(row, &asked(now, false))) - &set(of_end(made, &asked(now, false)));
            // A root whose tree has ended is not checked any more, and has no parent.
            if row.waits_for_children() && !made.waits_for_children() {
                lost.remove(&Debt::Parent);
            }
            assert!(lost.is_empty(), "{event:?} {lost:?}");
            return;
        };
        let by_event = match event {
            Event::Redrive { .. } => Forgetting::Run,
            Event::Again {
                what: Again::Tree, ..
            } => Forgetting::Tree,
            Event::Again { .. } => Forgetting::Run,
            Event::Erase => Forgetting::All,
            _ => panic!("{event:?} forgets an end"),
        };
        assert_eq!(forgetting, by_event);
        let now = row.detail.end_time.unwrap();
        let paid = set(before(forgetting, row, &asked(now, false)));
        let owed = set(of_end(row, &asked(now, false)));
        let later = match made.state.is_terminal() {
            true => set(of_end(made, &asked(now, false))),
            false => BTreeSet::new(),
        };
        for debt in owed.difference(&paid).filter(|debt| !later.contains(debt)) {
            forgotten.insert((format!("{forgetting:?}"), *debt));
        }
    });
    let run = |debt| ("Run".to_owned(), debt);
    let tree = |debt| ("Tree".to_owned(), debt);
    let all = |debt| ("All".to_owned(), debt);
    let allowed = BTreeSet::from([
        // A run that begins again takes its turn anew, and its letter, its rows of lists and its ends of life are undone.
        run(Debt::Turn),
        run(Debt::Letter),
        run(Debt::Listing),
        // Its tree goes on: the parent hears of the next end.
        run(Debt::Parent),
        // The tree goes on, and ends once more.
        tree(Debt::Listing),
        // A person has the letter removed, and the record of a death goes with the content that it would have.
        all(Debt::Letter),
        all(Debt::DeathRecord),
    ]);
    assert_eq!(forgotten, allowed);
}

#[test]
fn an_end_is_told_for_days_and_no_longer() {
    let spec = Arc::new(specs().swap_remove(1));
    let end = START.after(Duration::from_secs(60));
    let cancelled = next(id(), None, &spec, Event::Cancel, end, Uuid::from_u128(1)).unwrap();
    let tells = |after, is_first| {
        let debts = of_end(&cancelled.row, &asked(end.after(after), is_first));
        debts.has(Debt::RunReport)
    };
    let least = Duration::from_millis(1);
    assert!(tells(TOLD_WITHIN - least, false) && !tells(TOLD_WITHIN, false));
    // The look of a plain task that was cancelled long before its start may be the first to come.
    assert!(tells(DAY * 400, true));
    // All other debts are paid however late it is.
    let late = of_end(&cancelled.row, &asked(end.after(DAY * 400), false));
    assert!(late.has(Debt::Turn) && late.has(Debt::Waiters) && late.has(Debt::Listing));
}

#[test]
fn the_end_of_a_run_whose_tree_goes_on_is_told_for_some_looks() {
    let spec = Arc::new(specs().swap_remove(4));
    let cancelled = next(id(), None, &spec, Event::Cancel, START, Uuid::from_u128(1)).unwrap();
    let repeated = super::family::run_steps_repeated(id());
    let tells = |after| {
        let debts = of_end(&cancelled.row, &asked(START.after(after), true));
        assert!(debts.has(Debt::Parent), "its tree is always checked");
        debts.has(Debt::RunReport)
    };
    assert!(tells(repeated - Duration::from_millis(1)) && !tells(repeated));
}

#[test]
fn debts_are_paid_in_one_order() {
    let all = of_end(
        &{
            let spec = Arc::new(specs().swap_remove(1));
            next(id(), None, &spec, Event::Cancel, START, Uuid::from_u128(1))
                .unwrap()
                .row
        },
        &asked(START, true),
    );
    let order: Vec<Debt> = all.in_order().collect();
    assert!(order.is_sorted(), "{order:?}");
    assert_eq!(order.first(), Some(&Debt::Turn));
    assert_eq!(order.last(), Some(&Debt::Waiters));
}

#[test]
fn a_first_claim_is_told_by_looks_until_its_lease_is_over_and_for_each_life_once() {
    let spec = Arc::new(specs().swap_remove(1));
    let claim = |row: Option<&TaskRow>, now| {
        let (generation, expected_attempt) =
            row.map_or((0, 0), |row| (row.generation, row.attempt));
        let event = Event::Claim {
            generation,
            expected_attempt,
            worker: "w".to_owned(),
            heartbeat: None,
            published: None,
        };
        next(id(), row, &spec, event, now, Uuid::from_u128(1))
            .unwrap()
            .row
    };
    let first = claim(None, START);
    let told = super::action_task::first_claim(&first);
    assert_eq!(told.map(super::action::End::at), Some(START));
    let owes = |after| of_claim(&first, &asked(START.after(after), false)).has(Debt::Claim);
    let bound = super::family::run_steps_repeated(id()) + spec.heartbeat_timeout;
    assert!(owes(Duration::ZERO) && owes(bound - Duration::from_millis(1)) && !owes(bound));
    // A snooze and a move go on with the same life.
    let snoozed = Event::Settle {
        attempt: 1,
        outcome: Outcome::Snoozed {
            after: Duration::ZERO,
        },
        answered: None,
        chance: 0,
    };
    let later = START.after(Duration::from_secs(5));
    let apply = |row: &TaskRow, event| {
        next(id(), Some(row), &spec, event, later, Uuid::from_u128(1))
            .unwrap()
            .row
    };
    let waits = apply(&first, snoozed);
    let moved = apply(&waits, Event::Reschedule { start: later });
    let second = claim(Some(&moved), later);
    assert_eq!((second.attempt, second.first_attempt()), (2, 1));
    assert_eq!(super::action_task::first_claim(&second), told);
    let failed = Event::Settle {
        attempt: 2,
        outcome: Outcome::Retry {
            error: "e".to_owned(),
            after: None,
        },
        answered: None,
        chance: 0,
    };
    let dead = apply(&second, failed);
    let redriven = apply(&dead, Event::Redrive { start: later });
    assert_eq!(super::action_task::first_claim(&redriven), None);
    let third = claim(Some(&redriven), later);
    assert_eq!((third.attempt, third.first_attempt()), (3, 3));
    assert_ne!(super::action_task::first_claim(&third), told);
}
