//! The store swaps clock rows for nodes, and reads them back.

use futures_util::future::join_all;
use tickwheel::{
    model::{
        clock::{ClockRow, Position},
        ids::NodeId,
        time::{Millis, Tick},
        wheel::WheelNumber,
    },
    store::{Freshness, Swapped},
};
use uuid::Uuid;

use super::{Stores, shape};

pub(super) async fn check(stores: &Stores) {
    every_wheel_has_a_clock_that_nobody_owns(stores).await;
    a_swap_is_seen_by_the_other_handle(stores).await;
    a_difference_in_any_field_but_the_wall_is_a_conflict(stores).await;
    of_racing_swaps_exactly_one_wins(stores).await;
    readers_of_all_wheels_at_once_each_see_theirs(stores).await;
}

fn wheel(number: u16) -> WheelNumber {
    WheelNumber::new(number).unwrap()
}

fn advanced(row: &ClockRow, owner: u128) -> ClockRow {
    ClockRow {
        version: row.version + 1,
        opened: row.opened.plus(3),
        fired: Position::behind(Millis(row.fired.due.0 + 1)),
        erased: row.erased,
        owner: NodeId(Uuid::from_u128(owner)),
        lease_until: Millis(row.lease_until.0 + 5_000),
        wall: Millis(row.wall.0 + 1),
    }
}

async fn read(stores: &Stores, number: u16) -> ClockRow {
    let serial = stores.one.clock(wheel(number), Freshness::Serial).await;
    let quorum = stores.other.clock(wheel(number), Freshness::Quorum).await;
    assert_eq!(serial.as_ref().unwrap(), quorum.as_ref().unwrap());
    serial.unwrap()
}

async fn every_wheel_has_a_clock_that_nobody_owns(stores: &Stores) {
    for number in 0..shape().wheels() {
        let row = read(stores, number).await;
        assert_eq!((row.version, row.owner), (0, NodeId::NOBODY));
        assert_eq!(row.opened, row.erased);
        assert!(row.is_sound(&shape()));
    }
}

async fn a_swap_is_seen_by_the_other_handle(stores: &Stores) {
    let from = read(stores, 0).await;
    let to = advanced(&from, 1);
    let swapped = stores.one.swap_clock(wheel(0), &from, &to).await.unwrap();
    assert_eq!(swapped, Swapped::Applied);
    assert_eq!(read(stores, 0).await, to);
    let other_wall = ClockRow {
        wall: Millis(7),
        ..to
    };
    let next = advanced(&to, 2);
    let swapped = stores.other.swap_clock(wheel(0), &other_wall, &next).await;
    assert_eq!(swapped.unwrap(), Swapped::Applied);
    assert_eq!(read(stores, 0).await, next);
    assert_eq!(read(stores, 1).await.version, 0);
}

async fn a_difference_in_any_field_but_the_wall_is_a_conflict(stores: &Stores) {
    let current = read(stores, 1).await;
    let other = Millis(current.fired.due.0 + 1);
    let id = tickwheel::model::ids::TaskId::FIRST;
    let different = [
        ClockRow {
            version: 1,
            ..current
        },
        ClockRow {
            opened: Tick(0),
            ..current
        },
        ClockRow {
            fired: Position {
                due: other,
                ..current.fired
            },
            ..current
        },
        ClockRow {
            fired: Position {
                id,
                ..current.fired
            },
            ..current
        },
        ClockRow {
            erased: Tick(0),
            ..current
        },
        ClockRow {
            owner: NodeId(Uuid::from_u128(9)),
            ..current
        },
        ClockRow {
            lease_until: Millis(1),
            ..current
        },
    ];
    for from in different {
        let to = advanced(&current, 3);
        let swapped = stores.one.swap_clock(wheel(1), &from, &to).await.unwrap();
        assert_eq!(swapped, Swapped::Conflict(current));
    }
    assert_eq!(read(stores, 1).await, current);
}

async fn of_racing_swaps_exactly_one_wins(stores: &Stores) {
    for _ in 0..10 {
        let from = read(stores, 2).await;
        let rows: Vec<ClockRow> = (10..16).map(|owner| advanced(&from, owner)).collect();
        let racing = rows.iter().enumerate().map(|(index, to)| {
            let store = if index % 2 == 0 {
                &stores.one
            } else {
                &stores.other
            };
            store.swap_clock(wheel(2), &from, to)
        });
        let answers = join_all(racing).await;
        let current = read(stores, 2).await;
        assert!(rows.contains(&current), "{current:?}");
        for (to, answer) in rows.iter().zip(answers) {
            match answer.unwrap() {
                Swapped::Applied => assert_eq!(*to, current),
                Swapped::Conflict(seen) => assert!(seen == current || seen == from),
                // A store under contention may leave the outcome unknown, but never answers falsely.
                Swapped::Unknown => {}
            }
        }
    }
}

async fn readers_of_all_wheels_at_once_each_see_theirs(stores: &Stores) {
    for owner in 20..25 {
        let mut rows = Vec::new();
        for number in 0..shape().wheels() {
            let from = read(stores, number).await;
            let to = advanced(&from, owner + u128::from(number) * 100);
            let swapped = stores.one.swap_clock(wheel(number), &from, &to).await;
            assert_eq!(swapped.unwrap(), Swapped::Applied);
            rows.push(to);
        }
        let readers = (0..40).map(|reader| {
            let wheel = wheel(reader % shape().wheels());
            stores.other.clock(wheel, Freshness::Quorum)
        });
        let answers = join_all(readers).await;
        for (answer, row) in answers.into_iter().zip(rows.iter().cycle()) {
            assert_eq!(answer.unwrap(), *row);
        }
    }
}
