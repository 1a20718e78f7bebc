//! The tests of the clock row check every move case by case: who may write it, when, and the next row.

use uuid::Uuid;

use super::*;
use crate::model::time::TickLength;

const SECOND: Duration = Duration::from_secs(1);
const ME: NodeId = NodeId(Uuid::from_u128(1));
const OTHER: NodeId = NodeId(Uuid::from_u128(2));

/// The time at which the fixtures play: tick 1000 has just ended.
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

/// A row that was written a second ago, one tick behind in every hand.
fn row(owner: NodeId) -> ClockRow {
    ClockRow {
        version: 7,
        opened: Tick(1001),
        fired: Position::behind(Millis(999_000)),
        erased: Tick(500),
        owner,
        lease_until: NOW.after(SECOND * 4),
        wall: NOW.before(SECOND),
    }
}

/// A node that fires nothing, knows nobody and has just come.
fn stranger() -> Situation {
    Situation {
        me: ME,
        now: NOW,
        median_wall: None,
        preferred: None,
        leaving: false,
        free_since: None,
        avoid_until: None,
        progress: None,
    }
}

fn at_work() -> Progress {
    Progress {
        fired: Position::behind(NOW),
        erased: Tick(600),
        idle: false,
        stalled_since: None,
    }
}

/// The owner, busy, and nobody else there.
fn owner() -> Situation {
    Situation {
        preferred: Some(ME),
        progress: Some(at_work()),
        ..stranger()
    }
}

fn swap(row: &ClockRow, s: &Situation) -> (ClockRow, Reason) {
    match next(row, &rules(), s) {
        Move::Swap { to, reason } => {
            assert!(row.may_become(&to, &rules().shape), "{row:?} {to:?}");
            (to, reason)
        }
        Move::Rest(rest) => panic!("{rest:?}: {row:?} {s:?}"),
    }
}

fn rest(row: &ClockRow, s: &Situation) -> Rest {
    match next(row, &rules(), s) {
        Move::Rest(rest) => rest,
        Move::Swap { to, reason } => panic!("{reason:?} {to:?}: {row:?} {s:?}"),
    }
}

#[test]
fn the_owner_opens_reports_and_renews_in_one_swap() {
    let (to, reason) = swap(&row(ME), &owner());
    assert_eq!(reason, Reason::Advance);
    let expected = ClockRow {
        version: 8,
        opened: Tick(1002),
        fired: Position::behind(NOW),
        erased: Tick(600),
        owner: ME,
        lease_until: NOW.after(SECOND * 5),
        wall: NOW,
    };
    assert_eq!(to, expected);
}

#[test]
fn the_owner_writes_nothing_while_nothing_is_new_and_the_lease_is_young() {
    let (settled, _) = swap(&row(ME), &owner());
    assert_eq!(rest(&settled, &owner()), Rest::NothingNew);
    let late = Situation {
        now: NOW.after(Duration::from_millis(999)),
        ..owner()
    };
    assert_eq!(rest(&settled, &late), Rest::NothingNew);
    let old = ClockRow {
        opened: Tick(2000),
        ..settled
    };
    for (after, renews) in [(1000, false), (1666, false), (1667, true), (9000, true)] {
        let late = Situation {
            now: NOW.after(Duration::from_millis(after)),
            ..owner()
        };
        let swaps = matches!(next(&old, &rules(), &late), Move::Swap { .. });
        assert_eq!(swaps, renews, "{after} ms after the last swap");
    }
}

#[test]
fn the_lease_of_another_holds_until_its_end_and_the_skew_behind_it() {
    for (owner, lease_ms, held) in [
        (OTHER, 4000, true),
        (OTHER, 0, true),
        (OTHER, -1000, true),
        (OTHER, -1001, false),
        (NodeId::NOBODY, 4000, false),
    ] {
        let row = ClockRow {
            lease_until: Millis(NOW.0 + lease_ms),
            ..row(owner)
        };
        assert_eq!(is_free(&row, &rules(), NOW), !held, "{lease_ms}");
        let preferred = Situation {
            preferred: Some(ME),
            ..stranger()
        };
        if held {
            assert_eq!(rest(&row, &preferred), Rest::Held);
        } else {
            assert_eq!(swap(&row, &preferred).1, Reason::TakeOver);
        }
    }
}

