//! A group of task rows in one call answers for each row alone: a row that loses does not cost another.

use std::collections::HashSet;

use bytes::Bytes;
use futures_util::future::join_all;
use tickwheel::{
    limits::{GROUP_ROWS_MAX, RESULT_INLINE_BYTES_MAX},
    model::{
        ids::TaskId,
        state::{Expect, State, TaskRow, Transition},
        time::Tick,
    },
    store::Swapped,
};

use super::{
    Stores,
    tasks::{read, row, swap, transition},
};

pub(super) async fn check(stores: &Stores) {
    a_group_of_slot_mates_is_applied(stores).await;
    a_lost_race_costs_nobody_else(stores).await;
    one_call_takes_any_mixture_of_slots_and_sizes(stores).await;
    of_racing_groups_each_row_has_one_winner(stores).await;
}

fn slot_mates(stores: &Stores, tick: Tick, count: usize) -> Vec<TaskId> {
    (0..count).map(|_| stores.task(2, tick)).collect()
}

fn claims(stores: &Stores, ids: &[TaskId]) -> Vec<Transition> {
    let claim = |id| transition(Expect::Absent, &row(stores, id, State::Claimed, 1));
    ids.iter().copied().map(claim).collect()
}

fn rows(transitions: &[Transition]) -> Vec<Option<TaskRow>> {
    transitions.iter().map(|t| Some(t.row.clone())).collect()
}

async fn a_group_of_slot_mates_is_applied(stores: &Stores) {
    let ids = slot_mates(stores, stores.tick(), GROUP_ROWS_MAX);
    let claims = claims(stores, &ids);
    for _ in 0..2 {
        let answers = swap(stores, &claims).await;
        assert_eq!(answers, vec![Swapped::Applied; ids.len()]);
    }
    assert_eq!(read(stores, &ids).await, rows(&claims));
    let settles: Vec<_> = claims
        .iter()
        .map(|t| transition(t.row.seen(), &row(stores, t.row.id, State::Succeeded, 1)))
        .collect();
    let answers = swap(stores, &settles).await;
    assert_eq!(answers, vec![Swapped::Applied; ids.len()]);
    assert_eq!(read(stores, &ids).await, rows(&settles));
}

/// Every third row is taken by another node, every fifth is our own already, every seventh expects a row that
/// does not exist.
async fn a_lost_race_costs_nobody_else(stores: &Stores) {
    let ids = slot_mates(stores, stores.tick(), GROUP_ROWS_MAX);
    let mut mine = claims(stores, &ids);
    let theirs: Vec<_> = claims(stores, &ids).into_iter().step_by(3).collect();
    swap(stores, &theirs).await;
    let written: Vec<_> = mine.iter().step_by(5).cloned().collect();
    swap(stores, &written).await;
    let mut expected = Vec::new();
    for (index, claim) in mine.iter_mut().enumerate() {
        let taken = index % 3 == 0;
        expected.push(if taken {
            Swapped::Conflict(theirs[index / 3].row.seen())
        } else if index % 5 == 0 {
            Swapped::Applied
        } else if index % 7 == 0 {
            claim.expect = claim.row.seen();
            Swapped::Conflict(Expect::Absent)
        } else {
            Swapped::Applied
        });
    }
    assert_eq!(swap(stores, &mine).await, expected);
    let stored = read(stores, &ids).await;
    for (index, answer) in expected.iter().enumerate() {
        let nonce = stored[index].as_ref().map(|row| row.nonce);
        let expected = match answer {
            Swapped::Applied => Some(mine[index].row.nonce),
            Swapped::Conflict(Expect::Absent) => None,
            Swapped::Conflict(_) | Swapped::Unknown => Some(theirs[index / 3].row.nonce),
        };
        assert_eq!(nonce, expected, "{index}");
    }
}

async fn one_call_takes_any_mixture_of_slots_and_sizes(stores: &Stores) {
    let tick = stores.tick();
    let mut ids = slot_mates(stores, tick, 150);
    ids.extend(slot_mates(stores, tick.plus(1), 3));
    ids.extend((0..20).map(|i| stores.task(i % 4, tick.plus(2 + i64::from(i)))));
    let mut claims = claims(stores, &ids);
    for claim in claims.iter_mut().step_by(10) {
        claim.row.detail.result = Some(Bytes::from(vec![1; RESULT_INLINE_BYTES_MAX]).into());
    }
    let answers = swap(stores, &claims).await;
    assert_eq!(answers, vec![Swapped::Applied; ids.len()]);
    assert_eq!(read(stores, &ids).await, rows(&claims));
}

async fn of_racing_groups_each_row_has_one_winner(stores: &Stores) {
    let ids = slot_mates(stores, stores.tick(), 40);
    let groups = [
        claims(stores, &ids[..30]),
        claims(stores, &ids[10..]),
        claims(stores, &ids),
    ];
    let racing = groups.iter().enumerate().map(|(index, group)| {
        let store = if index % 2 == 0 {
            &stores.one
        } else {
            &stores.other
        };
        store.swap_tasks(group)
    });
    let answers = join_all(racing).await;
    let stored = read(stores, &ids).await;
    let mut won = HashSet::new();
    let mut unknown = HashSet::new();
    for (claim, answer) in groups.iter().flatten().zip(answers.into_iter().flatten()) {
        let position = ids.iter().position(|id| *id == claim.row.id).unwrap();
        let winner = stored[position].as_ref().map(|row| row.nonce);
        match answer.unwrap() {
            Swapped::Applied => {
                assert_eq!(winner, Some(claim.row.nonce));
                assert!(won.insert(claim.row.id));
            }
            Swapped::Conflict(seen) => {
                assert_ne!(winner, Some(claim.row.nonce));
                let there = stored[position].as_ref().map(TaskRow::seen);
                assert_eq!(Some(seen), there);
            }
            Swapped::Unknown => {
                unknown.insert(claim.row.id);
            }
        }
    }
    for id in ids {
        assert!(won.contains(&id) || unknown.contains(&id), "{id}");
    }
}
