//! Large results, and results that are not JSON, are kept with their tasks and read back as they were reported.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use tickwheel::{
    doubles::store::faulty::Fate,
    limits::{RESULT_BYTES_MAX, RESULT_INLINE_BYTES_MAX},
    model::ids::TaskId,
};

use super::Site;

const SECOND: Duration = Duration::from_secs(1);

/// Registers and claims a task; returns its id.
async fn running(site: &Site, body: &str) -> TaskId {
    let registered = site.post("/v1/tasks", body.to_owned()).await.json();
    let poll = json!({"worker": "w", "callbacks": ["work"], "wait": "60s"}).to_string();
    let polled = site.post("/v1/worker/poll", poll).await.ok();
    assert_eq!(polled["tasks"][0]["id"], registered["id"], "{polled}");
    registered["id"].as_str().unwrap().parse().unwrap()
}

/// Reports the first attempt of a task as done, with these fields; returns the answer to the report.
async fn settle(site: &Site, id: TaskId, fields: Value) -> Value {
    let mut item = json!({"id": id.to_string(), "attempt": 1, "outcome": "succeeded"});
    let into = item.as_object_mut().unwrap();
    into.extend(fields.as_object().unwrap().clone());
    let body = json!({"worker": "w", "tasks": [item]}).to_string();
    site.post("/v1/worker/settle", body).await.ok()["results"][0].clone()
}

async fn read(site: &Site, id: TaskId, query: &str) -> Value {
    site.get(&format!("/v1/tasks/{id}{query}")).await.ok()
}

fn text(bytes: usize) -> Value {
    // The quotes count as well.
    json!("x".repeat(bytes - 2))
}

