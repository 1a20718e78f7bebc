//! Causes are told for every state of a task, in the order of time.

use std::sync::Arc;

use super::*;
use crate::model::{
    after::{After, Condition},
    fixtures::{self, START},
    gate::{Gate, GateState},
    history::{Attempt, Ending},
    ids::NodeId,
    kin::Kin,
    local_quota::Bound,
    state::DROPPED,
};

const SECOND: Duration = Duration::from_secs(1);

/// A minute behind the start of the task.
const LATE: Millis = Millis(START.0 + 60_000);

fn registered(near: bool) -> Stands<'static> {
    Stands::Registered {
        start: START,
        near,
        again: None,
    }
}

fn told(spec: &Spec, stands: Stands<'_>, seen: &Seen, now: Millis) -> Vec<Cause> {
    let id = fixtures::id();
    causes(&Subject { id, spec, stands }, seen, now)
}

fn codes(causes: &[Cause]) -> Vec<&'static str> {
    causes.iter().map(|cause| cause.what.code()).collect()
}

fn gate(since: Millis, until: Option<Millis>) -> Gate {
    Gate {
        collection: String::new(),
        state: GateState::Paused,
        reason: "smtp moves".to_owned(),
        since,
        until,
        who: "ada".to_owned(),
    }
}

/// Workers of which one polled so long before `now`.
fn workers(now: Millis, ago: Option<Duration>) -> Option<Workers> {
    let last = ago.map(|ago| now.before(ago));
    Some(Workers {
        polling: u64::from(ago.is_some_and(|ago| ago <= POLL_MISSED)),
        last,
        missed: POLL_MISSED,
        ..Workers::default()
    })
}

fn wheel(fired: Millis, lease_until: Millis) -> Option<Wheel> {
    Some(Wheel {
        fired: Position::behind(fired),
        owner: Some(NodeId::NOBODY),
        owner_seen: Some(LATE),
        lease_until,
        before: Some(7),
    })
}

#[test]
fn a_task_that_is_not_due_waits_for_its_start() {
    let now = START.before(SECOND);
    let causes = told(&fixtures::spec(), registered(false), &Seen::default(), now);
    assert_eq!(codes(&causes), ["not_due"]);
    assert_eq!(
        (causes[0].since, causes[0].until),
        (Some(Millis(0)), Some(START))
    );
    let row = fixtures::row(State::New, &Arc::new(fixtures::spec()));
    let moved = TaskRow {
        generation: 1,
        ..row.clone()
    };
    for (row, since) in [(row, Some(Millis(0))), (moved, None)] {
        let causes = told(&fixtures::spec(), Stands::Row(&row), &Seen::default(), now);
        assert_eq!((codes(&causes), causes[0].since), (vec!["not_due"], since));
    }
}

#[test]
fn a_due_task_tells_all_that_keeps_it_in_the_order_of_time() {
    let other = fixtures::id();
    let seen = Seen {
        gate: Some(gate(START.after(SECOND), Some(LATE.after(SECOND)))),
        turn: Some(Ahead {
            id: other,
            since: Some(START.before(SECOND)),
        }),
        limit: Some(Limited {
            bound: Bound::Rate,
            certain: false,
        }),
        workers: workers(LATE, Some(SECOND * 30)),
        wheel: wheel(LATE, LATE),
        queue_problem: Some("refused".to_owned()),
        ..Seen::default()
    };
    let causes = told(&fixtures::spec(), registered(false), &seen, LATE);
    let wanted = ["queue_away", "turn", "limit", "gate", "no_worker"];
    assert_eq!(codes(&causes), wanted);
    let since: Vec<i64> = causes
        .iter()
        .map(|cause| cause.since.unwrap().0 - START.0)
        .collect();
    assert_eq!(since, [0, 0, 0, 1000, 30_000]);
    let uncertain: Vec<bool> = causes.iter().map(|cause| !cause.certain).collect();
    assert_eq!(uncertain, [false, false, true, false, false]);
    assert_eq!(causes[3].until, Some(LATE.after(SECOND)));
}

