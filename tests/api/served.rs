//! The API serves tasks to their requester, from registration to their end.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::http::Method;
use serde_json::json;
use tickwheel::{doubles::store::faulty::Fate, model::state::Outcome};

use super::{Site, request, task_id};
use crate::sim::world::succeeds;

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_registered_task_reads_as_it_was_registered() {
    let site = Site::new();
    site.world.pass(3 * SECOND).await;
    let answer = site
        .post(
            "/v1/tasks",
            r#"{"callback":"work","delay":"1h","payload":{"n": 12345678901234567890123},
            "labels":{"tenant":"acme"},"priority":"high","collection":"c1"}"#,
        )
        .await;
    assert_eq!(answer.status, 201);
    let task = answer.json();
    let path = format!("/v1/tasks/{}", task["id"].as_str().unwrap());
    assert_eq!(answer.header("location"), path);
    assert_eq!(answer.header("etag"), "\"0-0-scheduled\"");
    assert_eq!(task["state"], "scheduled");
    assert_eq!(task["target"], json!({"type": "callback", "name": "work"}));
    assert_eq!(task["start_time"], "2027-01-15T09:00:03.437Z");
    assert!(
        task.get("payload").is_none(),
        "the answer to a registration is BASIC"
    );

    let basic = site.get(&path).await;
    let mut read = basic.ok();
    read["outcome"] = json!("created");
    assert_eq!(read, task);
    let tag = basic.header("etag").to_owned();
    assert!(tag.starts_with("\"0-0-scheduled."), "{tag}");
    let full = site.get(&format!("{path}?view=FULL")).await;
    let text = String::from_utf8(full.body.to_vec()).unwrap();
    assert!(
        text.contains(r#""payload":{"n": 12345678901234567890123}"#),
        "{text}"
    );

    let mut again = request(Method::GET, &path, "");
    again
        .headers_mut()
        .insert("if-none-match", tag.parse().unwrap());
    let again = site.send(again).await;
    assert_eq!((again.status.as_u16(), again.body.len()), (304, 0));
    assert_eq!(again.header("etag"), tag);
    let mut other_view = request(Method::GET, &format!("{path}?view=FULL"), "");
    let headers = other_view.headers_mut();
    headers.insert("if-none-match", tag.parse().unwrap());
    let other_view = site.send(other_view).await;
    assert_eq!(other_view.status, 200, "it has not been seen");
    assert_ne!(other_view.header("etag"), tag);
}

