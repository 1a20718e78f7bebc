//! Tasks that others wait for run, though their registration ended in the middle and left an entry that no wheel comes to.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use tickwheel::{
    doubles::store::faulty::{Call, Fate},
    flow::{
        base::api::{NewTask, View, VisibleState},
        life::asked::{Answer, AskedTask},
        stages::service::Service,
    },
    limits::AFTER_FINISHED_AT_ONCE,
    model::{
        family::{Kin, TreeOutcome},
        ids::TaskId,
        join::{After, Asked, Condition},
        key::OnConflict,
        look_step::LookStep,
        time::Millis,
        wheel::WheelNumber,
    },
};

use crate::world::{Simulated, World, callback, published, register, succeeds};

const SECOND: Duration = Duration::from_secs(1);

/// A node that turns the wheel, and one whose entries come 4 s late once it is armed.
async fn nodes(world: &World) -> (Simulated, (Simulated, Arc<AtomicBool>)) {
    let wheel = WheelNumber::new(0).unwrap();
    let other = world.node(2);
    world.pass(5 * SECOND).await;
    let owner = world.owner(wheel).await;
    let armed = Arc::new(AtomicBool::new(false));
    let is_armed = Arc::clone(&armed);
    let fates = move |_, call: Call| {
        if call.operation == "put_entries" && is_armed.load(SeqCst) {
            Fate::Delay(4 * SECOND)
        } else {
            Fate::Go
        }
    };
    let slow = world.node_with(3, Arc::new(fates));
    world.pass(10 * SECOND).await;
    assert_eq!(world.owner(wheel).await, owner, "the other has the wheel");
    (other, (slow, armed))
}

/// A task with an id of its client.
fn named(task: NewTask, number: u64) -> AskedTask {
    let step = LookStep::covering(60 * SECOND);
    let id = TaskId::new(task.start, WheelNumber::new(0).unwrap(), number).with_look_step(step);
    AskedTask {
        id: Some(id),
        task,
        request: None,
        on_conflict: OnConflict::Ignore,
    }
}

fn waiting(start: Millis, ids: &[TaskId]) -> NewTask {
    let mut task = callback(start);
    task.draft.after = Some(Box::new(Asked {
        after: After {
            condition: Condition::AllSucceeded,
            later: false,
            deadline: None,
            tasks: u32::try_from(ids.len()).unwrap(),
        },
        ids: ids.to_vec(),
    }));
    task
}

fn kin(mut task: NewTask, parent: Option<TaskId>) -> NewTask {
    task.draft.kin = Some(Box::new(Kin {
        parent,
        is_parent: parent.is_none(),
        ..Kin::default()
    }));
    task
}

/// Registers a task at a node that dies behind the write of its entry. The clock of the node that turns the wheel is ahead
/// for seconds, so the slot has been passed when the entry comes.
async fn left(
    world: &World,
    slow: &(Simulated, Arc<AtomicBool>),
    ahead: (&Simulated, i64),
    task: NewTask,
) -> TaskId {
    left_all(world, slow, ahead, vec![named(task, 7)]).await[0]
}

/// The same, with several tasks.
async fn left_all(
    world: &World,
    (slow, armed): &(Simulated, Arc<AtomicBool>),
    (other, ahead_ms): (&Simulated, i64),
    tasks: Vec<AskedTask>,
) -> Vec<TaskId> {
    let ids = tasks.iter().filter_map(|task| task.id).collect();
    armed.store(true, SeqCst);
    let service = slow.service();
    let asked = tokio::spawn(async move { service.register_asked(tasks).await });
    other.time.set_wall_error_ms(ahead_ms);
    world.pass(3 * SECOND).await;
    slow.crash();
    world.pass(3 * SECOND).await;
    assert!(!asked.is_finished(), "the node has died");
    other.time.set_wall_error_ms(0);
    world.pass(40 * SECOND).await;
    ids
}

async fn has_succeeded(service: &Service, id: TaskId) -> bool {
    let view = service.get(id, View::Basic).await.unwrap();
    view.is_some_and(|view| view.state == VisibleState::Succeeded)
}

