//! A conditional write has every outcome that a round may have for its caller; the tests check
//! the view of others.

use std::time::Duration;

use tickwheel::{
    model::{
        clock::ClockRow,
        state::{Expect, Transition},
    },
    store::{ClockStore, Error, Freshness, Swapped, TaskStore},
};

use super::{Pair, claim, id, next, wheel};
use crate::replicas::{Faults, Set, SwapFate};

const LATER: Duration = Duration::from_secs(5);

async fn swap(pair: &Pair, fate: SwapFate) -> (ClockRow, ClockRow, Swapped<ClockRow>) {
    let from = pair.clock(Freshness::Serial).await;
    let to = next(&from, 1);
    pair.control.next_swap(fate);
    let swapped = pair.one.swap_clock(wheel(), &from, &to).await.unwrap();
    (from, to, swapped)
}

async fn swap_tasks(pair: &Pair, transitions: &[Transition]) -> Vec<Swapped<Expect>> {
    let answers = pair.one.swap_tasks(transitions).await;
    answers.into_iter().map(Result::unwrap).collect()
}

#[tokio::test(start_paused = true)]
async fn what_is_applied_is_seen_by_a_quorum_read_even_if_a_replica_misses_it() {
    for seed in 0..20 {
        let pair = Pair::with(
            seed,
            Faults {
                decisions_missed: 1000,
                reads_unrepaired: 1000,
                ..Faults::NONE
            },
        );
        let (_, to, swapped) = swap(&pair, SwapFate::Answered).await;
        assert_eq!(swapped, Swapped::Applied);
        for _ in 0..20 {
            assert_eq!(pair.clock(Freshness::Quorum).await, to);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_nobody_has_learned_is_seen_by_a_serial_read_and_then_by_all() {
    let pair = Pair::new(7);
    let learned = Set::NONE;
    let (from, to, swapped) = swap(&pair, SwapFate::Decided { learned }).await;
    assert_eq!(swapped, Swapped::Unknown);
    for _ in 0..20 {
        assert_eq!(pair.clock(Freshness::Quorum).await, from);
    }
    assert_eq!(pair.clock(Freshness::Serial).await, to);
    for _ in 0..20 {
        assert_eq!(pair.clock(Freshness::Quorum).await, to);
    }
}

#[tokio::test(start_paused = true)]
async fn what_one_replica_has_learned_is_seen_by_some_quorum_reads() {
    let pair = Pair::with(
        7,
        Faults {
            reads_unrepaired: 1000,
            ..Faults::NONE
        },
    );
    let learned = Set::only(1);
    let (from, to, _) = swap(&pair, SwapFate::Decided { learned }).await;
    let mut seen = Vec::new();
    for _ in 0..60 {
        seen.push(pair.clock(Freshness::Quorum).await);
    }
    assert!(seen.contains(&from) && seen.contains(&to));
    let conflict = pair.other.swap_clock(wheel(), &from, &next(&from, 2)).await;
    assert_eq!(conflict.unwrap(), Swapped::Conflict(to));
}

#[tokio::test(start_paused = true)]
async fn what_was_accepted_is_finished_or_overtaken_by_the_next_round() {
    let mut finished = Vec::new();
    for seed in 0..20 {
        let pair = Pair::new(seed);
        let (from, to, swapped) = swap(&pair, SwapFate::Accepted).await;
        assert_eq!(swapped, Swapped::Unknown);
        pair.time.sleep(LATER).await;
        assert_eq!(pair.clock(Freshness::Quorum).await, from);
        assert_eq!(pair.control.under_way(), 1);
        let settled = pair.clock(Freshness::Serial).await;
        assert!(settled == from || settled == to);
        assert_eq!(pair.control.under_way(), 0);
        for _ in 0..10 {
            assert_eq!(pair.clock(Freshness::Quorum).await, settled);
        }
        finished.push(settled == to);
    }
    assert!(finished.contains(&true) && finished.contains(&false));
}

#[tokio::test(start_paused = true)]
async fn what_arrives_late_is_applied_if_its_condition_still_holds() {
    let pair = Pair::new(7);
    let (from, to, swapped) = swap(&pair, SwapFate::Late { after: LATER }).await;
    assert_eq!(swapped, Swapped::Unknown);
    assert_eq!(pair.clock(Freshness::Serial).await, from);
    pair.time.sleep(LATER).await;
    assert_eq!(pair.clock(Freshness::Serial).await, to);

    let (from, _, swapped) = swap(&pair, SwapFate::Late { after: LATER }).await;
    assert_eq!(swapped, Swapped::Unknown);
    let other = next(&from, 2);
    let swapped = pair.other.swap_clock(wheel(), &from, &other).await;
    assert_eq!(swapped.unwrap(), Swapped::Applied);
    pair.time.sleep(LATER).await;
    assert_eq!(pair.clock(Freshness::Serial).await, other);
    assert_eq!(pair.replicas.clock_violations(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn what_is_lost_or_fails_is_never_applied() {
    let pair = Pair::new(7);
    let (from, to, swapped) = swap(&pair, SwapFate::Lost).await;
    assert_eq!(swapped, Swapped::Unknown);
    pair.control.next_swap(SwapFate::Fails);
    let failed = pair.one.swap_clock(wheel(), &from, &to).await;
    assert!(matches!(failed, Err(Error::Unavailable { .. })));
    pair.time.sleep(LATER).await;
    assert_eq!(pair.clock(Freshness::Serial).await, from);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_by_our_own_write_is_success() {
    let pair = Pair::new(7);
    let claim = [claim(1, Expect::Absent, 1, 5)];
    let learned = Set::NONE;
    pair.control.next_swap(SwapFate::Decided { learned });
    assert_eq!(swap_tasks(&pair, &claim).await, [Swapped::Unknown]);
    assert_eq!(pair.task(id(1), Freshness::Quorum).await, None);
    assert_eq!(swap_tasks(&pair, &claim).await, [Swapped::Applied]);
    let row = pair.task(id(1), Freshness::Serial).await;
    assert_eq!(row.as_ref(), Some(&claim[0].row));
    assert_eq!(pair.replicas.task_row(id(1)), row);
}

#[tokio::test(start_paused = true)]
async fn a_group_that_arrives_late_is_applied_whole_or_not_at_all() {
    for raced in [false, true] {
        let pair = Pair::new(7);
        let group: Vec<_> = (0..5).map(|n| claim(n, Expect::Absent, 1, 5)).collect();
        pair.control.next_swap(SwapFate::Late { after: LATER });
        let answers = swap_tasks(&pair, &group).await;
        assert_eq!(answers, vec![Swapped::Unknown; 5]);
        if raced {
            let other = [claim(3, Expect::Absent, 1, 6)];
            assert_eq!(swap_tasks(&pair, &other).await, [Swapped::Applied]);
        }
        pair.time.sleep(LATER).await;
        let applied = group.iter().map(|one| pair.replicas.task_row(one.row.id));
        let mine = applied.filter(|row| {
            row.as_ref()
                .is_some_and(|row| row.nonce == group[0].row.nonce)
        });
        assert_eq!(mine.count(), if raced { 0 } else { 5 });
    }
}

#[tokio::test(start_paused = true)]
async fn of_a_group_of_unknown_outcome_the_losers_may_be_named() {
    let (mut named, mut silent) = (0, 0);
    for seed in 0..20 {
        let pair = Pair::new(seed);
        let taken = claim(1, Expect::Absent, 1, 6);
        swap_tasks(&pair, std::slice::from_ref(&taken)).await;
        let group: Vec<_> = (0..3).map(|n| claim(n, Expect::Absent, 1, 5)).collect();
        let learned = Set::ALL;
        pair.control.next_swap(SwapFate::Decided { learned });
        let answers = swap_tasks(&pair, &group).await;
        let applied = pair.replicas.task_row(id(0)).is_some();
        if answers[1] == Swapped::Conflict(taken.row.seen()) {
            named += 1;
            assert!(applied);
        } else {
            silent += 1;
            assert!(!applied, "a batch that one row refuses is not applied");
        }
        assert_eq!(
            (&answers[0], &answers[2]),
            (&Swapped::Unknown, &Swapped::Unknown)
        );
        assert_eq!(pair.replicas.task_row(id(1)), Some(taken.row));
    }
    assert!(named > 0 && silent > 0, "{named} {silent}");
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_goes_back_is_written_down() {
    let pair = Pair::new(7);
    let (from, to, _) = swap(&pair, SwapFate::Answered).await;
    let back = ClockRow {
        version: to.version + 1,
        ..from
    };
    let swapped = pair.one.swap_clock(wheel(), &to, &back).await.unwrap();
    assert_eq!(swapped, Swapped::Applied);
    assert_eq!(pair.replicas.clock_violations().len(), 1);
}
