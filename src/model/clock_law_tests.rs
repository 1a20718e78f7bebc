//! The property tests of the clock row check the laws that it keeps in every situation.

use std::time::Duration;

use proptest::prelude::*;
use uuid::Uuid;

use super::{
    clock::{ClockRow, Move, Position, Progress, Reason, Rules, Situation, is_free, next},
    ids::{NodeId, TaskId},
    time::{Millis, Tick, TickLength},
    wheel::Shape,
};

const SECOND: Duration = Duration::from_secs(1);
const ME: NodeId = NodeId(Uuid::from_u128(1));
const OTHER: NodeId = NodeId(Uuid::from_u128(2));
const THIRD: NodeId = NodeId(Uuid::from_u128(3));

/// The present: tick 1000 has just ended.
const NOW: Millis = Millis(1_000_000);

fn rules() -> Rules {
    Rules {
        shape: Shape::new(1, TickLength::new(SECOND).unwrap(), 64).unwrap(),
        look_ahead: 2,
        lease: SECOND * 5,
        grace: SECOND * 3,
        skew_max: SECOND,
        stall_max: SECOND * 15,
    }
}

fn node() -> impl Strategy<Value = NodeId> {
    prop::sample::select(vec![ME, OTHER, THIRD, NodeId::NOBODY])
}

/// An instant about the present, or anywhere.
fn instant() -> impl Strategy<Value = Millis> {
    prop_oneof![3 => NOW.0 - 40_000..NOW.0 + 40_000, 1 => 0..=Millis::MAX.0].prop_map(Millis)
}

/// Two hands in order within what is open: up to three ticks behind it, and what is erased some ticks behind what has
/// passed. A hand on the first id of a tick's last millisecond has not passed that tick.
fn hands(opened: i64) -> impl Strategy<Value = (Position, Tick)> {
    (0..3000i64, 0..100i64, any::<bool>()).prop_map(move |(behind, further, inside)| {
        let due = Millis(opened * 1000 - behind);
        let fired = Position {
            due,
            id: if inside { TaskId::FIRST } else { TaskId::LAST },
        };
        (
            fired,
            Tick(fired.last_passed(rules().shape.tick()).0 - further),
        )
    })
}

fn any_row() -> impl Strategy<Value = ClockRow> {
    let opened = prop_oneof![3 => 990..1010i64, 1 => 4..1_000_000_000i64];
    (opened, node(), instant(), instant(), 0..1_000_000i64).prop_flat_map(
        |(opened, owner, lease_until, wall, version)| {
            hands(opened).prop_map(move |(fired, erased)| ClockRow {
                version,
                opened: Tick(opened),
                fired,
                erased,
                owner,
                lease_until,
                wall,
            })
        },
    )
}

/// A row, and progress that a term on it or on an earlier one may have made.
fn any_considered() -> impl Strategy<Value = (ClockRow, Option<Progress>)> {
    any_row().prop_flat_map(|row| {
        let progress = (
            hands(row.opened.0),
            any::<bool>(),
            prop::option::of(instant()),
        )
            .prop_map(|((fired, erased), idle, stalled_since)| Progress {
                fired,
                erased,
                idle,
                stalled_since,
            });
        (Just(row), prop::option::of(progress))
    })
}

prop_compose! {
    fn any_situation()(
        now in instant(),
        median_wall in prop::option::weighted(0.2, instant()),
        preferred in prop::option::of(prop::sample::select(vec![ME, OTHER, THIRD])),
        leaving in prop::bool::weighted(0.2),
        free_since in prop::option::of(instant()),
        avoid_until in prop::option::of(instant()),
    ) -> Situation {
        Situation { me: ME, now, median_wall, preferred, leaving, free_since, avoid_until, progress: None }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_known_a_swap_follows_the_row((row, progress) in any_considered(), s in any_situation()) {
        let (rules, s) = (rules(), Situation { progress, ..s });
        prop_assert!(row.is_sound(&rules.shape));
        let Move::Swap { to, reason } = next(&row, &rules, &s) else { return Ok(()); };
        prop_assert!(row.may_become(&to, &rules.shape), "{row:?} {to:?}");
        // No progress appears that was not made.
        let done = progress.map_or(row.fired, |progress| progress.fired.max(row.fired));
        let erased = progress.map_or(row.erased, |progress| progress.erased.max(row.erased));
        prop_assert_eq!((to.fired, to.erased), (done, erased));
        prop_assert!(to.opened >= row.opened && to.opened >= Tick(s.now.0.div_euclid(1000) + 2));
        prop_assert_eq!(to.wall, s.now);
        // Only a free row is taken, only the owner's own is given away.
        match reason {
            Reason::TakeOver => {
                prop_assert!(to.owner == ME && !s.leaving);
                prop_assert!(row.owner == ME && progress.is_none() || is_free(&row, &rules, s.now));
            }
            Reason::Advance => prop_assert!(row.owner == ME && to.owner == ME && progress.is_some()),
            Reason::HandOver | Reason::GiveUp => {
                prop_assert_eq!(row.owner, ME);
                prop_assert_eq!(Some(to.owner), s.preferred);
                prop_assert_ne!(to.owner, ME);
            }
            Reason::Resign => {
                prop_assert!(row.owner == ME && s.leaving && to.owner != ME);
                prop_assert!(to.owner == NodeId::NOBODY || Some(to.owner) == s.preferred);
            }
        }
        let lease = if to.owner == NodeId::NOBODY { s.now } else { s.now.after(rules.lease) };
        prop_assert_eq!(to.lease_until, lease);
        // No node proposes under a clock that is off, nor against a lease that holds.
        prop_assert!(s.median_wall.is_none_or(|median| median.0.abs_diff(s.now.0) <= 1000));
        prop_assert!(row.owner == ME || is_free(&row, &rules, s.now));
    }

    #[test]
    fn a_wheel_that_somebody_may_take_is_taken(row in any_row(), now in instant()) {
        let (rules, row) = (rules(), ClockRow { owner: OTHER, ..row });
        let s = Situation {
            me: ME,
            now,
            preferred: Some(ME),
            median_wall: None,
            leaving: false,
            free_since: None,
            avoid_until: None,
            progress: None,
        };
        let taken = matches!(next(&row, &rules, &s), Move::Swap { reason: Reason::TakeOver, .. });
        prop_assert_eq!(taken, is_free(&row, &rules, now));
    }
}
