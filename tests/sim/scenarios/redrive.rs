//! A dead task that is told to run runs again, whatever fails on the way, and its old life no longer counts.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use bytes::Bytes;
use tickwheel::{
    doubles::store::faulty::Fate,
    flow::{
        base::api::{
            ClaimAnswer, ClaimRequest, LostReason, RescheduleOutcome, SettleAnswer, SettleRequest,
            TaskView, View, VisibleState,
        },
        stages::service::Service,
    },
    model::{
        dead_letter::DEAD_RETENTION,
        ids::TaskId,
        state::Outcome,
        task::{Body, Content},
    },
    store::WheelStore as _,
};

use crate::world::{Behaviour, Simulated, World, callback, register};

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);

/// Fails this often, then succeeds.
fn fails(times: u32) -> Behaviour {
    Arc::new(move |_, attempt| {
        let outcome = if attempt <= times {
            retry()
        } else {
            Outcome::Succeeded { result: None }
        };
        (SECOND / 10, Some(outcome))
    })
}

fn retry() -> Outcome {
    Outcome::Retry {
        error: "no".to_owned(),
        after: None,
    }
}

async fn run(service: &Service, id: TaskId) -> (RescheduleOutcome, TaskView) {
    service.run(id, None).await.unwrap().unwrap()
}

async fn read(service: &Service, id: TaskId) -> TaskView {
    service.get(id, View::Full).await.unwrap().unwrap()
}

/// Registers a task of so many bytes whose three attempts fail, and waits until it is dead.
async fn dead(world: &World, node: &Simulated, bytes: usize) -> TaskId {
    let mut task = callback(world.time.now());
    task.draft.body = Body::Inline(Content {
        payload: Bytes::from(vec![7; bytes]),
        ..Content::default()
    });
    let id = register(&node.service(), vec![task]).await.remove(0).id;
    let end = world.end_of(&node.service(), id, SECOND * 60).await;
    assert_eq!(end, VisibleState::Dead);
    id
}

#[tokio::test(start_paused = true)]
async fn a_dead_task_that_is_run_runs_again() {
    a_dead_task_that_is_run_runs_again_in(World::new(1, 1000)).await;
}

#[tokio::test(start_paused = true)]
async fn a_dead_task_that_is_run_runs_again_on_disk() {
    a_dead_task_that_is_run_runs_again_in(World::on_disk(1, 1000)).await;
}

