//! API keys say who may do what.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::http::{Method, header};
use serde_json::{Value, json};
use tickwheel::{
    doubles::store::faulty::Fate,
    http::{Options, router},
};
use tokio_util::sync::CancellationToken;

use super::{Answer, Site, request, task_id};

pub(super) const SECOND: Duration = Duration::from_secs(1);

/// The roles that may make each call, by its id in the description; written down once more, independently of the service. A
/// letter each: viewer, producer, worker, operator, admin; `*` is everybody, also without a key.
const ALLOWED: &[(&str, &str)] = &[
    ("livez readyz startupz", "*"),
    ("metrics getStats getCluster getForecast", "voa"),
    ("whoAmI getIds", "vpwoa"),
    (
        "listTasks getTask getTree explainTask listCallbacks getCallback watchTask watchCallback \
         listMessages",
        "vpoa",
    ),
    ("createTask batchCreateTasks batchCancelTasks", "poa"),
    ("cancelTask rescheduleTask runTask redeliverTask", "poa"),
    ("retryFailed reopenTask completeChildren", "poa"),
    ("cancelTaskByKey rescheduleTaskByKey runTaskByKey", "poa"),
    ("setCallback deleteCallback setGate", "oa"),
    ("listDeadLetters groupDeadLetters listJobs getJob", "voa"),
    ("redriveDeadLetters deleteDeadLetter", "oa"),
    ("createJob pauseJob resumeJob cancelJob", "oa"),
    ("listSchedules getSchedule listScheduleRuns", "voa"),
    ("previewSchedule checkSchedule explainSchedule", "voa"),
    ("setSchedule deleteSchedule pauseSchedule", "oa"),
    // An export holds payloads, which this viewer does not see.
    ("exportSchedules importSchedules", "oa"),
    ("resumeSchedule triggerSchedule backfillSchedule", "oa"),
    ("poll leave subscribe claim heartbeat settle reopen", "wa"),
    ("createApiKey listApiKeys revokeApiKey listAudit", "a"),
    ("createBackup exportConfiguration importConfiguration", "a"),
    ("getTestClock advanceTestClock setTestClock", "a"),
];

const ROLES: [&str; 5] = ["viewer", "producer", "worker", "operator", "admin"];

impl Site {
    /// Makes a call with a key.
    pub(super) async fn by(&self, key: &str, method: Method, path: &str, body: &Value) -> Answer {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let mut request = request(method, path, body);
        let value = format!("Bearer {key}").parse().unwrap();
        request.headers_mut().insert(header::AUTHORIZATION, value);
        self.send(request).await
    }

    pub(super) async fn post_by(&self, key: &str, path: &str, body: Value) -> Answer {
        self.by(key, Method::POST, path, &body).await
    }

    pub(super) async fn get_by(&self, key: &str, path: &str) -> Answer {
        self.by(key, Method::GET, path, &Value::Null).await
    }

    /// Makes a key; returns its id and the key.
    pub(super) async fn key(&self, admin: &str, wish: Value) -> (String, String) {
        let made = self.post_by(admin, "/v1/api-keys", wish).await;
        assert_eq!(made.status, 201, "{:?}", made.body);
        let made = made.json();
        let text = |name: &str| made[name].as_str().unwrap().to_owned();
        (text("id"), text("key"))
    }
}

/// A node with a key of an admin.
pub(super) async fn closed() -> (Site, String) {
    let site = Site::new();
    site.world.pass(3 * SECOND).await;
    let wish = json!({"name": "root", "role": "admin"}).to_string();
    let made = site.post("/v1/api-keys", wish).await;
    assert_eq!(made.status, 201, "{:?}", made.body);
    let key = made.json()["key"].as_str().unwrap().to_owned();
    (site, key)
}

pub(super) fn code(answer: &Answer) -> (u16, String) {
    let problem = answer.problem();
    (answer.status.as_u16(), problem.code)
}

