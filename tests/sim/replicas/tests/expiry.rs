//! Rows with a time to live vanish for all readers, on all replicas.

use std::{sync::Arc, time::Duration};

use tickwheel::{
    model::{
        entry::DoneReason,
        ids::NodeId,
        state::{Expect, State},
        task::Content,
        time::Millis,
    },
    store::{Freshness, Heartbeat, NodeRow, NodeStore, TaskStore, WheelStore},
};
use uuid::Uuid;

use super::{EPOCH, Pair, claim, entry, id};
use crate::replicas::{Faults, SwapFate};

const DAY: Duration = Duration::from_secs(24 * 3600);

#[tokio::test(start_paused = true)]
async fn nodes_heartbeats_and_bodies_vanish_in_time() {
    let pair = Pair::new(7);
    let node = NodeRow {
        node: NodeId(Uuid::from_u128(9)),
        name: String::new(),
        address: String::new(),
        wall: Millis(0),
        ready: true,
    };
    pair.one.put_node(&node).await.unwrap();
    let beat = Heartbeat {
        id: id(1),
        attempt: 1,
        at: EPOCH,
        progress: None,
    };
    for answer in pair
        .one
        .put_heartbeats(std::slice::from_ref(&beat), DAY)
        .await
    {
        answer.unwrap();
    }
    let body = [(id(1), Arc::new(Content::default()))];
    for answer in pair.one.put_bodies(&body, 10, Some(100_000)).await {
        answer.unwrap();
    }
    assert_eq!(pair.replicas.node_rows(), [node]);
    pair.time.sleep(Duration::from_secs(31)).await;
    assert_eq!(pair.other.nodes().await.unwrap(), []);
    assert_eq!(pair.replicas.node_rows(), []);
    assert_eq!(pair.replicas.all_heartbeats(), [beat]);
    pair.time.sleep(DAY).await;
    let beats = pair.other.heartbeats(&[(id(1), 1)]).await.unwrap();
    assert_eq!(beats, [None]);
    assert_eq!(pair.replicas.all_heartbeats(), []);
    assert_eq!(pair.replicas.body_ids(), [id(1)]);
    pair.time.sleep(Duration::from_secs(13_600)).await;
    assert_eq!(pair.other.bodies(&[id(1)]).await.unwrap(), [None]);
    assert_eq!(pair.replicas.body_ids(), []);
}

#[tokio::test(start_paused = true)]
async fn a_done_entry_vanishes_behind_its_slot_and_what_it_overwrote_stays_hidden() {
    let pair = Pair::new(7);
    let entry = entry(1, EPOCH.0 * 1000);
    let done = entry.marked_done(DoneReason::Cancelled, EPOCH, entry.written + 1);
    for written in [&entry, &done] {
        pair.put(written).await.unwrap();
    }
    pair.time.sleep(2 * DAY).await;
    assert!(pair.sees(&done).await);
    pair.time.sleep(Duration::from_secs(200)).await;
    assert!(!pair.sees(&done).await && !pair.sees(&entry).await);
    assert_eq!(pair.replicas.entries(), []);
}

/// A replica that missed the last row must not bring back the one before it when the last one has expired.
#[tokio::test(start_paused = true)]
async fn an_expired_task_is_absent_and_no_older_row_takes_its_place() {
    let pair = Pair::with(
        7,
        Faults {
            decisions_missed: 1000,
            reads_unrepaired: 1000,
            ..Faults::NONE
        },
    );
    let claimed = claim(1, Expect::Absent, 1, 5);
    let mut ended = claim(1, claimed.row.seen(), 1, 6);
    ended.row.state = State::Succeeded;
    ended.ttl = Some(DAY);
    for transition in [claimed, ended] {
        pair.control.next_swap(SwapFate::Answered);
        for answer in pair.one.swap_tasks(&[transition]).await {
            answer.unwrap();
        }
    }
    for _ in 0..20 {
        let row = pair.task(id(1), Freshness::Quorum).await.unwrap();
        assert_eq!(row.state, State::Succeeded);
    }
    assert_eq!(pair.replicas.task_rows().len(), 1);
    pair.time.sleep(DAY).await;
    for _ in 0..20 {
        assert_eq!(pair.task(id(1), Freshness::Quorum).await, None);
    }
    assert_eq!(pair.task(id(1), Freshness::Serial).await, None);
    assert_eq!(pair.replicas.task_rows(), []);
}
