//! Dead letters: a task that uses up its attempts, rests, and runs again once it is told to.

use std::time::Duration;

use serde_json::{Value, json};

use super::plain;
use crate::calls::{Caller, PAUSE};

/// Longer than any outage of a drill, with the time that the task needs to die.
const TRIES: usize = 300;

pub(super) async fn one(calls: &Caller) {
    let piece = calls.piece("letter", "", calls.soon(2_000));
    let mut body = plain(&piece, calls.draw(30), 2);
    body["max_attempts"] = json!(2);
    let id = calls.try_register(&piece, None, &body).await.id;
    if id.is_empty() {
        return;
    }
    let note = |what: &str, told: &Value| {
        calls
            .journal
            .note(json!({"what": what, "op": "letter", "n": piece.n, "id": id, "told": told}));
    };
    for _ in 0..TRIES {
        calls.time.sleep(PAUSE).await;
        let read = calls.get(&format!("/v1/tasks/{id}")).await;
        let state = read.map(|answer| answer.body["state"].clone());
        match state.as_ref().and_then(Value::as_str) {
            Some("succeeded") => return,
            Some("dead") => {}
            _ => continue,
        }
        note("read", &json!("dead"));
        // It stays dead for as long as nobody asks for it.
        calls
            .time
            .sleep(Duration::from_millis(calls.draw(3_000)))
            .await;
        note("ask", &Value::Null);
        let answer = calls
            .post("/v1/dead-letters/redrive", None, &json!({"ids": [id]}))
            .await;
        let told = answer.map(|answer| answer.body["results"][0]["outcome"].clone());
        note("told", &told.unwrap_or_else(|| json!("unknown")));
    }
}
