//! Tasks of one ordering key run one at a time and in the order of their starts, whatever dies, fails or is late meanwhile.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tickwheel::{
    flow::{
        base::api::{CancelOutcome, NewTask, RescheduleOutcome, VisibleState},
        stages::service::Service,
    },
    model::{callback::Policy, ids::TaskId, state::Outcome, time::Millis},
};

use crate::world::{Behaviour, Execution, World, callback, register, succeeds};

const SECOND: Duration = Duration::from_secs(1);

pub(super) fn ordered(start: Millis, key: &str) -> NewTask {
    let mut task = callback(start);
    task.draft.ordering_key = Some(key.to_owned());
    task
}

pub(super) async fn one(service: &Service, task: NewTask) -> TaskId {
    register(service, vec![task]).await.remove(0).id
}

/// The executions of these tasks, in the order in which they began.
pub(super) fn executions(world: &World, ids: &[TaskId]) -> Vec<Execution> {
    let mut found: Vec<Execution> = ids.iter().flat_map(|id| world.executions_of(*id)).collect();
    found.sort_by_key(|execution| execution.began);
    found
}

/// Checks that tasks of a sequence ran one at a time; returns them in the order in which they began first.
pub(super) fn one_at_a_time(world: &World, ids: &[TaskId]) -> Vec<TaskId> {
    let found = executions(world, ids);
    for pair in found.windows(2) {
        let [one, other] = pair else { continue };
        assert!(one.ended <= other.began, "two at once: {one:?} {other:?}");
    }
    let mut order: Vec<TaskId> = Vec::new();
    for execution in found {
        if !order.contains(&execution.id) {
            order.push(execution.id);
        }
    }
    order
}

pub(super) async fn all_succeed(world: &World, service: &Service, ids: &[TaskId]) {
    all_end(world, service, ids).await;
    world.check();
}

/// The same for tasks that were moved, some to an earlier start.
async fn all_end(world: &World, service: &Service, ids: &[TaskId]) {
    for id in ids {
        let end = world.end_of(service, *id, SECOND).await;
        assert_eq!(end, VisibleState::Succeeded, "{id}");
    }
    assert_eq!(world.store.clock_violations(), Vec::<String>::new());
}

/// Fails with a retry as often as is told for each task, then succeeds; an attempt takes a tenth of a second.
fn fails(times: &[(TaskId, u32)]) -> Behaviour {
    let times: HashMap<TaskId, u32> = times.iter().copied().collect();
    Arc::new(move |id, attempt| {
        let outcome = if attempt <= times.get(&id).copied().unwrap_or(0) {
            Outcome::Retry {
                error: "no".to_owned(),
                after: Some(20 * SECOND),
            }
        } else {
            Outcome::Succeeded { result: None }
        };
        (SECOND / 10, Some(outcome))
    })
}

