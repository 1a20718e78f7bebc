//! Publications that fail: whoever left them to a look says so, and they go out soon, though others wait in the queue.

use std::{collections::BTreeMap, time::Duration};

use tickwheel::{
    flow::api::NewTask,
    model::{
        ids::TaskId,
        task::{Priority, Target},
        time::Millis,
    },
    queue::message::topic,
};

use crate::world::{World, callback, published, record, register};

const SECOND: Duration = Duration::from_secs(1);

fn well(start: Millis) -> NewTask {
    let mut task = record(start);
    task.spec.target = Target::Kafka {
        topic: "well".to_owned(),
        partition: None,
    };
    task
}

#[tokio::test(start_paused = true)]
async fn a_task_whose_publication_failed_goes_out_soon_and_fires_once() {
    let world = World::new(1, 10_000);
    let work = topic("work", Priority::Normal);
    for name in [work.as_str(), "well"] {
        world.queue.create_topic(name, None);
    }
    let faults = world.queue.faults();
    let node = world.node(1);
    let service = node.service();
    world.pass(3 * SECOND).await;
    let start = world.time.now().after(10 * SECOND);
    let far = register(&service, vec![callback(start); 4]).await;
    world.pass(5 * SECOND).await;
    faults.silent(&work, true);
    // What a producer keeps open is published when the topic answers again.
    register(&service, vec![callback(world.time.now()); 8]).await;
    world.pass(4 * SECOND).await;
    let near = register(&service, vec![callback(world.time.now()); 4]).await;
    for _ in 0..60 {
        register(&service, vec![well(world.time.now())]).await;
        world.pass(2 * SECOND).await;
    }
    let ids: Vec<TaskId> = far.iter().chain(&near).map(|task| task.id).collect();
    for id in &ids {
        assert_eq!(published(&world, *id), [], "nothing goes out");
    }
    faults.silent(&work, false);
    // Nobody consumes: behind this one everything that was published before is taken for waiting.
    register(&service, vec![callback(world.time.now())]).await;
    // A claim timeout and a half, and a tick.
    world.pass(18 * SECOND).await;
    for id in &ids {
        assert!(!published(&world, *id).is_empty(), "{id} waits");
    }
    let mut fired: BTreeMap<TaskId, usize> = BTreeMap::new();
    for one in &service.stats().await.unwrap().recent {
        *fired.entry(one.id).or_default() += 1;
    }
    for id in &ids {
        assert_eq!(fired.get(id), Some(&1), "{id}");
    }
    world.check();
}