#[test]
fn a_free_wheel_goes_to_the_preferred_node_at_once_and_to_any_other_after_the_grace() {
    let free = row(NodeId::NOBODY);
    for preferred in [None, Some(OTHER)] {
        for (free_ms, takes) in [
            (None, false),
            (Some(0), false),
            (Some(2999), false),
            (Some(3000), true),
        ] {
            let s = Situation {
                preferred,
                free_since: free_ms.map(|ms| Millis(NOW.0 - ms)),
                ..stranger()
            };
            if takes {
                assert_eq!(swap(&free, &s).1, Reason::TakeOver);
            } else {
                assert_eq!(rest(&free, &s), Rest::LeftToPreferred);
            }
        }
    }
    let s = Situation {
        preferred: Some(ME),
        ..stranger()
    };
    let (to, reason) = swap(&free, &s);
    assert_eq!((reason, to.owner), (Reason::TakeOver, ME));
    assert_eq!(
        (to.fired, to.erased),
        (free.fired, free.erased),
        "nothing was done"
    );
    assert_eq!(to.opened, Tick(1002));
}

#[test]
fn a_row_from_a_clock_far_ahead_is_free_and_keeps_its_hands() {
    for (wall, lease) in [(7_000_000, 0), (0, 7_000_000), (7_000_000, 7_000_000)] {
        let ahead = ClockRow {
            opened: Tick(8000),
            wall: Millis(NOW.0 + wall),
            lease_until: Millis(NOW.0 + lease),
            ..row(OTHER)
        };
        assert!(is_free(&ahead, &rules(), NOW));
        let s = Situation {
            preferred: Some(ME),
            ..stranger()
        };
        let (to, _) = swap(&ahead, &s);
        assert_eq!(
            (to.opened, to.fired, to.erased),
            (Tick(8000), ahead.fired, ahead.erased)
        );
        assert_eq!((to.wall, to.lease_until), (NOW, NOW.after(SECOND * 5)));
    }
    let just_within = ClockRow {
        wall: NOW.after(SECOND * 6),
        lease_until: NOW.after(SECOND * 6),
        ..row(OTHER)
    };
    assert!(!is_free(&just_within, &rules(), NOW));
}

#[test]
fn a_node_whose_clock_is_off_proposes_nothing_whatever_else_is_true() {
    for off in [1001, -1001, 100_000, -100_000] {
        for row in [row(ME), row(OTHER), row(NodeId::NOBODY)] {
            for leaving in [false, true] {
                let s = Situation {
                    median_wall: Some(Millis(NOW.0 + off)),
                    leaving,
                    ..owner()
                };
                assert_eq!(rest(&row, &s), Rest::BrokenClock);
            }
        }
    }
    for off in [1000, -1000, 0] {
        let s = Situation {
            median_wall: Some(Millis(NOW.0 + off)),
            ..owner()
        };
        assert_eq!(swap(&row(ME), &s).1, Reason::Advance);
    }
}

#[test]
fn an_owner_hands_over_to_the_preferred_node_once_it_is_idle() {
    for idle in [false, true] {
        let s = Situation {
            preferred: Some(OTHER),
            progress: Some(Progress { idle, ..at_work() }),
            ..owner()
        };
        let (to, reason) = swap(&row(ME), &s);
        assert_eq!(to.fired, at_work().fired, "what was done is reported");
        assert_eq!(
            to.lease_until,
            NOW.after(SECOND * 5),
            "a lease to start under"
        );
        if idle {
            assert_eq!((reason, to.owner), (Reason::HandOver, OTHER));
        } else {
            assert_eq!((reason, to.owner), (Reason::Advance, ME));
        }
    }
    let alone = Situation {
        preferred: None,
        progress: Some(Progress {
            idle: true,
            ..at_work()
        }),
        ..owner()
    };
    assert_eq!(swap(&row(ME), &alone).1, Reason::Advance);
}

#[test]
fn an_owner_that_gets_nothing_acknowledged_leaves_the_wheel_to_another_that_is_there() {
    for (waited, gives_up) in [(0, false), (14_999, false), (15_000, true), (100_000, true)] {
        let progress = Some(Progress {
            stalled_since: Some(Millis(NOW.0 - waited)),
            ..at_work()
        });
        let s = Situation {
            preferred: Some(OTHER),
            progress,
            ..owner()
        };
        let (to, reason) = swap(&row(ME), &s);
        if gives_up {
            assert_eq!((reason, to.owner), (Reason::GiveUp, OTHER));
        } else {
            assert_eq!((reason, to.owner), (Reason::Advance, ME));
        }
        // No node is better: giving it up would only lose time.
        for preferred in [None, Some(ME)] {
            let s = Situation {
                preferred,
                progress,
                ..owner()
            };
            assert_eq!(swap(&row(ME), &s).1, Reason::Advance);
        }
    }
}