#[tokio::test(start_paused = true)]
async fn a_task_whose_registration_got_no_answer_is_entered_for_one_that_waits() {
    let world = World::new(1, 64);
    let (other, slow) = nodes(&world).await;
    let service = other.service();
    let worker = world.worker(other.service(), succeeds(SECOND));
    let dependency = left(
        &world,
        &slow,
        (&other, 20_000),
        callback(world.time.now().after(15 * SECOND)),
    )
    .await;
    let waits = waiting(world.time.now(), &[dependency]);
    let waiter = register(&service, vec![waits]).await[0].id;
    world.pass(20 * SECOND).await;
    assert_eq!(world.executions_of(dependency).len(), 0, "no wheel comes");
    world.pass(600 * SECOND).await;
    assert!(has_succeeded(&service, dependency).await);
    assert!(has_succeeded(&service, waiter).await);
    worker.abort();
}

/// A check of a waiter finishes some registrations, so that it ends soon; its next look finishes others.
#[tokio::test(start_paused = true)]
async fn a_waiter_has_the_tasks_it_waits_for_finished_some_at_a_time() {
    let world = World::new(1, 64);
    let (other, slow) = nodes(&world).await;
    let service = other.service();
    let worker = world.worker(other.service(), succeeds(SECOND));
    let start = world.time.now().after(15 * SECOND);
    let count = AFTER_FINISHED_AT_ONCE + 8;
    let tasks = (0..count as u64).map(|number| named(callback(start), 7 + number));
    let all = left_all(&world, &slow, (&other, 20_000), tasks.collect()).await;
    let waiter = register(&service, vec![waiting(world.time.now(), &all)]).await[0].id;
    let ran = || {
        let ran = all
            .iter()
            .filter(|id| !world.executions_of(**id).is_empty());
        ran.count()
    };
    let mut steps = vec![0];
    for _ in 0..600 {
        world.pass(5 * SECOND).await;
        if steps.last() != Some(&ran()) {
            steps.push(ran());
        }
    }
    let most = steps.windows(2).map(|pair| pair[1] - pair[0]).max();
    assert!(most <= Some(AFTER_FINISHED_AT_ONCE), "{steps:?}");
    assert_eq!(steps.last(), Some(&count), "{steps:?}");
    assert!(has_succeeded(&service, waiter).await);
    worker.abort();
}