async fn many_sequences_in(world: World) {
    let nodes = [world.node(1), world.node(2)];
    let workers = [
        world.worker(nodes[0].service(), succeeds(SECOND)),
        world.polling_worker(nodes[1].service(), |_| None, succeeds(SECOND)),
    ];
    world.pass(5 * SECOND).await;
    let now = world.time.now();
    let mut ids: HashMap<&str, Vec<TaskId>> = HashMap::new();
    // Neither the order of the registrations nor that of the nodes is that of the starts.
    for number in [7, 3, 9, 1, 5, 0, 8, 2, 6, 4] {
        for (place, key) in ["a", "b", "c"].into_iter().enumerate() {
            let start = now.after(20 * SECOND + SECOND / 5 * number);
            let service = nodes[(number as usize + place) % 2].service();
            let id = one(&service, ordered(start, key)).await;
            ids.entry(key).or_default().push(id);
        }
    }
    let began = world.time.now();
    world.pass(60 * SECOND).await;
    for (key, mut ids) in ids {
        all_succeed(&world, &nodes[0].service(), &ids).await;
        let order = one_at_a_time(&world, &ids);
        ids.sort_by_key(|id| id.first_start());
        assert_eq!(order, ids, "{key}");
        let last = executions(&world, &ids).pop().unwrap();
        let took = last.ended.since(now.after(20 * SECOND));
        assert!(took < 14 * SECOND, "ten tasks of a second each: {took:?}");
        assert!(last.began > began);
    }
    for worker in workers {
        worker.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn tasks_of_a_key_run_one_at_a_time_in_the_order_of_their_starts() {
    many_sequences_in(World::new(4, 1000)).await;
}

#[tokio::test(start_paused = true)]
async fn tasks_of_a_key_run_one_at_a_time_in_the_order_of_their_starts_on_disk() {
    many_sequences_in(World::on_disk(4, 1000)).await;
}

#[tokio::test(start_paused = true)]
async fn near_tasks_run_in_the_order_in_which_they_were_acknowledged() {
    let world = World::new(2, 1000);
    let nodes = [world.node(1), world.node(2)];
    let worker = world.worker(nodes[0].service(), succeeds(SECOND / 2));
    world.pass(5 * SECOND).await;
    let mut ids = Vec::new();
    for number in 0..20 {
        let service = nodes[number % 2].service();
        ids.push(one(&service, ordered(world.time.now(), "a")).await);
        world.pass(SECOND / 10).await;
    }
    world.pass(20 * SECOND).await;
    all_succeed(&world, &nodes[1].service(), &ids).await;
    assert_eq!(one_at_a_time(&world, &ids), ids);
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn tasks_of_one_request_run_in_its_order() {
    let world = World::new(2, 1000);
    let node = world.node(1);
    let worker = world.worker(node.service(), succeeds(SECOND / 10));
    world.pass(5 * SECOND).await;
    let now = world.time.now();
    let tasks: Vec<NewTask> = (0..20).map(|_| ordered(now, "a")).collect();
    let ids: Vec<TaskId> = register(&node.service(), tasks)
        .await
        .iter()
        .map(|task| task.id)
        .collect();
    world.pass(10 * SECOND).await;
    all_succeed(&world, &node.service(), &ids).await;
    assert_eq!(one_at_a_time(&world, &ids), ids);
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn a_task_that_fails_holds_back_only_its_key() {
    let world = World::new(2, 1000);
    let node = world.node(1);
    world.pass(5 * SECOND).await;
    let start = world.time.now().after(SECOND);
    let mut a = Vec::new();
    let mut b = Vec::new();
    for number in 0..3 {
        let start = start.after(SECOND / 10 * number);
        a.push(one(&node.service(), ordered(start, "a")).await);
        b.push(one(&node.service(), ordered(start, "b")).await);
    }
    let free = one(&node.service(), callback(start)).await;
    let worker = world.worker(node.service(), fails(&[(a[0], 2)]));
    world.pass(10 * SECOND).await;
    all_succeed(&world, &node.service(), &b).await;
    all_succeed(&world, &node.service(), &[free]).await;
    assert_eq!(
        one_at_a_time(&world, &a),
        a[..1],
        "it waits for its next attempt"
    );
    world.pass(60 * SECOND).await;
    all_succeed(&world, &node.service(), &a).await;
    assert_eq!(one_at_a_time(&world, &a), a);
    let began = executions(&world, &a);
    let waited = began[3].began.since(began[2].ended);
    assert!(waited < SECOND, "the next one went at once: {waited:?}");
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn the_next_task_goes_at_once_when_the_one_before_it_is_cancelled() {
    let world = World::new(2, 1000);
    let nodes = [world.node(1), world.node(2)];
    world.pass(5 * SECOND).await;
    let now = world.time.now();
    let mut ids = Vec::new();
    for number in 1..=4 {
        ids.push(one(&nodes[0].service(), ordered(Millis(now.0 + number), "a")).await);
    }
    let worker = world.worker(nodes[0].service(), fails(&[(ids[0], 9)]));
    world.pass(3 * SECOND).await;
    // The second waits for its turn; the first has it, and waits for its next attempt.
    for (id, service) in [(ids[1], nodes[1].service()), (ids[0], nodes[1].service())] {
        let (outcome, _) = service.cancel(id).await.unwrap().unwrap();
        assert_eq!(outcome, CancelOutcome::Cancelled);
    }
    let cancelled = world.time.now();
    world.pass(2 * SECOND).await;
    all_succeed(&world, &nodes[0].service(), &ids[2..]).await;
    let third = world.executions_of(ids[2])[0].began;
    assert!(third.since(cancelled) < SECOND);
    assert_eq!(one_at_a_time(&world, &ids), [ids[0], ids[2], ids[3]]);
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn a_task_goes_in_front_or_behind_by_a_new_start() {
    let world = World::new(2, 1000);
    let nodes = [world.node(1), world.node(2)];
    world.pass(5 * SECOND).await;
    let now = world.time.now();
    let at = |seconds: u32| now.after(SECOND * seconds);
    let mut ids = Vec::new();
    for number in 0..5 {
        ids.push(one(&nodes[0].service(), ordered(at(40 + number), "a")).await);
    }
    let worker = world.worker(nodes[0].service(), succeeds(10 * SECOND));
    let moved = async |id, to| {
        let answer = nodes[1].service().reschedule(id, to, None).await;
        let (outcome, view) = answer.unwrap().unwrap();
        assert_eq!((outcome, view.start), (RescheduleOutcome::Rescheduled, to));
    };
    moved(ids[4], at(30)).await;
    moved(ids[1], at(100)).await;
    world.pass(43 * SECOND).await;
    // The first one has the turn and the third one waits for it: now the fourth one goes in between.
    moved(ids[3], Millis(at(42).0 - 500).max(world.time.now())).await;
    world.pass(100 * SECOND).await;
    all_end(&world, &nodes[0].service(), &ids).await;
    let order = one_at_a_time(&world, &ids);
    let moved_in: Vec<TaskId> = [4, 0, 2, 3, 1].map(|place: usize| ids[place]).into();
    assert_eq!(order, moved_in);
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_is_moved_lets_the_next_one_go() {
    let world = World::new(2, 1000);
    let node = world.node(1);
    world.pass(5 * SECOND).await;
    let now = world.time.now();
    let mut ids = Vec::new();
    for number in 1..=2 {
        ids.push(one(&node.service(), ordered(Millis(now.0 + number), "a")).await);
    }
    let worker = world.worker(node.service(), fails(&[(ids[0], 1)]));
    world.pass(3 * SECOND).await;
    let later = world.time.now().after(60 * SECOND);
    node.service()
        .reschedule(ids[0], later, None)
        .await
        .unwrap();
    world.pass(SECOND).await;
    all_succeed(&world, &node.service(), &ids[1..]).await;
    world.pass(80 * SECOND).await;
    all_succeed(&world, &node.service(), &ids).await;
    one_at_a_time(&world, &ids);
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn a_dead_task_that_is_run_again_takes_its_place_as_of_now() {
    let world = World::new(2, 1000);
    let node = world.node(1);
    world.pass(5 * SECOND).await;
    let now = world.time.now();
    let mut ids = Vec::new();
    for number in 1..=3 {
        ids.push(one(&node.service(), ordered(Millis(now.0 + number), "a")).await);
    }
    let behaviour = fails(&[(ids[0], 3)]);
    let long = Arc::new(move |id, attempt| {
        let (took, outcome) = behaviour(id, attempt);
        (took * 50, outcome)
    });
    let worker = world.worker(node.service(), long);
    // It is dead, and the second one runs.
    world.pass(60 * SECOND).await;
    assert_eq!(
        world.end_of(&node.service(), ids[0], SECOND).await,
        VisibleState::Dead
    );
    let (outcome, _) = node.service().run(ids[0], None).await.unwrap().unwrap();
    assert_eq!(outcome, RescheduleOutcome::Rescheduled);
    world.pass(30 * SECOND).await;
    all_succeed(&world, &node.service(), &ids).await;
    let found = executions(&world, &ids);
    let order: Vec<TaskId> = found.iter().map(|execution| execution.id).collect();
    let [one, two, three] = ids[..] else { panic!() };
    assert_eq!(order, [one, one, one, two, three, one]);
    one_at_a_time(&world, &ids);
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn a_sequence_goes_on_when_the_node_and_the_worker_of_its_task_die() {
    let world = World::new(2, 1000);
    let (one_node, other) = (world.node(1), world.node(2));
    world.pass(5 * SECOND).await;
    let now = world.time.now();
    let mut ids = Vec::new();
    for number in 1..=4 {
        ids.push(one(&one_node.service(), ordered(Millis(now.0 + number), "a")).await);
    }
    let lost = Arc::new(|_, _| (SECOND, None));
    let dying = world.worker(one_node.service(), lost);
    world.pass(SECOND).await;
    assert_eq!(executions(&world, &ids).len(), 1, "the first one runs");
    dying.abort();
    one_node.crash();
    let worker = world.worker(other.service(), succeeds(SECOND));
    world.pass(120 * SECOND).await;
    all_succeed(&world, &other.service(), &ids).await;
    assert_eq!(one_at_a_time(&world, &ids), ids);
    worker.abort();
}

/// Tasks of a sequence that skips, some of which fail, never run two at once, and all end, though a node dies in the middle.
#[tokio::test(start_paused = true)]
async fn a_sequence_that_skips_retries_runs_one_at_a_time_though_a_node_dies() {
    let world = World::new(2, 1000);
    let (dying, other) = (world.node(1), world.node(2));
    world.pass(5 * SECOND).await;
    let policy = Policy {
        skips_retries: Some(true),
        ..Policy::default()
    };
    let callbacks = other.service();
    let set = callbacks
        .callbacks()
        .configure("work", policy, &|_| true)
        .await;
    set.unwrap();
    world.pass(3 * SECOND).await;
    let now = world.time.now();
    let mut ids = Vec::new();
    for number in 1..=8 {
        ids.push(one(&dying.service(), ordered(Millis(now.0 + number), "a")).await);
    }
    let behaviour = fails(&[(ids[0], 2), (ids[3], 1), (ids[4], 2)]);
    let workers = [
        world.worker(dying.service(), Arc::clone(&behaviour)),
        world.worker(other.service(), behaviour),
    ];
    world.pass(SECOND * 3 / 2).await;
    dying.crash();
    workers[0].abort();
    world.pass(180 * SECOND).await;
    all_succeed(&world, &other.service(), &ids).await;
    one_at_a_time(&world, &ids);
    let began = |id, attempt: usize| world.executions_of(id)[attempt].began;
    assert!(
        began(ids[1], 0) < began(ids[0], 1),
        "the second goes on meanwhile"
    );
    workers[1].abort();
}