#[test]
fn a_node_that_gave_a_wheel_up_stays_away_for_a_while() {
    for (until, avoids) in [(1, true), (30_000, true), (0, false), (-1, false)] {
        let s = Situation {
            preferred: Some(ME),
            avoid_until: Some(Millis(NOW.0 + until)),
            ..stranger()
        };
        let free = row(NodeId::NOBODY);
        if avoids {
            assert_eq!(rest(&free, &s), Rest::Avoided);
        } else {
            assert_eq!(swap(&free, &s).1, Reason::TakeOver);
        }
    }
}

#[test]
fn a_node_that_stops_leaves_what_it_owns_and_takes_nothing() {
    for progress in [None, Some(at_work())] {
        for (preferred, owner, lease) in [
            (None, NodeId::NOBODY, NOW),
            (Some(ME), NodeId::NOBODY, NOW),
            (Some(OTHER), OTHER, NOW.after(SECOND * 5)),
        ] {
            let s = Situation {
                leaving: true,
                preferred,
                progress,
                ..stranger()
            };
            let (to, reason) = swap(&row(ME), &s);
            assert_eq!(reason, Reason::Resign);
            assert_eq!((to.owner, to.lease_until), (owner, lease));
            assert_eq!(rest(&to, &s), Rest::Leaving, "once is enough");
            for not_mine in [row(OTHER), row(NodeId::NOBODY)] {
                assert_eq!(rest(&not_mine, &s), Rest::Leaving);
            }
        }
    }
}

#[test]
fn a_row_that_says_it_is_ours_while_we_do_not_fire_it_is_taken_anew() {
    for preferred in [None, Some(OTHER), Some(ME)] {
        let s = Situation {
            preferred,
            ..stranger()
        };
        let (to, reason) = swap(&row(ME), &s);
        assert_eq!((reason, to.owner), (Reason::TakeOver, ME));
        assert_eq!((to.fired, to.erased), (row(ME).fired, row(ME).erased));
    }
}

#[test]
fn any_outage_is_caught_up_in_one_swap() {
    for ticks in [7, 60, 21_600, 100_000_000] {
        let now = Millis(NOW.0 + ticks * 1000);
        for situation in [
            owner(),
            Situation {
                preferred: Some(ME),
                ..stranger()
            },
        ] {
            let mine = situation.progress.is_some();
            let s = Situation { now, ..situation };
            let (to, _) = swap(&row(if mine { ME } else { OTHER }), &s);
            assert_eq!(to.opened, Tick(1002 + ticks));
        }
    }
}

#[test]
fn a_new_wheel_begins_with_everything_behind_it_done() {
    for now in [0, 1, 999, 1000, 1_234_567] {
        let shape = rules().shape;
        let first = ClockRow::first(&shape, Millis(now));
        assert!(first.is_sound(&shape) && is_free(&first, &rules(), Millis(now)));
        assert!(
            shape.tick().end_of(first.opened).0 <= now,
            "now itself is open"
        );
        assert_eq!(
            first.fired,
            Position::behind(shape.tick().end_of(first.erased))
        );
    }
}

#[test]
fn a_row_becomes_only_its_next_version_with_no_hand_back() {
    let shape = rules().shape;
    let from = row(ME);
    let to = ClockRow { version: 8, ..from };
    assert!(from.may_become(&to, &shape));
    for wrong in [
        from,
        ClockRow { version: 9, ..to },
        ClockRow {
            opened: Tick(1000),
            ..to
        },
        ClockRow {
            erased: Tick(499),
            ..to
        },
        ClockRow {
            fired: Position::behind(Millis(998_000)),
            ..to
        },
        ClockRow {
            fired: Position {
                id: TaskId::FIRST,
                ..from.fired
            },
            ..to
        },
        ClockRow {
            fired: Position::behind(Millis(1_001_001)),
            ..to
        },
        ClockRow {
            erased: Tick(1000),
            ..to
        },
    ] {
        assert!(!from.may_become(&wrong, &shape), "{wrong:?}");
    }
}
