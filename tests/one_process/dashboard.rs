//! A real browser opens the dashboard of a real process: `tests/dashboard/check.mjs` is its script.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
};

use reqwest::redirect::Policy;
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
    check(&[&server.url, &key, prefix]).await;
}

/// Runs the script with these words.
async fn check(words: &[&str]) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/dashboard/check.mjs");
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let ran = tokio::task::spawn_blocking(move || {
        let node = Command::new("node").arg(script).args(words).output();
        node.expect("node runs")
    });
    let ran = ran.await.unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{said}\n{errors}");
    assert_eq!(said.matches("ok: ").count(), 9, "{said}");
}

/// The dashboard beside a service; it ends with this.
struct Beside {
    child: Child,
    url: String,
}

impl Beside {
    /// Starts it, and reads from its first line where it is.
    fn start(server: &str, more: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tickwheel"));
        command.args(["ui", "--server", server, "--listen", "127.0.0.1:0"]);
        let child = command.args(more).stdout(Stdio::piped()).spawn();
        let mut child = child.expect("the program can be run");
        let mut said = String::new();
        let lines = child.stdout.as_mut().expect("it has an output");
        BufReader::new(lines).read_line(&mut said).unwrap();
        let (_, url) = said.trim().split_once(" is at ").expect("it says where");
        let url = url.trim_end_matches('/').to_owned();
        Self { child, url }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // It may have ended already: nothing is left to do then.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The pages of a service elsewhere need a key as its own do, and tell when it is away.
#[tokio::test(flavor = "multi_thread")]
async fn the_dashboard_stands_beside_a_service() {
    let directory = TempDir::new().unwrap();
    let mut server = Server::start(directory.path(), &[]).await;
    let key = key(&server.url).await;
    let beside = Beside::start(&server.url, &["--base-path", "/timers"]);
    let client = reqwest::Client::builder().redirect(Policy::none()).build();
    let client = client.unwrap();
    let get = async |path: &str, key: &str| {
        let request = client.get(format!("{}{path}", beside.url));
        let cookie = format!("tickwheel_key={key}");
        let answer = request.header("cookie", cookie).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    };
    assert_eq!(get("/tasks", "").await.0, 303, "a key is asked for");
    let task = json!({"callback": "beside", "delay": "1h", "payload": "of the far service"});
    let asked = client.post(format!("{}/v1/tasks", server.url));
    let asked = asked.bearer_auth(&key).body(task.to_string());
    let made = asked
        .header("content-type", "application/json")
        .send()
        .await;
    let made: Value = serde_json::from_slice(&made.unwrap().bytes().await.unwrap()).unwrap();
    let (status, html) = get(&format!("/tasks/{}", made["id"].as_str().unwrap()), &key).await;
    assert_eq!(status, 200, "{html}");
    assert!(html.contains("of the far service"), "{html}");
    assert!(html.contains("href=\"/timers/callbacks/beside\""), "{html}");
    // The pages are there alone, and not the API.
    assert_eq!(get("/v1/tasks", &key).await.0, 404);
    server.kill();
    let (status, html) = get("/tasks", &key).await;
    assert_eq!(status, 502, "{html}");
    assert!(html.contains("The service does not answer"), "{html}");
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

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a browser: make test-all"]
async fn a_browser_shows_it_beside_a_service() {
    let directory = TempDir::new().unwrap();
    let server = Server::start(directory.path(), &[]).await;
    let key = key(&server.url).await;
    let beside = Beside::start(&server.url, &[]);
    check(&[&beside.url, &key, "", &server.url]).await;
}
