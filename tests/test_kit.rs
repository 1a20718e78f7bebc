//! The test kit lets tests of a program pass hours and weeks, with the real service and the real worker.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use tickwheel::{
    client::{Overlap, RetryPolicy, ScheduleRequest, Task, TaskState},
    testing::TestService,
    worker::{Context, Job, Outcome, Raw, Worker},
};
use tokio_util::sync::CancellationToken;

const LIMIT: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

fn working(worker: Worker) -> (CancellationToken, tokio::task::JoinHandle<()>) {
    let stop = CancellationToken::new();
    let stopped = stop.clone().cancelled_owned();
    let running = tokio::spawn(async move { worker.run_until(stopped).await.unwrap() });
    (stop, running)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retries_of_hours_pass_within_a_test() {
    let service = TestService::start().await.unwrap();
    let client = service.client();
    let worker = service
        .worker()
        .callback("flaky", |job: Job<Raw>, _: Context| async move {
            Ok(if job.attempt < 3 {
                Outcome::Retry(format!("attempt {}", job.attempt))
            } else {
                Outcome::Done
            })
        });
    let (stop, running) = working(worker.build().unwrap());
    let task = Task::callback("flaky")
        .delay(30 * DAY)
        .retry(RetryPolicy::fixed(2 * HOUR));
    let id = client.register(task).await.unwrap().id;
    service.advance(30 * DAY - HOUR).await.unwrap();
    let task = client.get(id).await.unwrap();
    assert_eq!(
        (task.state, task.attempt),
        (TaskState::Scheduled, 0),
        "an hour before"
    );
    let advanced = service.advance(HOUR).await.unwrap();
    assert_eq!(
        (advanced.fired, advanced.unsettled, advanced.waiting),
        (1, 0, 0)
    );
    for attempt in 1..=2 {
        let task = client.get(id).await.unwrap();
        assert_eq!((task.state, task.attempt), (TaskState::Retrying, attempt));
        service.advance(2 * HOUR).await.unwrap();
    }
    let task = client.wait(id, LIMIT).await.unwrap();
    assert_eq!(
        (task.state, task.attempt),
        (TaskState::Succeeded, 3),
        "{task:?}"
    );
    stop.cancel();
    running.await.unwrap();
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schedule_runs_once_for_each_day_that_passes() {
    let service = TestService::start().await.unwrap();
    let runs = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&runs);
    let worker = service
        .worker()
        .callback("report", move |_: Job<Raw>, _: Context| {
            let counted = Arc::clone(&counted);
            async move {
                counted.fetch_add(1, Ordering::Relaxed);
                Ok(Outcome::Done)
            }
        });
    let (stop, running) = working(worker.build().unwrap());
    let daily = ScheduleRequest::every(DAY)
        .with_overlap(Overlap::Allow)
        .runs(Task::callback("report").request().clone());
    service
        .client()
        .set_schedule("daily", &daily)
        .await
        .unwrap();
    let advanced = service.advance(3 * DAY).await.unwrap();
    assert_eq!((advanced.fired, advanced.unsettled), (3, 0));
    assert_eq!(runs.load(Ordering::Relaxed), 3, "one for each day");
    stop.cancel();
    running.await.unwrap();
    service.stop().await;
}
