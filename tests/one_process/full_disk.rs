//! This test fills the disk of the embedded service, first to the reserve, then to the last byte.
//! Acknowledged tasks can be read, refusals say what to do, and with room again all goes on without a
//! restart, also over `kill -9`.

use std::{collections::HashMap, io::Write as _, time::Duration};

use serde_json::{Value, json};
use tempfile::TempDir;
use tickwheel::{store::embedded::RESERVE_BYTES_DEFAULT, time_source::TimeSource};

use super::small_disk::SmallDisk;
use crate::server::Server;

/// The room for data beside the reserve: a journal, and tables.
const ROOM_MIB: u64 = 160;
const DISK_MIB: u64 = RESERVE_BYTES_DEFAULT / MIB + ROOM_MIB;
const MIB: u64 = 1 << 20;

/// Large tasks fill the disk; small tasks fire.
const PAYLOAD: usize = 150_000;
const SMALL: usize = 300;

/// A loaded machine may need this long for work of a second; the store tries again every ten seconds.
const SOON: Duration = Duration::from_secs(60);

/// An answer may be a refusal; it is never a hang.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// While others wait, one pending task in this many is read.
const SOME: usize = 20;

struct Answer {
    status: u16,
    has_retry_after: bool,
    body: Value,
}

/// The clients of one service after the other.
struct Site {
    server: Server,
    http: reqwest::Client,
    time: TimeSource,
    /// The callback under test.
    callback: &'static str,
    /// Acknowledged tasks, by the states that they may have.
    pending: Vec<String>,
    due: Vec<String>,
    settled: HashMap<String, u64>,
    /// Settles that were answered with an error. They may have been made, so they are repeated,
    /// as every worker does.
    unsettled: Vec<Value>,
}

fn words(body: &Value) -> &str {
    body["detail"].as_str().unwrap_or_default()
}

impl Site {
    fn of(server: Server) -> Self {
        let http = reqwest::Client::builder().timeout(ANSWER_MAX);
        Self {
            server,
            http: http.build().expect("a client can be built"),
            time: TimeSource::real(),
            callback: "full",
            pending: Vec::new(),
            due: Vec::new(),
            settled: HashMap::new(),
            unsettled: Vec::new(),
        }
    }

    async fn call(&self, path: &str, body: Option<&Value>) -> Answer {
        let url = format!("{}{path}", self.server.url);
        let request = match body {
            Some(body) => self
                .http
                .post(url)
                .header("content-type", "application/json")
                .body(body.to_string()),
            None => self.http.get(url),
        };
        let answer = request.send().await.expect("an answer in time");
        let status = answer.status().as_u16();
        let has_retry_after = answer.headers().contains_key("retry-after");
        let body = answer.bytes().await.expect("a whole answer");
        Answer {
            status,
            has_retry_after,
            body: serde_json::from_slice(&body).unwrap_or(Value::Null),
        }
    }

    /// Registers a task; returns the id, or the refusal.
    async fn register(&self, delay: &str, payload: usize) -> Result<String, Answer> {
        self.register_for("full", delay, payload).await
    }

    async fn register_for(
        &self,
        callback: &str,
        delay: &str,
        payload: usize,
    ) -> Result<String, Answer> {
        let letters = || char::from(b'!' + u8::try_from(self.time.random() % 90).expect("small"));
        let payload: String = (0..payload)
            .map(|_| letters())
            .filter(|c| *c != '"')
            .collect();
        let task = json!({"callback": callback, "delay": delay, "payload": payload, "claim_timeout": "5s"});
        let answer = self.call("/v1/tasks", Some(&task)).await;
        match answer.status {
            201 => Ok(answer.body["id"].as_str().expect("an id").to_owned()),
            _ => Err(answer),
        }
    }

