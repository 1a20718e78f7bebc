//! While a node of an earlier version is in the cluster, tasks that it would damage are refused, and others are not.

use std::time::Duration;

use tickwheel::{
    flow::{
        api::{Fault, NewTask},
        service::Service,
    },
    model::{
        action::When,
        chain::{FollowStart, FollowUp},
        ids::NodeId,
        notify::EndStates,
        state::State,
    },
    store::NodeRow,
};
use uuid::Uuid;

use crate::world::{World, callback};

const SECOND: Duration = Duration::from_secs(1);

fn plain(world: &World) -> NewTask {
    callback(world.time.now().after(SECOND * 600))
}

fn chained(world: &World) -> NewTask {
    let mut task = plain(world);
    task.draft.then = vec![FollowUp {
        when: When::Run(EndStates::of([State::Succeeded]).unwrap()),
        start: FollowStart::After(SECOND),
        with_result: false,
        in_tree: false,
        task: plain(world).draft,
    }];
    task
}

/// Registers a task with a follow-up between two without; tells which were taken.
async fn taken(world: &World, service: &Service) -> [bool; 3] {
    let tasks = vec![plain(world), chained(world), plain(world)];
    let answers = service.register(tasks).await;
    let told = |answer: &Result<_, Fault>| match answer {
        Ok(_) => true,
        Err(Fault::Upgrading { field: "then" }) => false,
        Err(fault) => panic!("{fault}"),
    };
    let told: Vec<bool> = answers.iter().map(told).collect();
    told.try_into().unwrap()
}

#[tokio::test(start_paused = true)]
async fn what_an_earlier_version_would_forget_is_refused_while_one_is_there() {
    let world = World::new(1, 1000);
    let (one, two) = (world.node(1), world.node(2));
    let store = world.plain_store();
    // Before a node has read the list it asks for it.
    assert_eq!(taken(&world, &one.service()).await, [true; 3]);
    world.pass(SECOND * 5).await;
    // A node of an earlier version writes itself into the list and says nothing of its level.
    let old = NodeId(Uuid::from_u128(77));
    let row = |wall| NodeRow {
        node: old,
        name: "earlier".to_owned(),
        address: "10.0.0.9:7711".to_owned(),
        wall,
        ready: false,
    };
    for _ in 0..3 {
        store.put_node(&row(world.time.now())).await.unwrap();
        world.pass(SECOND * 2).await;
        for node in [&one, &two] {
            let told = taken(&world, &node.service()).await;
            assert_eq!(told, [true, false, true]);
        }
    }
    // A node that starts meanwhile knows it at once.
    let third = world.node(3);
    assert_eq!(taken(&world, &third.service()).await, [true, false, true]);
    // Its row ends by itself, half a minute behind its death.
    world.pass(SECOND * 20).await;
    assert_eq!(taken(&world, &one.service()).await, [true, false, true]);
    world.pass(SECOND * 15).await;
    for node in [&one, &two, &third] {
        assert_eq!(taken(&world, &node.service()).await, [true; 3]);
    }
}
