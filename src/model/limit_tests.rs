//! Limits hold over all nodes, at both ends of their ranges, when nodes come and go, and when clocks go back.

use std::time::Duration;

use uuid::Uuid;

use super::{ids::NodeId, limit::*, time::Millis};

const NOW: Millis = Millis(1_800_000_000_000);
const SECOND: Duration = Duration::from_secs(1);

fn rate(per_second: f64, burst: u32) -> Rate {
    Rate::new(per_second, Some(burst)).unwrap()
}

/// Draws all it can get every `step` for `seconds`; returns how many tokens each draw brought, with its time.
fn drawn(rate: Rate, step: Duration, seconds: u64) -> Vec<(Millis, u32)> {
    let (mut pool, mut now) = (Pool::default(), NOW);
    let mut all = Vec::new();
    while now.since(NOW) < Duration::from_secs(seconds) {
        all.push((now, pool.draw(rate, node(1), now, u32::MAX)));
        now = now.after(step);
    }
    all
}

fn most_in(drawn: &[(Millis, u32)], window: Duration) -> u64 {
    let from = |first: Millis| {
        let within = drawn
            .iter()
            .filter(|(at, _)| *at >= first && *at < first.after(window));
        within.map(|(_, tokens)| u64::from(*tokens)).sum()
    };
    drawn.iter().map(|(at, _)| from(*at)).max().unwrap()
}

#[test]
fn both_ends_of_the_range_are_held_over_any_time() {
    let slow = drawn(rate(0.01, 1), SECOND, 1000);
    assert_eq!(most_in(&slow, 100 * SECOND), 1);
    assert_eq!(slow.iter().map(|(_, tokens)| tokens).sum::<u32>(), 10);
    let fast = drawn(rate(100_000.0, 200_000), SECOND / 100, 30);
    assert_eq!(fast[0].1, 200_000, "the burst comes at once");
    assert_eq!(fast[1].1, 1000);
    assert_eq!(most_in(&fast, 10 * SECOND), 200_000 + 999_000);
    let odd = drawn(rate(33.333, 5), SECOND / 10, 100);
    let sum: u32 = odd.iter().map(|(_, tokens)| tokens).sum();
    assert!((3325..=3338).contains(&sum), "{sum}");
}

#[test]
fn numbers_out_of_range_make_no_rate() {
    for per_second in [0.0, -1.0, 0.009, 100_001.0, f64::NAN, f64::INFINITY] {
        assert_eq!(Rate::new(per_second, Some(1)), None, "{per_second}");
    }
    assert_eq!(Rate::new(1.0, Some(0)), None);
    assert_eq!(Rate::new(1.0, Some(BURST_MAX + 1)), None);
    assert_eq!(Rate::new(1000.0, Some(99)), None, "too small for the rate");
    assert!(Rate::new(1000.0, Some(100)).is_some());
    assert_eq!(Rate::new(0.01, None).unwrap().burst(), 1);
    assert_eq!(Rate::new(2.5, None).unwrap().burst(), 3);
}

#[test]
fn a_changed_rate_and_a_clock_that_goes_back_cost_one_empty_bucket() {
    let mut pool = Pool::default();
    assert_eq!(pool.draw(rate(0.01, 1), node(1), NOW, 9), 1);
    let fast = rate(100.0, 100);
    assert_eq!(pool.draw(fast, node(1), NOW, 500), 0);
    let later = |millis| NOW.after(Duration::from_millis(millis));
    assert_eq!(pool.draw(fast, node(1), later(500), 500), 50, "empty then");
    assert_eq!(pool.draw(fast, node(1), later(1500), 500), 100);
    let (mut pool, hour) = (Pool::default(), 3600 * SECOND);
    assert_eq!(pool.draw(fast, node(1), NOW.after(hour), 100), 100);
    assert_eq!(pool.next(fast, NOW), SECOND / 100);
    assert_eq!(pool.missing(fast, NOW), 1_000_000_000);
    assert_eq!(pool.draw(fast, node(1), NOW, 500), 0, "an hour back");
    assert_eq!(pool.draw(fast, node(1), later(1000), 500), 100);
}

