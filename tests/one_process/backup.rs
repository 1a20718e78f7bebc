//! A backup of a running process holds everything that was acknowledged before it, and a new process goes on with it.

use std::{fs, path::Path, process::Output, time::Duration};

use serde_json::{Value, json};
use tempfile::TempDir;
use tickwheel::time_source::TimeSource;

use crate::server::{Server, post, program};

/// Tasks that are due soon, and tasks of tomorrow.
const DUE: usize = 100;
const LATER: usize = 400;

async fn read(url: &str, path: &str) -> (u16, Value) {
    let answer = reqwest::get(format!("{url}{path}"))
        .await
        .expect("an answer");
    let status = answer.status().as_u16();
    let text = answer.bytes().await.expect("a whole answer");
    (status, serde_json::from_slice(&text).unwrap_or_default())
}

/// Registers tasks, each with a payload that is kept apart from its row, and returns their ids.
async fn registered(url: &str, count: usize, delay: &str) -> Vec<String> {
    let task = |number| {
        let payload = json!({"number": number, "more": "x".repeat(5000)});
        json!({"callback": "work", "delay": delay, "payload": payload})
    };
    let tasks: Vec<Value> = (0..count).map(task).collect();
    let answer = post(url, "/v1/tasks:batchCreate", &json!({"tasks": tasks})).await;
    let results = answer["results"].as_array().expect("results").iter();
    let id = |result: &Value| result["task"]["id"].as_str().expect("an id").to_owned();
    results.map(id).collect()
}

fn said(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!(
        "{}{}",
        String::from_utf8_lossy(out),
        String::from_utf8_lossy(err)
    )
}

fn succeeds(arguments: &[&str]) -> String {
    let output = program(arguments);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{arguments:?}: {}",
        said(&output)
    );
    said(&output)
}