async fn a_dead_task_that_is_run_runs_again_in(world: World) {
    let node = world.node(1);
    let service = node.service();
    // The task dies in its second life, too, after as many attempts as in the first.
    let worker = world.worker(service.clone(), fails(6));
    world.pass(3 * SECOND).await;
    let id = dead(&world, &node, 10).await;
    for life in 1..3 {
        let (outcome, view) = run(&service, id).await;
        assert_eq!(outcome, RescheduleOutcome::Rescheduled);
        assert_eq!((view.generation, view.attempt), (life, 3 * life));
        assert_eq!(view.end_time, None);
        let asked = world.time.now();
        let old = ClaimRequest {
            id,
            generation: life - 1,
            expected_attempt: 3 * life,
            spec: None,
            published: None,
            with_content: false,
            admitted: false,
        };
        let claimed = service.claim("late", vec![old]).await.remove(0);
        // The worker may have claimed the next life already.
        let refused = matches!(claimed, ClaimAnswer::Stale | ClaimAnswer::Held);
        assert!(refused, "{claimed:?}");
        let settle = |outcome| {
            let (attempt, service) = (3 * life, service.clone());
            let request = SettleRequest {
                id,
                attempt,
                outcome,
                answered: None,
            };
            async move { service.settle("late", vec![request]).await.remove(0) }
        };
        // A repetition of the report that made it dead is refused as well.
        for outcome in [Outcome::Succeeded { result: None }, retry()] {
            let settled = settle(outcome).await;
            let lost = matches!(
                settled,
                SettleAnswer::Lost(LostReason::Waits | LostReason::Attempt(_))
            );
            assert!(lost, "{settled:?}");
        }
        let end = world.end_of(&service, id, SECOND * 60).await;
        let expected = [VisibleState::Dead, VisibleState::Succeeded];
        assert_eq!(end, expected[(life - 1) as usize]);
        let next = world
            .executions_of(id)
            .into_iter()
            .find(|run| run.attempt == 3 * life + 1);
        let waited = next.unwrap().began.since(asked);
        assert!(waited < SECOND / 10, "{waited:?}");
    }
    assert_eq!(run(&service, id).await.0, RescheduleOutcome::TooLate);
    world.check();
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_write_of_a_redrive_leaves_a_dead_task_or_one_that_runs() {
    for effect in [Fate::StopBefore, Fate::StopAfter] {
        for operation in ["put_bodies", "put_entries", "swap_tasks"] {
            let world = World::new(1, 1000);
            let armed = Arc::new(AtomicBool::new(false));
            let fates = {
                let armed = Arc::clone(&armed);
                move |_, call: tickwheel::doubles::store::faulty::Call| {
                    if call.operation == operation && armed.load(SeqCst) {
                        effect
                    } else {
                        Fate::Go
                    }
                }
            };
            let (one, other) = (world.node_with(1, Arc::new(fates)), world.node(2));
            let worker = world.worker(other.service(), fails(3));
            world.pass(3 * SECOND).await;
            let id = dead(&world, &other, 5000).await;
            // The first node makes no other write from now on: its wheel is the other's by now, or it goes on
            // without it.
            armed.store(true, SeqCst);
            let service = one.service();
            let asked = tokio::spawn(async move { service.run(id, None).await });
            world.pass(60 * SECOND).await;
            asked.abort();
            let swapped = (operation, effect) == ("swap_tasks", Fate::StopAfter);
            let expected = if swapped {
                VisibleState::Succeeded
            } else {
                VisibleState::Dead
            };
            let what = format!("{operation}, {effect:?}");
            assert_eq!(read(&other.service(), id).await.state, expected, "{what}");
            // A repeated call makes it run.
            if !swapped {
                assert_eq!(
                    run(&other.service(), id).await.0,
                    RescheduleOutcome::Rescheduled
                );
            }
            let end = world.end_of(&other.service(), id, SECOND * 60).await;
            assert_eq!(end, VisibleState::Succeeded, "{what}");
            assert_eq!(world.executions_of(id).len(), 4, "{what}");
            world.check();
            worker.abort();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_redrive_whose_row_comes_long_behind_its_look_is_not_forgotten() {
    let world = World::new(1, 1000);
    let armed = Arc::new(AtomicBool::new(false));
    let fates = {
        let armed = Arc::clone(&armed);
        move |_, call: tickwheel::doubles::store::faulty::Call| {
            if call.operation == "swap_tasks" && armed.load(SeqCst) {
                Fate::ApplyLater(SECOND * 120)
            } else {
                Fate::Go
            }
        }
    };
    let (one, other) = (world.node_with(1, Arc::new(fates)), world.node(2));
    let worker = world.worker(other.service(), fails(3));
    world.pass(3 * SECOND).await;
    let id = dead(&world, &other, 10).await;
    armed.store(true, SeqCst);
    let service = one.service();
    let asked = tokio::spawn(async move { service.run(id, None).await });
    world.pass(SECOND / 10).await;
    one.crash();
    asked.abort();
    world.pass(60 * SECOND).await;
    let waiting = read(&other.service(), id).await;
    assert_eq!(waiting.state, VisibleState::Dead);
    assert_eq!(
        world.end_of(&other.service(), id, SECOND).await,
        VisibleState::Dead
    );
    // By then the first look has come up, and found the task dead.
    world.pass(300 * SECOND).await;
    let ended = read(&other.service(), id).await;
    assert_eq!(ended.state, VisibleState::Succeeded);
    world.check();
    worker.abort();
}

#[tokio::test(start_paused = true)]
#[ignore = "passes weeks of virtual time: make test-all"]
async fn the_row_and_the_content_of_a_redriven_task_live_as_those_of_one_that_waits() {
    let world = World::with_tick(1, 1000, SECOND * 60);
    let node = world.node(1);
    let service = node.service();
    let worker = world.worker(service.clone(), fails(3));
    world.pass(130 * SECOND).await;
    let id = dead(&world, &node, 5000).await;
    worker.abort();
    world.pass(SECOND).await;
    assert_eq!(run(&service, id).await.0, RescheduleOutcome::Rescheduled);
    // A slow node does the end steps of the first life now, by a clock that is ahead.
    let content = read(&service, id).await.content.unwrap();
    let late = world.time.now().after(SECOND).0 * 1000;
    let week = u32::try_from(7 * DAY.as_secs()).unwrap();
    let put = [(id, Arc::new(content))];
    for put in world.store.put_bodies(&put, late, Some(week)).await {
        put.unwrap();
    }
    // The looks of a day renew the content, and nobody does for the week behind it.
    world.pass(DAY).await;
    node.crash();
    drop((node, service));
    world.pass(8 * DAY).await;
    let service = world.node(2).service();
    world.pass(SECOND * 600).await;
    let waiting = read(&service, id).await;
    assert_eq!(waiting.state, VisibleState::Enqueued);
    assert_eq!(waiting.content.unwrap().payload.len(), 5000);
    let worker = world.worker(service.clone(), fails(3));
    let end = world.end_of(&service, id, SECOND * 1800).await;
    assert_eq!(end, VisibleState::Succeeded);
    world.check();
    worker.abort();
}

#[tokio::test(start_paused = true)]
#[ignore = "passes a month of virtual time: make test-all"]
async fn a_dead_task_that_is_not_shown_any_more_stays_dead() {
    let world = World::with_tick(1, 10_000, SECOND * 60);
    let node = world.node(1);
    let worker = world.worker(node.service(), fails(3));
    world.pass(1300 * SECOND).await;
    let id = dead(&world, &node, 5000).await;
    world.pass(30 * SECOND).await;
    // Nodes and workers that run have something to do each second of a month.
    worker.abort();
    node.crash();
    drop(node);
    world.pass(DEAD_RETENTION).await;
    let node = world.node(2);
    let service = node.service();
    let worker = world.worker(node.service(), fails(3));
    assert!(service.get(id, View::Basic).await.unwrap().is_none());
    assert_eq!(run(&service, id).await.0, RescheduleOutcome::TooLate);
    world.pass(600 * SECOND).await;
    assert_eq!(world.executions_of(id).len(), 3);
    worker.abort();
}