#[tokio::test(start_paused = true)]
async fn a_start_that_has_passed_reads_as_it_was_asked_for() {
    let site = Site::new();
    site.world.pass(3 * SECOND).await;
    let (asked, now) = ("2027-01-15T07:00:00.000Z", "2027-01-15T08:00:03.437Z");
    let starts = |task: &serde_json::Value| {
        let start = |name: &str| task[name].as_str().unwrap().to_owned();
        (start("start_time"), start("effective_start_time"))
    };
    let expected = (asked.to_owned(), now.to_owned());
    let body = r#"{"callback":"work","start_time":"2027-01-15T08:00:00+01:00","max_attempts":1}"#;
    let answer = site.post("/v1/tasks", body).await;
    let path = answer.header("location").to_owned();
    assert_eq!(starts(&answer.json()), expected);
    assert_eq!(starts(&site.get(&path).await.ok()), expected);
    let listed = site.get("/v1/tasks").await.ok()["tasks"][0].clone();
    assert_eq!(starts(&listed), expected);
    // The row has the start time as well.
    let retry = Outcome::Retry {
        error: "no".to_owned(),
        after: None,
    };
    let behaviour = Arc::new(move |_, _| (SECOND, Some(retry.clone())));
    let worker = site.world.worker(site.node.service(), behaviour);
    let dead = site.get(&format!("{path}?wait=30s")).await.ok();
    assert_eq!((&dead["state"], starts(&dead)), (&json!("dead"), expected));
    let again = site.post(&format!("{path}/run"), "").await.ok()["task"].clone();
    assert_eq!(again["start_time"], again["effective_start_time"]);
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn a_large_payload_comes_back_whole() {
    let site = Site::new();
    site.world.pass(3 * SECOND).await;
    let payload = "x".repeat(900_000);
    let body = format!(r#"{{"callback":"work","delay":"1h","payload":"{payload}"}}"#);
    let id = site.post("/v1/tasks", body).await.json()["id"].clone();
    let path = format!("/v1/tasks/{}?view=FULL", id.as_str().unwrap());
    assert_eq!(site.get(&path).await.ok()["payload"], payload);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_task_is_not_found_by_any_call() {
    let site = Site::new();
    site.world.pass(3 * SECOND).await;
    let path = format!("/v1/tasks/{}", task_id());
    assert_eq!(site.get(&path).await.problem().code, "task_not_found");
    for verb in ["cancel", "run", "reschedule"] {
        let answer = site.post(&format!("{path}/{verb}"), body_of(verb)).await;
        assert_eq!(answer.problem().status, 404, "{verb}");
    }
}

fn body_of(verb: &str) -> &'static str {
    if verb == "reschedule" {
        r#"{"delay":"1s"}"#
    } else {
        ""
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_registers_the_good_and_names_the_bad() {
    let site = Site::new();
    site.world.pass(3 * SECOND).await;
    let body = r#"{"tasks":[{"callback":"work","delay":"1h"},{"callback":"work","delay":"x"},
        {"kafka":{"topic":"users","key":"k","headers":{"a":"b"}},"payload":1,"delay":"2h"}]}"#;
    let results = site.post("/v1/tasks:batchCreate", body).await.ok()["results"].clone();
    assert_eq!(results[0]["task"]["state"], "scheduled");
    assert_eq!(results[1]["error"]["errors"][0]["pointer"], "/delay");
    assert_eq!(results[2]["task"]["target"]["topic"], "users");
    assert_eq!(results.as_array().unwrap().len(), 3);
    let path = format!(
        "/v1/tasks/{}?view=FULL",
        results[2]["task"]["id"].as_str().unwrap()
    );
    let target = site.get(&path).await.ok()["target"].clone();
    assert_eq!(
        target,
        json!({"type": "kafka", "topic": "users", "key": "k", "headers": [{"name": "a", "value": "b"}]})
    );
}

#[tokio::test(start_paused = true)]
async fn a_cancel_says_who_won() {
    let site = Site::new();
    site.world.pass(3 * SECOND).await;
    let body = r#"{"callback":"work","delay":"1h"}"#;
    let id = site.post("/v1/tasks", body).await.json()["id"].clone();
    let path = format!("/v1/tasks/{}/cancel", id.as_str().unwrap());
    let answer = site.post(&path, "").await.ok();
    assert_eq!(answer["outcome"], "cancelled");
    assert_eq!(answer["task"]["state"], "cancelled");
    assert_eq!(
        site.post(&path, "{}").await.ok()["outcome"],
        "already_cancelled"
    );
    let path = format!("/v1/tasks/{}/run", id.as_str().unwrap());
    assert_eq!(site.post(&path, "").await.ok()["outcome"], "too_late");
}

#[tokio::test(start_paused = true)]
async fn a_reschedule_heeds_its_precondition() {
    let site = Site::new();
    site.world.pass(3 * SECOND).await;
    let body = r#"{"callback":"work","delay":"1h"}"#;
    let registered = site.post("/v1/tasks", body).await;
    let path = format!("{}/reschedule", registered.header("location"));
    let with = |tag: &str| {
        let mut request = request(Method::POST, &path, r#"{"delay":"2h"}"#);
        request
            .headers_mut()
            .insert("if-match", tag.parse().unwrap());
        request
    };
    let answer = site.send(with("\"7-0-scheduled\"")).await;
    assert_eq!(answer.problem().code, "precondition_failed");
    assert!(answer.problem().detail.contains("\"0-0-scheduled\""));

    // The ETag of a read is as good as the ETag of the registration.
    let read = site.get(registered.header("location")).await;
    let answer = site.send(with(read.header("etag"))).await;
    assert_eq!(answer.ok()["outcome"], "rescheduled");
    assert_eq!(
        answer.ok()["task"]["start_time"],
        "2027-01-15T10:00:03.437Z"
    );
    assert_eq!(answer.ok()["task"]["generation"], 1);
    assert_eq!(answer.header("etag"), "\"1-0-scheduled\"");
    assert_eq!(
        site.send(with(registered.header("etag")))
            .await
            .problem()
            .status,
        412
    );
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_run_now_ends_while_its_reader_waits() {
    let site = Site::new();
    let worker = site.world.worker(site.node.service(), succeeds(2 * SECOND));
    site.world.pass(3 * SECOND).await;
    let body = r#"{"callback":"work","delay":"1h"}"#;
    let path = site
        .post("/v1/tasks", body)
        .await
        .header("location")
        .to_owned();
    let waited = site.get(&format!("{path}?wait=2s")).await.ok();
    assert_eq!(
        waited["state"], "scheduled",
        "the wait is over, the task is not"
    );

    assert_eq!(
        site.post(&format!("{path}/run"), "").await.ok()["outcome"],
        "rescheduled"
    );
    let ended = site.get(&format!("{path}?wait=30s")).await;
    assert_eq!(ended.ok()["state"], "succeeded");
    assert_eq!(ended.ok()["attempt"], 1);
    let tag = ended.header("etag");
    assert!(tag.starts_with("\"1-1-succeeded."), "{tag}");
    assert_eq!(
        site.post(&format!("{path}/cancel"), "").await.ok()["outcome"],
        "too_late"
    );
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn a_dead_task_that_is_told_to_run_runs_again_and_others_are_too_late() {
    let site = Site::new();
    let outcome = |attempt| match attempt {
        1 => Outcome::Retry {
            error: "no".to_owned(),
            after: None,
        },
        _ => Outcome::Failed {
            error: "never".to_owned(),
        },
    };
    let behaviour = Arc::new(move |_, attempt| (SECOND, Some(outcome(attempt))));
    let worker = site.world.worker(site.node.service(), behaviour);
    site.world.pass(3 * SECOND).await;
    let body = r#"{"callback":"work","max_attempts":1}"#;
    let registered = site.post("/v1/tasks", body).await;
    let path = registered.header("location").to_owned();
    let run = format!("{path}/run");
    let dead = site.get(&format!("{path}?wait=30s")).await;
    assert_eq!(dead.ok()["state"], "dead");

    let with = |tag: &str| {
        let mut request = request(Method::POST, &run, "");
        request
            .headers_mut()
            .insert("if-match", tag.parse().unwrap());
        request
    };
    let stale = site.send(with(registered.header("etag"))).await;
    assert_eq!(stale.problem().code, "precondition_failed");
    let moved = site
        .post(&format!("{path}/reschedule"), r#"{"delay":"1s"}"#)
        .await
        .ok();
    assert_eq!(
        (&moved["outcome"], &moved["reason"]),
        (&json!("too_late"), &json!("it has ended: it is dead"))
    );
    let again = site.send(with(dead.header("etag"))).await;
    assert_eq!(again.ok()["outcome"], "rescheduled");
    assert_eq!(again.ok()["task"]["state"], "enqueued");
    assert_eq!(again.ok()["task"]["generation"], 1);
    let ended = site.get(&format!("{path}?wait=30s")).await.ok();
    assert_eq!(
        (&ended["state"], &ended["attempt"]),
        (&json!("failed"), &json!(2))
    );
    let late = site.post(&run, "").await.ok();
    assert_eq!(
        (&late["outcome"], &late["reason"]),
        (&json!("too_late"), &json!("it has ended: it is failed"))
    );
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn a_node_that_stops_keeps_no_reader_waiting() {
    let site = Site::new();
    site.world.pass(3 * SECOND).await;
    let body = r#"{"callback":"work","delay":"1h"}"#;
    let path = site
        .post("/v1/tasks", body)
        .await
        .header("location")
        .to_owned();
    site.shutdown.cancel();
    let begun = site.world.time.now();
    let answer = site.get(&format!("{path}?wait=60s")).await;
    assert_eq!(answer.ok()["state"], "scheduled");
    assert!(site.world.time.now().since(begun) < SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_is_a_503_with_a_time_to_come_back() {
    // A node that could never read the keys of the API refuses every call as a whole; this one could.
    let away = Arc::new(AtomicBool::new(false));
    let fails = Arc::clone(&away);
    let site = Site::with_fates(Arc::new(move |_, _| {
        if fails.load(Ordering::SeqCst) {
            Fate::Fail
        } else {
            Fate::Go
        }
    }));
    site.world.pass(3 * SECOND).await;
    away.store(true, Ordering::SeqCst);
    let answer = site
        .post("/v1/tasks", r#"{"callback":"work","delay":"1h"}"#)
        .await;
    let problem = answer.problem();
    assert_eq!(
        (problem.code.as_str(), problem.retryable),
        ("unavailable", true)
    );
    assert!(answer.header("retry-after").parse::<u64>().unwrap() >= 1);
    let results = site
        .post(
            "/v1/tasks:batchCreate",
            r#"{"tasks":[{"callback":"work"}]}"#,
        )
        .await;
    assert_eq!(results.ok()["results"][0]["error"]["code"], "unavailable");
    let ready = site.get("/readyz").await;
    assert_eq!(
        (ready.status.as_u16(), ready.header("retry-after")),
        (503, "1")
    );
    assert_eq!(
        site.get("/livez").await.status,
        200,
        "liveness looks at nothing"
    );
}

#[tokio::test(start_paused = true)]
async fn readiness_lists_its_conditions_when_asked() {
    let site = Site::new();
    assert_eq!(site.get("/startupz").await.status, 503);
    site.world.pass(5 * SECOND).await;
    assert_eq!(&site.get("/readyz").await.body[..], b"ok\n");
    let verbose = site.get("/readyz?verbose").await.ok();
    assert_eq!(verbose["ready"], true);
    assert!(!verbose["checks"].as_array().unwrap().is_empty());
    assert_eq!(site.get("/startupz").await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn requests_are_counted_by_route() {
    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    let _recording = metrics::set_default_local_recorder(&recorder);
    let site = Site::new();
    site.get(&format!("/v1/tasks/{}", task_id())).await;
    site.get("/nowhere/at/all").await;
    let text = handle.render();
    for line in [
        r#"tickwheel_http_requests_total{route="/v1/tasks/{id}",method="GET",status="404"} 1"#,
        r#"tickwheel_http_requests_total{route="unmatched",method="GET",status="404"} 1"#,
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
}
