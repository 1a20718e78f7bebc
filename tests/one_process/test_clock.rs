//! `tickwheel dev --test-clock` passes days within a test of its users: nothing is late, and what handlers register takes part.

use std::{
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use tempfile::TempDir;
use tickwheel::{
    api::test_clock::{AdvanceClockRequest, AdvanceClockResponse},
    client::{Client, Error, Overlap, RetryPolicy, ScheduleRequest, Task, TaskState},
    time_source::TimeSource,
    worker::{Context, Failure, Job, Outcome, Raw, Source, Worker},
};
use tokio::task::JoinHandle;

use crate::server::{Server, free_port};

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// A service whose clock is moved, killed at the end.
struct Dev {
    child: Child,
    client: Client,
    url: String,
    _directory: TempDir,
}

impl Drop for Dev {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Dev {
    async fn start() -> Self {
        let directory = TempDir::new().expect("a directory");
        let address = format!("127.0.0.1:{}", free_port());
        let child = Command::new(env!("CARGO_BIN_EXE_tickwheel"))
            .args(["dev", "--test-clock", "--listen", &address, "--data-dir"])
            .arg(directory.path().join("data"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let url = format!("http://{address}");
        let (client, time) = (Client::connect(&url).unwrap(), TimeSource::real());
        while client.ready().await.is_err() {
            time.sleep(Duration::from_millis(10)).await;
        }
        Self {
            child: child.expect("the program can be run"),
            client,
            url,
            _directory: directory,
        }
    }

    async fn now(&self) -> SystemTime {
        let shown = self.client.test_clock().await.unwrap();
        shown.time.system_time().unwrap()
    }

    /// Moves the clock, with as many calls as it takes.
    async fn advance(&self, by: Duration, settle: Duration) -> AdvanceClockResponse {
        let to = self.now().await + by;
        let request = AdvanceClockRequest {
            to: Some(to.into()),
            settle_within: Some(settle.into()),
            ..AdvanceClockRequest::default()
        };
        let (mut fired, mut unsettled) = (0, 0);
        loop {
            let mut walked = self.client.advance_test_clock(&request).await.unwrap();
            (fired, unsettled) = (fired + walked.fired, unsettled + walked.unsettled);
            if walked.done {
                (walked.fired, walked.unsettled) = (fired, unsettled);
                return walked;
            }
        }
    }

    /// Runs a worker of a callback beside the test.
    fn works<F, R>(&self, callback: &str, handler: F) -> JoinHandle<()>
    where
        F: Fn(Job<Raw>, Context) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Outcome, Failure>> + Send + 'static,
    {
        let worker = Worker::builder().callback(callback, handler);
        let worker = worker.source(Source::poll(&self.url)).build().unwrap();
        tokio::spawn(async move { worker.run_until(std::future::pending()).await.unwrap() })
    }
}

/// A schedule of every so often, and how often it ran in three days.
async fn runs_in_three_days(every: Duration) -> (u64, AdvanceClockResponse, Duration) {
    let dev = Dev::start().await;
    let runs = Arc::<AtomicU64>::default();
    let counted = Arc::clone(&runs);
    let worker = dev.works("report", move |_, _| {
        counted.fetch_add(1, Ordering::SeqCst);
        async { Ok(Outcome::Done) }
    });
    let schedule = ScheduleRequest::every(every).with_overlap(Overlap::Allow);
    let schedule = schedule.runs(Task::callback("report").request().clone());
    dev.client.set_schedule("report", &schedule).await.unwrap();
    let (time, began) = (TimeSource::real(), TimeSource::real().moment());
    let walked = dev.advance(3 * DAY, Duration::from_secs(5)).await;
    worker.abort();
    (
        runs.load(Ordering::SeqCst),
        walked,
        time.moment().since(began),
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schedule_runs_at_each_of_its_times_on_the_way() {
    let (runs, walked, took) = runs_in_three_days(2 * HOUR).await;
    assert_eq!((runs, walked.fired), (36, 36), "{walked:?} in {took:?}");
    assert_eq!((walked.unsettled, walked.waiting), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "make test-all: half a minute"]
async fn a_schedule_of_every_minute_runs_4320_times_in_three_days() {
    let (runs, walked, took) = runs_in_three_days(Duration::from_secs(60)).await;
    assert_eq!((runs, walked.fired), (4320, 4320), "{walked:?} in {took:?}");
    assert_eq!((walked.unsettled, walked.waiting), (0, 0));
    assert!(took < Duration::from_secs(60), "{took:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retries_expiries_and_what_handlers_register_come_at_their_times() {
    let dev = Dev::start().await;
    let client = dev.client.clone();
    let worker = dev.works("remind", move |job: Job<Raw>, _| {
        let client = client.clone();
        async move {
            if job.attempt < 3 {
                return Ok(Outcome::Retry("not yet".to_owned()));
            }
            if job.payload.0.as_ref() == b"first" {
                let next = Task::callback("remind").delay(6 * HOUR).key("next");
                client.register(next.bytes("next")).await?;
            }
            Ok(Outcome::Done)
        }
    });
    let hourly = RetryPolicy::fixed(HOUR);
    let first = Task::callback("remind").delay(2 * DAY).retry(hourly);
    let first = dev.client.register(first.bytes("first")).await.unwrap().id;
    let lapses = Task::callback("nobody").delay(DAY).expire_after(HOUR);
    let lapses = dev.client.register(lapses).await.unwrap().id;
    let began = dev.now().await;
    // The second attempt comes an hour after the end of the first, which itself takes a moment.
    let way = 2 * DAY + HOUR + Duration::from_secs(60);
    let walked = dev.advance(way, Duration::from_secs(5)).await;
    let waits = dev.client.get(first).await.unwrap();
    assert_eq!(
        (waits.state, waits.attempt),
        (TaskState::Retrying, 2),
        "{walked:?}"
    );
    let expired = dev.client.get(lapses).await.unwrap();
    let ended = expired.end_time.unwrap().system_time().unwrap();
    assert_eq!(expired.state, TaskState::Expired);
    let late = ended.duration_since(began + DAY + HOUR).unwrap_or_default();
    assert!(late < Duration::from_secs(60), "{late:?}");
    let walked = dev.advance(DAY, Duration::from_secs(5)).await;
    assert_eq!((walked.fired, walked.unsettled), (1, 0));
    assert_eq!(
        dev.client.get(first).await.unwrap().state,
        TaskState::Succeeded
    );
    let next = dev
        .client
        .get_by_key("remind", "next")
        .await
        .unwrap()
        .unwrap();
    let start = next.start_time.system_time().unwrap();
    let late = start.duration_since(began + 2 * DAY + 8 * HOUR).unwrap();
    assert!(late < Duration::from_secs(60), "{late:?}");
    worker.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lease_of_an_attempt_that_runs_moves_with_the_clock() {
    let dev = Dev::start().await;
    let worker = dev.works("slow", |_, _| async {
        TimeSource::real().sleep(Duration::from_millis(1500)).await;
        Ok(Outcome::Done)
    });
    let id = dev
        .client
        .register(Task::callback("slow").delay(HOUR))
        .await
        .unwrap()
        .id;
    let walked = dev.advance(DAY, Duration::ZERO).await;
    assert_eq!((walked.fired, walked.unsettled), (1, 1));
    let walked = dev.advance(DAY, Duration::ZERO).await;
    assert_eq!(walked.unsettled, 0, "it is counted once");
    let task = dev.client.wait(id, Duration::from_secs(20)).await.unwrap();
    assert_eq!(
        (task.state, task.attempt),
        (TaskState::Succeeded, 1),
        "{task:?}"
    );
    worker.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_service_has_no_clock_to_move() {
    let directory = TempDir::new().unwrap();
    let server = Server::start(directory.path(), &[]).await;
    let client = Client::connect(&server.url).unwrap();
    let refused = client.test_clock().await.unwrap_err();
    assert!(matches!(&refused, Error::NotFound { .. }), "{refused}");
    assert!(refused.to_string().contains("--test-clock"), "{refused}");
    let request = AdvanceClockRequest::default();
    let refused = client.advance_test_clock(&request).await.unwrap_err();
    assert!(
        matches!(refused, Error::NotFound { .. }),
        "before its mistakes"
    );
}