/// Two busy nodes, one with a clock behind: what each was given in two minutes.
fn beside(rate: Rate, skew: Duration) -> [u32; 2] {
    wanting(rate, skew, [1000; 2], 120_000)
}

/// The same for nodes that ask for so many tokens each time, for so many milliseconds.
fn wanting(rate: Rate, skew: Duration, wants: [u32; 2], span: u64) -> [u32; 2] {
    let (mut pool, mut got) = (Pool::default(), [0; 2]);
    let mut next = [0_u64, 77];
    for millis in 0..span {
        for index in 0..2 {
            if millis < next[index] {
                continue;
            }
            let ahead = if index == 1 { skew } else { Duration::ZERO };
            let now = NOW.after(Duration::from_millis(millis) + ahead);
            let given = pool.draw(rate, node(index as u128), now, wants[index]);
            got[index] += given;
            let again = pool.next(rate, now).max(Duration::from_millis(200));
            next[index] = millis + u64::try_from(again.as_millis()).unwrap() + millis % 37;
        }
    }
    got
}

#[test]
fn a_node_whose_clock_is_behind_has_its_part_of_a_rate() {
    for (rate, least) in [
        (rate(1.0, 1), 90),
        (rate(50.0, 50), 5700),
        (rate(0.5, 1), 45),
    ] {
        for skew in [0, 50, 300, 1000] {
            let got = beside(rate, Duration::from_millis(skew));
            let sum: u32 = got.iter().sum();
            assert!(sum >= least, "{rate:?} {skew} ms: {got:?}");
            assert!(
                got.iter().all(|one| *one >= sum * 3 / 10),
                "{rate:?} {skew} ms: {got:?}"
            );
            let span = u32::try_from(120 + skew / 1000 + 1).unwrap();
            let most = rate.in_time(Duration::from_secs(span.into())) + rate.burst();
            assert!(sum <= most, "{rate:?} {skew} ms: {got:?}");
        }
    }
}

#[test]
fn a_node_that_asks_for_single_tokens_leaves_others_their_part() {
    for (rate, span) in [(rate(1.0, 1), 600_000), (rate(0.05, 1), 6_000_000)] {
        for wants in [[1, 10], [10, 1], [1, 1], [10, 10]] {
            for skew in [0, 300, 1000] {
                let got = wanting(rate, Duration::from_millis(skew), wants, span);
                let sum: u32 = got.iter().sum();
                assert!(
                    got.iter().all(|one| *one >= sum / 3) && sum >= 270,
                    "{rate:?} {wants:?} {skew} ms: {got:?}"
                );
            }
        }
    }
}

#[test]
fn a_node_that_died_is_waited_for_no_longer_than_it_was_noted() {
    let (mut pool, fast) = (Pool::default(), rate(100.0, 100));
    assert_eq!(pool.draw(fast, node(1), NOW, 500), 100);
    assert_eq!(pool.draw(fast, node(2), NOW, 500), 0);
    assert_eq!(pool.draw(fast, node(1), NOW.after(SECOND), 500), 50);
    assert_eq!(pool.draw(fast, node(1), NOW.after(4 * SECOND), 500), 100);
    assert_eq!(pool.waiting.len(), 1);
}

fn node(number: u128) -> NodeId {
    NodeId(Uuid::from_u128(number))
}

fn asked(running: u32, wanted: u32) -> Asked {
    Asked {
        tokens: 0,
        wanted,
        running,
    }
}