#[test]
fn a_task_without_a_worker_is_told_apart_from_one_behind_busy_workers() {
    let spec = fixtures::spec();
    let of = |workers: Option<Workers>| {
        let seen = Seen {
            workers,
            ..Seen::default()
        };
        codes(&told(&spec, registered(false), &seen, LATE))
    };
    assert_eq!(of(workers(LATE, None)), ["no_worker"]);
    assert_eq!(of(workers(LATE, Some(POLL_MISSED + SECOND))), ["no_worker"]);
    assert_eq!(of(workers(LATE, Some(POLL_MISSED))), ["queued"]);
    let busy = Workers {
        running: 2,
        ..workers(LATE, None).unwrap()
    };
    assert_eq!(of(Some(busy)), ["busy"]);
    // A node that has just started has not seen the polls yet.
    let fresh = Workers {
        known_since: LATE.before(SECOND),
        ..workers(LATE, None).unwrap()
    };
    assert_eq!(of(Some(fresh)), ["queued"]);
    assert_eq!(of(None), ["queued"], "the service itself runs it");
}

#[test]
fn a_wheel_that_is_behind_is_taken_over_or_catches_up() {
    let spec = fixtures::spec();
    let of = |near, wheel| {
        let seen = Seen {
            wheel,
            workers: workers(LATE, Some(SECOND)),
            ..Seen::default()
        };
        told(&spec, registered(near), &seen, LATE)
    };
    let before = START.before(SECOND);
    assert_eq!(codes(&of(false, wheel(before, LATE))), ["catching_up"]);
    let ended = LATE.before(SECOND * 5);
    let silent = |owner_seen| Wheel {
        owner_seen,
        ..wheel(before, LATE).unwrap()
    };
    assert_eq!(codes(&of(false, Some(silent(None)))), ["take_over"]);
    let taken = of(false, Some(silent(Some(ended))));
    assert_eq!(
        (codes(&taken), taken[0].since),
        (vec!["take_over"], Some(ended))
    );
    let over = Wheel {
        owner_seen: Some(ended),
        ..wheel(before, ended).unwrap()
    };
    let taken = of(false, Some(over));
    assert_eq!(
        (codes(&taken), taken[0].since),
        (vec!["take_over"], Some(ended))
    );
    // A near task does not wait for its wheel, and a wheel that is hardly behind is about to come to the task.
    assert_eq!(codes(&of(true, wheel(before, LATE))), ["queued"]);
    assert_eq!(codes(&of(false, wheel(START, LATE))), ["queued"]);
    let seen = Seen {
        wheel: wheel(before, before),
        workers: workers(LATE, Some(SECOND)),
        ..Seen::default()
    };
    let soon = before.after(BEHIND_MIN);
    assert_eq!(
        codes(&told(&spec, registered(false), &seen, soon)),
        ["queued"]
    );
}

#[test]
fn a_record_that_its_topic_does_not_take_is_tried_again() {
    let spec = fixtures::spec();
    let stands = Stands::Registered {
        start: START,
        near: false,
        again: Some(LATE),
    };
    let before = LATE.before(SECOND);
    let causes = told(&spec, stands, &Seen::default(), before);
    assert_eq!(causes, [What::Topic.between(Some(START), Some(LATE))]);
    assert_eq!(
        codes(&told(&spec, stands, &Seen::default(), LATE)),
        ["queued"]
    );
}

#[test]
fn a_claimed_task_runs_as_long_as_its_worker_lives() {
    let spec = Arc::new(fixtures::spec());
    let mut row = fixtures::row(State::Claimed, &spec);
    row.detail.worker = "w1".to_owned();
    row.detail.claim_time = Some(START);
    row.next = START.after(SECOND * 30);
    let beat = START.after(SECOND * 20);
    let seen = Seen {
        heartbeat: Some(beat),
        workers: workers(LATE, None),
        ..Seen::default()
    };
    let alive = beat.after(SECOND * 29);
    let causes = told(&spec, Stands::Row(&row), &seen, alive);
    let what = What::Running {
        worker: "w1".to_owned(),
        attempt: 1,
        heartbeat: Some(beat),
        cancel_requested: false,
    };
    let until = Some(beat.after(SECOND * 30));
    assert_eq!(causes, [what.between(Some(START), until)]);
    let causes = told(&spec, Stands::Row(&row), &seen, beat.after(SECOND * 30));
    assert_eq!(codes(&causes), ["worker_lost", "no_worker"]);
    assert_eq!(causes[0].since, until);
    // Its look ends it, so it waits for no other worker.
    row.tries = 3;
    let causes = told(&spec, Stands::Row(&row), &seen, beat.after(SECOND * 30));
    assert_eq!(codes(&causes), ["worker_lost"]);
}

