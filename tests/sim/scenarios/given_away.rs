//! What a wheel does while it is given to another node.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use tickwheel::{
    flaw::{self, Flaw},
    model::ids::NodeId,
    store::faulty::Fate,
};

use crate::world::{World, record, register};

const SECOND: Duration = Duration::from_secs(1);
const RECORDS: u64 = 1200;

/// How many records go out for 1,200 tasks, one each 25 ms, while a second node joins and the first one's clock rows take
/// 300 ms to be written.
async fn published_while_a_node_joins() -> usize {
    let world = World::new(8, 64);
    world.queue.create_topic("users", None);
    let first = world.node_with(
        1,
        Arc::new(|_, call| match call.operation {
            "swap_clock" => Fate::Delay(Duration::from_millis(300)),
            _ => Fate::Go,
        }),
    );
    world.pass(15 * SECOND).await;
    let start = world.time.now().after(10 * SECOND);
    let due = |number| record(start.after(Duration::from_millis(25) * number as u32));
    register(&first.service(), (0..RECORDS).map(due).collect()).await;
    world.pass(15 * SECOND).await;
    let _second = world.node(2);
    world.pass(60 * SECOND).await;
    let wheels = world.rules.shape.all_wheels();
    let owners: BTreeSet<NodeId> = wheels
        .map(|wheel| world.store.clock_row(wheel).unwrap().owner)
        .collect();
    assert_eq!(owners.len(), 2);
    world.queue.records("users").len()
}

/// Found by faults on real servers: the row that gives a wheel away says what had gone out when it was sent, and what the owner
/// handed over until the answer came went out once more.
#[tokio::test(start_paused = true)]
async fn a_wheel_that_is_given_away_hands_nothing_over_twice() {
    assert_eq!(published_while_a_node_joins().await, RECORDS as usize);
    flaw::switch(Some(Flaw::PublishesWhileGivenAway));
    assert!(published_while_a_node_joins().await > RECORDS as usize);
    flaw::switch(None);
}
