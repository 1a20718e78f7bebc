//! Tests of the rules of joins.

use std::sync::Arc;

use uuid::Uuid;

use super::*;
use crate::model::{
    decision::{self, Decision, Known},
    entry::Entry,
    family::Kin,
    fixtures::{self, START, shape},
    row::TaskRow,
    state::{self, Event},
    target::Target,
    wheel::WheelNumber,
};

const NOW: Millis = Millis(START.0 + 3_600_000);

fn id(number: u64) -> TaskId {
    TaskId::new(START, WheelNumber::new(0).unwrap(), number)
}

fn after(condition: Condition, tasks: u32) -> After {
    After {
        condition,
        later: false,
        deadline: None,
        tasks,
    }
}

fn ended(state: State, tree: TreeOutcome, at: i64) -> Seen {
    Seen::Ended(Outcome {
        state,
        tree,
        at: Millis(at),
    })
}

fn waiter(after: After) -> Spec {
    Spec {
        after: Some(Box::new(after)),
        ..fixtures::spec()
    }
}

#[test]
fn a_waiter_goes_when_all_have_ended_as_it_wants() {
    let (good, bad) = (
        ended(State::Succeeded, TreeOutcome::Completed, 5),
        ended(State::Dead, TreeOutcome::Faulted, 9),
    );
    let all = |condition, seen: &[Seen]| {
        let seen: Vec<(TaskId, Seen)> = (0..).map(id).zip(seen.iter().copied()).collect();
        decide(&after(condition, 2), &seen, NOW)
    };
    let goes = |at| Verdict::Goes(Some(Millis(at)));
    for condition in [Condition::AllSucceeded, Condition::AllEnded] {
        assert_eq!(all(condition, &[good, good]), goes(5));
        for open in [Seen::Open, Seen::Unknown] {
            assert_eq!(all(condition, &[good, open]), Verdict::Waits);
        }
        // One of its rows is not there.
        assert_eq!(all(condition, &[good]), Verdict::Waits);
    }
    assert_eq!(all(Condition::AllEnded, &[good, bad]), goes(9));
    assert_eq!(all(Condition::AllEnded, &[Seen::Gone, bad]), goes(9));
    assert_eq!(all(Condition::AllEnded, &[Seen::Open, bad]), Verdict::Waits);
    let failed = all(Condition::AllSucceeded, &[Seen::Open, bad]);
    assert!(matches!(failed, Verdict::Failed(one, _) if one == id(1)));
    let faulted = ended(State::Succeeded, TreeOutcome::Faulted, 7);
    let failed = all(Condition::AllSucceeded, &[faulted, Seen::Open]);
    assert!(failed.end().unwrap().1.contains("its tree is faulted"));
    let missing = Verdict::Missing(id(0));
    assert_eq!(
        all(Condition::AllSucceeded, &[Seen::Gone, Seen::Open]),
        missing
    );
}

#[test]
fn a_deadline_ends_a_wait() {
    let deadline = Some(NOW);
    let after = After {
        deadline,
        later: true,
        ..after(Condition::AllEnded, 2)
    };
    let good = ended(State::Succeeded, TreeOutcome::Completed, 5);
    let decide = |one, other, now| decide(&after, &[(id(0), one), (id(1), other)], now);
    let before = Millis(NOW.0 - 1);
    assert_eq!(decide(Seen::Open, Seen::Unknown, before), Verdict::Waits);
    let missing = Verdict::Missing(id(1));
    assert_eq!(decide(Seen::Open, Seen::Unknown, NOW), missing);
    assert_eq!(decide(Seen::Open, good, NOW), Verdict::Late(id(0)));
    assert!(matches!(decide(good, good, NOW), Verdict::Goes(_)));
    for (verdict, told) in [
        (missing, "dependency_missing"),
        (Verdict::Late(id(0)), "deadline_passed"),
    ] {
        let (fails, error) = verdict.end().unwrap();
        assert_eq!((fails, reason(&error)), (true, Some(told)), "{error}");
        assert!(error.contains(&id(0).to_string()[..8]), "{error}");
    }
    assert_eq!(reason("dependency missing"), None);
    assert_eq!(reason("no"), None);
}

