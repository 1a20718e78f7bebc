//! Nets catch a task within seconds when a fault comes between two writes. They do not wait for the end of a
//! lease, or for an old start that lies far ahead.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use bytes::Bytes;
use tickwheel::{
    doubles::{queue::memory::Fault, store::faulty::Fate},
    flow::{
        base::{
            api::{
                ClaimAnswer, ClaimRequest, NewTask, RescheduleOutcome, SettleAnswer, SettleRequest,
            },
            tables::letters::Scope,
        },
        stages::letters::walk::Wanted,
    },
    model::{
        state::Outcome,
        task::{Body, Content, Priority},
        time::Millis,
    },
    queue::message::{self, TaskMessage},
};

use crate::world::{
    Behaviour, World, callback, first_claim, published, record, register, succeeds,
};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test(start_paused = true)]
async fn ticks_longer_than_the_lease_are_as_punctual_as_short_ones() {
    for tick in [10, 60] {
        let world = World::with_tick(2, 1000, SECOND * tick);
        let node = world.node(1);
        world.pass(130 * SECOND).await;
        let now = world.time.now();
        let tasks = (0..150).map(|n| callback(Millis(now.0 + n * 1777)));
        let views = register(&node.service(), tasks.collect()).await;
        world.pass(300 * SECOND).await;
        for task in views {
            let late = published(&world, task.id)[0].0 - task.id.first_start().0;
            assert!(
                (0..=5).contains(&late),
                "{late} ms late at ticks of {tick} s"
            );
        }
        world.check();
    }
}

/// A task whose attempts may be silent for an hour, and whose looks come every ten seconds.
fn silent_for_an_hour(start: Millis) -> NewTask {
    let mut task = callback(start);
    task.draft.heartbeat_timeout = Some(HOUR);
    task
}

/// The length of the first attempt. The look of the first publication has found it running by then, and has
/// moved to the end of its lease.
const FIRST: Duration = Duration::from_secs(20);

/// Fails at its first attempt, to be tried again after a second.
fn fails_once() -> Behaviour {
    Arc::new(|_, attempt| {
        let again = Outcome::Retry {
            error: "not yet".to_owned(),
            after: Some(SECOND),
        };
        let done = Outcome::Succeeded { result: None };
        if attempt == 1 {
            (FIRST, Some(again))
        } else {
            (SECOND / 10, Some(done))
        }
    })
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_memory_loses_is_looked_at_after_a_claim_timeout() {
    let world = World::new(1, 1000);
    let node = world.node(1);
    let worker = world.worker(node.service(), fails_once());
    world.pass(3 * SECOND).await;
    let start = world.time.now().after(5 * SECOND);
    let id = register(&node.service(), vec![silent_for_an_hour(start)]).await[0].id;
    world
        .time
        .sleep_until_wall(start.after(FIRST + SECOND / 2))
        .await;
    assert_eq!(world.executions_of(id).len(), 1);
    // This takes longer than the patience of the memory of near tasks.
    world.queue.faults().plan(10_000, Fault::UnconfirmedLost);
    world.pass(18 * SECOND).await;
    world.queue.faults().clear();
    world.pass(25 * SECOND).await;
    let runs = world.executions_of(id);
    assert_eq!(runs.len(), 2, "{runs:?}");
    world.check();
    worker.abort();
}

/// The claim of a task that nobody has claimed yet.
#[tokio::test(start_paused = true)]
async fn a_report_that_is_repeated_puts_the_retry_that_the_first_left_undone() {
    let world = World::new(1, 1000);
    let swaps = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&swaps);
    // The node dies after the write of the row: the first swap is the claim, the second the report.
    let dies = world.node_with(
        1,
        Arc::new(move |_, call| {
            let dies = call.operation == "swap_tasks" && counted.fetch_add(1, SeqCst) == 1;
            if dies { Fate::StopAfter } else { Fate::Go }
        }),
    );
    world.pass(3 * SECOND).await;
    let other = world.node(2);
    let start = world.time.now().after(5 * SECOND);
    let id = register(&dies.service(), vec![silent_for_an_hour(start)]).await[0].id;
    world.time.sleep_until_wall(start.after(SECOND / 10)).await;
    let claimed = dies.service().claim("worker", vec![first_claim(id)]).await;
    assert!(matches!(claimed[0], ClaimAnswer::Claimed(_)), "{claimed:?}");
    let report = || SettleRequest {
        id,
        attempt: 1,
        outcome: Outcome::Retry {
            error: "not yet".to_owned(),
            after: Some(SECOND),
        },
        answered: None,
    };
    let first = dies.service();
    let answer = world
        .time
        .within(SECOND, first.settle("worker", vec![report()]));
    assert!(answer.await.is_none(), "the node died before it answered");
    let worker = world.worker(other.service(), succeeds(SECOND / 10));
    let again = other.service().settle("worker", vec![report()]).await;
    assert!(matches!(again[0], SettleAnswer::Ok), "{again:?}");
    world.pass(5 * SECOND).await;
    let runs = world.executions_of(id);
    assert_eq!(runs.iter().map(|run| run.attempt).collect::<Vec<_>>(), [2]);
    worker.abort();
}

