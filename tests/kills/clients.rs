//! The clients of a kill test register, cancel and reschedule tasks, and log the acknowledgements
//! for the checker.

use std::time::Duration;

use serde_json::{Value, json};
use tickwheel::model::time::Millis;
use tokio_util::sync::CancellationToken;

use super::history::{Registered, Site, instant};

/// The number of tries for a change without an answer.
const TRIES: usize = 40;
const PAUSE: Duration = Duration::from_millis(100);

/// The callback of all tasks.
pub(super) const CALLBACK: &str = "kill";

/// A request of a task that is due in `delay_ms`. Some fail once, some run longer, some have rare looks, some
/// kill their first worker.
fn task(random: u64, delay_ms: u64) -> Value {
    let run_ms = if random.is_multiple_of(10) {
        1500
    } else {
        random % 30
    };
    let claim_timeout = if random.is_multiple_of(3) {
        "10s"
    } else {
        "5s"
    };
    json!({
        "callback": CALLBACK,
        "delay": format!("{delay_ms}ms"),
        "payload": {
            "run_ms": run_ms,
            "retries": u8::from(random.is_multiple_of(5)),
            "dies": random.is_multiple_of(97),
        },
        "claim_timeout": claim_timeout,
        "heartbeat_timeout": "3s",
        "max_attempts": 50,
        "retry": {"initial": "200ms", "factor": 1, "jitter": "none"},
    })
}

impl Site {
    pub(super) fn note(&self, task: &Value) -> String {
        let id = task["id"].as_str().expect("a task has an id").to_owned();
        let registered = Registered {
            at: self.time.moment(),
            start: instant(&task["start_time"]),
            moved: None,
            cancel: None,
        };
        self.history().registered.insert(id.clone(), registered);
        id
    }

    async fn register(&self, delay_ms: u64) -> Option<String> {
        let request = task(self.time.random(), delay_ms);
        let answer = self.call("/v1/tasks", &request).await?;
        Some(self.note(&answer))
    }

    async fn register_batch(&self, count: u64) {
        let random = |_| (self.time.random(), self.time.random() % 5000);
        let tasks: Vec<Value> = (0..count)
            .map(random)
            .map(|(r, delay)| task(r, delay))
            .collect();
        let answer = self
            .call("/v1/tasks:batchCreate", &json!({"tasks": tasks}))
            .await;
        for result in answer
            .iter()
            .flat_map(|a| a["results"].as_array().expect("results"))
        {
            if !result["task"].is_null() {
                self.note(&result["task"]);
            }
        }
    }

    async fn cancel(&self, id: &str) {
        for _ in 0..TRIES {
            if let Some(answer) = self
                .call(&format!("/v1/tasks/{id}/cancel"), &json!({}))
                .await
            {
                let outcome = answer["outcome"].as_str().expect("an outcome").to_owned();
                let now = self.time.moment();
                let mut history = self.history();
                let task = history.registered.get_mut(id).expect("it was registered");
                task.cancel = Some((outcome, now));
                return;
            }
            self.time.sleep(PAUSE).await;
        }
    }

    async fn reschedule(&self, id: &str, delay: Duration) {
        let start = self.time.now().after(delay);
        self.moved(id, start, false);
        let at = jiff::Timestamp::from_millisecond(start.0).expect("an instant of today");
        let body = json!({"start_time": at.to_string()});
        for _ in 0..TRIES {
            let answer = self
                .call(&format!("/v1/tasks/{id}/reschedule"), &body)
                .await;
            if let Some(answer) = answer {
                if answer["outcome"] == "rescheduled" {
                    self.moved(id, start, true);
                }
                return;
            }
            self.time.sleep(PAUSE).await;
        }
    }

    fn moved(&self, id: &str, start: Millis, is_done: bool) {
        let done = is_done.then(|| self.time.moment());
        let mut history = self.history();
        let task = history.registered.get_mut(id).expect("it was registered");
        task.moved = Some((start, done));
    }
}

/// Registers tasks that are due within a second, one after the other.
pub(super) async fn near(site: Site, stop: CancellationToken) {
    while !stop.is_cancelled() {
        let delay = site.time.random() % 1000;
        site.register(delay).await;
        site.time.sleep(PAUSE / 10).await;
    }
}

/// Registers batches.
pub(super) async fn batches(site: Site, stop: CancellationToken) {
    while !stop.is_cancelled() {
        site.register_batch(20).await;
        site.time.sleep(PAUSE * 3).await;
    }
}

/// Registers tasks some seconds out, and cancels or moves them before they are due, or just when they are.
pub(super) async fn changes(site: Site, stop: CancellationToken) {
    while !stop.is_cancelled() {
        let random = site.time.random();
        let Some(id) = site.register(1500 + random % 3000).await else {
            site.time.sleep(PAUSE / 4).await;
            continue;
        };
        let changing = site.clone();
        // Changes wait until the server is back, so registrations must not wait for changes.
        tokio::spawn(async move {
            let pause = Duration::from_millis(changing.time.random() % 4000);
            changing.time.sleep(pause).await;
            if random.is_multiple_of(2) {
                changing.cancel(&id).await;
            } else {
                let delay = Duration::from_millis(changing.time.random() % 4000);
                changing.reschedule(&id, delay).await;
            }
        });
        site.time.sleep(PAUSE / 2).await;
    }
}
