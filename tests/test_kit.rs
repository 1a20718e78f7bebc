//! The test kit lets tests of a program pass hours and weeks, with the real service and the real worker.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use tickwheel::{
    client::{Client, Overlap, RetryPolicy, ScheduleRequest, Task, TaskResponse, TaskState},
    testing::TestService,
    time_source::TimeSource,
    worker::{Context, Job, Outcome, Raw, Worker},
};
use tokio_util::sync::CancellationToken;

const LIMIT: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Waits until a task has been tried so often.
async fn tried(client: &Client, id: tickwheel::api::TaskId, attempts: u32) -> TaskResponse {
    let time = TimeSource::real();
    let began = time.moment();
    loop {
        let task = client.get(id).await.unwrap();
        let is_running = matches!(task.state, TaskState::Claimed | TaskState::Processing);
        if task.attempt >= attempts && !is_running {
            return task;
        }
        assert!(time.moment().since(began) < LIMIT, "{task:?}");
        time.sleep(Duration::from_millis(50)).await;
    }
}

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
    service.advance(30 * DAY - HOUR);
    TimeSource::real().sleep(Duration::from_secs(2)).await;
    let task = client.get(id).await.unwrap();
    assert_eq!(
        (task.state, task.attempt),
        (TaskState::Scheduled, 0),
        "an hour before"
    );
    service.advance(HOUR);
    for attempt in 1..=2 {
        let task = tried(client, id, attempt).await;
        assert_eq!((task.state, task.attempt), (TaskState::Retrying, attempt));
        service.advance(2 * HOUR);
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
    let time = TimeSource::real();
    for day in 1..=3 {
        service.advance(DAY);
        let began = time.moment();
        while runs.load(Ordering::Relaxed) < day {
            assert!(time.moment().since(began) < LIMIT, "day {day}: {runs:?}");
            time.sleep(Duration::from_millis(50)).await;
        }
    }
    time.sleep(Duration::from_secs(1)).await;
    assert_eq!(runs.load(Ordering::Relaxed), 3, "and no run twice");
    stop.cancel();
    running.await.unwrap();
    service.stop().await;
}
