//! Registrations that come twice are one task for the client: by an id of its own, or by a mark of the request.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::http::{Method, Request};
use futures_util::future::join_all;
use serde_json::{Value, json};
use tickwheel::{
    doubles::store::faulty::Fate,
    limits::IDEMPOTENCY_KEPT,
    model::{client_id::START_PASSED_MAX, ids::TaskId, look_step::LookStep, time::Millis},
};

use super::{Answer, Site, request};
use crate::sim::world::published;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// An id for a task that starts then.
fn id_at(start: Millis, number: u64) -> TaskId {
    tickwheel::model::client_id::make(start, MINUTE, 1, number)
}

fn body_of(id: TaskId) -> Value {
    let at = tickwheel::model::time::rfc3339(id.first_start());
    json!({"callback": "work", "id": id.to_string(), "start_time": at})
}

fn marked(key: &str, body: &str) -> Request<axum::body::Body> {
    let mut request = request(Method::POST, "/v1/tasks", body.to_owned());
    let key = key.parse().expect("a header");
    request.headers_mut().insert("idempotency-key", key);
    request
}

/// Returns status, outcome and id of an answer.
fn told(answer: &Answer) -> (u16, String, String) {
    let body = answer.json();
    let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
    (answer.status.as_u16(), text("outcome"), text("id"))
}