    /// Checks that new tasks are refused in words that say what to do.
    async fn is_refused(&self) {
        let until = self.time.moment().after(SOON);
        let refused = loop {
            let refused = self.register("1h", 10).await.expect_err("it is full");
            // The outcome is not known: the task met the full disk itself, while the store tested
            // whether there is room.
            let is_unknown = refused.status == 503 && self.time.moment() < until;
            if !is_unknown || !words(&refused.body).contains("free some space") {
                break refused;
            }
        };
        assert_eq!(refused.status, 507, "{}", refused.body);
        assert!(refused.has_retry_after, "{}", refused.body);
        let said = words(&refused.body);
        assert!(
            said.contains("free some space") && said.contains("by themselves"),
            "{said}"
        );
    }

    /// Checks that acknowledged tasks can be read in a right state: one in so many pending tasks,
    /// and all others.
    async fn is_all_there(&self, of: usize) {
        for (ids, of, is_pending) in [(&self.pending, of, true), (&self.due, 1, false)] {
            for id in ids.iter().step_by(of) {
                let read = self.call(&format!("/v1/tasks/{id}"), None).await;
                let state = read.body["state"].as_str().unwrap_or("none");
                let lost = ["none", "cancelled", "failed", "dead", "expired"].contains(&state);
                assert!(
                    !lost && (!is_pending || state == "scheduled"),
                    "{id}: {} {}",
                    read.status,
                    read.body
                );
                let settled = self.settled.get(id).copied().unwrap_or_default();
                assert!(
                    settled == 0 || (settled == 1 && state == "succeeded"),
                    "{id}: {state}, settled {settled} times"
                );
            }
        }
    }

    /// Polls and settles once; a refusal says so, and says when to try again.
    async fn work(&mut self) -> usize {
        let poll =
            json!({"worker": "w", "callbacks": [self.callback], "max_tasks": 50, "wait": "500ms"});
        let polled = self.call("/v1/worker/poll", Some(&poll)).await;
        if polled.status != 200 {
            assert!(
                polled.status == 503 && polled.has_retry_after,
                "{}",
                polled.body
            );
            return 0;
        }
        let tasks = polled.body["tasks"].as_array().expect("tasks");
        let settles = tasks.iter().map(
            |task| json!({"id": task["id"], "attempt": task["attempt"], "outcome": "succeeded"}),
        );
        self.unsettled.extend(settles);
        let mut done = 0;
        for item in std::mem::take(&mut self.unsettled) {
            let settle = json!({"worker": "w", "tasks": [item]});
            let answer = self.call("/v1/worker/settle", Some(&settle)).await;
            match answer.body["results"][0]["status"].as_str() {
                Some("ok") => {
                    let id = item["id"].as_str().expect("an id").to_owned();
                    *self.settled.entry(id).or_default() += 1;
                    done += 1;
                }
                // Another attempt has it.
                Some("lost") => {}
                Some(_) | None => self.unsettled.push(item),
            }
        }
        done
    }

    /// Works until everything that is due is settled.
    async fn finish(&mut self) {
        let until = self.time.moment().after(SOON);
        while !self.due.iter().all(|id| self.settled.contains_key(id)) {
            self.work().await;
            if self.time.moment() >= until {
                let mut left = self.due.iter();
                let left = left.find(|id| !self.settled.contains_key(*id));
                let path = format!("/v1/tasks/{}", left.expect("one is left"));
                let read = self.call(&path, None).await;
                panic!("{} waits: {}", read.body, self.server.log());
            }
        }
    }

    /// Registers small tasks that are due soon.
    async fn add_due(&mut self, count: usize) {
        for _ in 0..count {
            let id = self.register("1s", SMALL).await;
            self.due
                .push(id.unwrap_or_else(|refused| panic!("{}", refused.body)));
        }
    }

    /// Registers large tasks until they are refused.
    async fn fill(&mut self) {
        let most = 2 * usize::try_from(DISK_MIB * MIB).expect("it fits") / PAYLOAD;
        for _ in 0..most {
            match self.register("1h", PAYLOAD).await {
                Ok(id) => self.pending.push(id),
                Err(_) => return,
            }
        }
        panic!("{most} were taken on a disk of {DISK_MIB} MiB");
    }

