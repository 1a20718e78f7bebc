//! Waits cost what they promise: few rows for each end, searches side by side, no rows and no reads for ever.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use bytes::Bytes;
use tickwheel::{
    doubles::store::faulty::{Call, Fate},
    flow::{
        base::api::{NewTask, TaskView, View, VisibleState},
        life::asked::AskedTask,
        stages::service::Service,
    },
    model::{
        ids::TaskId,
        join::{self, After, Asked, Condition},
        key::OnConflict,
        look_step::LookStep,
        state::Outcome,
        time::Millis,
        wheel::WheelNumber,
    },
    schema::join_partition,
    store::index::{IndexKind, IndexRange, IndexStore, Partition},
};

use crate::world::{Behaviour, Simulated, World, callback, register, succeeds};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

fn waiting(start: Millis, rules: After, ids: &[TaskId]) -> NewTask {
    let mut task = callback(start);
    task.draft.after = Some(Box::new(Asked {
        after: After {
            tasks: u32::try_from(ids.len()).unwrap(),
            ..rules
        },
        ids: ids.to_vec(),
    }));
    task
}

const fn rules(condition: Condition) -> After {
    After {
        condition,
        later: false,
        deadline: None,
        tasks: 0,
    }
}

async fn read(service: &Service, id: TaskId) -> TaskView {
    let view = service.get(id, View::Basic).await.unwrap();
    view.unwrap_or_else(|| panic!("{id} is not there"))
}

fn some_id(start: Millis, number: u64) -> TaskId {
    let step = LookStep::covering(60 * SECOND);
    TaskId::new(start, WheelNumber::new(0).unwrap(), number).with_look_step(step)
}

/// A node whose calls of these names are counted.
fn counted(world: &World, names: &'static [&'static str]) -> (Simulated, Arc<AtomicUsize>) {
    let seen = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&seen);
    let fates = move |_, call: Call| {
        if names.contains(&call.operation) {
            counts.fetch_add(1, SeqCst);
        }
        Fate::Go
    };
    (world.node_with(1, Arc::new(fates)), seen)
}

/// Dependencies end one by one. Those of one waiter all fail, which is all the same to it.
#[tokio::test(start_paused = true)]
async fn the_end_of_a_dependency_reads_few_rows_of_its_waiters() {
    const COUNT: u32 = 150;
    let world = World::new(1, 1000);
    // Each page of the index has few rows, so that pages tell how many are read.
    world.store.set_page_rows_max(10);
    let (node, reads) = counted(&world, &["index_range"]);
    world.pass(SECOND * 3).await;
    let (service, now) = (node.service(), world.time.now());
    let start = |number: u32| now.after(SECOND * (10 + number));
    let tasks = |_: &str| (0..COUNT).map(|number| callback(start(number))).collect();
    let ids = |views: Vec<TaskView>| views.iter().map(|view| view.id).collect::<Vec<_>>();
    let good = ids(register(&service, tasks("good")).await);
    let bad = ids(register(&service, tasks("bad")).await);
    let waiters = vec![
        waiting(now, rules(Condition::AllSucceeded), &good),
        waiting(now, rules(Condition::AllEnded), &bad),
    ];
    let waiters = ids(register(&service, waiters).await);
    let fails = bad.clone();
    let behaviour: Behaviour = Arc::new(move |id, _| {
        let error = "no".to_owned();
        let outcome = if fails.contains(&id) {
            Outcome::Failed { error }
        } else {
            Outcome::Succeeded { result: None }
        };
        (SECOND / 10, Some(outcome))
    });
    world.worker(node.service(), behaviour);
    world.pass(SECOND * 5).await;
    let before = reads.load(SeqCst);
    world.pass(SECOND * 60).await;
    let before_half = reads.load(SeqCst);
    world.pass(SECOND * (COUNT - 30)).await;
    for waiter in waiters {
        let view = read(&service, waiter).await;
        assert_eq!(view.state, VisibleState::Succeeded, "{view:?}");
    }
    let all = reads.load(SeqCst) - before;
    // 300 ends: each reads the rows that name its waiters, and where its waiter stands. All rows again take 15 pages.
    let most = 2 * COUNT as usize * 10;
    assert!(
        all < most,
        "{all} pages, {} in the first minute",
        before_half - before
    );
}

