//! Joins: a task that waits for two others.

use serde_json::json;

use super::plain;
use crate::calls::Caller;

pub(super) async fn one(calls: &Caller) {
    let mut ids = Vec::new();
    let mut behind = Vec::new();
    for _ in 0..2 {
        let piece = calls.piece("dependency", "", calls.soon(5_000));
        let retries = u32::from(calls.draw(8) == 0);
        let body = plain(&piece, calls.draw(300), retries);
        ids.push(calls.try_register(&piece, None, &body).await.id);
        behind.push(piece.n);
    }
    if ids.iter().any(String::is_empty) {
        return;
    }
    let mut waiter = calls.piece("waiter", "", calls.time.now());
    waiter.behind = behind;
    let condition = if calls.draw(2) == 0 {
        "all_succeeded"
    } else {
        "all_ended"
    };
    let mut body = plain(&waiter, calls.draw(30), 0);
    body["after"] = json!({"ids": ids, "condition": condition});
    calls.register(&waiter, &body).await;
}
