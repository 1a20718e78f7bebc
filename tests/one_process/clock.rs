//! This test sets the clock of a running process by an hour, forward and back, also while the process is
//! dead. Runs are early by the clock's error at most, no task is lost, and the log tells operators of the
//! step.

use std::{
    collections::HashMap,
    fs,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tickwheel::{model::time::Millis, time_source::TimeSource};

use crate::server::{Server, post};

const HOUR_MS: i64 = 3_600_000;

/// A loaded machine may need this long for work of milliseconds.
const SOON: Duration = Duration::from_secs(20);

/// The time in which a poll may still bring tasks that were given out by the clock as it was before.
const SET_FOR: Duration = Duration::from_secs(3);

/// When each task first ran, by the true clock, and how far ahead the server's clock was at most at the time.
type Runs = Arc<Mutex<HashMap<String, (i64, i64)>>>;

/// A server whose clock is set through a file, and one worker.
struct Site {
    server: Server,
    offset: PathBuf,
    /// The largest offset of the last moments.
    ahead_ms: Arc<AtomicI64>,
    runs: Runs,
    worker: tokio::task::JoinHandle<()>,
    time: TimeSource,
}

impl Site {
    async fn start(directory: &tempfile::TempDir) -> Self {
        let offset = directory.path().join("offset");
        fs::write(&offset, "0").expect("a file");
        let file = offset.to_str().expect("text");
        let server = Server::start(directory.path(), &["--clock-offset-file", file]).await;
        let (ahead_ms, runs) = (Arc::<AtomicI64>::default(), Runs::default());
        let url = server.url.clone();
        let worker = tokio::spawn(work(url, Arc::clone(&ahead_ms), Arc::clone(&runs)));
        Self {
            server,
            offset,
            ahead_ms,
            runs,
            worker,
            time: TimeSource::real(),
        }
    }

    /// Sets the clock and waits until the server has seen it.
    async fn set(&self, offset_ms: i64) {
        let now = self.ahead_ms.load(Ordering::SeqCst);
        self.ahead_ms.store(now.max(offset_ms), Ordering::SeqCst);
        fs::write(&self.offset, offset_ms.to_string()).expect("a file");
        self.time.sleep(SET_FOR).await;
        self.ahead_ms.store(offset_ms, Ordering::SeqCst);
    }

    /// Registers a task that is due after this time by the true clock; the server may have
    /// another clock then.
    async fn register(&self, due_ms: i64) -> String {
        let start = Millis(self.time.now().0 + due_ms);
        let at = jiff::Timestamp::from_millisecond(start.0).expect("an instant of our days");
        let body =
            json!({"callback": "clock", "start_time": at.to_string(), "claim_timeout": "5s"});
        let task = post(&self.server.url, "/v1/tasks", &body).await;
        task["id"].as_str().expect("an id").to_owned()
    }

    async fn read(&self, id: &str) -> Value {
        let url = format!("{}/v1/tasks/{id}", self.server.url);
        let answer = reqwest::get(url).await.expect("an answer");
        let body = answer.bytes().await.expect("a whole answer");
        serde_json::from_slice(&body).expect("an answer is JSON")
    }

    async fn succeeds(&self, id: &str) {
        let until = self.time.moment().after(SOON);
        loop {
            let task = self.read(id).await;
            if task["state"] == "succeeded" {
                return;
            }
            let log = self.server.log();
            assert!(self.time.moment() < until, "it waits: {task}\n{log}");
            self.time.sleep(Duration::from_millis(50)).await;
        }
    }

    fn has_run(&self, id: &str) -> bool {
        self.runs.lock().unwrap().contains_key(id)
    }
}

/// Polls for tasks, notes when they came and settles them, for as long as the test runs.
async fn work(url: String, ahead_ms: Arc<AtomicI64>, runs: Runs) {
    let (http, time) = (reqwest::Client::new(), TimeSource::real());
    let call = async |path: &str, body: Value| -> Option<Value> {
        let request = http.post(format!("{url}{path}"));
        let request = request.header("content-type", "application/json");
        let answer = request.body(body.to_string()).send().await.ok()?;
        serde_json::from_slice(&answer.bytes().await.ok()?).ok()
    };
    loop {
        let poll = json!({"worker": "w", "callbacks": ["clock"], "max_tasks": 10, "wait": "500ms"});
        let Some(answer) = call("/v1/worker/poll", poll).await else {
            time.sleep(Duration::from_millis(50)).await;
            continue;
        };
        for task in answer["tasks"].as_array().into_iter().flatten() {
            let start = task["start_time"].as_str().expect("an instant");
            let start: jiff::Timestamp = start.parse().expect("an instant");
            let (now, ahead) = (time.now().0, ahead_ms.load(Ordering::SeqCst));
            assert!(
                now + ahead.max(0) >= start.as_millisecond(),
                "early by more than the clock was ahead ({ahead} ms): {task} at {now}"
            );
            let id = task["id"].as_str().expect("an id").to_owned();
            runs.lock().unwrap().entry(id).or_insert((now, ahead));
            let done =
                json!({"id": task["id"], "attempt": task["attempt"], "outcome": "succeeded"});
            call("/v1/worker/settle", json!({"worker": "w", "tasks": [done]})).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "waits for half a minute: make test-all"]
async fn a_clock_that_is_set_by_an_hour_makes_nothing_earlier_than_that_and_loses_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut site = Site::start(&directory).await;
    let (near, in_half_an_hour) = (site.register(1_000).await, site.register(HOUR_MS / 2).await);
    site.succeeds(&near).await;
    assert!(!site.has_run(&in_half_an_hour));

    // Forward: tasks that the step makes due go out now; tasks that are due later by the new time
    // go out then.
    site.set(HOUR_MS).await;
    site.succeeds(&in_half_an_hour).await;
    let soon_by_it = site.register(HOUR_MS + 3_000).await;
    let long_after = site.register(HOUR_MS + HOUR_MS / 4).await;
    site.succeeds(&soon_by_it).await;

    // Back to the truth: the hands are an hour ahead now, and they do not hold new tasks up.
    site.set(0).await;
    let new = [site.register(0).await, site.register(4_000).await];
    for id in &new {
        site.succeeds(id).await;
    }
    assert!(!site.has_run(&long_after), "it is due in more than an hour");

    // An hour behind: tasks that are due by the true clock wait and are not lost, also over the
    // end of the process.
    site.set(-HOUR_MS).await;
    let waits = [site.register(1_000).await, site.register(15_000).await];
    for id in &waits {
        assert_eq!(site.read(id).await["state"], "scheduled", "it can be read");
    }
    site.time.sleep(Duration::from_secs(3)).await;
    assert!(
        waits.iter().all(|id| !site.has_run(id)),
        "by its clock they are due in an hour"
    );
    let log = site.server.log();
    let seen = |direction: &str| {
        let said = format!("direction=\"{direction}\"");
        let lines = log
            .lines()
            .filter(|line| line.contains("the wall clock was set"));
        lines.filter(|line| line.contains(&said)).count()
    };
    assert_eq!((seen("forward"), seen("back")), (1, 2), "{log}");

    site.server.kill();
    let port = site.server.url.rsplit(':').next().expect("a port");
    let port = port.parse().expect("a port");
    let file = site.offset.to_str().expect("text").to_owned();
    site.server = Server::spawn(directory.path(), port, &["--clock-offset-file", &file]);
    site.server.ready().await;
    let past_by_it = site.register(-HOUR_MS - 1_000).await;
    site.succeeds(&past_by_it).await;
    assert!(
        waits.iter().all(|id| !site.has_run(id)),
        "by its clock they are due in an hour"
    );

    site.set(0).await;
    for id in &waits {
        site.succeeds(id).await;
    }
    let end = site.read(&long_after).await;
    assert_eq!(end["state"], "scheduled", "{end}");
    assert!(!site.worker.is_finished(), "it found a task that was early");
}
