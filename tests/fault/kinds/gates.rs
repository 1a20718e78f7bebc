//! A callback whose gate is closed now and then, and its tasks.

use std::time::Duration;

use reqwest::Method;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::task_at;
use crate::{calls::Caller, site::GATED};

/// Longer than any outage of a drill: a gate that stays closed holds its tasks.
const TRIES: usize = 300;

pub(super) async fn one(calls: &Caller) {
    let piece = calls.piece("gated", "", calls.soon(4_000));
    let retries = u32::from(calls.draw(8) == 0);
    let body = task_at(GATED, piece.n, calls.draw(30), retries, piece.start);
    calls.try_register(&piece, None, &body).await;
}

/// Closes and opens the gate in turn; at the end it is open.
pub(super) async fn keep(calls: Caller, stop: CancellationToken) {
    while !stop.is_cancelled() {
        calls
            .rest(Duration::from_millis(8_000 + calls.draw(6_000)), &stop)
            .await;
        set(&calls, "paused").await;
        calls
            .rest(Duration::from_millis(4_000 + calls.draw(8_000)), &stop)
            .await;
        set(&calls, "open").await;
    }
}

async fn set(calls: &Caller, gate: &str) {
    let note = |what: &str, told: &str| {
        calls
            .journal
            .note(json!({"what": what, "op": "gate", "gate": gate, "told": told}));
    };
    note("ask", "");
    let path = format!("/v1/callbacks/{GATED}/gate");
    let body = json!({"gate": gate});
    let answer = calls.until_known(TRIES, (Method::POST, &path), None, &body);
    match answer.await {
        Some(answer) if answer.is_success() => note("told", "ok"),
        Some(answer) => panic!("a gate: {}: {}", answer.status, answer.body),
        None => note("told", "unknown"),
    }
}
