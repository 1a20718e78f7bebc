//! The forecast counts the tasks that are due in the time ahead.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Site, callbacks::ready, keys_and_roles::closed};

const SECOND: Duration = Duration::from_secs(1);

async fn tasks(site: &Site, query: &str) -> (Vec<u64>, Vec<Option<u64>>) {
    let told = site.get(&format!("/v1/forecast{query}")).await.ok();
    let steps = told["steps"].as_array().unwrap().iter();
    let of = |step: &Value| (step["tasks"].as_u64().unwrap(), step["at_most"].as_u64());
    steps.map(of).unzip()
}

/// A node of a cluster walks ahead: what it finds are lower bounds, and upper ones as far as it has come.
#[tokio::test(start_paused = true)]
async fn tasks_ahead_are_counted_by_callback_and_step() {
    let site = ready().await;
    // The steps begin at a whole second.
    for (callback, delay) in [("mail", "10s"), ("mail", "70s"), ("bank", "70s")] {
        site.registered(json!({"callback": callback, "delay": delay}))
            .await;
    }
    let last = site
        .registered(json!({"callback": "mail", "delay": "2h"}))
        .await;
    let (counts, most) = tasks(&site, "?count=3").await;
    assert_eq!(counts, [1, 2, 0]);
    assert_eq!(most, [Some(1), Some(2), Some(0)]);
    let (counts, most) = tasks(&site, "?callback=bank&step=30s&count=3").await;
    // Other tests of this process may have used up the labels.
    let is_other = most[2] > Some(counts[2]);
    assert!(counts == [0, 0, 1] || is_other, "{counts:?} {most:?}");
    let (counts, most) = tasks(&site, "?step=1h&count=3").await;
    assert!(counts[0] == 3 && most[2].is_none(), "{counts:?} {most:?}");
    let whole = site.get("/v1/forecast?count=3").await.ok();
    let callbacks = json!([
        {"callback": "bank", "total": 1, "tasks": [0, 1, 0]},
        {"callback": "mail", "total": 2, "tasks": [1, 1, 0]},
    ]);
    assert!(is_other || whole["callbacks"] == callbacks, "{whole}");
    let exact = (&whole["total"], &whole["exact"]);
    assert_eq!(exact, (&json!(3), &json!(false)));
    let path = format!("/v1/tasks/{}/cancel", last["id"].as_str().unwrap());
    site.post(&path, "{}").await.ok();
    // A walk serves for a quarter of a minute.
    site.world.pass(16 * SECOND).await;
    assert_eq!(tasks(&site, "?step=1h&count=1").await.0, [2]);
}

#[tokio::test(start_paused = true)]
async fn bad_steps_are_refused_and_limited_keys_name_a_callback() {
    let (site, root) = closed().await;
    for (query, pointer) in [
        ("step=0s", "?step"),
        ("step=1500ms", "?step"),
        ("step=25h", "?step"),
        ("step=soon", "?step"),
        ("count=0", "?count"),
        ("count=1441", "?count"),
        ("callback=a/b", "?callback"),
        ("until=1h", "?until"),
    ] {
        let refused = site.get_by(&root, &format!("/v1/forecast?{query}")).await;
        assert_eq!(refused.status, 400, "{query}");
        assert_eq!(refused.problem().errors[0].pointer, pointer);
    }
    let wish = json!({"name": "v", "role": "viewer", "callbacks": ["mail"]});
    let (_, viewer) = site.key(&root, wish).await;
    for (path, status) in [
        ("/v1/forecast", 403),
        ("/v1/forecast?callback=bank", 403),
        ("/v1/forecast?callback=mail", 200),
    ] {
        assert_eq!(site.get_by(&viewer, path).await.status, status, "{path}");
    }
}
