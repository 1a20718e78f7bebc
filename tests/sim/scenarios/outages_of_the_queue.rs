//! A look whose publication the queue does not acknowledge tries again from memory, for some seconds.

use std::time::Duration;

use tickwheel::{
    model::{ids::TaskId, time::Millis},
    queue::memory::Fault,
};

use crate::world::{Simulated, World, callback, published, register};

const SECOND: Duration = Duration::from_secs(1);

/// Registers a task that is due in half a second and whose looks come every [`STEP`]. Nothing is published for a while:
/// the memory of near tasks gives up, and so may a look. Returns the task and its start.
async fn unpublished(world: &World, node: &Simulated) -> (TaskId, Millis) {
    let start = world.time.now().after(SECOND / 2);
    let mut task = callback(start);
    task.draft.claim_timeout = Some(60 * SECOND);
    world.queue.faults().plan(100_000, Fault::UnconfirmedLost);
    let id = register(&node.service(), vec![task]).await[0].id;
    assert_eq!(id.look_step().duration(), STEP);
    (id, start)
}

/// The distance of the looks of a task with a claim timeout of a minute.
const STEP: Duration = Duration::from_secs(68);

/// A publication that a look cannot make comes with the queue, and not with the next look.
#[tokio::test(start_paused = true)]
async fn a_look_that_cannot_publish_tries_again_before_the_next_look() {
    let world = World::new(1, 1000);
    let node = world.node(1);
    world.pass(3 * SECOND).await;
    let (id, start) = unpublished(&world, &node).await;
    world
        .time
        .sleep_until_wall(start.after(STEP + 5 * SECOND))
        .await;
    assert!(published(&world, id).is_empty());
    world.queue.faults().clear();
    world.pass(SECOND).await;
    assert_eq!(published(&world, id).len(), 1);
    world.check();
}

/// The tries of a look have an end: behind it the task comes with the next look.
#[tokio::test(start_paused = true)]
async fn a_look_that_cannot_publish_for_long_is_left_to_the_next_look() {
    let world = World::new(1, 1000);
    let node = world.node(1);
    world.pass(3 * SECOND).await;
    let (id, start) = unpublished(&world, &node).await;
    world
        .time
        .sleep_until_wall(start.after(STEP + 20 * SECOND))
        .await;
    world.queue.faults().clear();
    world
        .time
        .sleep_until_wall(start.after(2 * STEP - SECOND))
        .await;
    assert!(published(&world, id).is_empty());
    world
        .time
        .sleep_until_wall(start.after(2 * STEP + 3 * SECOND))
        .await;
    assert_eq!(published(&world, id).len(), 1);
    world.check();
}