#[test]
fn a_task_that_was_tried_waits_for_its_next_attempt() {
    let spec = Arc::new(fixtures::spec());
    let mut row = fixtures::row(State::Retrying, &spec);
    row.next = LATE;
    row.detail.error = Some("no route".to_owned());
    let ended = |ending| Attempt {
        attempt: 1,
        worker: "w1".to_owned(),
        claimed: Some(START),
        ended: Some(START.after(SECOND)),
        ending: Some(ending),
        error: None,
        answered: None,
    };
    for (ending, error) in [(Ending::Retry, Some("no route")), (Ending::Snoozed, None)] {
        row.detail.history.attempts = vec![ended(ending)];
        let causes = told(
            &spec,
            Stands::Row(&row),
            &Seen::default(),
            START.after(SECOND * 2),
        );
        let error = error.map(str::to_owned);
        let wanted =
            What::Retry { attempt: 1, error }.between(Some(START.after(SECOND)), Some(LATE));
        assert_eq!(causes, [wanted]);
    }
    let causes = told(&spec, Stands::Row(&row), &Seen::default(), LATE);
    assert_eq!(codes(&causes), ["queued"], "its next attempt is due");
}

#[test]
fn a_task_that_waits_for_others_names_them() {
    let id = fixtures::id();
    let child = Spec {
        kin: Some(Box::new(Kin {
            parent: Some(id),
            after_parent: true,
            ..Kin::default()
        })),
        ..fixtures::spec()
    };
    let causes = told(&child, registered(false), &Seen::default(), LATE);
    assert_eq!(causes[0].what, What::Parent(Some(id)));
    let after = After {
        condition: Condition::AllEnded,
        later: false,
        deadline: Some(LATE),
        tasks: 3,
    };
    let waiter = Spec {
        after: Some(Box::new(after)),
        ..fixtures::spec()
    };
    let open = Open {
        first: vec![id],
        tasks: 2,
    };
    let seen = Seen {
        open: Some(open.clone()),
        ..Seen::default()
    };
    let causes = told(&waiter, registered(false), &seen, LATE);
    assert_eq!(
        causes,
        [What::Tasks(open).between(Some(Millis(0)), Some(LATE))]
    );
}

#[test]
fn a_task_that_has_ended_tells_how() {
    let spec = Arc::new(fixtures::spec());
    let dropped = format!("{DROPPED}: smtp moves");
    let ends = [
        (State::Succeeded, None, "succeeded"),
        (State::Failed, Some("no such user"), "failed"),
        (State::Cancelled, None, "cancelled"),
        (State::Cancelled, Some(&*dropped), "dropped"),
        (State::Expired, None, "expired"),
        (State::Dead, Some("no route"), "dead"),
    ];
    for (state, error, code) in ends {
        let mut row = fixtures::row(state, &spec);
        row.detail.error = error.map(str::to_owned);
        row.detail.end_time = Some(LATE);
        let causes = told(&spec, Stands::Row(&row), &Seen::default(), LATE);
        assert_eq!((codes(&causes), causes[0].since), (vec![code], Some(LATE)));
    }
    let published = Stands::Done {
        end: End::Published,
        at: LATE,
    };
    let causes = told(&spec, published, &Seen::default(), LATE);
    assert_eq!(codes(&causes), ["published"]);
}

#[test]
fn a_task_that_is_of_no_more_use_has_expired_though_no_write_says_so() {
    let spec = Spec {
        expire_after: Some(SECOND * 10),
        ..fixtures::spec()
    };
    let seen = Seen {
        gate: Some(gate(START, None)),
        ..Seen::default()
    };
    let causes = told(&spec, registered(false), &seen, LATE);
    assert_eq!(
        (codes(&causes), causes[0].since),
        (vec!["expired"], Some(START.after(SECOND * 10)))
    );
    let in_time = START.after(SECOND * 10);
    assert_eq!(
        codes(&told(&spec, registered(false), &seen, in_time)),
        ["gate"]
    );
}

#[test]
fn a_parent_whose_own_run_has_ended_waits_for_its_children() {
    let spec = Arc::new(Spec {
        kin: Some(Box::new(Kin {
            is_parent: true,
            ..Kin::default()
        })),
        ..fixtures::spec()
    });
    let mut row = fixtures::row(State::Succeeded, &spec);
    row.detail.end_time = Some(LATE);
    let causes = told(&spec, Stands::Row(&row), &Seen::default(), LATE);
    assert_eq!(
        (codes(&causes), causes[0].since),
        (vec!["children"], Some(LATE))
    );
}