/// The first that fails ends the wait at once, wherever it lies among the others.
#[tokio::test(start_paused = true)]
async fn a_failure_behind_open_dependencies_is_seen_at_once() {
    let world = World::new(1, 1000);
    let node = world.node(1);
    world.pass(SECOND * 3).await;
    let (service, now) = (node.service(), world.time.now());
    let starts = [1, 3, 600, 5, 700].map(|wait| callback(now.after(SECOND * wait)));
    let first = register(&service, starts.into()).await;
    let ids: Vec<TaskId> = first.iter().map(|task| task.id).collect();
    let fails = ids[3];
    let waiter = waiting(now, rules(Condition::AllSucceeded), &ids);
    let waiter = register(&service, vec![waiter]).await[0].id;
    let behaviour: Behaviour = Arc::new(move |id, _| {
        let error = "no".to_owned();
        let outcome = if id == fails {
            Outcome::Failed { error }
        } else {
            Outcome::Succeeded { result: None }
        };
        (SECOND / 10, Some(outcome))
    });
    world.worker(node.service(), behaviour);
    world.pass(SECOND * 6).await;
    let view = read(&service, waiter).await;
    assert_eq!(view.state, VisibleState::Cancelled, "{view:?}");
    assert!(view.error.unwrap().contains(&fails.to_string()));
}

#[tokio::test(start_paused = true)]
async fn tasks_that_nobody_knows_are_searched_for_side_by_side_at_the_deadline() {
    let world = World::new(1, 1000);
    let (slow, slows) = (Arc::new(AtomicBool::new(false)), 200);
    let armed = Arc::clone(&slow);
    let fates = move |_, call: Call| {
        let searches = matches!(call.operation, "find_entries" | "entries_at");
        if searches && armed.load(SeqCst) {
            Fate::Delay(SECOND / 20)
        } else {
            Fate::Go
        }
    };
    let node = world.node_with(1, Arc::new(fates));
    world.pass(SECOND * 3).await;
    let (service, now) = (node.service(), world.time.now());
    let ids: Vec<TaskId> = (0..slows)
        .map(|number| some_id(now.after(HOUR), number))
        .collect();
    let deadline = now.after(SECOND * 30);
    let later = After {
        later: true,
        deadline: Some(deadline),
        ..rules(Condition::AllEnded)
    };
    let waiter = register(&service, vec![waiting(now, later, &ids)]).await[0].id;
    slow.store(true, SeqCst);
    world.pass(SECOND * 60).await;
    let view = read(&service, waiter).await;
    assert_eq!(view.state, VisibleState::Failed, "{view:?}");
    let end = view.end_time.unwrap();
    assert!(end < deadline.after(SECOND * 5), "{end} behind {deadline}");
}

/// Tells whether the rows of a wait on both sides are there, by whatever time it is.
async fn rows(world: &World, waiter: TaskId, dependency: TaskId) -> [bool; 2] {
    let mut there = [false; 2];
    let sides = [
        (IndexKind::Join, waiter, dependency),
        (IndexKind::Waiter, dependency, waiter),
    ];
    for (side, (kind, of, other)) in there.iter_mut().zip(sides) {
        let range = IndexRange {
            partition: Partition::new(kind, join_partition(of)).unwrap(),
            after: None,
            rows_max: 100,
        };
        let page = world.store.index_range(&range).await.unwrap();
        let other: Bytes = join_partition(other);
        *side = page.rows.iter().any(|row| row.sort == other);
    }
    there
}

/// A node dies between the rows and the task. Another wait has begun, and its rows stay however long it takes.
#[tokio::test(start_paused = true)]
#[ignore = "passes days of virtual time: make test-all"]
async fn rows_of_a_wait_that_never_began_go_and_those_of_others_stay() {
    let world = World::with_tick(1, 1000, Duration::from_secs(60));
    let armed = Arc::new(AtomicBool::new(false));
    let arms = Arc::clone(&armed);
    let fates = move |_, call: Call| {
        let dies = arms.load(SeqCst) && call.operation == "put_entries";
        if dies { Fate::StopBefore } else { Fate::Go }
    };
    let (dying, other) = (world.node_with(1, Arc::new(fates)), world.node(2));
    world.pass(SECOND * 180).await;
    let (service, now) = (other.service(), world.time.now());
    let far = register(&service, vec![callback(now.after(DAY * 90))]).await[0].id;
    let lives = waiting(now, rules(Condition::AllEnded), &[far]);
    let lives = register(&service, vec![lives]).await[0].id;
    let dies = some_id(now, 7);
    armed.store(true, SeqCst);
    let asked = AskedTask {
        id: Some(dies),
        task: waiting(now, rules(Condition::AllEnded), &[far]),
        request: None,
        on_conflict: OnConflict::Reject,
    };
    let (adds, time) = (dying.service(), world.time.clone());
    let added = time
        .within(SECOND * 10, adds.register_asked(vec![asked]))
        .await;
    assert!(added.is_none(), "the node died: {added:?}");
    assert_eq!(rows(&world, dies, far).await, [true; 2]);
    assert_eq!(rows(&world, lives, far).await, [true; 2]);
    world.pass(DAY + HOUR * 3).await;
    assert_eq!(read(&service, lives).await.state, VisibleState::Waiting);
    other.crash();
    // No node runs meanwhile, since weeks of ticks take a test long.
    let weeks = i64::try_from((DAY * 40).as_millis()).unwrap();
    world.time.set_wall_error_ms(weeks);
    assert_eq!(rows(&world, lives, far).await, [true; 2]);
    assert_eq!(rows(&world, dies, far).await, [false; 2]);
}

