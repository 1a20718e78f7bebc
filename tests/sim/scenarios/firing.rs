//! Tasks fire at their time: near ones, far ones, late ones, after outages of hours, over turns of the wheel.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tickwheel::{
    doubles::{queue::memory::Published, store::faulty::Fate},
    flow::base::{
        api::{RescheduleOutcome, View, VisibleState},
        context::Settings,
    },
    model::{
        entry::{Entry, Key, KeyCode, Kind},
        ids::TaskId,
        task::Priority,
        time::Millis,
        wheel::WheelNumber,
    },
    queue::message::{self, TaskMessage},
};

use crate::world::{EPOCH, World, callback, published, record, register, succeeds};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn every_task_fires_at_its_millisecond() {
    every_task_fires_at_its_millisecond_in(World::new(2, 1000)).await;
}

#[tokio::test(start_paused = true)]
async fn every_task_fires_at_its_millisecond_on_disk() {
    every_task_fires_at_its_millisecond_in(World::on_disk(2, 1000)).await;
}

async fn every_task_fires_at_its_millisecond_in(world: World) {
    let node = world.node(1);
    world.pass(3 * SECOND).await;
    let now = world.time.now();
    let mut ids = Vec::new();
    for delay in [
        0, 50, 313, 999, 1000, 1001, 1500, 2000, 2500, 3000, 3001, 4321, 10_000, 60_007,
    ] {
        let start = Millis(now.0 + delay);
        let service = node.service();
        ids.push(register(&service, vec![callback(start)]).await[0].id);
    }
    world.pass(70 * SECOND).await;
    for id in ids {
        let at = published(&world, id);
        let late = at[0].0 - id.first_start().0;
        assert!(
            (0..=3).contains(&late),
            "{late} ms late, due {} ms after {now}",
            id.first_start().0 - now.0
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_of_the_past_fires_at_once() {
    let world = World::new(1, 1000);
    let node = world.node(1);
    world.pass(3 * SECOND).await;
    let task = register(&node.service(), vec![callback(Millis(5))])
        .await
        .remove(0);
    world.pass(SECOND / 10).await;
    assert_eq!(published(&world, task.id).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_record_goes_out_unchanged_and_once() {
    a_record_goes_out_unchanged_and_once_in(World::new(2, 1000)).await;
}

#[tokio::test(start_paused = true)]
async fn a_record_goes_out_unchanged_and_once_on_disk() {
    a_record_goes_out_unchanged_and_once_in(World::on_disk(2, 1000)).await;
}

async fn a_record_goes_out_unchanged_and_once_in(world: World) {
    world.queue.create_topic("users", None);
    let node = world.node(1);
    world.pass(3 * SECOND).await;
    for delay in [200, 1700, 5000] {
        let mut task = record(Millis(world.time.now().0 + delay));
        if let tickwheel::model::task::Body::Inline(content) = &mut task.draft.body {
            content.payload = bytes::Bytes::from(vec![7; 5000]);
            content.record_key = Some(bytes::Bytes::from_static(b"k"));
            content.record_headers = vec![("h".to_owned(), bytes::Bytes::from_static(b"\xff"))];
        }
        let id = register(&node.service(), vec![task]).await[0].id;
        let service = node.service();
        let before = service
            .get(id, View::Full)
            .await
            .unwrap()
            .expect("just registered");
        assert_eq!(
            (before.state, before.content.map(|c| c.payload.len())),
            (VisibleState::Scheduled, Some(5000))
        );
        world.pass(Duration::from_millis(10_000)).await;
        let state = service
            .get(id, View::Basic)
            .await
            .unwrap()
            .map(|task| task.state);
        assert_eq!(state, Some(VisibleState::Published), "due in {delay} ms");
        let records = world.queue.records("users");
        let mine: Vec<_> = records
            .iter()
            .filter(|r| {
                r.record
                    .headers
                    .iter()
                    .any(|(n, v)| n == "tickwheel-task-id" && *v == id.to_string())
            })
            .collect();
        assert_eq!(mine.len(), 1, "due in {delay} ms");
        assert_eq!(mine[0].record.value, vec![7; 5000]);
        assert_eq!(mine[0].record.key.as_deref(), Some(b"k".as_slice()));
        assert_eq!(
            mine[0].record.headers[0],
            ("h".into(), bytes::Bytes::from_static(b"\xff"))
        );
    }
    world.pass(120 * SECOND).await;
    assert_eq!(
        world.store.body_ids(),
        Vec::<TaskId>::new(),
        "bodies are erased with their entries"
    );
    assert_eq!(world.store.entries().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn six_hours_without_any_node_are_caught_up_oldest_first() {
    let world = World::new(2, 64);
    let node = world.node(1);
    world.pass(3 * SECOND).await;
    let begin = world.time.now();
    let tasks = (0..200)
        .map(|n| callback(begin.after(SECOND * 108 * n)))
        .collect();
    let ids: Vec<TaskId> = register(&node.service(), tasks)
        .await
        .iter()
        .map(|task| task.id)
        .collect();
    node.crash();
    world.pass(SECOND * 6 * 3600).await;
    let node = world.node(2);
    world.pass(SECOND / 5).await;
    let near = register(
        &node.service(),
        vec![callback(world.time.now().after(SECOND))],
    )
    .await[0]
        .id;
    world.pass(30 * SECOND).await;
    let late = published(&world, near)[0].0 - near.first_start().0;
    assert!(late <= 3, "a near task waited {late} ms for the catch-up");
    for id in &ids {
        assert!(
            !published(&world, *id).is_empty(),
            "due {} was never fired",
            id.first_start()
        );
    }
    for wheel in [0, 1].map(|n| WheelNumber::new(n).unwrap()) {
        let fired: Vec<Millis> = ids
            .iter()
            .filter(|id| id.wheel() == wheel && id.first_start() > begin.after(SECOND * 10))
            .map(|id| published(&world, *id)[0])
            .collect();
        assert!(fired.is_sorted(), "oldest first");
    }
    world.check();
}

#[tokio::test(start_paused = true)]
async fn what_is_new_does_not_wait_for_a_wheel_that_catches_up() {
    let world = World::new(1, 64);
    world.queue.create_topic("users", None);
    let node = world.node(1);
    world.pass(3 * SECOND).await;
    node.crash();
    world.pass(SECOND * 6 * 3600).await;
    // The slow store makes catching up take minutes.
    let slow = Arc::new(|_, _| Fate::Delay(SECOND / 200));
    let node = world.node_with(2, slow);
    let worker = world.worker(node.service(), succeeds(SECOND / 100));
    world.pass(3 * SECOND).await;
    let begin = world.time.now();
    let tasks = vec![
        callback(begin.after(SECOND)),
        callback(begin.after(4 * SECOND)),
        callback(begin.after(20 * SECOND)),
        record(begin.after(SECOND)),
        record(begin.after(4 * SECOND)),
    ];
    let tasks = register(&node.service(), tasks).await;
    let later = callback(begin.after(5 * SECOND));
    let moved = register(&node.service(), vec![later]).await[0].id;
    let to = begin.after(10 * SECOND);
    let (outcome, _) = node
        .service()
        .reschedule(moved, to, None)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(outcome, RescheduleOutcome::Rescheduled);
    world.pass(25 * SECOND).await;
    let fired = world.store.clock_row(WheelNumber::new(0).unwrap()).unwrap();
    assert!(
        fired.fired.due < begin.before(SECOND * 3600),
        "it has caught up: this shows nothing"
    );
    let tracked = || tasks.iter().filter(|task| task.spec.target.is_tracked());
    for task in tracked() {
        let out = published(&world, task.id);
        let late = out.first().map(|at| at.0 - task.start.0);
        assert!(
            late.is_some_and(|late| (0..=50).contains(&late)),
            "{late:?}"
        );
    }
    let records = world.queue.records("users");
    let late = |(seconds, record): (i64, &Arc<Published>)| record.at.0 - begin.0 - seconds * 1000;
    let late: Vec<i64> = [1, 4].into_iter().zip(&records).map(late).collect();
    assert!(
        late.len() == 2 && late.iter().all(|late| (0..=50).contains(late)),
        "{late:?}"
    );
    let runs = world.executions_of(moved);
    let late = runs[0].began.0 - to.0;
    assert!((0..=100).contains(&late), "{late} ms late");
    // The wheel comes to their entries at the end.
    world.pass(600 * SECOND).await;
    for task in tracked() {
        assert_eq!(world.executions_of(task.id).len(), 1);
    }
    assert_eq!(world.executions_of(moved).len(), 1);
    assert_eq!(world.queue.records("users").len(), 2);
    world.check();
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn the_wheel_wraps_without_mixing_revolutions() {
    let world = World::new(1, 8);
    let node = world.node(1);
    let worker = world.worker(node.service(), succeeds(SECOND / 100));
    world.pass(3 * SECOND).await;
    let now = world.time.now();
    let tasks = (0..60).map(|n| callback(Millis(now.0 + n * 777))).collect();
    let ids: Vec<TaskId> = register(&node.service(), tasks)
        .await
        .iter()
        .map(|task| task.id)
        .collect();
    world.pass(60 * SECOND).await;
    for id in ids {
        let runs = world.executions_of(id);
        assert_eq!(runs.len(), 1);
        assert!(runs[0].began.0 - id.first_start().0 <= 5);
    }
    world.check();
    worker.abort();
}

/// The memory of a wheel is bounded, however much is due. When the tasks are due its reader holds its bound
/// and a page more, and has passed over the rest once, to see the entries behind it.
#[tokio::test(start_paused = true)]
async fn memory_is_bounded_whatever_is_due() {
    const PAGE: usize = 50;
    const BOUND: usize = 100;
    const TASKS: usize = 5000;
    let mut world = World::new(1, 1000);
    world.settings = Settings {
        ahead_entries_max: BOUND,
        page_rows_max: PAGE,
        ..world.settings
    };
    let scans = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&scans);
    let node = world.node_with(
        1,
        Arc::new(move |_, call| {
            if call.operation == "scan" {
                counted.fetch_add(1, Ordering::SeqCst);
            }
            Fate::Go
        }),
    );
    world.pass(3 * SECOND).await;
    let start = world.time.now().after(20 * SECOND);
    let tasks = (0..TASKS).map(|_| callback(start)).collect();
    let views = register(&node.service(), tasks).await;
    world.pass(10 * SECOND).await;
    let before = scans.load(Ordering::SeqCst);
    world
        .pass(start.since(world.time.now()) - SECOND / 100)
        .await;
    let read_ahead = scans.load(Ordering::SeqCst) - before;
    // One read for each tick that opens meanwhile, and the pages of the full tick.
    let ticks = 12;
    assert!(
        read_ahead <= ticks + TASKS / PAGE + 1,
        "{read_ahead} pages of {PAGE} were read before anything was due"
    );
    // Entries in memory have their look; entries that were passed over have none yet.
    let entries = world.store.entries();
    let is_look = |(_, entry): &&(Key, Option<Entry>)| {
        let kind = entry.as_ref().map(|entry| &entry.kind);
        matches!(kind, Some(Kind::Look { .. }))
    };
    let held = entries.iter().filter(is_look).count();
    assert!(
        (BOUND / 2..=BOUND + PAGE).contains(&held),
        "{held} are held where {BOUND} may be"
    );
    world.pass(20 * SECOND).await;
    let topic = message::topic("work", Priority::Normal);
    let records = world.queue.records(&topic);
    let ids: BTreeSet<TaskId> = records
        .iter()
        .map(|published| {
            TaskMessage::decode(published.record.value.clone())
                .unwrap()
                .dispatch
                .id
        })
        .collect();
    assert_eq!(records.len(), views.len());
    assert_eq!(ids, views.iter().map(|task| task.id).collect());
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_entry_is_set_aside_and_stops_nothing() {
    let world = World::new(1, 1000);
    let node = world.node(1);
    world.pass(3 * SECOND).await;
    let start = world.time.now().after(10 * SECOND);
    let good = register(&node.service(), vec![callback(start)]).await[0].id;
    let bad = TaskId::new(start, good.wheel(), 0);
    world.store.put_garbage(
        Key {
            due: start,
            id: bad,
            generation: 0,
            code: KeyCode::due(0),
        },
        1,
    );
    world.pass(15 * SECOND).await;
    assert_eq!(published(&world, good).len(), 1);
    let parked = world.store.all_parked();
    assert_eq!((parked.len(), parked[0].key.id), (1, bad));
}

#[tokio::test(start_paused = true)]
async fn what_has_fired_is_erased_and_what_has_not_is_kept() {
    let world = World::new(2, 1000);
    let node = world.node(1);
    let worker = world.worker(node.service(), succeeds(SECOND / 100));
    world.pass(3 * SECOND).await;
    let now = world.time.now();
    register(
        &node.service(),
        (0..40).map(|n| callback(Millis(now.0 + n * 300))).collect(),
    )
    .await;
    let far = register(&node.service(), vec![callback(now.after(SECOND * 500))]).await[0].id;
    world.pass(SECOND * 200).await;
    let left = world.store.entries();
    assert_eq!(
        left.iter().map(|(key, _)| key.id).collect::<Vec<_>>(),
        [far]
    );
    world.check();
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn pages_may_end_anywhere() {
    let mut world = World::new(1, 1000);
    world.settings = Settings {
        page_rows_max: 3,
        ..world.settings
    };
    world.store.set_page_rows_max(2);
    let node = world.node(1);
    world.pass(3 * SECOND).await;
    let start = world.time.now().after(10 * SECOND);
    let ids: Vec<TaskId> = register(&node.service(), (0..31).map(|_| callback(start)).collect())
        .await
        .iter()
        .map(|task| task.id)
        .collect();
    world.pass(15 * SECOND).await;
    assert!(ids.iter().all(|id| published(&world, *id).len() == 1));
}

/// Entries in flight take of the memory of their wheel, and give it back.
#[tokio::test(start_paused = true)]
async fn a_memory_of_few_bytes_is_filled_again_and_again() {
    let mut world = World::new(1, 1000);
    world.settings = Settings {
        ahead_bytes_max: 8 * 1024,
        page_rows_max: 3,
        ..world.settings
    };
    let node = world.node(1);
    world.pass(3 * SECOND).await;
    let start = world.time.now().after(10 * SECOND);
    let tasks = (0..200).map(|_| callback(start)).collect();
    let views = register(&node.service(), tasks).await;
    world.pass(15 * SECOND).await;
    let went = |id| published(&world, id).len() == 1;
    assert!(views.iter().all(|task| went(task.id)));
}

#[tokio::test(start_paused = true)]
async fn one_seed_run_twice_gives_the_same_trace() {
    async fn trace() -> Vec<(String, Millis)> {
        let world = World::new(2, 100);
        let node = world.node(7);
        let worker = world.worker(node.service(), succeeds(SECOND / 3));
        world.pass(3 * SECOND).await;
        let now = world.time.now();
        register(
            &node.service(),
            (0..50).map(|n| callback(Millis(now.0 + n * 100))).collect(),
        )
        .await;
        world.pass(20 * SECOND).await;
        worker.abort();
        let executions = world.executions.lock().unwrap().clone();
        executions
            .into_iter()
            .map(|e| (e.id.to_string(), e.began))
            .collect()
    }
    let (first, epoch) = (trace().await, EPOCH);
    assert_eq!(first.len(), 50);
    let second = trace().await;
    let relative = |trace: &[(String, Millis)]| -> Vec<String> {
        trace
            .iter()
            .map(|(id, at)| format!("{id} {}", at.0 - epoch.0))
            .collect()
    };
    assert_eq!(relative(&first), relative(&second));
    drop(Arc::new(()));
}