#[tokio::test(start_paused = true)]
async fn results_up_to_the_limit_are_read_back_and_only_large_ones_lie_apart() {
    let site = Site::new();
    site.world.pass(3 * SECOND).await;
    for (bytes, bodies) in [
        (RESULT_INLINE_BYTES_MAX, 0),
        (RESULT_INLINE_BYTES_MAX + 1, 1),
        (RESULT_BYTES_MAX, 2),
    ] {
        let id = running(&site, r#"{"callback":"work"}"#).await;
        let report = json!({"result": text(bytes)});
        for _ in 0..2 {
            let answer = settle(&site, id, report.clone()).await;
            assert_eq!(answer, json!({"status": "ok"}), "{bytes}");
        }
        for query in ["", "?view=FULL", "?wait=5s"] {
            let task = read(&site, id, query).await;
            assert!(task["result"] == text(bytes), "{bytes}");
            assert_eq!(task.get("result_bytes"), None);
            assert_eq!(task.get("result_content_type"), None);
        }
        assert_eq!(site.world.store.body_ids().len(), bodies, "{bytes}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_result_of_any_media_type_is_read_back_as_base64() {
    let site = Site::new();
    site.world.pass(3 * SECOND).await;
    for bytes in [3, RESULT_BYTES_MAX] {
        let result = STANDARD.encode(vec![0xff_u8; bytes]);
        let id = running(&site, r#"{"callback":"work"}"#).await;
        let report = json!({"result_base64": result, "result_content_type": "image/png"});
        assert_eq!(settle(&site, id, report).await["status"], "ok");
        let task = read(&site, id, "").await;
        assert_eq!(task.get("result"), None);
        assert!(task["result_base64"] == result.as_str());
        assert_eq!(task["result_content_type"], "image/png");
    }
    let id = running(&site, r#"{"callback":"work"}"#).await;
    let json_bytes = STANDARD.encode("[1, 2]");
    let report =
        json!({"result_base64": json_bytes, "result_content_type": "application/problem+json"});
    assert_eq!(settle(&site, id, report).await["status"], "ok");
    assert_eq!(read(&site, id, "").await["result"], json!([1, 2]));
}

#[tokio::test(start_paused = true)]
async fn a_wrong_result_is_refused_by_its_field_and_the_task_can_still_be_settled() {
    let site = Site::new();
    site.world.pass(3 * SECOND).await;
    let id = running(&site, r#"{"callback":"work"}"#).await;
    let too_many = STANDARD.encode(vec![0; RESULT_BYTES_MAX + 1]);
    for (fields, pointer, says) in [
        (
            json!({"result": text(RESULT_BYTES_MAX + 1)}),
            "/result",
            "1048577 bytes long; the limit is 1048576",
        ),
        (
            json!({"result_base64": too_many}),
            "/result_base64",
            "1048577 bytes long; the limit is 1048576",
        ),
        (json!({"result_base64": "?"}), "/result_base64", "base64"),
        (
            json!({"result": 1, "result_base64": "AA=="}),
            "/result_base64",
            "exclude each other",
        ),
        (
            json!({"result": 1, "result_content_type": "text/plain"}),
            "/result_content_type",
            "as `result_base64`",
        ),
        (
            json!({"result_content_type": "text/plain"}),
            "/result_content_type",
            "there is no result",
        ),
        (
            json!({"result_base64": "AA==", "outcome": "failed", "error": "no"}),
            "/result_base64",
            "only `succeeded`",
        ),
    ] {
        let answer = settle(&site, id, fields).await;
        assert_eq!(answer["status"], "error", "{pointer}");
        let error = &answer["error"]["errors"][0];
        assert_eq!(error["pointer"], pointer);
        assert!(error["detail"].as_str().unwrap().contains(says), "{error}");
    }
    assert_eq!(
        settle(&site, id, json!({"result": 1})).await["status"],
        "ok"
    );
    assert_eq!(read(&site, id, "").await["result"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_list_says_how_large_a_result_is() {
    let site = Site::new();
    site.world.pass(3 * SECOND).await;
    let id = running(&site, r#"{"callback":"work"}"#).await;
    let report = json!({"result_base64": STANDARD.encode(vec![1; 20_000])});
    settle(&site, id, report).await;
    let listed = site.get("/v1/tasks").await.ok()["tasks"][0].clone();
    assert_eq!(listed["id"], id.to_string());
    assert_eq!(listed["result_bytes"], 20_000);
    assert_eq!(listed["result_content_type"], "application/octet-stream");
    assert_eq!(listed.get("result_base64"), None);
}

#[tokio::test(start_paused = true)]
async fn a_result_that_cannot_be_stored_is_reported_again() {
    for fate in [Fate::Fail, Fate::LoseReply] {
        let away = Arc::new(AtomicBool::new(true));
        let on = Arc::clone(&away);
        let site = Site::with_fates(Arc::new(move |_, call| {
            let fails = call.operation == "put_bodies" && on.load(Ordering::SeqCst);
            if fails { fate } else { Fate::Go }
        }));
        site.world.pass(3 * SECOND).await;
        let id = running(&site, r#"{"callback":"work"}"#).await;
        let report = json!({"result": text(100_000)});
        let answer = settle(&site, id, report.clone()).await;
        assert_eq!(answer["status"], "error");
        assert_eq!(answer["error"]["retryable"], true, "{answer}");
        assert_eq!(read(&site, id, "").await["state"], "claimed");
        away.store(false, Ordering::SeqCst);
        assert_eq!(settle(&site, id, report).await["status"], "ok");
        assert!(read(&site, id, "").await["result"] == text(100_000));
    }
}

#[tokio::test(start_paused = true)]
async fn a_result_lives_as_long_as_its_task_can_be_read_and_a_late_report_leaves_none() {
    let site = Site::slow();
    site.world.pass(180 * SECOND).await;
    let id = running(&site, r#"{"callback":"work","retention":"2h"}"#).await;
    let report = json!({"result": text(100_000)});
    assert_eq!(settle(&site, id, report.clone()).await["status"], "ok");
    site.world.pass(7190 * SECOND).await;
    assert!(read(&site, id, "").await["result"] == text(100_000));
    site.world.pass(2 * 3600 * SECOND).await;
    assert_eq!(site.get(&format!("/v1/tasks/{id}")).await.status, 404);
    assert!(site.world.store.body_ids().is_empty());
    assert_eq!(settle(&site, id, report.clone()).await["status"], "ok");
    let failed = running(&site, r#"{"callback":"work"}"#).await;
    settle(&site, failed, json!({"outcome": "failed", "error": "no"})).await;
    assert_eq!(settle(&site, failed, report).await["status"], "lost");
    assert!(site.world.store.body_ids().is_empty());
}
