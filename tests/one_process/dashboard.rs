//! A real browser opens the dashboard of a real process: `tests/dashboard/check.mjs` is its script.

use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::server::{Server, post};

/// Makes the first key, of an admin.
async fn key(url: &str) -> String {
    let wish = json!({"name": "ada", "role": "admin"});
    let made: Value = post(url, "/v1/api-keys", &wish).await;
    made["key"].as_str().unwrap().to_owned()
}

async fn looks_right(more: &[&str], prefix: &str) {
    let directory = TempDir::new().unwrap();
    let server = Server::start(directory.path(), more).await;
    let key = key(&server.url).await;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/dashboard/check.mjs");
    let url = server.url.clone();
    let prefix = prefix.to_owned();
    let ran = tokio::task::spawn_blocking(move || {
        let node = Command::new("node")
            .args([script, &url, &key, &prefix])
            .output();
        node.expect("node runs")
    });
    let ran = ran.await.unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{said}\n{errors}");
    assert_eq!(said.matches("ok: ").count(), 7, "{said}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a browser: make test-all"]
async fn a_browser_shows_the_dashboard_and_acts_on_it() {
    looks_right(&[], "").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a browser: make test-all"]
async fn a_browser_shows_it_below_a_prefix() {
    looks_right(&["--base-path", "/a/b"], "/a/b").await;
}
