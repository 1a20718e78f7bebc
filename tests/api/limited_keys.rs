//! Keys that are limited to callbacks reach the jobs of these.

use axum::http::Method;
use serde_json::{Value, json};

use super::{
    Answer,
    keys_and_roles::{SECOND, closed},
    task_id,
};

fn denied(answer: &Answer) -> bool {
    (answer.status.as_u16(), &*answer.problem().code) == (403, "access_denied")
}

#[tokio::test(start_paused = true)]
async fn a_limited_key_follows_the_redrives_of_its_callbacks_and_no_other_jobs() {
    let (site, root) = closed().await;
    let limited = json!({"name": "o", "role": "operator", "callbacks": ["mail"]});
    let (_, operator) = site.key(&root, limited).await;
    let viewer = json!({"name": "v", "role": "viewer", "callbacks": ["mail"]});
    let (_, viewer) = site.key(&root, viewer).await;
    let path = "/v1/dead-letters/redrive";
    let filter = json!({"callback": "mail", "rate_per_second": 1});
    let own = site.post_by(&operator, path, filter).await;
    assert_eq!(own.status, 202, "{:?}", own.body);
    let every = json!({"error": "disk full"});
    assert!(denied(&site.post_by(&operator, path, every).await));
    let own = format!("/v1/jobs/{}", own.json()["id"].as_str().unwrap());
    let (job, again) = (
        site.get_by(&operator, &own).await,
        site.get_by(&viewer, &own).await,
    );
    assert_eq!((job.status.as_u16(), again.status.as_u16()), (200, 200));
    assert_eq!(job.json()["filter"]["callback"], "mail");
    let mut foreign = Vec::new();
    for filter in [json!({"callback": "other"}), json!({"error": "disk full"})] {
        let made = site.post_by(&root, path, filter).await;
        foreign.push(format!("/v1/jobs/{}", made.json()["id"].as_str().unwrap()));
    }
    for path in &foreign {
        assert!(denied(&site.get_by(&operator, path).await));
        for order in ["pause", "resume", "cancel"] {
            let path = format!("{path}/{order}");
            let answer = site.post_by(&operator, &path, Value::Null).await;
            assert!(denied(&answer), "{path}");
        }
    }
    for (path, status) in [
        ("/v1/jobs", 403),
        ("/v1/jobs/no-id", 404),
        (&*format!("/v1/jobs/{}", task_id()), 404),
    ] {
        let answer = site.get_by(&operator, path).await;
        assert_eq!(answer.status, status, "{path}: {:?}", answer.body);
    }
    let cancel = format!("{own}/cancel");
    let roles = [(&viewer, 403), (&operator, 200)];
    for (key, status) in roles {
        let answer = site.post_by(key, &cancel, Value::Null).await;
        assert!(
            answer.status == status || (status == 200 && answer.status == 409),
            "{:?}",
            answer.body
        );
    }
}

/// Requests of notices, actions and checks carry headers and signatures of the callback of their host.
#[tokio::test(start_paused = true)]
async fn a_limited_key_sends_to_no_host_that_it_does_not_cover() {
    let (site, root) = closed().await;
    let wish = json!({"name": "p", "role": "producer", "callbacks": ["mail", "http:own.example"]});
    let (_, producer) = site.key(&root, wish).await;
    let to = |host: &str| json!({"url": format!("https://{host}/x"), "method": "DELETE"});
    let with = |name: &str, value: Value| {
        let mut task = json!({"callback": "mail", "delay": "1h"});
        task[name] = value;
        task
    };
    let ways = |host: &str| {
        let check =
            |member: &str| json!([{"at": "1h", "in": ["succeeded"], member: {"http": to(host)}}]);
        let notice = with("notify", json!({"http": to(host)}));
        vec![
            notice.clone(),
            with("actions", json!([{"http": to(host)}])),
            with("checks", check("then")),
            with("checks", check("else")),
            with("children", json!([notice])),
            with(
                "then",
                json!([{"states": ["succeeded"], "task": {"callback": "mail", "notify": {"http": to(host)}}}]),
            ),
        ]
    };
    for task in ways("Partner.example") {
        let answer = site.post_by(&producer, "/v1/tasks", task.clone()).await;
        assert!(denied(&answer), "{task}: {:?}", answer.body);
        assert!(answer.problem().detail.contains("http:partner.example"));
    }
    for task in ways("own.example") {
        let answer = site.post_by(&producer, "/v1/tasks", task.clone()).await;
        assert_eq!(answer.status, 201, "{task}: {:?}", answer.body);
    }
}