#[test]
fn a_task_that_waits_is_let_go_or_ends_and_is_looked_at_until_then() {
    let after = After {
        deadline: Some(NOW.after(Duration::from_secs(90))),
        ..after(Condition::AllSucceeded, 1)
    };
    let spec = Arc::new(waiter(after));
    let task = fixtures::id();
    let next = |row: Option<&TaskRow>, event| {
        state::next(task, row, &spec, event, NOW, Uuid::from_u128(1))
    };
    let waits = next(None, Event::Await).unwrap().row;
    assert!(waits.waits_for_tasks() && waits.waits() && !waits.waits_for_parent());
    let look = Entry::look(task, 0, NOW, None, START, Arc::clone(&spec), 0);
    // Its row may not be there yet.
    for row in [None, Some(&waits)] {
        let known = Known {
            row,
            heartbeat: None,
        };
        let Decision::LookAgain { at, generation } = decision::decide(&look, known, NOW, &shape())
        else {
            panic!("{row:?} is not looked at again");
        };
        assert_eq!(generation, 0);
        assert!(at > NOW && at < NOW.after(Duration::from_secs(300)), "{at}");
        assert_eq!(decision::resume(&look, known, NOW, &shape()), None);
        let start = NOW;
        let gone = next(row, Event::Release { start }).unwrap().row;
        assert_eq!((gone.state, gone.generation), (State::New, 1));
        assert!(!gone.waits());
        for (fails, state) in [(false, State::Cancelled), (true, State::Failed)] {
            let error = format!("{DEPENDENCY_FAILED}: x");
            let over = Event::WaitOver {
                fails,
                error: error.clone(),
            };
            let left = next(row, over.clone()).unwrap().row;
            assert_eq!((left.state, left.detail.error), (state, Some(error)));
            assert!(next(Some(&gone), over).is_err());
        }
        assert!(next(row, Event::ParentFailed).is_err(), "it has no parent");
    }
}

#[test]
fn a_child_waits_for_nothing_that_could_wait_for_its_tree() {
    let kin = |parent: Option<TaskId>, is_parent: bool, after_parent: bool| {
        let kin = Kin {
            parent,
            is_parent,
            after_parent,
            undoes: false,
            children_within: None,
        };
        Some(Box::new(kin))
    };
    let child = Spec {
        kin: kin(Some(id(1)), false, false),
        ..waiter(after(Condition::AllEnded, 1))
    };
    let with = |spec: &Spec| check(&child, (3, id(9)), Some(spec));
    let refused = Err(Refusal::MayWait(3, id(9)));
    let plain = fixtures::spec();
    assert_eq!(with(&plain), Ok(()));
    assert_eq!(with(&waiter(after(Condition::AllEnded, 1))), refused);
    let placed = |parent, is_parent, after_parent| Spec {
        kin: kin(parent, is_parent, after_parent),
        ..fixtures::spec()
    };
    assert_eq!(with(&placed(None, true, false)), refused);
    assert_eq!(with(&placed(Some(id(1)), true, false)), refused);
    assert_eq!(with(&placed(Some(id(1)), false, true)), Ok(()));
    assert_eq!(with(&placed(Some(id(2)), false, true)), refused);
    assert_eq!(with(&placed(Some(id(2)), false, false)), Ok(()));
    assert_eq!(with(&child), Ok(()), "a sibling may wait");
    assert_eq!(
        check(&child, (0, id(1)), Some(&plain)),
        Err(Refusal::Parent(0, id(1)))
    );
    // A deadline ends what waits in a circle.
    let mut limited = after(Condition::AllEnded, 1);
    limited.deadline = Some(NOW);
    let limited = Spec {
        after: Some(Box::new(limited)),
        ..child.clone()
    };
    let parent = placed(None, true, false);
    assert_eq!(check(&limited, (0, id(9)), Some(&parent)), Ok(()));
    let root = waiter(after(Condition::AllEnded, 1));
    assert_eq!(check(&root, (0, id(9)), Some(&parent)), Ok(()));
    assert_eq!(
        check(&root, (0, id(9)), None),
        Err(Refusal::NotFound(0, id(9)))
    );
    let record = Spec {
        target: Target::Kafka {
            topic: "t".to_owned(),
            partition: None,
        },
        ..fixtures::spec()
    };
    let never = Err(Refusal::NeverEnds(0, id(9)));
    assert_eq!(check(&root, (0, id(9)), Some(&record)), never);
}

