//! These clients use the operating model beside the plain tasks of a drill: a file for each kind of work.
//!
//! A *piece* is one task that a client wants. Its number is in the payload, so the logs of the workers show
//! which task became of it, also where no client got an answer. Pieces of one group belong together: a
//! sequence, the holders of a key, a tree, a chain.

mod chains;
mod gates;
mod jobs;
mod joins;
mod keys;
mod letters;
mod schedules;
mod sequences;
mod trees;

use std::time::Duration;

use serde_json::{Value, json};
use tickwheel::model::time::Millis;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{
    calls::{Answer, Caller, PAUSE, TRIES, instant},
    site::CALLBACK,
};

/// One task that a client wants.
#[derive(Debug, Clone)]
struct Piece {
    n: u64,
    kind: &'static str,
    group: String,
    start: Millis,
    /// The pieces that must have succeeded before it begins.
    behind: Vec<u64>,
}

/// How a registration that may be repeated ended.
struct Registered {
    told: String,
    id: String,
}

/// A task that looks after itself for as long as the drill goes on.
fn task(callback: &str, n: u64, run_ms: u64, retries: u32) -> Value {
    json!({
        "callback": callback,
        "payload": {"n": n, "run_ms": run_ms, "retries": retries},
        "claim_timeout": "5s",
        "heartbeat_timeout": "5s",
        "max_attempts": 1000,
        "retry": {"initial": "200ms", "factor": 1, "jitter": "none"},
    })
}

/// The same with its start.
fn task_at(callback: &str, n: u64, run_ms: u64, retries: u32, start: Millis) -> Value {
    let mut task = task(callback, n, run_ms, retries);
    task["start_time"] = json!(instant(start));
    task
}

/// A mark that belongs to a piece alone.
fn mark_of(n: u64) -> String {
    format!("drill-{n}")
}

impl Caller {
    fn piece(&self, kind: &'static str, group: &str, start: Millis) -> Piece {
        Piece {
            n: self.number(),
            kind,
            group: group.to_owned(),
            start,
            behind: Vec::new(),
        }
    }

    /// Logs that a piece is wanted, alone or as a part of the next request.
    fn ask(&self, piece: &Piece) {
        self.journal.note(
            json!({"what": "ask", "op": "piece", "n": piece.n, "kind": piece.kind,
            "group": piece.group, "start": piece.start.0, "behind": piece.behind}),
        );
    }

    /// Registers a piece once.
    async fn try_register(&self, piece: &Piece, mark: Option<&str>, body: &Value) -> Registered {
        self.ask(piece);
        let asked = self.time.now().0;
        let answer = self.post("/v1/tasks", mark, body).await;
        let told = outcome(answer.as_ref());
        let body = answer.map(|answer| answer.body).unwrap_or_default();
        let id = body["id"].as_str().or_else(|| body["existing"].as_str());
        let id = id.unwrap_or_default().to_owned();
        // The service says from when on the task counts: a start that has passed means now.
        let starts = body["start_time"]
            .as_str()
            .and_then(|text| text.parse().ok());
        let starts = starts.map(|at: jiff::Timestamp| at.as_millisecond());
        self.journal.note(
            json!({"what": "told", "op": "piece", "n": piece.n, "asked": asked,
            "told": told, "id": id, "starts": starts}),
        );
        Registered { told, id }
    }

    /// Registers a piece under its mark until the outcome is known; the id is empty if it never is.
    async fn register(&self, piece: &Piece, body: &Value) -> Registered {
        let mark = mark_of(piece.n);
        for _ in 1..TRIES {
            let registered = self.try_register(piece, Some(&mark), body).await;
            if registered.told != "unknown" {
                return registered;
            }
            self.time.sleep(PAUSE).await;
        }
        self.try_register(piece, Some(&mark), body).await
    }

    /// Pauses between two steps of a client, unless the drill ends.
    async fn rest(&self, pause: Duration, stop: &CancellationToken) {
        tokio::select! {
            () = self.time.sleep(pause) => {}
            () = stop.cancelled() => {}
        }
    }
}

/// The name of an outcome in the logs.
fn outcome(answer: Option<&Answer>) -> String {
    let Some(answer) = answer else {
        return "unknown".to_owned();
    };
    let code = answer.body["code"].as_str().unwrap_or_default();
    match answer.status {
        200 | 201 => answer.body["outcome"]
            .as_str()
            .unwrap_or("created")
            .to_owned(),
        409 if code == "key_taken" => "taken".to_owned(),
        409 if code == "tree_ended" => "ended".to_owned(),
        status => panic!("a client does not expect {status}: {}", answer.body),
    }
}

/// Starts every client, and returns when all have ended behind `stop`.
pub(crate) async fn run(calls: Caller, stop: CancellationToken) {
    let mut clients = JoinSet::new();
    clients.spawn(gates::keep(calls.clone(), stop.clone()));
    clients.spawn(schedules::keep(calls.clone(), stop.clone()));
    // Milliseconds between two groups of a kind: three store servers share two cores with all others.
    for (pause_ms, kind) in [
        (1_500, Kind::Sequence),
        (3_000, Kind::Mark),
        (3_000, Kind::Name),
        (1_500, Kind::Gated),
        (12_000, Kind::Tree),
        (10_000, Kind::Chain),
        (12_000, Kind::Join),
        (15_000, Kind::Letter),
        (40_000, Kind::Job),
    ] {
        clients.spawn(repeat(calls.clone(), pause_ms, kind, stop.clone()));
    }
    while let Some(ended) = clients.join_next().await {
        ended.expect("every answer is one that a client can expect");
    }
}

/// A kind of work that comes again and again.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Sequence,
    Mark,
    Name,
    Gated,
    Tree,
    Chain,
    Join,
    Letter,
    Job,
}

/// Groups of one kind that wait for answers at once: repetitions must not keep a service down that comes back.
const ASKING_MAX: usize = 6;

async fn repeat(calls: Caller, pause_ms: u64, kind: Kind, stop: CancellationToken) {
    let mut asking = JoinSet::new();
    let mut at = calls.time.moment();
    while !stop.is_cancelled() {
        at = at.after(Duration::from_millis(pause_ms));
        calls.time.sleep_until(at).await;
        while let Some(ended) = asking.try_join_next() {
            ended.expect("every answer is one that a client can expect");
        }
        if asking.len() < ASKING_MAX {
            asking.spawn(one(calls.clone(), kind));
        }
    }
    while let Some(ended) = asking.join_next().await {
        ended.expect("every answer is one that a client can expect");
    }
}

async fn one(calls: Caller, kind: Kind) {
    match kind {
        Kind::Sequence => sequences::one(&calls).await,
        Kind::Mark => keys::marked(&calls).await,
        Kind::Name => keys::named(&calls).await,
        Kind::Gated => gates::one(&calls).await,
        Kind::Tree => trees::one(&calls).await,
        Kind::Chain => chains::one(&calls).await,
        Kind::Join => joins::one(&calls).await,
        Kind::Letter => letters::one(&calls).await,
        Kind::Job => jobs::one(&calls).await,
    }
}

/// A plain task of the drill's callback for a piece.
fn plain(piece: &Piece, run_ms: u64, retries: u32) -> Value {
    task_at(CALLBACK, piece.n, run_ms, retries, piece.start)
}