/// The notices of a callback go out with the credentials of their host, too.
#[tokio::test(start_paused = true)]
async fn a_limited_operator_sets_no_notice_to_a_host_that_its_key_does_not_cover() {
    let (site, root) = closed().await;
    let wish = json!({"name": "o", "role": "operator", "callbacks": ["mail", "http:own.example"]});
    let (_, operator) = site.key(&root, wish).await;
    let set = async |key: &str, host: &str, attempts: u32| {
        let notify = json!({"http": {"url": format!("https://{host}/x")}});
        let body = json!({"notify": notify, "max_attempts": attempts});
        site.by(key, Method::PUT, "/v1/callbacks/mail", &body).await
    };
    let refused = set(&operator, "partner.example", 3).await;
    assert!(denied(&refused), "{:?}", refused.body);
    assert!(refused.problem().detail.contains("http:partner.example"));
    assert_eq!(set(&operator, "own.example", 3).await.status, 201);
    // A notice that another has set stays, and the rest can be changed.
    assert_eq!(set(&root, "partner.example", 3).await.status, 200);
    assert_eq!(set(&operator, "partner.example", 4).await.status, 200);
    assert!(denied(&set(&operator, "third.example", 4).await));
}

/// Another worker may have the same name: a limited key ends polls of its callbacks alone.
#[tokio::test(start_paused = true)]
async fn a_limited_worker_that_leaves_ends_no_poll_of_another_callback() {
    let (site, root) = closed().await;
    let only = |name: &str| json!({"name": name, "role": "worker", "callbacks": [name]});
    let (_, mine) = site.key(&root, only("mine")).await;
    let (_, theirs) = site.key(&root, only("theirs")).await;
    let poll = |callback: &str| json!({"worker": "w", "callbacks": [callback], "wait": "20s"});
    let begun = site.node.time.now();
    let waited = async |key: &str, callback: &str| {
        let answer = site.post_by(key, "/v1/worker/poll", poll(callback)).await;
        assert_eq!(answer.ok()["tasks"], json!([]));
        site.node.time.now().since(begun)
    };
    let leave = async {
        site.world.pass(2 * SECOND).await;
        let leave = json!({"worker": "w"});
        let left = site.post_by(&mine, "/v1/worker/leave", leave).await;
        assert_eq!(left.status, 200);
    };
    let (own, other, ()) = tokio::join!(waited(&mine, "mine"), waited(&theirs, "theirs"), leave);
    assert!(own < 4 * SECOND, "{own:?}");
    assert!(other >= 20 * SECOND, "{other:?}");
}