#[tokio::test(start_paused = true)]
async fn the_same_id_of_a_client_is_one_task_wherever_the_task_stands() {
    for ahead in [10_u32, 0] {
        let site = Site::new();
        site.world.pass(5 * SECOND).await;
        let start = site.world.time.now().after(ahead * SECOND);
        let id = id_at(start, 77);
        let body = body_of(id).to_string();
        let first = told(&site.post("/v1/tasks", body.clone()).await);
        assert_eq!(first, (201, "created".to_owned(), id.to_string()));
        site.post("/v1/tasks", body.clone()).await;
        site.world.pass((ahead + 5) * SECOND).await;
        assert!(!published(&site.world, id).is_empty(), "{ahead}");
        // It waits for a worker: its look stands, and nothing is sent again.
        let before = published(&site.world, id).len();
        let again = told(&site.post("/v1/tasks", body.clone()).await);
        assert_eq!(again, (200, "existing".to_owned(), id.to_string()));
        site.world.pass(3 * SECOND).await;
        assert_eq!(published(&site.world, id).len(), before, "{ahead}");
        let cancel = site.post(&format!("/v1/tasks/{id}/cancel"), "").await.ok();
        assert_eq!(cancel["outcome"], "cancelled");
        let ended = site.post("/v1/tasks", body.clone()).await.ok();
        assert_eq!(ended["state"], "cancelled");
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_whose_retention_is_over_does_not_run_again() {
    let site = Site::slow();
    site.world.pass(5 * MINUTE).await;
    let id = id_at(site.world.time.now(), 77);
    let mut body = body_of(id);
    body["retention"] = json!("1s");
    site.post("/v1/tasks", body.to_string()).await;
    site.world.pass(SECOND).await;
    site.post(&format!("/v1/tasks/{id}/cancel"), "").await.ok();
    site.world.pass(60 * MINUTE).await;
    let before = published(&site.world, id).len();
    assert_eq!(site.get(&format!("/v1/tasks/{id}")).await.status, 404);
    let again = site.post("/v1/tasks", body.to_string()).await.ok();
    assert_eq!(
        (&again["state"], &again["outcome"]),
        (&json!("cancelled"), &json!("existing"))
    );
    site.world.pass(10 * MINUTE).await;
    assert_eq!(published(&site.world, id).len(), before);
}

#[tokio::test(start_paused = true)]
async fn a_late_first_request_with_an_id_starts_at_once() {
    let site = Site::new();
    site.world.pass(5 * SECOND).await;
    let start = site.world.time.now().before(60 * MINUTE);
    let id = id_at(start, 5);
    let answer = site.post("/v1/tasks", body_of(id).to_string()).await;
    assert_eq!(told(&answer).0, 201);
    site.world.pass(SECOND).await;
    assert_eq!(published(&site.world, id).len(), 1);
    let task = site.get(&format!("/v1/tasks/{id}")).await.ok();
    assert_eq!(task["state"], "enqueued");
}

#[tokio::test(start_paused = true)]
async fn an_id_that_cannot_name_its_task_is_refused_with_the_reason() {
    let site = Site::new();
    let now = site.world.time.now();
    let start = now.after(MINUTE);
    let good = id_at(start, 1);
    let of_other_wheel = tickwheel::model::client_id::make(start, MINUTE, 4096, 9 << 52);
    let old = id_at(now.before(START_PASSED_MAX + SECOND), 1);
    let mut cases = vec![
        (
            json!({"callback": "c", "id": "x"}),
            "not a UUID of version 8",
        ),
        (
            json!({"callback": "c", "id": "6e5c2f2a-5f0e-4b8e-9d6a-5a3e8f1b2c3d"}),
            "version 8",
        ),
        (
            json!({"callback": "c", "id": good.to_string()}),
            "needs `start_time`",
        ),
        (
            json!({"callback": "c", "id": good.to_string(), "delay": "60s"}),
            "needs `start_time`",
        ),
        (body_of(of_other_wheel), "wheels 0 to 0"),
        (body_of(old), "more than 6 days ago"),
    ];
    let mut other = body_of(good);
    other["start_time"] = json!("2030-01-01T00:00:00Z");
    cases.push((other, "`start_time` is 2030"));
    let mut slow = body_of(good);
    slow["claim_timeout"] = json!("10m");
    cases.push((slow, "shorter than the claim timeout"));
    for (body, says) in &cases {
        let problem = site.post("/v1/tasks", body.to_string()).await.problem();
        let got = (
            problem.status,
            problem.code.as_str(),
            problem.errors[0].pointer.as_str(),
        );
        assert_eq!(got, (422, "unusable_id", "/id"), "{body}");
        assert!(problem.detail.contains(says), "{}", problem.detail);
    }
    let tasks: Vec<Value> = cases
        .into_iter()
        .map(|(body, _)| body)
        .chain([body_of(good)])
        .collect();
    let batch = json!({"tasks": tasks}).to_string();
    let answer = site.post("/v1/tasks:batchCreate", batch).await.ok();
    let results = answer["results"].as_array().unwrap();
    assert!(
        results[..8]
            .iter()
            .all(|result| result["error"]["status"] == 422)
    );
    assert_eq!(results[8]["outcome"], "created");
    // A default gives way to the step of the id.
    let short = good.with_look_step(LookStep::MIN);
    let answer = site.post("/v1/tasks", body_of(short).to_string()).await;
    assert_eq!(answer.status, 201);
    let task = site.get(&format!("/v1/tasks/{short}?view=FULL")).await.ok();
    assert_eq!(task["claim_timeout"], "5s");
}

#[tokio::test(start_paused = true)]
async fn a_marked_request_is_one_task_however_often_and_at_once_it_comes() {
    let site = Site::new();
    site.world.pass(5 * SECOND).await;
    let body = r#"{"callback":"work","delay":"20s","payload":1}"#;
    let sent = (0..8).map(|_| site.send(marked("\"order-7\"", body)));
    let answers = join_all(sent).await;
    let statuses: Vec<u16> = answers
        .iter()
        .map(|answer| answer.status.as_u16())
        .collect();
    let created = statuses.iter().filter(|status| **status == 201).count();
    assert_eq!(created, 1, "{statuses:?}");
    assert!(statuses.iter().all(|status| matches!(status, 200 | 201)));
    let ids: BTreeSet<String> = answers.iter().map(|answer| told(answer).2).collect();
    assert_eq!(ids.len(), 1);
    let id: TaskId = ids.first().unwrap().parse().unwrap();
    // Quoted or not, it is the same key. The start does not move with the repetition.
    site.world.pass(10 * SECOND).await;
    let again = site.send(marked("order-7", body)).await;
    assert_eq!(told(&again), (200, "existing".to_owned(), id.to_string()));
    site.world.pass(15 * SECOND).await;
    assert_eq!(published(&site.world, id).len(), 1);
    let other = r#"{"callback":"work","delay":"20s","payload":2}"#;
    let problem = site.send(marked("order-7", other)).await.problem();
    assert_eq!(
        (problem.status, problem.code.as_str()),
        (422, "idempotency_key_reused")
    );
    let ended = site.post(&format!("/v1/tasks/{id}/cancel"), "").await;
    assert_eq!(ended.ok()["outcome"], "cancelled");
    let again = site.send(marked("order-7", body)).await.ok();
    assert_eq!(again["state"], "cancelled", "as it is now");
}

#[tokio::test(start_paused = true)]
#[ignore = "passes a day of virtual time: make test-all"]
async fn a_key_of_a_request_is_free_after_a_day() {
    let site = Site::slow();
    site.world.pass(5 * MINUTE).await;
    let body = |payload: u8| json!({"callback": "work", "payload": payload}).to_string();
    let first = told(&site.send(marked("order-7", &body(1))).await);
    site.world.pass(IDEMPOTENCY_KEPT - MINUTE).await;
    let again = told(&site.send(marked("order-7", &body(1))).await);
    assert_eq!((again.0, &again.2), (200, &first.2));
    site.world.pass(2 * MINUTE).await;
    let fresh = told(&site.send(marked("order-7", &body(2))).await);
    assert_eq!((fresh.0, fresh.1.as_str()), (201, "created"));
    assert_ne!(fresh.2, first.2);
}

#[tokio::test(start_paused = true)]
async fn items_of_a_batch_have_marks_of_their_own() {
    let site = Site::new();
    site.world.pass(5 * SECOND).await;
    let item = |payload: u8, key: &str| json!({"callback": "work", "delay": "1h", "payload": payload, "idempotency_key": key});
    let plain = json!({"callback": "work", "delay": "1h"});
    let body = json!({"tasks": [item(1, "a"), item(1, "a"), plain, item(2, "b"), item(3, "a")]});
    let mut seen = Vec::new();
    for _ in 0..2 {
        let answer = site
            .post("/v1/tasks:batchCreate", body.to_string())
            .await
            .ok();
        seen.push(answer["results"].as_array().unwrap().clone());
    }
    let outcomes = |results: &[Value]| -> Vec<String> {
        let code = |one: &Value| one["error"]["code"].as_str().map(str::to_owned);
        let outcome = |one: &Value| one["outcome"].as_str().unwrap().to_owned();
        results
            .iter()
            .map(|one| code(one).unwrap_or_else(|| outcome(one)))
            .collect()
    };
    let reused = "idempotency_key_reused";
    assert_eq!(
        outcomes(&seen[0]),
        ["created", "existing", "created", "created", reused]
    );
    assert_eq!(
        outcomes(&seen[1]),
        ["existing", "existing", "created", "existing", reused]
    );
    let id = |of: usize, at: usize| seen[of][at]["task"]["id"].as_str().unwrap().to_owned();
    assert!(id(0, 0) == id(0, 1) && id(0, 0) == id(1, 0) && id(0, 3) == id(1, 3));
    assert_ne!(id(0, 2), id(1, 2));
    let header = {
        let mut request = request(Method::POST, "/v1/tasks:batchCreate", body.to_string());
        let headers = request.headers_mut();
        headers.insert("idempotency-key", "k".parse().unwrap());
        request
    };
    assert_eq!(site.send(header).await.problem().code, "unsupported");
}

#[tokio::test]
async fn keys_of_requests_have_bounds() {
    let site = Site::new();
    let body = r#"{"callback":"work","delay":"1h"}"#;
    assert_eq!(site.send(marked(&"k".repeat(255), body)).await.status, 201);
    for key in ["", "\"\"", &"k".repeat(256)] {
        let problem = site.send(marked(key, body)).await.problem();
        assert_eq!(
            (problem.status, problem.code.as_str()),
            (400, "invalid_request")
        );
        assert!(problem.detail.contains("1 to 255"), "{}", problem.detail);
    }
    for key in ["", "\u{e9}", "a\nb"] {
        let body = json!({"callback": "work", "delay": "1h", "idempotency_key": key});
        let problem = site.post("/v1/tasks", body.to_string()).await.problem();
        assert_eq!(problem.errors[0].pointer, "/idempotency_key");
    }
    let both = r#"{"callback":"work","delay":"1h","idempotency_key":"a"}"#;
    let problem = site.send(marked("b", both)).await.problem();
    assert!(problem.detail.contains("differs from the header"));
    assert_eq!(site.send(marked("a", both)).await.status, 201);
}

#[tokio::test(start_paused = true)]
async fn clients_are_told_what_ids_are_made_of() {
    let site = Site::new();
    let facts = site.get("/v1/ids").await.ok();
    assert_eq!(facts["wheels"], 1);
    let time: tickwheel::api::text::InstantText =
        serde_json::from_value(facts["time"].clone()).unwrap();
    assert!(time.system_time().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_registration_without_an_answer_of_the_store_may_have_been_made_and_its_problem_says_so()
{
    let lost = Arc::new(AtomicBool::new(false));
    let is_lost = Arc::clone(&lost);
    let site = Site::with_fates(Arc::new(move |_, call| {
        let hit = call.operation == "put_entries" && is_lost.load(Ordering::SeqCst);
        if hit { Fate::LoseReply } else { Fate::Go }
    }));
    site.world.pass(5 * SECOND).await;
    let id = id_at(site.world.time.now().after(MINUTE), 77);
    let body = body_of(id).to_string();
    lost.store(true, Ordering::SeqCst);
    let problem = site.post("/v1/tasks", body.clone()).await.problem();
    assert_eq!((problem.status, &*problem.code), (503, "unavailable"));
    lost.store(false, Ordering::SeqCst);
    let made = site.get(&format!("/v1/tasks/{id}")).await.ok();
    assert_eq!(made["state"], "scheduled", "it was made all the same");
    let advice = site.get(&problem.kind).await.body;
    let advice = String::from_utf8_lossy(&advice).into_owned();
    for words in ["may have been made", "`Idempotency-Key` or `id`"] {
        assert!(advice.contains(words), "{advice}");
    }
    let again = site.post("/v1/tasks", body).await;
    assert_eq!(told(&again).2, id.to_string());
    site.world.pass(MINUTE + 5 * SECOND).await;
    assert_eq!(published(&site.world, id).len(), 1);
}
