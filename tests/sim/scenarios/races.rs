//! Cancels and reschedules race against firing; at every moment the answer tells the client which one won.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use tickwheel::{
    doubles::store::faulty::Fate,
    flow::base::api::{CancelOutcome, NewTask, RescheduleOutcome, View, VisibleState},
    model::{state::Outcome, task::Body, time::Millis},
};

use crate::world::{World, callback, published, record, register, succeeds};

const SECOND: Duration = Duration::from_secs(1);

/// Moments of the second call, in milliseconds before the start.
const BEFORE: [i64; 12] = [9000, 3500, 3000, 2999, 2000, 1200, 1000, 500, 20, 1, 0, -5];

#[tokio::test(start_paused = true)]
async fn a_cancelled_task_never_runs_and_a_late_cancel_says_so() {
    for before in BEFORE {
        let world = World::new(1, 1000);
        let node = world.node(1);
        let worker = world.worker(node.service(), succeeds(SECOND));
        world.pass(3 * SECOND).await;
        let start = world.time.now().after(10 * SECOND);
        let id = register(&node.service(), vec![callback(start)]).await[0].id;
        world.time.sleep_until_wall(Millis(start.0 - before)).await;
        let (outcome, _) = node.service().cancel(id).await.unwrap().unwrap();
        world.pass(40 * SECOND).await;
        let runs = world.executions_of(id).len();
        match outcome {
            CancelOutcome::Cancelled => assert_eq!(runs, 0, "{before} ms before"),
            CancelOutcome::CancelRequested => assert_eq!(runs, 1, "{before} ms before"),
            CancelOutcome::TooLate | CancelOutcome::AlreadyCancelled => {
                panic!("{outcome:?} {before} ms before")
            }
        }
        // In the exact millisecond either may win.
        assert!(
            before == 0 || (outcome == CancelOutcome::Cancelled) == (before > 0),
            "{before} ms before"
        );
        let (again, task) = node.service().cancel(id).await.unwrap().unwrap();
        if outcome == CancelOutcome::Cancelled {
            assert_eq!(
                (again, task.state),
                (CancelOutcome::AlreadyCancelled, VisibleState::Cancelled)
            );
        } else {
            assert_eq!(again, CancelOutcome::TooLate);
        }
        world.check();
        worker.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_record_never_goes_out_and_a_late_cancel_says_so() {
    for before in BEFORE {
        let world = World::new(1, 1000);
        world.queue.create_topic("users", None);
        let node = world.node(1);
        world.pass(3 * SECOND).await;
        let start = world.time.now().after(10 * SECOND);
        let id = register(&node.service(), vec![record(start)]).await[0].id;
        world.time.sleep_until_wall(Millis(start.0 - before)).await;
        let (outcome, task) = node.service().cancel(id).await.unwrap().unwrap();
        world.pass(10 * SECOND).await;
        let out = world.queue.records("users").len();
        assert_eq!(
            out,
            usize::from(outcome == CancelOutcome::TooLate),
            "{outcome:?} {before} ms before"
        );
        // The outcome is certain until the slot is opened, two ticks ahead of now.
        assert!(
            before < 3000 || outcome == CancelOutcome::Cancelled,
            "{before} ms before"
        );
        assert!(
            before > 1200 || outcome == CancelOutcome::TooLate,
            "{before} ms before"
        );
        if outcome == CancelOutcome::Cancelled {
            assert_eq!(task.state, VisibleState::Cancelled);
            let again = node.service().cancel(id).await.unwrap().unwrap().0;
            assert_eq!(again, CancelOutcome::AlreadyCancelled);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancel_that_dies_on_its_way_is_finished_by_the_next_one() {
    assert_eq!(dying_cancels(&[(3001, 4000)]).await, 2);
}

#[tokio::test(start_paused = true)]
#[ignore = "a minute: make test-all"]
async fn a_cancel_that_dies_on_its_way_at_any_time_is_finished_by_the_next_one() {
    let times = [(3500, 300), (3500, 2000), (3001, 10), (3001, 4000)];
    assert_eq!(dying_cancels(&times).await, 3);
}

/// A cancel dies so many milliseconds before its task is read, at each of its operations, and comes again so much later.
/// Returns how many outcomes there are.
async fn dying_cancels(times: &[(i64, u64)]) -> usize {
    let mut outcomes = std::collections::BTreeSet::new();
    for (before, again) in times.iter().copied() {
        for (at, fate) in (0..10).flat_map(|at| [(at, Fate::StopBefore), (at, Fate::StopAfter)]) {
            let world = World::new(1, 1000);
            world.queue.create_topic("users", None);
            let node = world.node(1);
            world.pass(3 * SECOND).await;
            let start = world.time.now().after(10 * SECOND);
            let id = register(&node.service(), vec![large_record(start)]).await[0].id;
            world.time.sleep_until_wall(Millis(start.0 - before)).await;
            // The dying node does nothing but this call.
            let armed = Arc::new(AtomicBool::new(false));
            let (count, seen) = (AtomicUsize::new(0), Arc::clone(&armed));
            let dying = world.node_with(
                2,
                Arc::new(move |_, call| {
                    // It also reads the configuration.
                    let own = !matches!(call.operation, "record" | "index_range");
                    let dies = own && seen.load(SeqCst) && count.fetch_add(1, SeqCst) == at;
                    if dies { fate } else { Fate::Go }
                }),
            );
            let service = dying.service();
            armed.store(true, SeqCst);
            // The call may never return.
            let first = tokio::spawn(async move { service.cancel(id).await });
            world.pass(Duration::from_millis(again)).await;
            let told = first.is_finished().then_some(first);
            let (outcome, _) = node.service().cancel(id).await.unwrap().unwrap();
            world.pass(20 * SECOND).await;
            let out = world.queue.records("users").len();
            let cancelled = matches!(
                outcome,
                CancelOutcome::Cancelled | CancelOutcome::AlreadyCancelled
            );
            let what = format!("{outcome:?}, {out} records, {fate:?} at {at}, {before}, {again}");
            assert_eq!(out == 0, cancelled, "{what}");
            if let Some(told) = told {
                let (told, _) = told.await.unwrap().unwrap().unwrap();
                assert_eq!(told == CancelOutcome::TooLate, out > 0, "{told:?}: {what}");
            }
            outcomes.insert(format!("{outcome:?}"));
            // Fired ticks are erased after half a minute here, and then the content has no use.
            world.pass(60 * SECOND).await;
            assert_eq!(world.store.body_ids(), [], "{what}");
            assert!(world.store.all_parked().is_empty(), "{what}");
        }
    }
    outcomes.len()
}

#[tokio::test(start_paused = true)]
async fn a_rescheduled_task_runs_once_at_its_new_start() {
    for before in BEFORE {
        for to in [0, 100, 4000, 30_000] {
            let world = World::new(1, 1000);
            let node = world.node(1);
            let worker = world.worker(node.service(), succeeds(SECOND));
            world.pass(3 * SECOND).await;
            let start = world.time.now().after(10 * SECOND);
            let id = register(&node.service(), vec![callback(start)]).await[0].id;
            world.time.sleep_until_wall(Millis(start.0 - before)).await;
            let moved = Millis(world.time.now().0 + to);
            let (outcome, _) = node
                .service()
                .reschedule(id, moved, None)
                .await
                .unwrap()
                .unwrap();
            world.pass(60 * SECOND).await;
            let runs = world.executions.lock().unwrap().clone();
            assert_eq!(runs.len(), 1, "{outcome:?} {before} ms before, to {to}");
            let at = if outcome == RescheduleOutcome::Rescheduled {
                moved
            } else {
                start
            };
            let late = runs[0].began.0 - at.0;
            assert!(
                (0..=5).contains(&late),
                "{late} ms late, {outcome:?} {before} ms before, to {to}"
            );
            assert_eq!(
                outcome == RescheduleOutcome::Rescheduled,
                before > 0,
                "{before} ms before"
            );
            worker.abort();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_rescheduled_record_goes_out_once_at_its_new_start() {
    for (to, again) in [(500, None), (4000, None), (30_000, Some(45_000))] {
        let world = World::new(1, 1000);
        world.queue.create_topic("users", None);
        let node = world.node(1);
        world.pass(3 * SECOND).await;
        let start = world.time.now().after(20 * SECOND);
        let id = register(&node.service(), vec![record(start)]).await[0].id;
        let moved = world.time.now().after(Duration::from_millis(to));
        let service = node.service();
        let (outcome, task) = service.reschedule(id, moved, None).await.unwrap().unwrap();
        assert_eq!(
            (outcome, task.start),
            (RescheduleOutcome::Rescheduled, moved)
        );
        let read = service.get(id, View::Basic).await.unwrap().unwrap();
        assert_eq!((read.state, read.start), (VisibleState::Scheduled, moved));
        if let Some(again) = again {
            let moved = world.time.now().after(Duration::from_millis(again));
            let (outcome, _) = service.reschedule(id, moved, None).await.unwrap().unwrap();
            assert_eq!(outcome, RescheduleOutcome::Rescheduled);
            assert_eq!(
                service.get(id, View::Basic).await.unwrap().unwrap().start,
                moved
            );
        }
        world.pass(60 * SECOND).await;
        assert_eq!(world.queue.records("users").len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn two_reschedules_at_once_leave_one_run() {
    let world = World::new(1, 1000);
    let (one, two) = (world.node(1), world.node(2));
    let worker = world.worker(one.service(), succeeds(SECOND));
    world.pass(5 * SECOND).await;
    let now = world.time.now();
    let id = register(&one.service(), vec![callback(now.after(SECOND * 20))]).await[0].id;
    let (a, b) = (one.service(), two.service());
    let (first, second) = tokio::join!(
        a.reschedule(id, now.after(SECOND * 8), None),
        b.reschedule(id, now.after(SECOND * 12), None),
    );
    assert_eq!(first.unwrap().unwrap().0, RescheduleOutcome::Rescheduled);
    assert_eq!(second.unwrap().unwrap().0, RescheduleOutcome::Rescheduled);
    world.pass(60 * SECOND).await;
    assert_eq!(world.executions_of(id).len(), 1);
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn a_precondition_that_does_not_hold_changes_nothing() {
    let world = World::new(1, 1000);
    let node = world.node(1);
    world.pass(3 * SECOND).await;
    let start = world.time.now().after(10 * SECOND);
    let id = register(&node.service(), vec![callback(start)]).await[0].id;
    let moved = start.after(SECOND * 10);
    let service = node.service();
    let (outcome, task) = service
        .reschedule(id, moved, Some(Box::new(|task| task.generation == 1)))
        .await
        .unwrap()
        .unwrap();
    assert_eq!((outcome, task.start), (RescheduleOutcome::Mismatch, start));
    let holds: tickwheel::flow::life::reschedule::Condition = Box::new(|task| task.generation == 0);
    let (outcome, _) = service
        .reschedule(id, moved, Some(holds))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(outcome, RescheduleOutcome::Rescheduled);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_of_a_running_task_is_told_to_its_worker_and_stops_its_retries() {
    let world = World::new(1, 1000);
    let node = world.node(1);
    let worker = world.worker(
        node.service(),
        Arc::new(|_, _| {
            (
                SECOND * 3,
                Some(Outcome::Retry {
                    error: "no".to_owned(),
                    after: None,
                }),
            )
        }),
    );
    world.pass(3 * SECOND).await;
    let id = register(&node.service(), vec![callback(world.time.now())]).await[0].id;
    world.pass(SECOND).await;
    let (outcome, task) = node.service().cancel(id).await.unwrap().unwrap();
    assert_eq!(
        (outcome, task.cancel_requested),
        (CancelOutcome::CancelRequested, true)
    );
    assert_eq!(
        world.end_of(&node.service(), id, SECOND * 30).await,
        VisibleState::Cancelled
    );
    assert_eq!(
        (world.executions_of(id).len(), published(&world, id).len()),
        (1, 1)
    );
    worker.abort();
}

/// A record whose content is kept apart.
fn large_record(start: Millis) -> NewTask {
    let mut task = record(start);
    if let Body::Inline(content) = &mut task.draft.body {
        content.payload = bytes::Bytes::from(vec![7; 5000]);
    }
    task
}

#[tokio::test(start_paused = true)]
async fn a_large_record_outlives_the_slots_that_it_has_left() {
    let world = World::new(1, 1000);
    world.queue.faults().missing("users", true);
    let node = world.node(1);
    world.pass(3 * SECOND).await;
    let (service, start) = (node.service(), world.time.now().after(10 * SECOND));
    // One record is put further on again and again, because its topic is missing; one is rescheduled.
    register(&service, vec![large_record(start)]).await;
    let id = register(&service, vec![large_record(start)]).await[0].id;
    let (outcome, _) = service
        .reschedule(id, start.after(100 * SECOND), None)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(outcome, RescheduleOutcome::Rescheduled);
    // Fired ticks are erased after half a minute here.
    world.pass(100 * SECOND).await;
    world.queue.faults().missing("users", false);
    world.queue.create_topic("users", None);
    world.pass(120 * SECOND).await;
    let out = world.queue.records("users");
    assert_eq!(out.len(), 2);
    assert!(
        out.iter()
            .all(|published| published.record.value.len() == 5000)
    );
    world.pass(60 * SECOND).await;
    assert_eq!(world.store.body_ids(), []);
    assert!(world.store.all_parked().is_empty());
}
