//! Registrations come twice, at once, after lost answers and after crashes; each is one task for the client, and none is lost.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use tickwheel::{
    doubles::store::faulty::Fate,
    flow::{
        base::api::{TaskView, VisibleState},
        life::asked::{Answer, AskedTask, RequestMark},
        stages::service::Service,
    },
    model::{client_id, ids::TaskId, key::OnConflict, time::Millis},
};

use crate::world::{Simulated, World, callback, record, register, succeeds};

const SECOND: Duration = Duration::from_secs(1);

fn marked(start: Millis) -> AskedTask {
    let key = "order-7".to_owned();
    AskedTask {
        task: callback(start),
        id: None,
        request: Some(RequestMark { key, hash: 7 }),
        on_conflict: OnConflict::Ignore,
    }
}

fn named(id: TaskId) -> AskedTask {
    AskedTask {
        task: callback(id.first_start()),
        id: Some(id),
        request: None,
        on_conflict: OnConflict::Ignore,
    }
}

/// A task with a key, of which its client knows nothing more when it asks again.
fn keyed(start: Millis) -> AskedTask {
    let mut task = callback(start);
    task.draft.key = Some("order-7".to_owned());
    AskedTask {
        task,
        id: None,
        request: None,
        on_conflict: OnConflict::Ignore,
    }
}

/// Registers a task as a client that repeats until it has an answer.
async fn until_answered(service: &Service, world: &World, asked: AskedTask) -> TaskView {
    loop {
        match service.register_asked(vec![asked.clone()]).await.pop() {
            Some(Ok(Answer::Created(task) | Answer::Existing(task))) => return *task,
            Some(Ok(other)) => panic!("{other:?}"),
            Some(Err(_)) | None => world.pass(SECOND / 4).await,
        }
    }
}

