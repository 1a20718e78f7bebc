//! A publication that fails is reported by the stage that left it to a look, and its task goes out soon, also
//! behind others.

use std::time::Duration;

use tickwheel::{
    flaw::{self, Flaw},
    flow::base::api::NewTask,
    model::{ids::TaskId, target::Target, task::Priority, time::Millis},
    queue::message::topic,
};

use crate::world::{World, callback, published, record, register};

const SECOND: Duration = Duration::from_secs(1);

fn well(start: Millis) -> NewTask {
    let mut task = record(start);
    task.draft.target = Target::Kafka {
        topic: "well".to_owned(),
        partition: None,
    };
    task
}

#[tokio::test(start_paused = true)]
async fn a_task_whose_publication_failed_goes_out_soon_and_fires_once() {
    for (id, went, fired) in firings().await {
        assert!(went && fired == 1, "{id}: {went}, {fired}");
    }
}

/// Without the looks that report it, the tasks wait behind messages that no worker consumes.
#[tokio::test(start_paused = true)]
async fn a_failed_publication_that_is_taken_for_one_is_found() {
    flaw::switch(Some(Flaw::UnsentTakenForSent));
    let waiting = firings().await.iter().filter(|(_, went, _)| !went).count();
    flaw::switch(None);
    assert!(waiting > 0);
}

/// Leaves tasks to their looks while their topic is silent. Returns for each whether it went out soon when
/// the topic answered again, and how often it counts as fired.
async fn firings() -> Vec<(TaskId, bool, usize)> {
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
    // Records that a producer keeps open are published when the topic answers again.
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
    // No worker consumes: behind this message all earlier ones are taken for waiting.
    register(&service, vec![callback(world.time.now())]).await;
    // A claim timeout and a half, and a tick.
    world.pass(18 * SECOND).await;
    world.check();
    let recent = service.stats().await.unwrap().recent.clone();
    let of = |id: TaskId| {
        let fired = recent.iter().filter(|one| one.id == id).count();
        (id, !published(&world, id).is_empty(), fired)
    };
    ids.into_iter().map(of).collect()
}