#[tokio::test(start_paused = true)]
async fn a_service_is_open_until_its_first_key_which_must_be_of_an_admin() {
    let site = Site::new();
    site.world.pass(3 * SECOND).await;
    let who = site.get("/v1/whoami").await.ok();
    assert_eq!(
        (&who["keys_required"], &who["name"]),
        (&json!(false), &json!("anonymous"))
    );
    let viewer = json!({"name": "v", "role": "viewer"}).to_string();
    let refused = site.post("/v1/api-keys", viewer).await;
    assert_eq!(code(&refused), (409, "admin_key_needed".to_owned()));
    site.get("/v1/tasks").await.ok();

    let admin = json!({"name": "root", "role": "admin"}).to_string();
    let made = site.post("/v1/api-keys", admin).await;
    assert_eq!(
        (made.status.as_u16(), made.header("cache-control")),
        (201, "no-store")
    );
    let key = made.json()["key"].as_str().unwrap().to_owned();
    let id = made.json()["id"].as_str().unwrap().to_owned();
    assert!(
        key.starts_with(&format!("twk_{id}_")) && key.len() == 4 + 16 + 1 + 64,
        "{key}"
    );

    let refused = site.get("/v1/tasks").await;
    assert_eq!(code(&refused), (401, "key_required".to_owned()));
    assert_eq!(
        refused.header("www-authenticate"),
        "Bearer realm=\"Tickwheel\""
    );
    let page = site.get("/").await;
    assert_eq!(
        (page.status.as_u16(), page.header("location")),
        (303, "/sign-in")
    );
    let who = site.get_by(&key, "/v1/whoami").await.ok();
    assert_eq!((&who["id"], &who["role"]), (&json!(id), &json!("admin")));
    let listed = site.get_by(&key, "/v1/api-keys").await;
    assert!(
        !String::from_utf8_lossy(&listed.body).contains(&key[21..]),
        "the secret is not kept"
    );
    assert_eq!(listed.ok()["api_keys"][0]["name"], "root");

    // The last admin stays as long as there are other keys.
    let (viewer, _) = site.key(&key, json!({"name": "v", "role": "viewer"})).await;
    let path = format!("/v1/api-keys/{id}");
    let refused = site.by(&key, Method::DELETE, &path, &Value::Null).await;
    assert_eq!(code(&refused), (409, "admin_key_needed".to_owned()));
    let viewer = format!("/v1/api-keys/{viewer}");
    let gone = site.by(&key, Method::DELETE, &viewer, &Value::Null).await;
    assert_eq!(gone.status, 204);
    let gone = site.by(&key, Method::DELETE, &viewer, &Value::Null).await;
    assert_eq!(code(&gone), (404, "api_key_not_found".to_owned()));
}

/// Every call of the description: its id, its method and its path.
pub(super) fn calls() -> Vec<(String, Method, String)> {
    let text = tickwheel::http::document();
    let document: Value = serde_json::from_str(&text).unwrap();
    let mut calls = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, call) in item.as_object().unwrap() {
            let method = method.to_uppercase().parse().unwrap();
            let path = path.replace("{id}", &task_id()).replace("{name}", "x");
            let id = call["operationId"].as_str().unwrap().to_owned();
            calls.push((id, method, path));
        }
    }
    calls
}

