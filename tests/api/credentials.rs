//! Credentials that tasks, callbacks and schedules send to others are shown to those who may set them, and to no other reader.

use axum::http::Method;
use serde_json::{Value, json};

use super::{
    Site,
    keys_and_roles::{calls, closed},
};

const SECRET: &str = "s3cr3t";
const HIDDEN: &str = "***";

/// A request over HTTP with credentials in a header and in its URL.
fn call() -> Value {
    json!({
        "url": format!("https://h.example/x?page=2&token={SECRET}"),
        "headers": {"authorization": format!("Bearer {SECRET}"), "x-tenant": "acme"},
    })
}

/// A task with credentials wherever a task can have them.
fn task() -> Value {
    let deed = json!({"http": call()});
    json!({
        "http": call(), "delay": "1h",
        "notify": {"http": call()},
        "actions": [{"http": call()}],
        "checks": [{"at": "2h", "in": ["succeeded"], "then": deed, "else": deed}],
        "then": [{"task": {
            "http": call(), "notify": {"http": call()}, "actions": [{"http": call()}],
            "then": [{"task": {"http": call()}}],
        }}],
    })
}

/// A service with credentials in all that it keeps; also the ids of its tasks.
async fn full() -> (Site, String, Vec<String>) {
    let (site, root) = closed().await;
    let put = async |path: &str, body: Value| {
        let set = site.by(&root, Method::PUT, path, &body).await;
        assert_eq!(set.status, 201, "{path}: {:?}", set.body);
    };
    let mut defaults = call();
    defaults["secrets"] = json!(["whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"]);
    let callback = json!({"http": defaults, "notify": {"http": call()}});
    put("/v1/callbacks/x", callback).await;
    let mut run = task();
    run.as_object_mut().unwrap().remove("delay");
    put("/v1/schedules/x", json!({"cron": "* * * * *", "task": run})).await;
    let mut parent = task();
    parent["children"] = json!([task()]);
    parent["key"] = json!("one");
    let mut ids = Vec::new();
    for task in [task(), parent] {
        let made = site.post_by(&root, "/v1/tasks", task).await;
        assert_eq!(made.status, 201, "{:?}", made.body);
        ids.push(made.json()["id"].as_str().unwrap().to_owned());
    }
    (site, root, ids)
}

#[tokio::test(start_paused = true)]
async fn a_viewer_and_a_producer_see_no_credentials_in_any_answer() {
    let (site, root, ids) = full().await;
    let own = super::task_id();
    for role in ["viewer", "producer"] {
        let wish = json!({"name": role, "role": role, "payloads": true});
        let (_, key) = site.key(&root, wish).await;
        let mut shown = 0;
        for (id, method, path) in calls() {
            // Its answer has no end, or what it answers is what was asked for.
            if method != Method::GET {
                continue;
            }
            for task in &ids {
                let path = path.replace(&own, task);
                for query in [
                    "",
                    "?view=FULL",
                    "?callback=http:h.example&key=one",
                    "?count=2",
                ] {
                    let answer = site.get_by(&key, &format!("{path}{query}")).await;
                    let text = String::from_utf8_lossy(&answer.body);
                    assert!(!text.contains(SECRET), "{role} {id} {path}{query}: {text}");
                    shown += text.matches(HIDDEN).count();
                }
            }
        }
        assert!(shown > 20, "{role}: {shown}");
        if role == "producer" {
            let made = site.post_by(&key, "/v1/tasks", task()).await;
            let text = String::from_utf8_lossy(&made.body).into_owned();
            assert!(made.status == 201 && !text.contains(SECRET), "{text}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_operator_reads_credentials_whole_and_sets_what_was_read() {
    let (site, root, ids) = full().await;
    let wish = json!({"name": "o", "role": "operator"});
    let (_, operator) = site.key(&root, wish).await;
    let path = format!("/v1/tasks/{}?view=FULL", ids[0]);
    let read = site.get_by(&operator, &path).await.ok();
    assert_eq!(read["target"]["headers"], call()["headers"]);
    assert_eq!(read["target"]["url"], call()["url"]);
    assert_eq!(read["notify"]["http"]["headers"], call()["headers"]);
    // The basic view is masked for everybody.
    let basic = site
        .get_by(&operator, &path.replace("?view=FULL", ""))
        .await
        .ok();
    let headers = &basic["target"]["headers"];
    assert_eq!(
        headers,
        &json!({"authorization": HIDDEN, "x-tenant": "acme"})
    );
    let url = format!("https://h.example/x?page=2&token={HIDDEN}");
    assert_eq!(basic["target"]["url"], url);

    let read = site.get_by(&operator, "/v1/callbacks/x").await.ok();
    let mut set = json!({"http": read["http"], "notify": read["notify"]});
    assert_eq!(set["http"]["headers"], call()["headers"]);
    // Secrets are for nobody.
    set["http"]["secrets"] = Value::Null;
    set["description"] = json!("changed");
    let again = site
        .by(&operator, Method::PUT, "/v1/callbacks/x", &set)
        .await;
    assert_eq!(again.ok()["http"]["headers"], call()["headers"]);
    let read = site.get_by(&operator, "/v1/schedules/x").await.ok();
    assert_eq!(read["task"]["http"]["headers"], call()["headers"]);
    let set = json!({"cron": read["cron"], "task": read["task"]});
    let same = site
        .by(&operator, Method::PUT, "/v1/schedules/x", &set)
        .await;
    assert_eq!(same.ok()["generation"], read["generation"]);
}

#[tokio::test(start_paused = true)]
async fn what_was_masked_is_refused_where_it_comes_back() {
    let (site, root, _) = full().await;
    let (_, viewer) = site
        .key(&root, json!({"name": "v", "role": "viewer"}))
        .await;
    let read = site.get_by(&viewer, "/v1/callbacks/x").await.ok();
    let mut set = json!({"http": read["http"], "notify": read["notify"]});
    set["http"]["secrets"] = Value::Null;
    let refused = site.by(&root, Method::PUT, "/v1/callbacks/x", &set).await;
    assert_eq!(refused.status, 400);
    let problem = refused.problem();
    let pointers: Vec<_> = problem
        .errors
        .iter()
        .map(|one| one.pointer.as_str())
        .collect();
    for pointer in [
        "/http/url",
        "/http/headers/authorization",
        "/notify/http/url",
        "/notify/http/headers/authorization",
    ] {
        assert!(pointers.contains(&pointer), "{pointers:?}");
    }
    let whole = site.get_by(&root, "/v1/callbacks/x").await.ok();
    assert_eq!(whole["http"]["headers"], call()["headers"]);
    let export = site.get_by(&viewer, "/v1/schedules:export").await;
    assert_eq!(export.status, 403);
}
