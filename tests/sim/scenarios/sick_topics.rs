//! A missing or silent topic delays no other topic, and its tasks are not parked, however long it lasts.

use std::{collections::BTreeSet, time::Duration};

use tickwheel::{
    flow::base::api::NewTask,
    model::{
        ids::{NodeId, TaskId},
        target::Target,
        task::Priority,
        time::Millis,
    },
    queue::{
        Consumer,
        message::{group, topic},
    },
};

use crate::world::{World, callback, record, register, succeeds};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

fn to_topic(topic: &str, start: Millis) -> NewTask {
    let mut task = record(start);
    task.draft.target = Target::Kafka {
        topic: topic.to_owned(),
        partition: None,
    };
    task
}

fn records_of(world: &World, topic: &str, id: TaskId) -> Vec<Millis> {
    let id = id.to_string();
    let records = world.queue.records(topic);
    let mine = records.iter().filter(|one| {
        let mut headers = one.record.headers.iter();
        headers.any(|(name, value)| name == "tickwheel-task-id" && *value == id)
    });
    mine.map(|one| one.at).collect()
}

/// Two hours are four times as long as ten tries took, after which a record was set aside for a person.
#[tokio::test(start_paused = true)]
async fn a_record_whose_topic_is_away_for_hours_goes_out_when_it_is_back() {
    for silent in [false, true] {
        let world = World::new(1, 10_000);
        world.queue.create_topic("away", None);
        world.queue.create_topic("well", None);
        let faults = world.queue.faults();
        let set = |away| match silent {
            true => faults.silent("away", away),
            false => faults.missing("away", away),
        };
        let node = world.node(1);
        world.pass(3 * SECOND).await;
        set(true);
        let start = world.time.now().after(5 * SECOND);
        let id = register(&node.service(), vec![to_topic("away", start)]).await[0].id;
        for _ in 0..2 * 3600 / 4 {
            // Other topics must get through: while none does, all records wait in place.
            register(&node.service(), vec![to_topic("well", world.time.now())]).await;
            world.pass(4 * SECOND).await;
        }
        assert_eq!(world.store.all_parked(), Vec::new(), "silent: {silent}");
        assert_eq!(records_of(&world, "away", id), [], "silent: {silent}");
        set(false);
        let back = world.time.now();
        world.pass(400 * SECOND).await;
        let went = records_of(&world, "away", id);
        let first = went.first().expect("it went out");
        assert!(first.since(back) <= 330 * SECOND, "silent: {silent}");
        assert!(went.len() <= 2, "silent: {silent}: {went:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_topic_delays_no_other() {
    let world = World::new(1, 10_000);
    for name in ["sick", "well"] {
        world.queue.create_topic(name, None);
    }
    let node = world.node(1);
    world.pass(3 * SECOND).await;
    world.queue.faults().silent("sick", true);
    let now = world.time.now();
    // Near and far records, each at a millisecond of its own, so that each is a batch.
    let mut well = Vec::new();
    for number in 0..500_i64 {
        let start = Millis(now.0 + 1000 + number * 20);
        let sick = to_topic("sick", start.after(Duration::from_millis(7)));
        let tasks = vec![to_topic("well", start), callback(start), sick];
        well.push(register(&node.service(), tasks).await[0].id);
    }
    world.pass(20 * SECOND).await;
    let mut late: Vec<i64> = well
        .iter()
        .map(|id| {
            let at = records_of(&world, "well", *id);
            assert_eq!(at.len(), 1);
            at[0].0 - id.first_start().0
        })
        .collect();
    late.sort_unstable();
    // Until the topic is known to be silent, the batches that hold its records hold their places.
    let known = late.iter().filter(|late| **late > 10).count();
    assert!(known <= 40, "{known} of 500 were late: {late:?}");
    assert!(late[499] <= 600, "{late:?}");
}

/// A group that has lost its offsets begins with the oldest kept message; the rows of the tasks refuse all of
/// these messages.
#[tokio::test(start_paused = true)]
async fn a_group_that_begins_anew_repeats_nothing() {
    let world = World::new(1, 10_000);
    let faults = world.queue.faults();
    faults.retention(Some(HOUR));
    let node = world.node(1);
    let worker = world.worker(node.service(), succeeds(SECOND));
    world.pass(3 * SECOND).await;
    let start = world.time.now().after(SECOND);
    let id = register(&node.service(), vec![callback(start)]).await[0].id;
    world.pass(60 * SECOND).await;
    assert_eq!(world.executions_of(id).len(), 1);
    faults.forget_offsets(&group("work"));
    world.pass(60 * SECOND).await;
    assert_eq!(world.executions_of(id).len(), 1, "its row is there");
    // After the retention no message is handed out at all, with a row or without.
    world.pass(HOUR).await;
    let mut late = world
        .queue
        .consumer("late", &[topic("work", Priority::Normal)]);
    let received = late.receive(10, SECOND).await.unwrap();
    assert_eq!(received, []);
    worker.abort();
}

/// Found by seed 44889: while no topic answers, each owner gives its wheel up, and each next one reads all missed ticks again.
/// These reads grew with the square of the outage. The nodes stay away longer and longer, so the wheels come to rest.
#[tokio::test(start_paused = true)]
#[ignore = "passes hours of virtual time: make test-all"]
async fn wheels_come_to_rest_while_no_topic_answers_and_move_again_when_one_does() {
    const HALF_HOURS: usize = 2;
    let world = World::new(4, 100_000);
    world.queue.create_topic("sick", None);
    let nodes = [1, 2, 3].map(|number| world.node(number));
    world.pass(20 * SECOND).await;
    world.queue.faults().silent("sick", true);
    let soon = world.time.now().after(5 * SECOND);
    let due = (0..40).map(|_| to_topic("sick", soon)).collect();
    let tasks = register(&nodes[0].service(), due).await;
    let mut moves = Vec::new();
    let mut owners = owners(&world);
    for _ in 0..HALF_HOURS {
        let mut moved = 0;
        for _ in 0..1800 {
            world.pass(SECOND).await;
            let now = self::owners(&world);
            moved += now.iter().zip(&owners).filter(|(a, b)| a != b).count();
            owners = now;
        }
        moves.push(moved);
    }
    // Four wheels and three nodes that offer themselves every ten minutes.
    assert!(
        moves[0] > 0,
        "a stalled wheel must be tried elsewhere: {moves:?}"
    );
    assert!(moves[1..].iter().all(|moved| *moved <= 48), "{moves:?}");
    world.queue.faults().silent("sick", false);
    world.pass(60 * SECOND).await;
    for task in tasks {
        assert!(!records_of(&world, "sick", task.id).is_empty());
    }
    // The nodes offer themselves again: the queue takes something from them.
    world.pass(700 * SECOND).await;
    let preferred: BTreeSet<NodeId> = self::owners(&world).into_iter().collect();
    assert!(preferred.len() > 1, "one node is left with all wheels");
}

/// The owner of each wheel.
fn owners(world: &World) -> Vec<NodeId> {
    let wheels = world.rules.shape.all_wheels();
    let owner = |wheel| world.store.clock_row(wheel).unwrap().owner;
    wheels.map(owner).collect()
}