#[tokio::test(start_paused = true)]
async fn each_call_asks_for_its_roles_and_for_a_key_that_holds() {
    let (site, root) = closed().await;
    let mut keys = BTreeMap::new();
    for role in ROLES {
        let wish = json!({"name": role, "role": role});
        keys.insert(role, site.key(&root, wish).await.1);
    }
    let (id, revoked) = site.key(&root, json!({"name": "r", "role": "admin"})).await;
    let path = format!("/v1/api-keys/{id}");
    let gone = site.by(&root, Method::DELETE, &path, &Value::Null).await;
    assert_eq!(gone.status, 204);
    let forged = format!("{}{}", &root[..21], "0".repeat(64));
    let bad = ["twk_1_2", &forged, &revoked, &root[4..]];

    let allowed = |id: &str| {
        let known = ALLOWED
            .iter()
            .find(|(ids, _)| ids.split(' ').any(|one| one == id));
        known.unwrap_or_else(|| panic!("{id} is not in the list")).1
    };
    let body = json!({});
    for (id, method, path) in calls() {
        let allowed = allowed(&id);
        let without = site.send(request(method.clone(), &path, "{}")).await;
        if allowed == "*" {
            assert!(without.status != 401 && without.status != 403, "{id}");
            continue;
        }
        assert_eq!(code(&without), (401, "key_required".to_owned()), "{id}");
        for key in bad {
            let answer = site.by(key, method.clone(), &path, &body).await;
            assert_eq!(code(&answer), (401, "key_invalid".to_owned()), "{id} {key}");
        }
        for (role, key) in &keys {
            let answer = site.by(key, method.clone(), &path, &body).await;
            let may = allowed.contains(&role[..1]);
            let is_refused = matches!(answer.status.as_u16(), 401 | 403);
            assert_eq!(may, !is_refused, "{role} {id}: {:?}", answer.body);
            if !may {
                assert_eq!(
                    code(&answer),
                    (403, "access_denied".to_owned()),
                    "{role} {id}"
                );
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_limited_key_reaches_only_the_tasks_of_its_callbacks() {
    let (site, root) = closed().await;
    let limited = |role: &str| json!({"name": role, "role": role, "callbacks": ["mail"]});
    let (_, producer) = site.key(&root, limited("producer")).await;
    let (_, worker) = site.key(&root, limited("worker")).await;
    let (_, operator) = site.key(&root, limited("operator")).await;
    let denied = (403, "access_denied".to_owned());

    let task = |callback: &str| json!({"callback": callback, "key": "k", "delay": "1h"});
    let own = site.post_by(&producer, "/v1/tasks", task("mail")).await;
    assert_eq!(own.status, 201, "{:?}", own.body);
    let own = own.json()["id"].as_str().unwrap().to_owned();
    let foreign = site.post_by(&root, "/v1/tasks", task("other")).await;
    let foreign = foreign.json()["id"].as_str().unwrap().to_owned();
    for target in [
        json!({"callback": "other"}),
        json!({"callback": {"name": "other"}}),
        json!({"kafka": {"topic": "t"}}),
        json!({"http": {"url": "http://example.com"}}),
        json!({"callback": "mail", "notify": {"kafka": {"topic": "t"}}}),
    ] {
        let answer = site.post_by(&producer, "/v1/tasks", target.clone()).await;
        assert_eq!(code(&answer), denied, "{target}");
    }
    let batch = json!({"tasks": [task("other"), {"callback": "mail"}]});
    let batch = site
        .post_by(&producer, "/v1/tasks:batchCreate", batch)
        .await
        .ok();
    assert_eq!(batch["results"][0]["error"]["code"], "access_denied");
    assert!(batch["results"][1]["task"].is_object(), "{batch}");

    // The id of a task of another callback, with its start: the registration would write it anew.
    let start = site
        .get_by(&root, &format!("/v1/tasks/{foreign}"))
        .await
        .ok();
    let start = start["start_time"].clone();
    let taken = json!({"callback": "mail", "id": foreign, "start_time": start, "payload": "mine"});
    let answer = site.post_by(&producer, "/v1/tasks", taken.clone()).await;
    assert_eq!(code(&answer), denied);
    let batch = json!({"tasks": [{"callback": "mail"}, taken]});
    let answer = site
        .post_by(&producer, "/v1/tasks:batchCreate", batch)
        .await;
    assert_eq!(code(&answer), denied);
    let kept = site
        .get_by(&root, &format!("/v1/tasks/{foreign}"))
        .await
        .ok();
    assert_eq!(kept["target"]["name"], "other", "{kept}");

    for verb in ["cancel", "run"] {
        let path = |id: &str| format!("/v1/tasks/{id}/{verb}");
        let answer = site.post_by(&producer, &path(&foreign), Value::Null).await;
        assert_eq!(code(&answer), denied, "{verb}");
        let by_key = json!({"callback": "other", "key": "k"});
        let answer = site
            .post_by(&producer, &format!("/v1/tasks:{verb}"), by_key)
            .await;
        assert_eq!(code(&answer), denied, "{verb} by key");
    }
    let ids = json!({"ids": [own, foreign]});
    let answer = site.post_by(&producer, "/v1/tasks:batchCancel", ids).await;
    assert_eq!(code(&answer), denied);
    for (path, may) in [
        (format!("/v1/tasks/{own}"), true),
        (format!("/v1/tasks/{foreign}"), false),
        ("/v1/tasks?callback=mail".to_owned(), true),
        ("/v1/tasks?callback=other".to_owned(), false),
        ("/v1/tasks?callback=mail&callback=other".to_owned(), false),
        ("/v1/tasks".to_owned(), false),
        ("/v1/callbacks/other".to_owned(), false),
    ] {
        let answer = site.get_by(&producer, &path).await;
        assert_eq!(answer.status == 200, may, "{path}: {:?}", answer.body);
        if !may {
            assert_eq!(code(&answer), denied, "{path}");
        }
    }

    for callback in ["mail", "other"] {
        let path = format!("/v1/callbacks/{callback}");
        let set = site.by(&root, Method::PUT, &path, &json!({})).await;
        assert_eq!(set.status, 201, "{:?}", set.body);
    }
    let listed = site.get_by(&producer, "/v1/callbacks").await.ok();
    assert_eq!(listed["callbacks"].as_array().unwrap().len(), 1, "{listed}");
    let gate = json!({"gate": "paused"});
    let answer = site
        .post_by(&operator, "/v1/callbacks/other/gate", gate)
        .await;
    assert_eq!(code(&answer), denied);
    for filter in [json!({"callback": "other"}), json!({"ids": [foreign]})] {
        let answer = site
            .post_by(&operator, "/v1/dead-letters/redrive", filter)
            .await;
        assert_eq!(code(&answer), denied);
    }

    let poll = |callbacks: Value| json!({"worker": "w", "callbacks": callbacks, "wait": "0s"});
    let path = "/v1/worker/poll";
    let answer = site.post_by(&worker, path, poll(json!(["mail"]))).await;
    assert_eq!(answer.status, 200, "{:?}", answer.body);
    let answer = site
        .post_by(&worker, path, poll(json!(["mail", "other"])))
        .await;
    assert_eq!(code(&answer), denied);
    let item = json!({"id": foreign, "attempt": 1, "outcome": "succeeded"});
    let settle = json!({"worker": "w", "tasks": [item]});
    let answer = site.post_by(&worker, "/v1/worker/settle", settle).await;
    assert_eq!(code(&answer), denied);
    let beat = json!({"worker": "w", "tasks": [{"id": foreign, "attempt": 1}]});
    let answer = site.post_by(&worker, "/v1/worker/heartbeat", beat).await;
    assert_eq!(code(&answer), denied);
}

#[tokio::test(start_paused = true)]
async fn a_viewer_sees_payloads_only_if_its_key_says_so() {
    let (site, root) = closed().await;
    let task = json!({"callback": "mail", "delay": "1h", "payload": {"user": 7}});
    let made = site.post_by(&root, "/v1/tasks", task).await.json();
    let path = format!("/v1/tasks/{}?view=FULL", made["id"].as_str().unwrap());
    for (payloads, role, seen) in [
        (false, "viewer", false),
        (true, "viewer", true),
        (false, "producer", true),
    ] {
        let wish = json!({"name": "n", "role": role, "payloads": payloads});
        let (_, key) = site.key(&root, wish).await;
        let task = site.get_by(&key, &path).await.ok();
        assert_eq!(
            task["payload"] == json!({"user": 7}),
            seen,
            "{role} {payloads}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_rate_refuses_calls_and_never_heartbeats_and_an_expiry_ends_a_key() {
    let (site, root) = closed().await;
    let rate = json!({"per_second": 1, "burst": 2});
    let (_, key) = site
        .key(&root, json!({"name": "w", "role": "worker", "rate": rate}))
        .await;
    for _ in 0..2 {
        site.get_by(&key, "/v1/whoami").await.ok();
    }
    let refused = site.get_by(&key, "/v1/whoami").await;
    assert_eq!(code(&refused), (429, "too_many_requests".to_owned()));
    assert_eq!(refused.header("retry-after"), "1");
    let beat = json!({"worker": "w", "tasks": [{"id": task_id(), "attempt": 1}]});
    for _ in 0..5 {
        let answer = site
            .post_by(&key, "/v1/worker/heartbeat", beat.clone())
            .await;
        assert_eq!(answer.status, 200, "{:?}", answer.body);
    }
    site.world.pass(SECOND).await;
    site.get_by(&key, "/v1/whoami").await.ok();

    let until = site.node.time.now().after(10 * SECOND);
    let until = tickwheel::model::time::rfc3339(until);
    let wish = json!({"name": "short", "role": "viewer", "expire_time": until});
    let (_, key) = site.key(&root, wish).await;
    site.get_by(&key, "/v1/whoami").await.ok();
    site.world.pass(10 * SECOND).await;
    let expired = site.get_by(&key, "/v1/whoami").await;
    assert_eq!(code(&expired), (401, "key_invalid".to_owned()));
    for (wish, pointer) in [
        (json!({"name": "", "role": "viewer"}), "/name"),
        (
            json!({"name": "n", "role": "viewer", "expire_time": until}),
            "/expire_time",
        ),
        (
            json!({"name": "n", "role": "admin", "callbacks": ["a"]}),
            "/callbacks",
        ),
        (
            json!({"name": "n", "role": "worker", "callbacks": ["a b"]}),
            "/callbacks/0",
        ),
        (
            json!({"name": "n", "role": "worker", "rate": {"per_second": 0}}),
            "/rate",
        ),
    ] {
        let refused = site.post_by(&root, "/v1/api-keys", wish).await.problem();
        assert_eq!(refused.errors[0].pointer, pointer);
    }
}

#[tokio::test(start_paused = true)]
async fn a_revoked_key_works_nowhere_after_two_seconds_and_not_when_nobody_can_tell() {
    let away = Arc::new(AtomicBool::new(false));
    let switch = Arc::clone(&away);
    let (site, root) = closed().await;
    let node = site.world.node_with(
        2,
        Arc::new(move |_, _| {
            if switch.load(Ordering::SeqCst) {
                Fate::Fail
            } else {
                Fate::Go
            }
        }),
    );
    let other = Site::of(site.world.clone(), node);
    site.world.pass(3 * SECOND).await;
    let (id, key) = site
        .key(&root, json!({"name": "n", "role": "viewer"}))
        .await;
    site.world.pass(2 * SECOND).await;
    other.get_by(&key, "/v1/whoami").await.ok();
    let path = format!("/v1/api-keys/{id}");
    let gone = site.by(&root, Method::DELETE, &path, &Value::Null).await;
    assert_eq!(gone.status, 204);
    let here = site.get_by(&key, "/v1/whoami").await;
    assert_eq!(
        code(&here),
        (401, "key_invalid".to_owned()),
        "at once at the node that was asked"
    );
    site.world.pass(2 * SECOND).await;
    let there = other.get_by(&key, "/v1/whoami").await;
    assert_eq!(code(&there), (401, "key_invalid".to_owned()));

    other.get_by(&root, "/v1/whoami").await.ok();
    away.store(true, Ordering::SeqCst);
    site.world.pass(3 * SECOND).await;
    let unsure = other.get_by(&root, "/v1/whoami").await;
    assert_eq!(code(&unsure), (503, "unavailable".to_owned()));
    let without = other.get("/v1/tasks").await;
    assert_eq!(without.status, 503, "nobody is let in");
    // Metrics are read when the store is away; this node has none to show.
    let metrics = other.get_by(&root, "/metrics").await;
    assert_eq!(metrics.status, 404, "{:?}", metrics.body);
    assert_eq!(other.get("/metrics").await.status, 401);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_looked_at_changes_nothing() {
    let site = Site::new();
    let options = Options {
        read_only: true,
        ..Options::new(site.node.time.clone(), CancellationToken::new())
    };
    let read_only = Site {
        router: router(site.node.service(), options),
        ..site
    };
    read_only.world.pass(3 * SECOND).await;
    for (id, method, path) in calls() {
        let is_read = method == Method::GET || id == "checkSchedule";
        let answer = read_only.send(request(method, &path, "{}")).await;
        if is_read {
            assert!(answer.status != 403, "{id}");
        } else {
            assert_eq!(code(&answer), (403, "read_only".to_owned()), "{id}");
        }
    }
}
