//! A schedule goes on where the store was away or failed at a write, and it knows of the runs that go on over a change.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use tickwheel::{
    doubles::store::faulty::{Call, Fate},
    flow::{
        base::api::View,
        stages::{
            schedules::desk::{Changed, Order},
            service::Service,
        },
    },
    model::{
        schedule::life::{Overlap, Schedule, ScheduleSpec},
        time::Millis,
    },
};

use super::schedules::{NAME, pause, put, put_as, spec};
use crate::world::{World, record, succeeds};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// A schedule whose runs may take minutes: workers of the simulation send no heartbeats.
fn patient(world: &World, every: Duration, overlap: Overlap) -> ScheduleSpec {
    let mut spec = ScheduleSpec {
        every: Some(every),
        overlap,
        ..spec(world)
    };
    spec.task.heartbeat_timeout = Some(MINUTE * 10);
    spec
}

async fn read(service: &Service) -> Schedule {
    service.schedules().get(NAME).await.unwrap().unwrap()
}

/// The executions so far: their begins and ends, in seconds since `begin`.
fn executed(world: &World, begin: Millis) -> Vec<(u64, u64)> {
    let executions = world.executions.lock().unwrap();
    let spans = executions
        .iter()
        .map(|one| (one.began.since(begin), one.ended.since(begin)));
    spans
        .map(|(began, ended)| (began.as_secs(), ended.as_secs()))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_schedule_goes_on_soon_behind_minutes_without_the_store() {
    let world = World::new(2, 1000);
    let away = Arc::new(AtomicBool::new(false));
    let is_away = Arc::clone(&away);
    let fates = move |_, _| {
        if is_away.load(SeqCst) {
            Fate::Fail
        } else {
            Fate::Go
        }
    };
    let node = world.node_with(1, Arc::new(fates));
    world.pass(SECOND * 3).await;
    let service = node.service();
    let worker = world.worker(node.service(), succeeds(SECOND / 10));
    let every = Some(MINUTE);
    put(
        &service,
        ScheduleSpec {
            every,
            ..spec(&world)
        },
    )
    .await;
    world.pass(MINUTE * 2).await;
    // The row of its next look was not read by any node.
    while world.time.now().until(read(&service).await.wake.unwrap()) < SECOND * 10 {
        world.pass(SECOND).await;
    }
    away.store(true, SeqCst);
    world.pass(MINUTE * 2 + SECOND * 30).await;
    away.store(false, SeqCst);
    world.pass(SECOND * 25).await;
    let (schedule, now) = (read(&service).await, world.time.now());
    assert!(schedule.wake.unwrap() > now, "{:?} {now}", schedule.wake);
    world.pass(MINUTE).await;
    let begun = executed(&world, schedule.created).len() as u64;
    assert_eq!(
        begun,
        world.time.now().since(schedule.created).as_secs() / 60
    );
    world.check();
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn no_run_begins_beside_one_that_goes_on_over_a_pause() {
    for overlap in [Overlap::Skip, Overlap::BufferOne] {
        let world = World::new(2, 1000);
        let node = world.node(1);
        world.pass(SECOND * 3).await;
        let service = node.service();
        let worker = world.worker(node.service(), succeeds(SECOND * 50));
        put(&service, patient(&world, SECOND * 20, overlap)).await;
        world.pass(SECOND * 25).await;
        pause(&service).await;
        world.pass(SECOND * 3).await;
        let resumed = service
            .schedules()
            .order(NAME, &Order::Resume, 3, &|_| true);
        resumed.await.unwrap();
        world.pass(MINUTE * 3).await;
        let spans = executed(&world, read(&service).await.created);
        let apart = spans.windows(2).all(|two| two[0].1 <= two[1].0);
        assert!(spans.len() > 2 && apart, "{overlap:?} {spans:?}");
        world.check();
        worker.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_waited_begins_soon_though_its_entry_failed() {
    let world = World::new(2, 1000);
    let fails = Arc::new(AtomicBool::new(false));
    let does_fail = Arc::clone(&fails);
    let fates = move |_, call: Call| {
        if call.operation == "put_entries" && does_fail.load(SeqCst) {
            Fate::Fail
        } else {
            Fate::Go
        }
    };
    let node = world.node_with(1, Arc::new(fates));
    world.pass(SECOND * 3).await;
    let service = node.service();
    let worker = world.worker(node.service(), succeeds(MINUTE * 4 + SECOND * 30));
    put(&service, patient(&world, MINUTE * 4, Overlap::BufferOne)).await;
    world.pass(MINUTE * 8 + SECOND * 25).await;
    let waits = read(&service).await.waiting.map(|run| run.seq);
    assert_eq!(waits, Some(2));
    // The first run ends meanwhile, and the other one leaves its place.
    fails.store(true, SeqCst);
    world.pass(SECOND * 15).await;
    assert_eq!(read(&service).await.waiting, None);
    fails.store(false, SeqCst);
    world.pass(MINUTE * 2).await;
    let spans = executed(&world, read(&service).await.created);
    assert_eq!(spans.len(), 2, "{spans:?}");
    assert!(spans[0].1 <= spans[1].0 && spans[1].0 < 9 * 60, "{spans:?}");
    world.check();
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn a_run_that_has_begun_goes_on_where_its_schedule_gets_another_target() {
    let world = World::new(2, 1000);
    let node = world.node(1);
    world.pass(SECOND * 3).await;
    let service = node.service();
    let worker = world.worker(node.service(), succeeds(SECOND * 50));
    put(&service, patient(&world, SECOND * 20, Overlap::Allow)).await;
    world.pass(SECOND * 25).await;
    let of_kafka = ScheduleSpec {
        task: record(world.time.now()).draft,
        ..spec(&world)
    };
    let Changed::Now(outcome) = put_as(&service, of_kafka, 2).await else {
        panic!("it was there");
    };
    assert_eq!((outcome.withdrawn, outcome.started), (2, 1));
    world.pass(SECOND).await;
    let first = world.executions.lock().unwrap()[0].id;
    let task = service.get(first, View::Basic).await.unwrap().unwrap();
    assert!(!task.cancel_requested, "{task:?}");
    world.pass(MINUTE * 2).await;
    assert_eq!(world.executions.lock().unwrap().len(), 1);
    world.check();
    worker.abort();
}