/// A limited producer cannot take the key by which another marks its request.
#[tokio::test(start_paused = true)]
async fn keys_of_requests_have_one_space_for_each_scope() {
    let (site, root) = closed().await;
    let only = |name: &str, callback: &str| json!({"name": name, "role": "operator", "callbacks": [callback]});
    let (_, mine) = site.key(&root, only("a", "mine")).await;
    let (_, again) = site.key(&root, only("b", "mine")).await;
    let (_, theirs) = site.key(&root, only("c", "theirs")).await;
    let task =
        |callback: &str| json!({"callback": callback, "delay": "1h", "idempotency_key": "order-7"});
    let job = |callback: &str| {
        let filter = json!({"callback": callback, "start_time_to": "2026-09-22T00:00:00Z"});
        json!({"kind": "cancel", "filter": filter, "dry_run": true, "idempotency_key": "order-7"})
    };
    for (path, body, created) in [
        ("/v1/tasks", &task as &dyn Fn(&str) -> Value, 201),
        ("/v1/jobs", &job, 202),
    ] {
        for (key, callback, status) in [
            (&mine, "mine", created),
            (&theirs, "theirs", created),
            (&root, "theirs", created),
            // The keys of one scope share a space, so a key may be replaced while a request is repeated.
            (&again, "mine", 200),
            (&theirs, "theirs", 200),
        ] {
            let answer = site.post_by(key, path, body(callback)).await;
            assert_eq!(
                answer.status, status,
                "{path} {callback}: {:?}",
                answer.body
            );
        }
    }
    let batch = json!({"tasks": [task("mine")]});
    let path = "/v1/tasks:batchCreate";
    let answer = site.post_by(&again, path, batch).await.ok();
    assert!(answer["results"][0]["error"].is_null(), "{answer}");
}

/// A limited operator does bulk work and sets schedules where every task is of its callbacks.
#[tokio::test(start_paused = true)]
async fn a_limited_operator_has_jobs_and_schedules_of_its_callbacks() {
    let (site, root) = closed().await;
    let wish = json!({"name": "o", "role": "operator", "callbacks": ["mail"]});
    let (_, operator) = site.key(&root, wish).await;
    let job = |mut filter: Value| {
        filter["start_time_to"] = json!("2026-09-22T00:00:00Z");
        json!({"kind": "cancel", "filter": filter})
    };
    let made = site
        .post_by(&operator, "/v1/jobs", job(json!({"callback": "mail"})))
        .await;
    assert_eq!(made.status, 202, "{:?}", made.body);
    for filter in [json!({"callback": "other"}), json!({"collection": "c"})] {
        let refused = site.post_by(&operator, "/v1/jobs", job(filter)).await;
        assert!(denied(&refused), "{:?}", refused.body);
    }
    let hourly = |task: Value| json!({"every": "1h", "task": task});
    let follow =
        |callback: &str| json!([{"states": ["succeeded"], "task": {"callback": callback}}]);
    let own = hourly(json!({"callback": "mail", "then": follow("mail")}));
    let foreign = [
        hourly(json!({"callback": "other"})),
        hourly(json!({"callback": "mail", "then": follow("other")})),
    ];
    let set = async |key: &str, name: &str, body: &Value| {
        let path = format!("/v1/schedules/{name}");
        site.by(key, Method::PUT, &path, body).await
    };
    assert_eq!(set(&operator, "own", &own).await.status, 201);
    for (number, body) in foreign.iter().enumerate() {
        assert!(denied(&set(&operator, "own", body).await), "{body}");
        let name = format!("foreign-{number}");
        assert_eq!(set(&root, &name, body).await.status, 201);
        assert!(denied(&set(&operator, &name, &own).await), "{name}");
        let path = format!("/v1/schedules/{name}");
        assert!(denied(&site.get_by(&operator, &path).await));
        let trigger = format!("{path}/trigger");
        assert!(denied(
            &site.post_by(&operator, &trigger, Value::Null).await
        ));
    }
    let path = "/v1/schedules/own";
    for order in ["pause", "resume", "trigger"] {
        let path = format!("{path}/{order}");
        let answer = site.post_by(&operator, &path, json!({})).await;
        assert!(answer.status.is_success(), "{path}: {:?}", answer.body);
    }
    site.get_by(&operator, path).await.ok();
    let absent = site.get_by(&operator, "/v1/schedules/none").await;
    assert_eq!(absent.status, 404);
    let gone = site.by(&operator, Method::DELETE, path, &Value::Null).await;
    assert_eq!(gone.status, 200, "{:?}", gone.body);
}
