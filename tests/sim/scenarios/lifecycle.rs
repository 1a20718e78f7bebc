//! Attempts go through retries, snoozes, dead workers and fences as the life cycle promises.

use std::{sync::Arc, time::Duration};

use tickwheel::{
    flow::base::api::{
        ClaimAnswer, ClaimRequest, HeartbeatAnswer, HeartbeatRequest, SettleAnswer, SettleRequest,
        View, VisibleState,
    },
    model::{ids::TaskId, result::TaskResult, state::Outcome},
};

use crate::world::{World, callback, published, register, succeeds};

const SECOND: Duration = Duration::from_secs(1);

fn claim(id: TaskId, expected_attempt: u32) -> ClaimRequest {
    ClaimRequest {
        id,
        generation: 0,
        expected_attempt,
        published: None,
        spec: None,
        with_content: true,
        admitted: false,
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_attempt_is_tried_again_after_its_backoff() {
    a_failed_attempt_is_tried_again_after_its_backoff_in(World::new(1, 1000)).await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_attempt_is_tried_again_after_its_backoff_on_disk() {
    a_failed_attempt_is_tried_again_after_its_backoff_in(World::on_disk(1, 1000)).await;
}

async fn a_failed_attempt_is_tried_again_after_its_backoff_in(world: World) {
    let node = world.node(1);
    let worker = world.worker(
        node.service(),
        Arc::new(|_, attempt| {
            let outcome = if attempt < 3 {
                Outcome::Retry {
                    error: "not yet".to_owned(),
                    after: None,
                }
            } else {
                Outcome::Succeeded {
                    result: Some(bytes::Bytes::from_static(b"7").into()),
                }
            };
            (SECOND / 10, Some(outcome))
        }),
    );
    world.pass(3 * SECOND).await;
    let task = register(
        &node.service(),
        vec![callback(world.time.now().after(SECOND * 5))],
    )
    .await
    .remove(0);
    assert_eq!(
        world.end_of(&node.service(), task.id, SECOND * 30).await,
        VisibleState::Succeeded
    );
    let runs = world.executions_of(task.id);
    let waits: Vec<i64> = runs
        .windows(2)
        .map(|w| w[1].began.0 - w[0].ended.0)
        .collect();
    assert_eq!(waits.len(), 2);
    assert!(
        (1000..1010).contains(&waits[0]) && (2000..2010).contains(&waits[1]),
        "{waits:?}"
    );
    let read = node
        .service()
        .get(task.id, View::Full)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (
            read.attempt,
            read.result
                .as_ref()
                .and_then(TaskResult::bytes)
                .map(|bytes| &**bytes)
        ),
        (3, Some(b"7".as_slice()))
    );
    world.check();
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn used_up_attempts_make_a_task_dead() {
    let world = World::new(1, 1000);
    let node = world.node(1);
    let worker = world.worker(
        node.service(),
        Arc::new(|_, _| {
            (
                SECOND,
                Some(Outcome::Retry {
                    error: "no".to_owned(),
                    after: None,
                }),
            )
        }),
    );
    world.pass(3 * SECOND).await;
    let task = register(&node.service(), vec![callback(world.time.now())])
        .await
        .remove(0);
    assert_eq!(
        world.end_of(&node.service(), task.id, SECOND * 60).await,
        VisibleState::Dead
    );
    assert_eq!(world.executions_of(task.id).len(), 3);
    world.check();
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn a_snooze_does_not_use_up_an_attempt() {
    let world = World::new(1, 1000);
    let node = world.node(1);
    let worker = world.worker(
        node.service(),
        Arc::new(|_, attempt| {
            let outcome = if attempt < 6 {
                Outcome::Snoozed { after: SECOND * 2 }
            } else {
                Outcome::Succeeded { result: None }
            };
            (SECOND / 10, Some(outcome))
        }),
    );
    world.pass(3 * SECOND).await;
    let task = register(&node.service(), vec![callback(world.time.now())])
        .await
        .remove(0);
    assert_eq!(
        world.end_of(&node.service(), task.id, SECOND * 60).await,
        VisibleState::Succeeded
    );
    assert_eq!(world.executions_of(task.id).len(), 6);
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn a_task_whose_worker_died_is_run_again_and_finally_dead() {
    for (dies, end) in [(1, VisibleState::Succeeded), (3, VisibleState::Dead)] {
        let world = World::new(1, 1000);
        let node = world.node(1);
        let worker = world.worker(
            node.service(),
            Arc::new(move |_, attempt| {
                let outcome = (attempt > dies).then_some(Outcome::Succeeded { result: None });
                (SECOND, outcome)
            }),
        );
        world.pass(3 * SECOND).await;
        let task = register(
            &node.service(),
            vec![callback(world.time.now().after(SECOND * 4))],
        )
        .await
        .remove(0);
        assert_eq!(
            world.end_of(&node.service(), task.id, SECOND * 120).await,
            end
        );
        world.check();
        worker.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn heartbeats_keep_an_attempt_alive_and_a_lost_one_is_told() {
    let world = World::new(1, 1000);
    let node = world.node(1);
    let service = node.service();
    world.pass(3 * SECOND).await;
    let task = register(&service, vec![callback(world.time.now())])
        .await
        .remove(0);
    world.pass(SECOND).await;
    let answer = service.claim("a", vec![claim(task.id, 0)]).await.remove(0);
    assert!(matches!(answer, ClaimAnswer::Claimed(claimed) if claimed.attempt == 1));
    let beat = |attempt| {
        vec![HeartbeatRequest {
            id: task.id,
            attempt,
            progress: None,
        }]
    };
    for _ in 0..20 {
        world.pass(4 * SECOND).await;
        let answer = service.heartbeat("a", beat(1)).await.remove(0);
        assert!(matches!(answer, HeartbeatAnswer::Ok));
    }
    assert_eq!(
        published(&world, task.id).len(),
        1,
        "alive: not published again"
    );
    let state = service
        .get(task.id, View::Basic)
        .await
        .unwrap()
        .unwrap()
        .state;
    assert_eq!(state, VisibleState::Processing);
    world.pass(40 * SECOND).await;
    assert!(
        published(&world, task.id).len() > 1,
        "dead: published again"
    );
    let answer = service.claim("b", vec![claim(task.id, 1)]).await.remove(0);
    assert!(matches!(answer, ClaimAnswer::Claimed(claimed) if claimed.attempt == 2));
    assert!(matches!(
        service.heartbeat("a", beat(1)).await.remove(0),
        HeartbeatAnswer::Lost(_)
    ));
    let settle = |attempt| {
        vec![SettleRequest {
            id: task.id,
            attempt,
            outcome: Outcome::Succeeded { result: None },
            answered: None,
        }]
    };
    assert!(matches!(
        service.settle("a", settle(1)).await.remove(0),
        SettleAnswer::Lost(_)
    ));
    assert!(matches!(
        service.settle("b", settle(2)).await.remove(0),
        SettleAnswer::Ok
    ));
    assert!(
        matches!(
            service.settle("b", settle(2)).await.remove(0),
            SettleAnswer::Ok
        ),
        "a repeated report"
    );
    world.pass(60 * SECOND).await;
    assert_eq!(
        world.store.entries().len(),
        0,
        "no look is left of a terminal task"
    );
}

#[tokio::test(start_paused = true)]
async fn a_claim_before_the_start_is_refused_with_the_time() {
    let world = World::new(1, 1000);
    let node = world.node(1);
    let service = node.service();
    world.pass(3 * SECOND).await;
    let start = world.time.now().after(SECOND * 10);
    let task = register(&service, vec![callback(start)]).await.remove(0);
    let answer = service.claim("a", vec![claim(task.id, 0)]).await.remove(0);
    assert!(matches!(answer, ClaimAnswer::Early { not_before } if not_before == start));
    world.pass(SECOND * 10).await;
    let answer = service.claim("a", vec![claim(task.id, 0)]).await.remove(0);
    assert!(matches!(answer, ClaimAnswer::Claimed(_)));
    let again = service.claim("b", vec![claim(task.id, 0)]).await.remove(0);
    assert!(matches!(again, ClaimAnswer::Held | ClaimAnswer::Stale));
}

#[tokio::test(start_paused = true)]
async fn a_task_that_waits_for_a_worker_is_found_and_run_when_one_comes() {
    let world = World::new(1, 10_000);
    let node = world.node(1);
    world.pass(3 * SECOND).await;
    let now = world.time.now();
    let tasks = vec![callback(now), callback(now.after(SECOND * 30))];
    let ids: Vec<TaskId> = register(&node.service(), tasks)
        .await
        .iter()
        .map(|t| t.id)
        .collect();
    world.pass(SECOND * 3600).await;
    for id in &ids {
        let read = node.service().get(*id, View::Basic).await.unwrap();
        assert_eq!(read.map(|task| task.state), Some(VisibleState::Enqueued));
        let copies = published(&world, *id).len();
        assert!(copies < 16, "{copies} copies of a task that waited an hour");
    }
    let worker = world.worker(node.service(), succeeds(SECOND));
    world.pass(SECOND * 40).await;
    for id in &ids {
        assert_eq!(world.executions_of(*id).len(), 1);
    }
    world.check();
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_too_late_expires_unrun() {
    let world = World::new(1, 1000);
    let node = world.node(1);
    world.pass(3 * SECOND).await;
    let mut task = callback(world.time.now().after(SECOND * 5));
    task.draft.expire_after = Some(SECOND * 60);
    let task = register(&node.service(), vec![task]).await.remove(0);
    world.pass(SECOND * 100).await;
    let read = node
        .service()
        .get(task.id, View::Basic)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(read.state, VisibleState::Expired);
    let answer = node
        .service()
        .claim("a", vec![claim(task.id, 0)])
        .await
        .remove(0);
    assert!(matches!(answer, ClaimAnswer::Stale));
}
