//! Trees: a parent with children from the first request and one that is added, and a task that follows
//! the end of all of them.

use std::time::Duration;

use serde_json::{Value, json};

use super::{plain, task};
use crate::{calls::Caller, site::CALLBACK};

pub(super) async fn one(calls: &Caller) {
    let mut root = calls.piece("root", "", calls.soon(3_000));
    root.group = format!("tree-{}", root.n);
    let part = |kind, behind: &[u64]| {
        let mut piece = calls.piece(kind, &root.group, root.start);
        piece.behind = behind.into();
        piece
    };
    let (child, after) = (part("child", &[]), part("child", &[root.n]));
    // It follows the end of the tree, so it is behind all of them.
    let end = part("end", &[root.n, child.n, after.n]);
    for piece in [&child, &after, &end] {
        calls.ask(piece);
    }
    let retries = || u32::from(calls.draw(8) == 0);
    let of = |n: u64, run_ms: u64| task(CALLBACK, n, run_ms, retries());
    let mut body = plain(&root, calls.draw(300), retries());
    body["children"] = json!([
        with(
            of(child.n, calls.draw(800)),
            "delay",
            json!(format!("{}ms", calls.draw(3_000)))
        ),
        with(of(after.n, calls.draw(30)), "after_parent", json!(true)),
    ]);
    let states = json!(["completed", "faulted"]);
    body["then"] = json!([{"states": states, "task": of(end.n, 0)}]);
    let id = calls.register(&root, &body).await.id;
    if !id.is_empty() {
        // Before the parent runs, while its tree is open, or behind its end.
        calls
            .time
            .sleep(Duration::from_millis(calls.draw(8_000)))
            .await;
        let added = part("added", &[]);
        let mut body = plain(&added, calls.draw(300), retries());
        body["parent"] = json!(id);
        calls.register(&added, &body).await;
    }
}

fn with(mut task: Value, name: &str, value: Value) -> Value {
    task[name] = value;
    task
}