fn refused(arguments: &[&str], words: &str) {
    let output = program(arguments);
    assert_eq!(
        output.status.code(),
        Some(2),
        "{arguments:?}: {}",
        said(&output)
    );
    assert!(said(&output).contains(words), "{}", said(&output));
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of characters")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_of_a_running_process_is_restored_and_goes_on() {
    let (old, new) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let server = Server::start(old.path(), &[]).await;
    let url = server.url.clone();
    let due = registered(&url, DUE, "2s").await;
    let later = registered(&url, LATER, "24h").await;
    let schedule = ["schedule", "set", "nightly", "--cron", "@daily", "--task"];
    let at = ["--server", &url];
    succeeds(&[&schedule[..], &[r#"{"callback": "work"}"#], &at].concat());
    succeeds(&[&["callback", "set", "work", "--max-attempts", "7"], &at[..]].concat());
    // Registrations go on while the copy is made. None of them has to be in it.
    let busy = tokio::spawn({
        let url = url.clone();
        async move {
            loop {
                registered(&url, 50, "1h").await;
            }
        }
    });
    let file = old.path().join("copy.tickwheel");
    let file = text(&file);
    let create = [&["backup", "create", file], &at[..]].concat();
    let told = succeeds(&create);
    assert!(
        told.contains("whole, ") && told.contains("rows of 20"),
        "{told}"
    );
    refused(&create, "is there already");
    busy.abort();
    drop(server);

    let data = new.path().join("data");
    let restore = ["backup", "restore", file, "--data-dir", text(&data)];
    succeeds(&["backup", "check", file]);
    succeeds(&restore);
    refused(&restore, "holds a store already");
    let server = Server::start(new.path(), &[]).await;
    for id in due.iter().chain(&later) {
        let (status, task) = read(&server.url, &format!("/v1/tasks/{id}?view=FULL")).await;
        assert_eq!(status, 200, "{id}");
        assert_eq!(
            task["payload"]["more"].as_str().map(str::len),
            Some(5000),
            "{task}"
        );
        assert_eq!(task["max_attempts"], 10, "{task}");
    }
    let (_, callback) = read(&server.url, "/v1/callbacks/work").await;
    assert_eq!(callback["max_attempts"], 7);
    assert_eq!(
        read(&server.url, "/v1/schedules/nightly").await.1["state"],
        "live"
    );
    // Tasks that fell due since the copy was made fire at once.
    let time = TimeSource::real();
    let until = time.moment().after(Duration::from_secs(60));
    let mut polled: Vec<String> = Vec::new();
    while polled.len() < DUE {
        assert!(time.moment() < until, "{} of {DUE}", polled.len());
        let poll = json!({"worker": "w", "callbacks": ["work"], "max_tasks": 100, "wait": "5s"});
        let answer = post(&server.url, "/v1/worker/poll", &poll).await;
        let tasks = answer["tasks"].as_array().expect("tasks").iter();
        polled.extend(tasks.map(|task| task["id"].as_str().expect("an id").to_owned()));
    }
    polled.sort();
    let mut due = due;
    due.sort();
    assert_eq!(polled, due);
}

#[tokio::test]
async fn a_copy_that_is_cut_off_or_changed_is_refused_and_leaves_a_directory_that_can_be_used() {
    let (old, new) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let server = Server::start(old.path(), &[]).await;
    registered(&server.url, 20, "24h").await;
    let file = old.path().join("copy");
    succeeds(&["backup", "create", text(&file), "--server", &server.url]);
    let whole = fs::read(&file).unwrap();
    let (data, wrong) = (new.path().join("data"), old.path().join("wrong"));
    let mut changed = whole.clone();
    changed[whole.len() / 2] ^= 1;
    for (bytes, words) in [
        (&whole[..whole.len() - 3], "cut off"),
        (&changed, "damaged"),
        (b"something else", "no backup of Tickwheel"),
    ] {
        fs::write(&wrong, bytes).unwrap();
        refused(&["backup", "check", text(&wrong)], words);
        refused(
            &["backup", "restore", text(&wrong), "--data-dir", text(&data)],
            words,
        );
    }
    succeeds(&["backup", "restore", text(&file), "--data-dir", text(&data)]);
    refused(
        &["backup", "check", text(&old.path().join("none"))],
        "cannot be used",
    );
}

#[tokio::test]
async fn an_increment_of_a_running_process_is_small_and_restored_as_a_whole_copy() {
    let (old, new) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let server = Server::start(old.path(), &[]).await;
    let url = server.url.clone();
    let mut ids = registered(&url, LATER, "24h").await;
    let [monday, tuesday] = ["monday", "tuesday"].map(|name| old.path().join(name));
    let (monday, tuesday) = (text(&monday), text(&tuesday));
    succeeds(&["backup", "create", monday, "--server", &url]);
    ids.extend(registered(&url, 5, "24h").await);
    let cancel = format!("/v1/tasks/{}/cancel", ids[7]);
    post(&url, &cancel, &json!({})).await;
    let create = ["--since", monday, "--server", &url];
    let elsewhere = new.path().join("tuesday");
    refused(
        &[&["backup", "create", text(&elsewhere)], &create[..]].concat(),
        "must lie in the folder",
    );
    let told = succeeds(&[&["backup", "create", tuesday], &create[..]].concat());
    assert!(told.contains("whole together with monday, "), "{told}");
    let [whole, increment] = [monday, tuesday].map(|file| fs::metadata(file).unwrap().len());
    assert!(increment * 10 < whole, "{increment} of {whole}");
    drop(server);

    // Nothing of it can be used without the copy that it rests on, as that was.
    let bytes = fs::read(monday).unwrap();
    let mut changed = bytes.clone();
    changed[bytes.len() / 2] ^= 1;
    fs::write(monday, changed).unwrap();
    let data = new.path().join("data");
    let restore = ["backup", "restore", tuesday, "--data-dir", text(&data)];
    for arguments in [&["backup", "check", tuesday][..], &restore] {
        refused(arguments, "monday, which it rests on: piece");
    }
    fs::write(monday, bytes).unwrap();
    succeeds(&restore);
    let server = Server::start(new.path(), &[]).await;
    for (place, id) in ids.iter().enumerate() {
        let (status, task) = read(&server.url, &format!("/v1/tasks/{id}?view=FULL")).await;
        assert_eq!(status, 200, "{id}");
        let state = if place == 7 { "cancelled" } else { "scheduled" };
        assert_eq!(task["state"], state, "{task}");
        let more = task["payload"]["more"].as_str().map(str::len);
        assert!(place == 7 || more == Some(5000), "{task}");
    }
}