/// Lets nodes ask in turn for some rounds, a second each; each then runs as many as it may. Returns the most that ran at
/// once, and what each ran last.
fn rounds(max: u32, wants: &[u32], count: i64, ends: bool) -> (u32, Vec<u32>) {
    let mut pool = Pool::default();
    let mut running = vec![0_u32; wants.len()];
    let mut most = 0;
    for round in 0..count {
        for (index, wanted) in wants.iter().enumerate() {
            let now = Millis(NOW.0 + round * 1000 + index as i64 * 10);
            let mine = running[index];
            let places = pool.share(max, node(index as u128 + 1), now, asked(mine, *wanted));
            running[index] = if ends { places } else { mine.max(places) }.min(*wanted);
            most = most.max(running.iter().sum());
        }
    }
    (most, running)
}

#[test]
fn nodes_share_the_places_by_need_and_never_run_more() {
    assert_eq!(rounds(10, &[100], 3, true), (10, vec![10]));
    assert_eq!(rounds(10, &[100, 100], 4, true), (10, vec![5, 5]));
    assert_eq!(rounds(10, &[2, 100, 100], 6, true), (10, vec![2, 4, 4]));
    assert_eq!(rounds(200_000, &[1, 2, 3], 3, true).1, [1, 2, 3]);
    // Attempts that do not end keep their places, and the sum stays.
    assert_eq!(rounds(10, &[100, 100], 9, false), (10, vec![10, 0]));
}

#[test]
fn a_node_without_a_free_place_is_given_no_token() {
    let limits = Limits {
        rate: Some(rate(10.0, 5)),
        in_flight: Some(3),
    };
    let mut pool = Pool::default();
    let question = Asked {
        tokens: 9,
        wanted: 11,
        running: 2,
    };
    let given = pool.ask(limits, node(1), NOW, question);
    assert_eq!((given.tokens, given.places), (1, 3));
    let given = pool.ask(limits, node(2), NOW, question);
    assert_eq!((given.tokens, given.places), (0, 0));
}

#[test]
fn fewer_places_than_nodes_go_round() {
    let mut pool = Pool::default();
    let mut served = [0; 3];
    let mut running = [0_u32; 3];
    for round in 0..60 {
        for index in 0..3_usize {
            let now = Millis(NOW.0 + round * 1000 + index as i64);
            // Its attempt of the round before goes on for this question.
            let question = asked(running[index], 5);
            let places = pool.share(1, node(index as u128), now, question);
            running[index] = places.min(1);
            served[index] += running[index];
            assert!(running.iter().sum::<u32>() <= 1);
        }
    }
    assert!(served.iter().all(|times| *times >= 8), "{served:?}");
}

#[test]
fn the_places_of_a_node_that_died_are_left_to_it_until_it_has_stopped_using_them() {
    let mut pool = Pool::default();
    assert_eq!(pool.share(4, node(1), NOW, asked(0, 9)), 4);
    let before = NOW.after(PLACES_TRUSTED);
    assert_eq!(pool.share(4, node(2), before, asked(0, 9)), 0);
    let after = NOW.after(PLACES_KEPT);
    assert_eq!(pool.share(4, node(2), after, asked(0, 9)), 4);
    assert!(PLACES_KEPT > 2 * PLACES_TRUSTED);
    // A clock that went back by an hour does not keep them for an hour.
    let mut pool = Pool::default();
    assert_eq!(
        pool.share(4, node(1), NOW.after(3600 * SECOND), asked(0, 9)),
        4
    );
    assert_eq!(pool.share(4, node(2), NOW, asked(0, 9)), 4);
}

#[test]
fn a_pool_has_room_for_so_many_nodes() {
    let mut pool = Pool::default();
    for number in 0..NODES_MAX as u128 {
        pool.share(100_000, node(number), NOW, asked(0, 1));
    }
    assert_eq!(pool.share(100_000, node(9999), NOW, asked(0, 1)), 0);
    assert_eq!(pool.shares.len(), NODES_MAX);
    assert!(pool.share(100_000, node(0), NOW, asked(0, 1)) >= 1);
}
