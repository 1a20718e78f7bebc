//! Chains: each task is followed by the next one once, with its result, and by none for an end that did not come.

use serde_json::json;

use super::{plain, task};
use crate::{calls::Caller, site::CALLBACK};

pub(super) async fn one(calls: &Caller) {
    let mut first = calls.piece("first", "", calls.soon(3_000));
    first.group = format!("chain-{}", first.n);
    let follows = |kind, behind: u64| {
        let mut piece = calls.piece(kind, &first.group, first.start);
        piece.behind = vec![behind];
        calls.ask(&piece);
        piece.n
    };
    let second = follows("follow-up", first.n);
    let third = follows("follow-up", second);
    let undo = follows("never", first.n);
    let retries = || u32::from(calls.draw(8) == 0);
    let mut then = task(CALLBACK, second, calls.draw(100), retries());
    then["then"] = json!([{"task": task(CALLBACK, third, calls.draw(30), 0), "with_result": true}]);
    let mut body = plain(&first, calls.draw(200), retries());
    body["then"] = json!([
        {"task": then, "with_result": true},
        {"states": ["failed", "dead", "expired"], "task": task(CALLBACK, undo, 0, 0)},
    ]);
    calls.register(&first, &body).await;
}
