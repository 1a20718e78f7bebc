//! The tests of the listing rule check where tasks are listed, for each state of a task and of its entries.

use std::sync::Arc;

use super::*;
use crate::model::{
    fixtures::{START, id, row, shape, spec},
    ids::{NodeId, TaskId},
    state::State,
    target::Target,
    task::Spec,
    time::Tick,
};

/// Fired up to `fired` ms, erased up to the tick `erased`.
fn clock(fired: i64, erased: i64) -> ClockRow {
    ClockRow {
        opened: Tick(2000),
        fired: Position {
            due: Millis(fired),
            id: TaskId::LAST,
        },
        erased: Tick(erased),
        owner: NodeId::NOBODY,
        ..ClockRow::first(&shape(), Millis(0))
    }
}

fn placed(entry: &Entry, row: Option<&TaskRow>, clock: &ClockRow, now: i64) -> Place {
    let (shape, now) = (shape(), Millis(now));
    let known = Known {
        clock,
        shape: &shape,
        now,
    };
    place(entry, row, &known)
}

fn due(generation: u32, attempt: u32, at: i64) -> Entry {
    Entry::due(id(), generation, attempt, Millis(at), Arc::new(spec()), 1)
}

fn look(at: i64) -> Entry {
    Entry::look(id(), 0, Millis(at), None, START, Arc::new(spec()), 1)
}

#[test]
fn a_task_that_waits_is_listed_at_its_due_entry() {
    let clock = clock(900_000, 800);
    assert_eq!(
        placed(&due(0, 0, START.0), None, &clock, 990_000),
        Place::Here
    );
    let read_ahead = placed(&look(1_064_000), None, &clock, 999_000);
    let Place::Unless(others) = read_ahead else {
        panic!("{read_ahead:?}");
    };
    assert_eq!(others.dues(), [START]);
    assert!(others.include(&due(0, 0, START.0)));
    assert!(!others.include(&due(0, 1, START.0 + 9)));
    assert!(!others.include(&due(1, 0, START.0)));
    let moved = DoneReason::Moved { to: START };
    assert!(!others.include(&due(0, 0, START.0).marked_done(moved, START, 2)));
    let cancelled = due(0, 0, START.0).marked_done(DoneReason::Cancelled, START, 2);
    assert!(others.include(&cancelled));
    assert_eq!(placed(&cancelled, None, &clock, 990_000), Place::Here);
}

#[test]
fn a_task_that_has_started_is_listed_at_its_look_ahead() {
    let rows = [State::New, State::Claimed, State::Retrying];
    let spec = Arc::new(spec());
    let rows = rows.map(|state| Some(row(state, &spec)));
    let clock = clock(2_000_000, 1500);
    for row in rows.iter().chain([&None]) {
        let row = row.as_ref();
        assert_eq!(
            placed(&look(2_064_000), row, &clock, 2_000_500),
            Place::Here
        );
        assert_eq!(
            placed(&look(1_999_000), row, &clock, 2_000_500),
            Place::Elsewhere
        );
        let retry = due(0, 1, 2_030_000);
        assert_eq!(placed(&retry, row, &clock, 2_000_500), Place::Elsewhere);
    }
}

#[test]
fn a_look_that_may_have_been_done_asks_for_its_successor() {
    let clock = clock(1_999_000, 1500);
    let at = placed(&look(2_000_000), None, &clock, 2_000_500);
    let Place::Unless(others) = at else {
        panic!("{at:?}");
    };
    assert!(others.include(&look(2_064_000)) && !others.include(&look(2_000_000)));
    let next = Grid::of(id(), &shape()).one_step_after(Millis(2_000_400));
    assert!(others.dues().contains(&next), "{others:?}");
    let lagging = placed(&look(2_000_000), None, &clock, 2_100_000);
    assert_eq!(lagging, Place::Here, "nobody has done it in all that time");
}

#[test]
fn what_has_ended_is_listed_at_the_look_that_finds_it_so() {
    let spec = Arc::new(spec());
    let mut ended = row(State::Succeeded, &spec);
    ended.detail.end_time = Some(Millis(1_900_000));
    for clock in [clock(1_800_000, 1500), clock(2_100_000, 1500)] {
        let at = |due| placed(&look(due), Some(&ended), &clock, 2_000_000);
        assert_eq!(at(1_890_000), Place::Elsewhere);
        assert_eq!(at(1_950_000), Place::Here);
    }
}

#[test]
fn what_was_moved_is_listed_at_its_new_start() {
    let spec = Arc::new(spec());
    let mut moved = row(State::New, &spec);
    (moved.generation, moved.detail.start) = (1, Millis(5_000_000));
    let clock = clock(900_000, 800);
    let at = |entry: &Entry| placed(entry, Some(&moved), &clock, 990_000);
    assert_eq!(at(&due(0, 0, START.0)), Place::Elsewhere);
    assert_eq!(at(&due(2, 0, 6_000_000)), Place::Elsewhere);
    assert_eq!(at(&due(1, 0, 5_000_000)), Place::Here);
    assert_eq!(
        placed(&due(1, 0, 5_000_000), None, &clock, 990_000),
        Place::Elsewhere
    );
}

#[test]
fn a_task_that_nobody_understands_is_met_once() {
    let (shape, now) = (shape(), Millis(2_000_500));
    let clock = clock(2_000_000, 900);
    let known = Known {
        clock: &clock,
        shape: &shape,
        now,
    };
    let at = |entry: &Entry| place_unread(entry, &known);
    let first = due(0, 0, START.0);
    assert_eq!(at(&first), Place::Here);
    // Of later generations and attempts, and looks that were done.
    assert_eq!(at(&due(1, 2, 2_400_000).first_of_generation()), Place::Here);
    assert_eq!(at(&due(0, 1, 2_030_000)), Place::Elsewhere);
    assert_eq!(at(&look(1_999_000)), Place::Elsewhere);
    let cancelled = first.marked_done(DoneReason::Cancelled, START, 2);
    assert_eq!(at(&cancelled), Place::Elsewhere);
    let Place::Unless(others) = at(&look(2_064_000)) else {
        panic!("it is looked at");
    };
    assert!(others.include(&first), "it is met there");
    assert_eq!(others.dues(), [START]);
}

#[test]
fn a_record_is_listed_at_its_start_or_at_its_backup() {
    let record = |due: i64| {
        let target = Target::Kafka {
            topic: "t".to_owned(),
            partition: None,
        };
        let spec = Spec { target, ..spec() };
        let mut entry = Entry::due(id(), 0, 0, START, Arc::new(spec), 1);
        entry.key.due = Millis(due);
        entry
    };
    let clock = clock(900_000, 800);
    assert_eq!(placed(&record(START.0), None, &clock, 990_000), Place::Here);
    let backup = placed(&record(START.0 + 5000), None, &clock, 990_000);
    let Place::Unless(others) = backup else {
        panic!("{backup:?}");
    };
    assert!(others.include(&record(START.0)) && !others.include(&record(START.0 + 5000)));
}