/// The rows that name a waiter are of no use once its dependency has ended, also where that came first.
#[tokio::test(start_paused = true)]
async fn an_ended_dependency_names_no_waiters() {
    let world = World::new(1, 1000);
    let node = world.node(1);
    world.pass(SECOND * 3).await;
    let (service, now) = (node.service(), world.time.now());
    let first = vec![callback(now), callback(now.after(SECOND * 60))];
    let first = register(&service, first).await;
    let ids = [first[0].id, first[1].id];
    world.worker(node.service(), succeeds(SECOND / 10));
    world.pass(SECOND * 5).await;
    let waiter = waiting(now, rules(Condition::AllEnded), &ids);
    let waiter = register(&service, vec![waiter]).await[0].id;
    world.pass(SECOND * 5).await;
    assert_eq!(rows(&world, waiter, ids[0]).await, [true, false]);
    assert_eq!(rows(&world, waiter, ids[1]).await, [true, true]);
    world.pass(SECOND * 60).await;
    assert_eq!(read(&service, waiter).await.state, VisibleState::Succeeded);
    assert_eq!(rows(&world, waiter, ids[1]).await, [true, false]);
}

/// From a wait for an id that is not known on, the end of any task may be one that is waited for: until the deadline.
#[tokio::test(start_paused = true)]
#[ignore = "passes days of virtual time: make test-all"]
async fn a_wait_for_unknown_tasks_makes_other_ends_read_no_longer_than_it_lasts() {
    const ENDS: usize = 40;
    let world = World::with_tick(1, 1000, Duration::from_secs(60));
    let (node, reads) = counted(&world, &["index_range"]);
    world.pass(SECOND * 180).await;
    let (service, now) = (node.service(), world.time.now());
    let later = After {
        later: true,
        deadline: Some(now.after(HOUR)),
        ..rules(Condition::AllEnded)
    };
    let unknown = some_id(now.after(HOUR), 7);
    let waiter = register(&service, vec![waiting(now, later, &[unknown])]).await[0].id;
    world.worker(node.service(), succeeds(SECOND / 10));
    // A span without ends, then one of as long with them; all of their tasks start one by one.
    let ends = |count: usize| {
        let (world, service, reads) = (&world, &service, &reads);
        async move {
            let (before, now) = (reads.load(SeqCst), world.time.now());
            let start = |number: usize| now.after(SECOND * 10 * u32::try_from(number).unwrap());
            let tasks = (1..=count).map(|number| callback(start(number)));
            let tasks = register(service, tasks.collect()).await;
            world.pass(SECOND * 600).await;
            for task in tasks {
                assert_eq!(read(service, task.id).await.state, VisibleState::Succeeded);
            }
            reads.load(SeqCst) - before
        }
    };
    let (idle, during) = (ends(0).await, ends(ENDS).await);
    assert!(during >= idle + ENDS, "{during} reads, {idle} without ends");
    world.pass(HOUR).await;
    let view = read(&service, waiter).await;
    assert_eq!(view.state, VisibleState::Failed, "{view:?}");
    let reason = view.error.as_deref().and_then(join::reason);
    assert_eq!(reason, Some("dependency_missing"));
    world.pass(DAY * 3).await;
    let (idle, after) = (ends(0).await, ends(ENDS).await);
    assert!(
        after < idle + ENDS / 2,
        "{after} reads, {idle} without ends"
    );
}
