//! A key that has ended ends what waits by it, and a key without payloads shows none at any level.

use axum::http::Method;
use serde_json::{Value, json};

use super::keys_and_roles::{SECOND, closed, code};

/// A poll, and a read that waits, of a key that is revoked or has expired meanwhile are refused like any other call.
#[tokio::test(start_paused = true)]
async fn a_key_that_ends_ends_what_waits_by_it() {
    let (site, root) = closed().await;
    let task = json!({"callback": "mail", "delay": "6s", "payload": {"user": 7}});
    let made = site.post_by(&root, "/v1/tasks", task).await.json();
    let read = format!(
        "/v1/tasks/{}?view=FULL&wait=60s",
        made["id"].as_str().unwrap()
    );
    let poll = json!({"worker": "w", "callbacks": ["mail"], "wait": "60s"});
    let until = tickwheel::model::time::rfc3339(site.node.time.now().after(3 * SECOND));
    let (revoked, worker) = site
        .key(&root, json!({"name": "a", "role": "worker"}))
        .await;
    let (_, short) = site
        .key(
            &root,
            json!({"name": "b", "role": "admin", "expire_time": until}),
        )
        .await;
    let begun = site.node.time.now();
    let revoke = async {
        site.world.pass(2 * SECOND).await;
        let path = format!("/v1/api-keys/{revoked}");
        let gone = site.by(&root, Method::DELETE, &path, &Value::Null).await;
        assert_eq!(gone.status, 204, "{:?}", gone.body);
    };
    let (polled, polled_short, read, ()) = tokio::join!(
        site.post_by(&worker, "/v1/worker/poll", poll.clone()),
        site.post_by(&short, "/v1/worker/poll", poll),
        site.get_by(&short, &read),
        revoke,
    );
    for refused in [&polled, &polled_short, &read] {
        assert_eq!(
            code(refused),
            (401, "key_invalid".to_owned()),
            "{:?}",
            refused.body
        );
    }
    let waited = site.node.time.now().since(begun);
    assert!(
        waited <= 5 * SECOND,
        "{waited:?}, and the task is due behind 6 s"
    );
    site.world.pass(8 * SECOND).await;
    let path = format!("/v1/tasks/{}", made["id"].as_str().unwrap());
    assert_eq!(site.get_by(&root, &path).await.ok()["attempt"], 0);
}

#[tokio::test(start_paused = true)]
async fn a_viewer_sees_no_payload_of_a_schedule_at_any_level() {
    const SECRET: &str = "for few eyes";
    let (site, root) = closed().await;
    let then = |task: Value| json!([{"states": ["succeeded"], "task": task}]);
    let last = json!({"callback": "mail", "payload_base64": "Zm9yIGZldyBleWVz"});
    let next = json!({"callback": "mail", "payload": SECRET, "then": then(last)});
    let task = json!({"callback": "mail", "payload": SECRET, "then": then(next)});
    let body = json!({"every": "1h", "task": task});
    let path = "/v1/schedules/hourly";
    let set = site.by(&root, Method::PUT, path, &body).await;
    assert_eq!(set.status, 201, "{:?}", set.body);
    let shows = |text: &str| text.contains(SECRET) || text.contains("Zm9y");
    for (payloads, seen) in [(false, false), (true, true)] {
        let wish = json!({"name": "v", "role": "viewer", "payloads": payloads});
        let (_, key) = site.key(&root, wish).await;
        for path in [path, "/v1/schedules"] {
            let read = site.get_by(&key, path).await.ok().to_string();
            assert!(read.contains("\"then\""), "{read}");
            assert_eq!(shows(&read), seen, "{path}: {read}");
        }
    }
}
