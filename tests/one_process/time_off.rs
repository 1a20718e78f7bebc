//! Time in which no process runs, and time that a clock leaps over, ends nothing: what has ended does not run again, and what
//! waited for a worker comes at once.

use std::{collections::HashSet, fs, path::PathBuf, time::Duration};

use serde_json::{Value, json};
use tempfile::TempDir;
use tickwheel::time_source::{Moment, TimeSource};

use crate::server::{Server, free_port, post, program};

/// Rows of tasks that have ended live for seven days.
const LONG: Duration = Duration::from_secs(8 * 24 * 3600);

/// A loaded machine may need this long for work of a second.
const SOON: Duration = Duration::from_secs(60);

/// A server whose clock is set through a file.
pub(super) struct Site {
    directory: TempDir,
    server: Server,
    pub(super) time: TimeSource,
}

impl Site {
    pub(super) async fn start() -> Self {
        let directory = TempDir::new().expect("a directory");
        let offset = offset_of(&directory);
        fs::write(&offset, "0").expect("a file");
        let server = serve(&directory).await;
        Self {
            directory,
            server,
            time: TimeSource::real(),
        }
    }

    pub(super) fn url(&self) -> &str {
        &self.server.url
    }

    pub(super) fn set_clock(&self, ahead: Duration) {
        let offset = ahead.as_millis().to_string();
        fs::write(offset_of(&self.directory), offset).expect("a file");
    }

    /// Kills the process, and starts the next one so much later by its clock.
    pub(super) async fn is_off_for(&mut self, off: Duration) {
        self.server.kill();
        self.set_clock(off);
        self.server = serve(&self.directory).await;
    }

    /// Makes a backup, and goes on so much later with what is restored from it.
    async fn is_restored_after(&mut self, off: Duration) {
        let (new, at) = (TempDir::new().expect("a directory"), self.url().to_owned());
        let copy = new.path().join("copy.tickwheel");
        let data = new.path().join("data");
        let (copy, data) = (copy.to_str().expect("text"), data.to_str().expect("text"));
        succeeds(&["backup", "create", copy, "--server", &at]);
        self.server.kill();
        succeeds(&["backup", "restore", copy, "--data-dir", data]);
        self.directory = new;
        self.set_clock(off);
        self.server = serve(&self.directory).await;
    }

    async fn register(&self, tasks: usize) {
        let task = json!({"callback": "work", "claim_timeout": "20s"});
        let body = json!({"tasks": vec![task; tasks]});
        post(self.url(), "/v1/tasks:batchCreate", &body).await;
    }

    /// Takes tasks until there are so many, and reports that they have succeeded. Returns their ids and attempts.
    async fn work(&self, tasks: usize) -> HashSet<(String, u64)> {
        let (mut done, until) = (HashSet::new(), self.until());
        while done.len() < tasks {
            let came = self.poll("5s").await;
            assert!(self.time.moment() < until, "{} of {tasks} came", done.len());
            self.settle(&came).await;
            done.extend(came.iter().map(|task| {
                let id = task["id"].as_str().expect("an id").to_owned();
                (id, task["attempt"].as_u64().expect("a number"))
            }));
        }
        done
    }

    /// Reports that tasks have succeeded.
    pub(super) async fn settle(&self, tasks: &[Value]) {
        let settle = |task: &Value| json!({"id": task["id"], "attempt": task["attempt"], "outcome": "succeeded"});
        let settles: Vec<Value> = tasks.iter().map(settle).collect();
        if !settles.is_empty() {
            let body = json!({"worker": "w", "tasks": settles});
            post(self.url(), "/v1/worker/settle", &body).await;
        }
    }

    pub(super) async fn poll(&self, wait: &str) -> Vec<Value> {
        let poll = json!({"worker": "w", "callbacks": ["work"], "max_tasks": 500, "wait": wait});
        let polled = post(self.url(), "/v1/worker/poll", &poll).await;
        polled["tasks"].as_array().expect("tasks").clone()
    }

    fn until(&self) -> Moment {
        self.time.moment().after(SOON)
    }

    /// Waits until so many looks have found their tasks at their end.
    async fn looked_at_ends(&self, tasks: f64) {
        let until = self.until();
        while self.looks("end_steps").await < tasks {
            assert!(self.time.moment() < until, "{}", self.server.log());
            self.time.sleep(Duration::from_millis(50)).await;
        }
    }

    /// How many looks of this life have decided so.
    async fn looks(&self, decision: &str) -> f64 {
        let answer = reqwest::get(format!("{}/metrics", self.url())).await;
        let metrics = answer.expect("an answer").text().await.expect("a page");
        let head = format!("tickwheel_looks_total{{decision=\"{decision}\"}} ");
        let value = metrics.lines().find_map(|line| line.strip_prefix(&head));
        value.map_or(0.0, |value| value.parse().expect("a number"))
    }
}

fn succeeds(arguments: &[&str]) {
    let output = program(arguments);
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {told}");
}

fn offset_of(directory: &TempDir) -> PathBuf {
    directory.path().join("offset")
}

async fn serve(directory: &TempDir) -> Server {
    let file = offset_of(directory);
    let options = ["--clock-offset-file", file.to_str().expect("text")];
    let mut server = Server::spawn(directory.path(), free_port(), &options);
    server.ready().await;
    server
}

/// The looks of the tasks are ahead when they end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_succeeded_does_not_run_again_when_the_process_was_off_for_days() {
    let mut site = Site::start().await;
    site.register(50).await;
    site.work(50).await;
    site.is_off_for(LONG).await;
    site.looked_at_ends(50.0).await;
    assert_eq!(site.poll("2s").await, Vec::<Value>::new());
    assert_eq!(site.looks("publish").await, 0.0);
}

/// Tasks that had not ended run, each once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_succeeded_does_not_run_again_when_a_backup_of_days_ago_is_restored() {
    let mut site = Site::start().await;
    site.register(50).await;
    let before = site.work(50).await;
    site.register(20).await;
    site.is_restored_after(LONG).await;
    let after = site.work(20).await;
    let ids = |of: &HashSet<(String, u64)>| of.iter().map(|(id, _)| id.clone()).collect();
    let (before, after): (HashSet<String>, HashSet<String>) = (ids(&before), ids(&after));
    assert!(before.is_disjoint(&after), "{before:?} {after:?}");
    site.looked_at_ends(50.0).await;
    assert_eq!(site.poll("2s").await, Vec::<Value>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_succeeded_does_not_run_again_when_the_clock_leaps_over_days() {
    let site = Site::start().await;
    site.register(50).await;
    site.work(50).await;
    site.set_clock(LONG);
    site.looked_at_ends(50.0).await;
    assert_eq!(site.poll("2s").await, Vec::<Value>::new());
    assert_eq!(site.looks("publish").await, 0.0);
}

/// The looks of the tasks have come up meanwhile, each of which the service has published before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_that_waited_for_a_worker_comes_at_once_behind_a_minute_and_a_half() {
    let mut site = Site::start().await;
    for _ in 0..4 {
        site.register(500).await;
    }
    site.is_off_for(Duration::from_secs(90)).await;
    let done = site.work(2000).await;
    assert!(done.iter().all(|(_, attempt)| *attempt == 1));
    assert_eq!(done.len(), 2000);
}