/// A client registers at a node that dies at operation `at`, and repeats at another. Returns how many operations the
/// registration took.
async fn run(
    world: World,
    make: impl Fn(Millis) -> AskedTask,
    delay: Duration,
    at: usize,
    fate: Fate,
) -> usize {
    let (calls, armed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let fates = {
        let (calls, armed) = (Arc::clone(&calls), Arc::clone(&armed));
        move |_, _| {
            let counts = armed.load(SeqCst) == 1;
            if counts && calls.fetch_add(1, SeqCst) == at {
                fate
            } else {
                Fate::Go
            }
        }
    };
    let dying: Simulated = world.node_with(1, Arc::new(fates));
    let other = world.node(2);
    let worker = world.worker(other.service(), succeeds(SECOND / 4));
    world.pass(3 * SECOND).await;
    let asked = make(world.time.now().after(delay));
    armed.store(1, SeqCst);
    let first = {
        let (service, asked) = (dying.service(), asked.clone());
        // A call on a node that dies never returns.
        tokio::spawn(async move { service.register_asked(vec![asked]).await })
    };
    world.pass(SECOND).await;
    armed.store(0, SeqCst);
    let operations = calls.load(SeqCst);
    let task = until_answered(&other.service(), &world, asked).await;
    if first.is_finished()
        && let Some(Ok(Answer::Created(told))) = first.await.unwrap().pop()
    {
        assert_eq!(told.id, task.id, "{fate:?} at {at}");
    }
    world.pass(delay + 40 * SECOND).await;
    let end = world.end_of(&other.service(), task.id, SECOND).await;
    assert_eq!(end, VisibleState::Succeeded, "{fate:?} at {at}");
    let executions = world.executions.lock().unwrap().clone();
    let ids: BTreeSet<TaskId> = executions.iter().map(|one| one.id).collect();
    assert_eq!(
        (ids.len(), executions.len()),
        (1, 1),
        "{fate:?} at {at}: {executions:?}"
    );
    world.check();
    worker.abort();
    operations
}

/// The first operations of a registration at which its node dies.
type Steps = fn(usize) -> std::iter::StepBy<std::ops::Range<usize>>;

const SOME: Steps = |total| (0..total.min(12)).step_by(4);
const ALL: Steps = |total| (0..total.min(12)).step_by(1);

/// Dies before and after each of these operations of a registration.
async fn run_all(
    make: impl Fn(Millis) -> AskedTask,
    delays: [Duration; 2],
    least: usize,
    steps: Steps,
) {
    for delay in delays {
        let total = run(World::new(1, 64), &make, delay, usize::MAX, Fate::Go).await;
        assert!(total >= least, "{total} operations");
        for at in steps(total) {
            for fate in [
                Fate::StopBefore,
                Fate::StopAfter,
                Fate::Fail,
                Fate::LoseReply,
            ] {
                run(World::new(1, 64), &make, delay, at, fate).await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_marked_registration_is_one_task_where_its_node_dies() {
    run_all(marked, [20 * SECOND, SECOND / 2], 3, SOME).await;
}

#[tokio::test(start_paused = true)]
#[ignore = "searches every operation: make test-all"]
async fn a_marked_registration_is_one_task_wherever_its_node_dies() {
    run_all(marked, [20 * SECOND, SECOND / 2], 3, ALL).await;
}

#[tokio::test(start_paused = true)]
async fn a_registration_with_a_key_is_one_task_where_its_node_dies() {
    // A key is free when its task has ended, and the client asks again after a second.
    run_all(keyed, [20 * SECOND, 3 * SECOND / 2], 3, SOME).await;
}

#[tokio::test(start_paused = true)]
#[ignore = "searches every operation: make test-all"]
async fn a_registration_with_a_key_is_one_task_wherever_its_node_dies() {
    run_all(keyed, [20 * SECOND, 3 * SECOND / 2], 3, ALL).await;
}

#[tokio::test(start_paused = true)]
#[ignore = "repeats the twin in memory on a disk, half a minute: make test-all"]
async fn registrations_that_may_come_twice_are_one_task_on_disk() {
    let makes: [fn(Millis) -> AskedTask; 2] = [marked, keyed];
    for (make, at) in makes
        .into_iter()
        .flat_map(|make| (0..6).map(move |at| (make, at)))
    {
        for fate in [Fate::StopBefore, Fate::StopAfter, Fate::LoseReply] {
            run(World::on_disk(1, 64), make, 20 * SECOND, at, fate).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_registration_with_the_id_of_its_client_is_one_task_where_its_node_dies() {
    let make = |start| named(client_id::make(start, 10 * SECOND, 1, 99));
    run_all(make, [20 * SECOND, SECOND / 2], 2, SOME).await;
}

#[tokio::test(start_paused = true)]
#[ignore = "searches every operation: make test-all"]
async fn a_registration_with_the_id_of_its_client_is_one_task_wherever_its_node_dies() {
    let make = |start| named(client_id::make(start, 10 * SECOND, 1, 99));
    run_all(make, [20 * SECOND, SECOND / 2], 2, ALL).await;
}

#[tokio::test(start_paused = true)]
async fn two_nodes_that_are_asked_at_once_register_one_task() {
    let makes: [fn(Millis) -> AskedTask; 2] = [marked, keyed];
    for (delay, make) in [0, 500, 20_000]
        .into_iter()
        .flat_map(|delay| makes.map(|make| (delay, make)))
    {
        let world = World::new(1, 64);
        let nodes = [world.node(1), world.node(2)];
        let worker = world.worker(nodes[0].service(), succeeds(SECOND));
        world.pass(3 * SECOND).await;
        let start = world.time.now().after(Duration::from_millis(delay));
        let services = nodes.each_ref().map(Simulated::service);
        let [one, two] = services.each_ref().map(|service| {
            let twice = vec![make(start), make(start)];
            service.register_asked(twice)
        });
        let (one, two) = tokio::join!(one, two);
        let answers: Vec<Answer> = one.into_iter().chain(two).map(Result::unwrap).collect();
        let created = answers
            .iter()
            .filter(|answer| matches!(answer, Answer::Created(_)));
        assert_eq!(created.count(), 1, "{answers:?}");
        world.pass(60 * SECOND).await;
        assert_eq!(world.executions.lock().unwrap().len(), 1);
        world.check();
        worker.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_that_was_cancelled_or_is_ahead_does_not_come_back_by_a_repetition() {
    let world = World::new(1, 64);
    world.queue.create_topic("users", None);
    let node = world.node(1);
    world.pass(3 * SECOND).await;
    let start = world.time.now().after(20 * SECOND);
    let asked = || AskedTask {
        task: record(start),
        id: Some(client_id::make(start, 60 * SECOND, 1, 7)),
        request: None,
        on_conflict: OnConflict::Ignore,
    };
    let first = until_answered(&node.service(), &world, asked()).await;
    let again = until_answered(&node.service(), &world, asked()).await;
    assert_eq!(again.id, first.id);
    node.service().cancel(first.id).await.unwrap().unwrap();
    let again = until_answered(&node.service(), &world, asked()).await;
    assert_eq!(again.state, VisibleState::Cancelled);
    world.pass(60 * SECOND).await;
    assert!(world.queue.records("users").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_task_without_mark_and_id_costs_no_call_more() {
    let world = World::new(1, 64);
    let node = world.node(1);
    world.pass(3 * SECOND).await;
    let start = world.time.now().after(100 * SECOND);
    // The first task of a callback makes its topics.
    register(&node.service(), vec![callback(start)]).await;
    world.pass(SECOND / 2).await;
    let before = node.operations.load(SeqCst);
    register(&node.service(), vec![callback(start)]).await;
    let plain = node.operations.load(SeqCst) - before;
    let id = client_id::make(start, 10 * SECOND, 1, 99);
    let before = node.operations.load(SeqCst);
    let service = node.service();
    service
        .register_asked(vec![named(id)])
        .await
        .remove(0)
        .unwrap();
    let with_id = node.operations.load(SeqCst) - before;
    let before = node.operations.load(SeqCst);
    service
        .register_asked(vec![marked(start)])
        .await
        .remove(0)
        .unwrap();
    let with_mark = node.operations.load(SeqCst) - before;
    let before = node.operations.load(SeqCst);
    let answer = service.register_asked(vec![keyed(start)]).await.remove(0);
    let with_key = node.operations.load(SeqCst) - before;
    assert!(matches!(answer, Ok(Answer::Created(_))));
    assert_eq!((plain, with_id, with_mark, with_key), (2, 2, 3, 3));
}