/// The first write of a task that waits for others is its look, and its row is the last one.
#[tokio::test(start_paused = true)]
async fn a_waiter_whose_registration_got_no_answer_is_entered_for_one_that_waits() {
    let world = World::new(1, 64);
    let (other, slow) = nodes(&world).await;
    let service = other.service();
    let worker = world.worker(other.service(), succeeds(SECOND));
    let now = world.time.now();
    let first = register(&service, vec![callback(now)]).await[0].id;
    let middle = left(
        &world,
        &slow,
        (&other, 120_000),
        waiting(now.after(15 * SECOND), &[first]),
    )
    .await;
    world.pass(120 * SECOND).await;
    let waits = waiting(world.time.now(), &[middle]);
    let last = register(&service, vec![waits]).await[0].id;
    assert_eq!(world.executions_of(middle).len(), 0, "no wheel comes");
    world.pass(600 * SECOND).await;
    assert!(has_succeeded(&service, middle).await);
    assert!(has_succeeded(&service, last).await);
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn a_child_whose_registration_got_no_answer_is_entered_for_its_tree() {
    let world = World::new(1, 64);
    let (other, slow) = nodes(&world).await;
    let service = other.service();
    let worker = world.worker(other.service(), succeeds(SECOND));
    let root = kin(callback(world.time.now().after(60 * SECOND)), None);
    let root = register(&service, vec![root]).await[0].id;
    let start = world.time.now().after(15 * SECOND);
    let child = left(
        &world,
        &slow,
        (&other, 20_000),
        kin(callback(start), Some(root)),
    )
    .await;
    assert_eq!(world.executions_of(child).len(), 0, "no wheel comes");
    world.pass(900 * SECOND).await;
    assert!(has_succeeded(&service, child).await);
    let tree = service.get(root, View::Basic).await.unwrap().unwrap().tree;
    assert!(tree.is_some_and(|tree| tree.outcome == TreeOutcome::Completed));
    worker.abort();
}

/// Tasks that wait for a worker have looks, so nothing is entered again for those that wait for them.
#[tokio::test(start_paused = true)]
async fn a_task_that_waits_for_a_worker_is_not_entered_again() {
    let mut world = World::new(1, 4000);
    world.settings.erase_delay = 600 * SECOND;
    let node = world.node(1);
    let service = node.service();
    world.pass(3 * SECOND).await;
    let ordered = |after: u32| {
        let mut task = callback(world.time.now().after(after * SECOND));
        task.draft.ordering_key = Some("a".to_owned());
        task
    };
    let tasks = register(&service, vec![ordered(1), ordered(2)]).await;
    let (first, second) = (tasks[0].id, tasks[1].id);
    let waits = waiting(world.time.now(), &[first, second]);
    register(&service, vec![waits]).await;
    let root = kin(callback(world.time.now()), None);
    let root = register(&service, vec![root]).await[0].id;
    let child = kin(callback(world.time.now().after(SECOND)), Some(root));
    let child = register(&service, vec![child]).await[0].id;
    world.pass(1800 * SECOND).await;
    for id in [first, second, root, child] {
        assert_eq!(published(&world, id).len(), 1, "{id}");
    }
}

/// A move writes its entry before the row. A node that dies between them has moved nothing.
#[tokio::test(start_paused = true)]
async fn a_task_whose_move_was_cut_off_is_as_it_was() {
    let world = World::with_tick(1, 8, 60 * SECOND);
    let armed = Arc::new(AtomicBool::new(false));
    let is_armed = Arc::clone(&armed);
    let fates = move |_, call: Call| {
        if call.operation == "swap_tasks" && is_armed.load(SeqCst) {
            Fate::StopBefore
        } else {
            Fate::Go
        }
    };
    let (dies, other) = (world.node_with(1, Arc::new(fates)), world.node(2));
    let service = other.service();
    world.pass(70 * SECOND).await;
    let start = world.time.now().after(50 * SECOND);
    let id = register(&service, vec![callback(start)]).await[0].id;
    armed.store(true, SeqCst);
    let (at, to) = (dies.service(), start.after(25 * SECOND));
    let moving = tokio::spawn(async move { at.reschedule(id, to, None).await });
    world.pass(SECOND).await;
    assert!(!moving.is_finished(), "the node has died");
    let task = service.get(id, View::Basic).await.unwrap().unwrap();
    assert_eq!((task.start, task.generation), (start, 0));
    let moved = service.reschedule(id, to, None).await.unwrap().unwrap().1;
    assert_eq!((moved.start, moved.generation), (to, 1));
    let worker = world.worker(other.service(), succeeds(SECOND));
    world.pass(300 * SECOND).await;
    let runs = world.executions_of(id);
    assert!(matches!(&runs[..], [one] if one.began >= to), "{runs:?}");
    worker.abort();
}

/// A read may see an entry that one replica has alone. The answer to a repetition says that the task stands, so the entry is
/// written once more before it.
#[tokio::test(start_paused = true)]
async fn an_entry_is_made_durable_before_a_repetition_is_answered_by_it() {
    let world = World::new(1, 64);
    let writes = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&writes);
    let fates = move |_, call: Call| {
        if call.operation == "put_entries" {
            counts.fetch_add(1, SeqCst);
        }
        Fate::Go
    };
    let node = world.node_with(1, Arc::new(fates));
    let service = node.service();
    world.pass(3 * SECOND).await;
    for ago in [30, 90] {
        let start = world.time.now().before(ago * SECOND);
        let task = named(callback(start), u64::from(ago));
        let first = service.register_asked(vec![task.clone()]).await;
        assert!(matches!(first[..], [Ok(Answer::Created(_))]), "{first:?}");
        let before = writes.load(SeqCst);
        let again = service.register_asked(vec![task]).await;
        assert!(matches!(again[..], [Ok(Answer::Existing(_))]), "{again:?}");
        assert_eq!(writes.load(SeqCst), before + 1, "{ago} s ago");
    }
}