/// The letter of a dead task, whose write has failed, comes with the repeated report and not only with the look.
#[tokio::test(start_paused = true)]
async fn a_report_that_is_repeated_takes_the_end_steps_that_the_first_left_undone() {
    let world = World::new(1, 1000);
    let armed = Arc::new(AtomicBool::new(false));
    let fails = Arc::clone(&armed);
    let node = world.node_with(
        1,
        Arc::new(move |_, call| {
            let fails = call.operation == "put_index" && fails.load(SeqCst);
            if fails { Fate::Fail } else { Fate::Go }
        }),
    );
    world.pass(3 * SECOND).await;
    let service = node.service();
    let start = world.time.now().after(5 * SECOND);
    let mut task = silent_for_an_hour(start);
    task.draft.max_attempts = Some(1);
    let id = register(&service, vec![task]).await[0].id;
    world.time.sleep_until_wall(start.after(SECOND / 10)).await;
    let claimed = service.claim("worker", vec![first_claim(id)]).await;
    assert!(matches!(claimed[0], ClaimAnswer::Claimed(_)), "{claimed:?}");
    let report = || SettleRequest {
        id,
        attempt: 1,
        outcome: Outcome::Retry {
            error: "never".to_owned(),
            after: None,
        },
        answered: None,
    };
    let letters = async || {
        let all = Wanted {
            scope: Scope::All,
            error: None,
        };
        let listed = service.dead_letters().list(&all, None, 10).await;
        listed.unwrap().letters.len()
    };
    armed.store(true, SeqCst);
    let answer = service.settle("worker", vec![report()]).await;
    assert!(matches!(answer[0], SettleAnswer::Ok), "{answer:?}");
    assert_eq!(letters().await, 0, "the step has failed");
    armed.store(false, SeqCst);
    let again = service.settle("worker", vec![report()]).await;
    assert!(matches!(again[0], SettleAnswer::Ok), "{again:?}");
    assert_eq!(letters().await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_report_is_handled_to_its_end_though_its_caller_goes_away() {
    let world = World::new(1, 1000);
    let slow = Arc::new(AtomicBool::new(false));
    let slowed = Arc::clone(&slow);
    let node = world.node_with(
        1,
        Arc::new(move |_, call| match call.operation {
            "swap_tasks" if slowed.load(SeqCst) => Fate::Delay(SECOND / 2),
            _ => Fate::Go,
        }),
    );
    let worker = world.worker(
        node.service(),
        Arc::new(|_, attempt| {
            let done = Outcome::Succeeded { result: None };
            (SECOND, (attempt > 1).then_some(done))
        }),
    );
    world.pass(3 * SECOND).await;
    let start = world.time.now().after(5 * SECOND);
    let id = register(&node.service(), vec![silent_for_an_hour(start)]).await[0].id;
    world.time.sleep_until_wall(start.after(SECOND)).await;
    slow.store(true, SeqCst);
    let report = SettleRequest {
        id,
        attempt: 1,
        outcome: Outcome::Retry {
            error: "not yet".to_owned(),
            after: Some(SECOND),
        },
        answered: None,
    };
    let service = node.service();
    let answer = world
        .time
        .within(SECOND / 10, service.settle("worker", vec![report]));
    assert!(answer.await.is_none(), "its caller goes away first");
    slow.store(false, SeqCst);
    world.pass(4 * SECOND).await;
    assert_eq!(world.executions_of(id).len(), 2);
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn a_moved_task_starts_at_its_new_time_though_its_row_came_late() {
    // The new start lies in memory, and in a slot.
    for (ahead, pause) in [(2, 30), (4, 30), (8, 40)] {
        let world = World::new(1, 1000);
        let slow = Arc::new(AtomicBool::new(false));
        let slowed = Arc::clone(&slow);
        let node = world.node_with(
            1,
            Arc::new(move |_, call| {
                let pauses = call.operation == "swap_tasks" && slowed.swap(false, SeqCst);
                if pauses {
                    Fate::Delay(SECOND * pause)
                } else {
                    Fate::Go
                }
            }),
        );
        let worker = world.worker(node.service(), succeeds(SECOND / 10));
        world.pass(3 * SECOND).await;
        let far = world.time.now().after(30 * 24 * HOUR);
        let mut task = callback(far);
        task.draft.claim_timeout = Some(5 * SECOND);
        let id = register(&node.service(), vec![task]).await[0].id;
        let start = world.time.now().after(SECOND * ahead);
        slow.store(true, SeqCst);
        let (outcome, _) = node
            .service()
            .reschedule(id, start, None)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(outcome, RescheduleOutcome::Rescheduled);
        world.pass(25 * SECOND).await;
        let runs = world.executions_of(id);
        assert_eq!(runs.len(), 1, "moved to {ahead} s from now");
        assert!(runs[0].began >= start);
        world.pass(60 * SECOND).await;
        assert_eq!(world.executions_of(id).len(), 1);
        worker.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_whose_move_loses_against_its_slot_goes_out_at_its_old_start() {
    for bytes in [10, 5000] {
        let world = World::new(1, 1000);
        world.queue.create_topic("users", None);
        let marks = Arc::new(AtomicUsize::new(usize::MAX / 2));
        let slowed = Arc::clone(&marks);
        let node = world.node_with(
            1,
            Arc::new(move |_, call| {
                // The second write of the move is the mark on the old entry.
                let slow = call.operation == "put_entries" && slowed.fetch_sub(1, SeqCst) == 1;
                if slow {
                    Fate::Delay(4 * SECOND)
                } else {
                    Fate::Go
                }
            }),
        );
        world.pass(3 * SECOND).await;
        let old = world.time.now().after(5 * SECOND);
        let mut task = record(old);
        task.draft.body = Body::Inline(Content {
            payload: Bytes::from(vec![7; bytes]),
            ..Content::default()
        });
        let id = register(&node.service(), vec![task]).await[0].id;
        let new = world.time.now().after(120 * SECOND);
        marks.store(2, SeqCst);
        let (outcome, _) = node
            .service()
            .reschedule(id, new, None)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(outcome, RescheduleOutcome::TooLate);
        world.pass(20 * SECOND).await;
        let out = world.queue.records("users");
        assert!((1..=2).contains(&out.len()), "{} records", out.len());
        assert!(out.iter().all(|one| one.record.value.len() == bytes));
        assert!(out[0].at.since(old) <= 5 * SECOND && out[0].at >= old);
        world.pass(200 * SECOND).await;
        assert_eq!(
            world.queue.records("users").len(),
            out.len(),
            "it came at its new start too"
        );
        assert_eq!(world.store.all_parked(), Vec::new());
    }
}

#[tokio::test(start_paused = true)]
#[ignore = "passes a week of virtual time: make test-all"]
async fn a_message_that_is_older_than_rows_live_starts_nothing_that_has_ended() {
    const DAY: Duration = Duration::from_secs(24 * 3600);
    let world = World::with_tick(1, 1000, 60 * SECOND);
    let node = world.node(1);
    world.pass(130 * SECOND).await;
    let ended = register(&node.service(), vec![callback(world.time.now())]).await[0].id;
    let worker = world.worker(node.service(), succeeds(SECOND));
    world.pass(60 * SECOND).await;
    worker.abort();
    assert_eq!(world.executions_of(ended).len(), 1);
    let waits = register(&node.service(), vec![callback(world.time.now())]).await[0].id;
    world.pass(600 * SECOND).await;
    // A node that runs has something to do each second of a week.
    node.crash();
    drop(node);
    world.pass(9 * DAY).await;
    let node = world.node(2);
    world.pass(600 * SECOND).await;
    // Consumers begin with the oldest message again, as Kafka's do when the offsets of a group are gone.
    let topic = message::topic("work", Priority::Normal);
    let messages = world.queue.records(&topic);
    let oldest = |id| {
        let decoded = messages
            .iter()
            .map(|one| TaskMessage::decode(one.record.value.clone()).unwrap());
        decoded
            .into_iter()
            .find(|message| message.dispatch.id == id)
            .unwrap()
    };
    for (id, runs) in [(ended, false), (waits, true)] {
        let message = oldest(id);
        let claim = ClaimRequest {
            id,
            generation: message.dispatch.generation,
            expected_attempt: message.dispatch.expected_attempt,
            spec: Some(Arc::new(message.spec)),
            published: Some(message.published),
            with_content: false,
            admitted: false,
        };
        let answer = node
            .service()
            .claim("worker", vec![claim])
            .await
            .pop()
            .unwrap();
        assert_eq!(
            matches!(answer, ClaimAnswer::Claimed(_)),
            runs,
            "{answer:?}"
        );
        assert_eq!(matches!(answer, ClaimAnswer::Stale), !runs, "{answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stage_that_panics_anywhere_is_started_again() {
    for operation in [
        "swap_clock",
        "clock",
        "scan",
        "put_node",
        "nodes",
        "swap_tasks",
        "put_entries",
        "erase",
        "tasks",
    ] {
        let world = World::new(2, 1000);
        let armed = Arc::new(AtomicUsize::new(0));
        let arm = Arc::clone(&armed);
        let node = world.node_with(
            1,
            Arc::new(move |_, call| {
                let panics = call.operation == operation
                    && arm
                        .fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1))
                        .is_ok();
                assert!(!panics, "a panic that the test asked for");
                Fate::Go
            }),
        );
        let worker = world.worker(node.service(), succeeds(SECOND / 10));
        world.pass(3 * SECOND).await;
        let now = world.time.now();
        let tasks = (0..20)
            .map(|n| callback(Millis(now.0 + 5000 + n * 500)))
            .collect();
        let before = register(&node.service(), tasks).await;
        world.pass(4 * SECOND).await;
        armed.store(2, SeqCst);
        world.pass(60 * SECOND).await;
        assert_eq!(armed.load(SeqCst), 0, "{operation} did not panic");
        let now = world.time.now();
        let tasks = (0..20).map(|n| callback(Millis(now.0 + n * 500))).collect();
        let after = register(&node.service(), tasks).await;
        world.pass(60 * SECOND).await;
        for task in before {
            assert_eq!(world.executions_of(task.id).len(), 1, "{operation}");
        }
        for task in after {
            let late = world.executions_of(task.id)[0].began.0 - task.id.first_start().0;
            assert!(
                (0..=100).contains(&late),
                "{late} ms late after {operation}"
            );
        }
        world.check();
        worker.abort();
    }
}
