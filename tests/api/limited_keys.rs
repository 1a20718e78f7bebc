//! Keys that are limited to callbacks reach the jobs of these.

use axum::http::Method;
use serde_json::{Value, json};

use super::{Answer, keys_and_roles::closed, task_id};

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