    /// Waits until new tasks are taken again.
    async fn takes_again(&mut self) {
        let until = self.time.moment().after(SOON);
        loop {
            match self.register("1s", SMALL).await {
                Ok(id) => return self.due.push(id),
                Err(refused) => assert!(
                    self.time.moment() < until,
                    "{}\n{}",
                    refused.body,
                    self.server.log()
                ),
            }
            self.time.sleep(Duration::from_millis(200)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "fills a disk for two minutes: make test-all"]
async fn a_disk_that_is_full_to_the_last_byte_loses_nothing_and_is_used_again_without_a_restart() {
    let disk = match SmallDisk::mount(DISK_MIB) {
        Ok(disk) => disk,
        Err(why) => {
            writeln!(
                std::io::stderr().lock(),
                "skipped: no disk can be mounted here: {why}"
            )
            .expect("standard error is open");
            return;
        }
    };
    let log = TempDir::new().expect("a directory");
    let mut server = disk.serve(log.path());
    server.ready().await;
    let mut site = Site::of(server);

    // The disk fills to the reserve: new tasks are refused, older ones fire, are claimed and settled.
    site.add_due(50).await;
    site.fill().await;
    site.is_refused().await;
    site.finish().await;
    site.is_all_there(SOME).await;
    let free = disk.free_bytes();
    assert!(
        free > RESERVE_BYTES_DEFAULT / 2,
        "the reserve is left: {free}"
    );

    // With more room new tasks are taken without a restart. Then the disk fills to its last byte,
    // by another program.
    disk.resize(2 * DISK_MIB);
    site.takes_again().await;
    site.add_due(50).await;
    let said = site.server.log().len();
    to_the_last_byte(&mut site, &disk, said).await;
    disk.relieve();
    site.finish().await;
    site.takes_again().await;
    site.is_all_there(SOME).await;

    // The disk fills again, and the server is killed and started on the full disk.
    site.add_due(50).await;
    let said = site.server.log().len();
    to_the_last_byte(&mut site, &disk, said).await;
    site.server.kill();
    site.server = disk.serve(log.path());
    site.server.answers().await;
    to_the_last_byte(&mut site, &disk, 0).await;
    disk.relieve();
    site.takes_again().await;
    site.finish().await;
    site.is_all_there(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_callback_without_workers_leaves_the_reserve_of_the_disk_to_others() {
    // More tasks than the queue holds in memory for one callback, on a disk with less room than
    // overflow files leave.
    const TASKS: usize = 200;
    let Ok(disk) = SmallDisk::mount(DISK_MIB - 40) else {
        writeln!(
            std::io::stderr().lock(),
            "skipped: no disk can be mounted here"
        )
        .expect("standard error is open");
        return;
    };
    let log = TempDir::new().expect("a directory");
    let mut server = disk.serve(log.path());
    server.ready().await;
    let mut site = Site::of(server);
    let mut idle = Vec::new();
    for _ in 0..TASKS {
        let id = site.register_for("idle", "4s", PAYLOAD).await;
        idle.push(id.unwrap_or_else(|refused| panic!("{}", refused.body)));
    }
    site.time.sleep(Duration::from_secs(6)).await;
    assert_eq!(disk.files("data/queue"), 0, "nothing overflows to the disk");
    // Other callbacks go on meanwhile.
    site.add_due(20).await;
    site.finish().await;
    // All these tasks are handed out by their looks once there is a worker.
    site.callback = "idle";
    site.due = idle;
    site.finish().await;
}

/// Takes all room and works until the log reports, after its first `said` bytes, that the service stands still, and a
/// while longer. All tasks can be read all the time.
async fn to_the_last_byte(site: &mut Site, disk: &SmallDisk, said: usize) {
    let until = site.time.moment().after(SOON);
    let is_broken = |site: &Site| {
        let log = site.server.log();
        log.get(said..)
            .is_some_and(|new| new.contains("the service stands still"))
    };
    disk.fill();
    while !is_broken(site) {
        site.work().await;
        disk.fill();
        assert!(
            site.time.moment() < until,
            "writes go on: {}",
            site.server.log()
        );
    }
    for _ in 0..5 {
        site.is_refused().await;
        site.is_all_there(SOME).await;
        site.work().await;
        site.time.sleep(Duration::from_millis(500)).await;
    }
}