#[test]
fn a_wait_whose_rows_are_gone_ends_at_its_deadline() {
    let after = After {
        deadline: Some(NOW),
        ..after(Condition::AllEnded, 2)
    };
    let good = (id(0), ended(State::Succeeded, TreeOutcome::Completed, 5));
    let before = Millis(NOW.0 - 1);
    for seen in [&[][..], &[good]] {
        assert_eq!(decide(&after, seen, before), Verdict::Waits);
        assert_eq!(decide(&after, seen, NOW), Verdict::Lost);
    }
    let (fails, error) = Verdict::Lost.end().unwrap();
    assert_eq!((fails, reason(&error)), (true, Some("dependency_missing")));
    // An open one among the others says more.
    let open = [(id(0), Seen::Open)];
    assert_eq!(decide(&after, &open, NOW), Verdict::Late(id(0)));
}

#[test]
fn ends_that_a_waiter_wants_are_passed_over() {
    let outcome = |state, tree| Outcome {
        state,
        tree,
        at: Millis(5),
    };
    let (wants, any) = (
        after(Condition::AllSucceeded, 2),
        after(Condition::AllEnded, 2),
    );
    for (state, tree, is_good) in [
        (State::Succeeded, TreeOutcome::Completed, true),
        (State::Succeeded, TreeOutcome::Faulted, false),
        (State::Succeeded, TreeOutcome::Cancelled, false),
        (State::Dead, TreeOutcome::Faulted, false),
        (State::Cancelled, TreeOutcome::Completed, false),
    ] {
        let outcome = outcome(state, tree);
        assert_eq!(passes(&wants, &outcome), is_good, "{outcome:?}");
        assert!(passes(&any, &outcome));
    }
    // A row that nobody understands says nothing, and without `later` all were known.
    let later = After {
        later: true,
        ..wants
    };
    assert!(was_known(&wants, false) && was_known(&later, true));
    assert!(!was_known(&later, false));
}

#[test]
fn the_row_of_a_dependency_lives_on_while_it_is_waited_for() {
    let day = Duration::from_secs(24 * 3600);
    let mut row = fixtures::row(State::Succeeded, &Arc::new(fixtures::spec()));
    let end = row.id.first_start().after(day);
    (row.detail.start, row.last, row.detail.end_time) = (end, end, Some(end));
    let nonce = Uuid::from_u128(7);
    for days in 0..5 {
        let now = end.after(day * days);
        assert!(!is_kept_longer(end, now));
        assert!(kept_longer(&row, now, nonce).is_err(), "{days}");
    }
    // Looks come every quarter of an hour: one or two of each day write it.
    let looks = (0..96 * 4).map(|look| end.after(day * 5 + Duration::from_secs(900) * look));
    let writes: Vec<Millis> = looks.filter(|now| is_kept_longer(end, *now)).collect();
    assert_eq!(writes.len(), 8, "{writes:?}");
    for now in writes {
        let written = kept_longer(&row, now, nonce).unwrap();
        assert!(written.ttl.unwrap() >= TERMINAL_TTL_MIN);
        assert_eq!(
            (written.row.nonce, written.row.state),
            (nonce, State::Succeeded)
        );
    }
    let later = end.after(day * 6);
    let long = Spec {
        retention: day * 30,
        ..fixtures::spec()
    };
    let kept = fixtures::row(State::Succeeded, &Arc::new(long));
    for (detail, state) in [
        (&kept.detail, State::Succeeded),
        (&row.detail, State::Claimed),
    ] {
        let mut other = row.clone();
        other.detail.spec = Arc::clone(&detail.spec);
        other.state = state;
        assert!(kept_longer(&other, later, nonce).is_err());
    }
    row.detail.erased = true;
    assert!(kept_longer(&row, later, nonce).is_err());
}
