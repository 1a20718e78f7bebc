//! The counted node counts for tests the rows that its stages read and write in the store.
//!
//! Its store is in memory and has no list of its tasks, as on a cluster. Reads of slots and clocks, swaps of clocks, rows of
//! nodes, heartbeats and erasures are left out, since many tasks share them. The rest of what comes with time and not with a task
//! cancels out in the difference of two counts.

use std::{
    ops::{Add, Mul, Sub},
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::http::Method;
use serde_json::{Value, json};
use tickwheel::{
    app::executor::Executor,
    doubles::store::faulty::{Call, Fate},
    flow::{
        base::api::{SettleAnswer, SettleRequest},
        stages::poll::PollRequest,
    },
    model::{http_call, state::Outcome},
    store::index::IndexKind,
};
use tokio_util::sync::CancellationToken;

use super::super::{Site, request};
use crate::sim::world::{Behaviour, World};

pub(super) const SECOND: Duration = Duration::from_secs(1);

/// Rows that were written plainly and on a condition, and rows and pages of ranges that were read.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Rows {
    pub(super) plain: f64,
    pub(super) conditional: f64,
    pub(super) read: f64,
}

impl Add for Rows {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            plain: self.plain + other.plain,
            conditional: self.conditional + other.conditional,
            read: self.read + other.read,
        }
    }
}

impl Mul<f64> for Rows {
    type Output = Self;

    fn mul(self, times: f64) -> Self {
        Self {
            plain: self.plain * times,
            conditional: self.conditional * times,
            read: self.read * times,
        }
    }
}

impl Sub for Rows {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self + other * -1.0
    }
}

fn count(rows: &mut Rows, call: Call) {
    let is_shared = matches!(
        call.operation,
        "scan" | "scan_range" | "clock" | "swap_clock" | "erase" | "put_heartbeats"
    );
    let is_of_nodes = matches!(call.operation, "put_node" | "remove_node" | "nodes")
        || matches!(call.index, Some(IndexKind::Share | IndexKind::Level));
    if is_shared || is_of_nodes {
        return;
    }
    let counter = match (call.writes, call.conditional) {
        (true, true) => &mut rows.conditional,
        (true, false) => &mut rows.plain,
        (false, _) => &mut rows.read,
    };
    *counter += call.rows as f64;
}

/// A node whose reads and writes are counted.
pub(super) struct Counted {
    pub(super) site: Site,
    rows: Arc<Mutex<Rows>>,
}

impl Counted {
    /// A node that runs the service's own tasks. Tasks over HTTP get no request, so nothing leaves the process.
    pub(super) async fn new() -> Self {
        let rows = Arc::new(Mutex::new(Rows::default()));
        let seen = Arc::clone(&rows);
        let world = World::new(1, 1000);
        world.queue.create_topic("ends", None);
        let node = world.node_with(
            1,
            Arc::new(move |_, call: Call| {
                count(&mut seen.lock().unwrap(), call);
                Fate::Go
            }),
        );
        let counted = Self {
            site: Site::of(world, node),
            rows,
        };
        counted.site.world.pass(5 * SECOND).await;
        counted
    }

    /// Tells the ends of tasks from now on.
    pub(super) fn executes(&self) {
        let executor = Executor {
            service: self.site.node.service(),
            node: "node".to_owned(),
            time: self.site.node.time.clone(),
            drain_limit: SECOND,
            allowed: Default::default(),
            mail: None,
        };
        tokio::spawn(executor.run(CancellationToken::new()));
    }

    /// Stands in for an executor that delivers tasks over HTTP.
    pub(super) fn delivers(&self) {
        let (service, time) = (self.site.node.service(), self.site.world.time.clone());
        tokio::spawn(async move {
            loop {
                let poll = PollRequest {
                    worker: "executor".to_owned(),
                    callbacks: vec![http_call::QUEUE.to_owned()],
                    max: 16,
                    wait: 20 * SECOND,
                    version: None,
                };
                let Ok(handout) = service.poll(poll).await else {
                    time.sleep(SECOND / 10).await;
                    continue;
                };
                for task in handout.accept() {
                    let settle = SettleRequest {
                        id: task.id,
                        attempt: task.attempt,
                        outcome: Outcome::Succeeded { result: None },
                        answered: None,
                    };
                    let settled = service.settle("executor", vec![settle]).await;
                    assert!(matches!(settled[..], [SettleAnswer::Ok]), "{settled:?}");
                }
            }
        });
    }

    /// Attempts end so from now on.
    pub(super) fn works(&self, outcome: impl Fn(u32) -> Outcome + Send + Sync + 'static) {
        let behaviour: Behaviour =
            Arc::new(move |_, attempt| (SECOND / 10, Some(outcome(attempt))));
        self.site.world.worker(self.site.node.service(), behaviour);
    }

    pub(super) fn succeeds(&self) {
        self.works(|_| Outcome::Succeeded { result: None });
    }

    /// Registers the task of this number, which starts apart from those of other numbers. A `#` in a text stands for the number.
    pub(super) async fn register(&self, number: u32, more: &Value) -> String {
        let mut body = json!({"callback": "work", "delay": format!("{}s", 20 + 40 * number)});
        let more = more.to_string().replace('#', &number.to_string());
        let more: Value = serde_json::from_str(&more).unwrap();
        for (name, value) in more.as_object().unwrap() {
            body[name] = value.clone();
        }
        let body = body.as_object_mut().unwrap();
        if body.contains_key("http") {
            body.remove("callback");
        }
        let mark = body.remove("idempotency_key");
        let mut request = request(Method::POST, "/v1/tasks", json!(body).to_string());
        if let Some(mark) = mark {
            let mark = mark.as_str().unwrap().parse().unwrap();
            request.headers_mut().insert("idempotency-key", mark);
        }
        let answer = self.site.send(request).await;
        assert_eq!(answer.status, 201, "{:?}", answer.body);
        answer.json()["id"].as_str().unwrap().to_owned()
    }

    /// Begins to count anew; returns what was counted.
    pub(super) fn take(&self) -> Rows {
        std::mem::take(&mut *self.rows.lock().unwrap())
    }

    /// Returns what was counted once everything has come to its end.
    pub(super) async fn all(&self) -> Rows {
        self.site.world.pass(600 * SECOND).await;
        self.take()
    }
}
