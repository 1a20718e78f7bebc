//! The clients of a drill register, cancel and reschedule through all nodes in turn, and log the
//! answers for the checker.
//!
//! An error and no answer at all both count as "unknown": the service may have made the change.

use std::time::Duration;

use serde_json::{Value, json};
use tickwheel::model::time::Millis;
use tokio::{sync::watch, task::JoinSet};
use tokio_util::sync::CancellationToken;

use crate::{
    calls::{Caller, PAUSE, TRIES, instant},
    records::{SICK_TOPIC, TOPIC},
    site::{CALLBACK, Load, Site},
};

/// Requests that wait for their answer at once. The requests to a service that is away must not
/// fill this process.
const ASKING_MAX: usize = 400;

/// Records beside each usual task while an extra load lasts: about fifty a second.
const BESIDE: usize = 6;

impl Load {
    fn topic(self) -> Option<&'static str> {
        match self {
            Self::Usual => None,
            Self::Healthy => Some(TOPIC),
            Self::Sick => Some(SICK_TOPIC),
        }
    }
}

#[derive(Clone)]
pub(crate) struct Clients {
    calls: Caller,
    load: watch::Receiver<Load>,
}

/// The request for one task.
struct Wish {
    n: u64,
    start: Millis,
    run_ms: u64,
    retries: u32,
    change: Option<Change>,
    /// It goes to a topic.
    is_record: bool,
}

enum Change {
    Cancel(Duration),
    Reschedule(Duration, Millis),
}

impl Clients {
    pub(crate) fn new(calls: Caller, site: &Site) -> Self {
        Self {
            calls,
            load: site.load.subscribe(),
        }
    }

    /// Registers so many tasks a second until `stop`, then lets the open calls end.
    pub(crate) async fn run(self, per_second: u32, stop: CancellationToken) {
        let mut asking = JoinSet::new();
        let pause = Duration::from_secs(1) / per_second;
        let mut at = self.calls.time.moment();
        while !stop.is_cancelled() {
            at = at.after(pause);
            self.calls.time.sleep_until(at).await;
            while let Some(ended) = asking.try_join_next() {
                ended.expect("every answer is one that a client can expect");
            }
            let load = *self.load.borrow();
            if asking.len() < ASKING_MAX {
                asking.spawn(self.clone().one());
                for topic in std::iter::repeat_n(load.topic(), BESIDE).flatten() {
                    asking.spawn(self.clone().beside(topic));
                }
            }
        }
        while let Some(ended) = asking.join_next().await {
            ended.expect("every answer is one that a client can expect");
        }
    }

    fn wish(&self) -> Wish {
        let n = self.calls.number();
        let draw = |below: u64| self.calls.time.random() % below;
        // Near tasks, tasks within a turn of the wheel or two, and some beyond.
        let delay_ms = match draw(10) {
            0..=3 => draw(2000),
            4..=8 => 2000 + draw(16_000),
            _ => 18_000 + draw(22_000),
        };
        let delay = Duration::from_millis(delay_ms);
        let start = self.calls.time.now().after(delay);
        // Before the task is due, when it is due, or a little later.
        let pause = Duration::from_millis(draw(delay_ms + 1000));
        // To a later start, or to a nearer one: a task that waits for long is wanted soon.
        let moved = if draw(2) == 0 {
            start.after(Duration::from_millis(draw(10_000)))
        } else {
            self.calls
                .time
                .now()
                .after(pause)
                .after(Duration::from_millis(draw(5_000)))
        };
        let change = match draw(14) {
            0 => Some(Change::Cancel(pause)),
            1 => Some(Change::Reschedule(pause, moved)),
            _ => None,
        };
        Wish {
            n,
            start,
            run_ms: if draw(10) == 0 {
                1500 + draw(1000)
            } else {
                draw(30)
            },
            retries: u32::from(draw(8) == 0),
            change,
            is_record: draw(8) == 0,
        }
    }

    /// The life of a task, as its client sees it.
    async fn one(self) {
        let wish = self.wish();
        if wish.is_record {
            self.record(&wish, TOPIC).await;
            return;
        }
        let body = json!({
            "callback": CALLBACK,
            "start_time": instant(wish.start),
            "payload": {"n": wish.n, "run_ms": wish.run_ms, "retries": wish.retries},
            "claim_timeout": "5s",
            "heartbeat_timeout": "5s",
            "max_attempts": 1000,
            "retry": {"initial": "200ms", "factor": 1, "jitter": "none"},
        });
        self.calls.journal.note(json!({"what": "ask", "op": "register", "n": wish.n, "start": wish.start.0, "retries": wish.retries}));
        let (told, answer) = self.post("/v1/tasks", &body).await;
        let id = answer["id"].as_str().unwrap_or_default().to_owned();
        self.calls
            .journal
            .note(json!({"what": "told", "op": "register", "n": wish.n, "told": told, "id": id}));
        if told != "ok" {
            return;
        }
        match wish.change {
            Some(Change::Cancel(pause)) => {
                self.calls.time.sleep(pause).await;
                self.change(&id, "cancel", &json!({}), Value::Null).await;
            }
            Some(Change::Reschedule(pause, start)) => {
                self.calls.time.sleep(pause).await;
                let body = json!({"start_time": instant(start)});
                self.change(&id, "reschedule", &body, json!(start.0)).await;
            }
            None => {}
        }
    }

    /// Registers a record that is due within seconds, for as long as an extra load lasts.
    async fn beside(self, topic: &'static str) {
        let mut wish = self.wish();
        let delay = Duration::from_millis(self.calls.time.random() % 2_000);
        wish.start = self.calls.time.now().after(delay);
        self.record(&wish, topic).await;
    }

    /// Registers a task whose record lies in its topic afterwards; it has no other effect.
    async fn record(&self, wish: &Wish, topic: &str) {
        let body = json!({
            "kafka": {"topic": topic},
            "start_time": instant(wish.start),
            "payload": {"n": wish.n},
        });
        self.calls.journal
            .note(json!({"what": "ask", "op": "record", "n": wish.n, "start": wish.start.0, "sick": topic == SICK_TOPIC}));
        let (told, answer) = self.post("/v1/tasks", &body).await;
        let id = answer["id"].as_str().unwrap_or_default();
        self.calls
            .journal
            .note(json!({"what": "told", "op": "record", "n": wish.n, "told": told, "id": id}));
    }

    /// Asks for a change until its outcome is known.
    async fn change(&self, id: &str, op: &str, body: &Value, start: Value) {
        for _ in 0..TRIES {
            self.calls
                .journal
                .note(json!({"what": "ask", "op": op, "id": id, "start": start}));
            let (told, answer) = self.post(&format!("/v1/tasks/{id}/{op}"), body).await;
            let told = answer["outcome"].as_str().unwrap_or(told);
            self.calls
                .journal
                .note(json!({"what": "told", "op": op, "id": id, "start": start, "told": told}));
            if told != "unknown" {
                return;
            }
            self.calls.time.sleep(PAUSE).await;
        }
    }

    async fn post(&self, path: &str, body: &Value) -> (&'static str, Value) {
        match self.calls.post(path, None, body).await {
            Some(answer) if answer.is_success() => ("ok", answer.body),
            Some(answer) => panic!("{path}: {}: {}", answer.status, answer.body),
            None => ("unknown", Value::Null),
        }
    }
}
