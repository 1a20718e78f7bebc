//! The commands for dead letters show, redrive and delete tasks that died at a node in this process.

use serde_json::{Value, json};
use tickwheel::time_source::TimeSource;

use super::{SECOND, Site, err, json_lines, out, run};

/// Registers a task and lets its only attempt fail, by the calls of a worker.
async fn dead(site: &Site, error: &str) -> String {
    let task = json!({"callback": "work", "max_attempts": 1, "labels": {"secret": "s"}});
    let post = async |path: &str, body: Value| -> Value {
        let url = format!("{}{path}", site.url);
        let sent = reqwest::Client::new().post(url).json(&body).send().await;
        sent.unwrap().json().await.unwrap()
    };
    let id = post("/v1/tasks", task).await["id"].clone();
    let message = json!({"id": id, "generation": 0, "expected_attempt": 0});
    let claim = json!({"worker": "w", "messages": [message]});
    for _ in 0..100 {
        let claimed = post("/v1/worker/claim", claim.clone()).await;
        if claimed["results"][0]["status"] == "claimed" {
            break;
        }
        TimeSource::real().sleep(SECOND / 10).await;
    }
    let report = json!({"id": id, "attempt": 1, "outcome": "retry", "error": error});
    let settled = post(
        "/v1/worker/settle",
        json!({"worker": "w", "tasks": [report]}),
    )
    .await;
    assert_eq!(settled["results"][0]["status"], "ok", "{settled}");
    id.as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_are_listed_counted_redriven_and_deleted() {
    let site = Site::start().await;
    let command = async |words: &[&str]| {
        let words = [&["dead-letter"], words].concat();
        run(&site.url, &words, "").await
    };
    let older = dead(&site, "no answer after 500 ms").await;
    let newer = dead(&site, "no answer after 70 ms").await;
    let table = command(&["list"]).await;
    let lines: Vec<String> = out(&table).lines().map(str::to_owned).collect();
    assert!(lines[0].starts_with("ID"), "{lines:?}");
    assert!(
        lines[1].starts_with(&newer) && lines[2].starts_with(&older),
        "{lines:?}"
    );
    assert!(lines[1].ends_with("no answer after # ms"), "{lines:?}");
    let listed = json_lines(&out(
        &command(&["list", "-o", "jsonl", "--limit", "1"]).await
    ));
    assert_eq!((listed.len(), &listed[0]["id"]), (1, &json!(newer)));
    let groups = json_lines(&out(&command(&["groups", "-o", "jsonl"]).await));
    assert_eq!((&groups[0]["tasks"], groups.len()), (&json!(2), 1));
    let class = groups[0]["error"].as_str().unwrap();
    let both = [older.as_str(), &newer];
    let shown = command(&["redrive", both[0], both[1], "--dry-run"]).await;
    let dry = command(&["redrive", "--error", class, "--dry-run"]).await;
    for told in [out(&shown), out(&dry)] {
        assert!(
            told.contains("would redrive 2; nothing was changed"),
            "{told}"
        );
        assert!(both.iter().all(|id| told.contains(id)), "{told}");
    }
    let first = command(&["redrive", &older]).await;
    assert_eq!(out(&first).trim(), "redriven 1, not dead 0, failed 0");
    let second = command(&["redrive", &older]).await;
    assert_eq!(second.status.code(), Some(5), "{}", err(&second));
    assert!(err(&second).contains("not dead: it is"), "{}", err(&second));
    let kept = command(&["delete", &newer, "--dry-run"]).await;
    assert!(out(&kept).contains("would be deleted"), "{}", out(&kept));
    let deleted = command(&["delete", &newer]).await;
    assert!(out(&deleted).contains("deleted"), "{}", err(&deleted));
    let gone = command(&["delete", &newer]).await;
    assert_eq!(gone.status.code(), Some(3), "{}", err(&gone));
    let rest = command(&["redrive", "--callback", "work", "-o", "json"]).await;
    let rest: Value = serde_json::from_str(&out(&rest)).unwrap();
    let counts = ["state", "done", "failed"].map(|name| &rest[name]);
    assert_eq!(counts, [&json!("completed"), &json!(0), &json!(0)]);
    let last = dead(&site, "no answer after 9 ms").await;
    let paced = ["redrive", "--callback", "work", "--rate", "50"];
    let told = out(&command(&paced).await);
    assert!(told.contains("completed: 1 done"), "{told}");
    let twice = command(&["redrive", &last, "--rate", "5"]).await;
    assert_eq!(twice.status.code(), Some(2), "a rate is for a filter");
    assert_eq!(out(&command(&["list", "-o", "json"]).await).trim(), "[]");
    assert_eq!(command(&["redrive"]).await.status.code(), Some(2));
}
