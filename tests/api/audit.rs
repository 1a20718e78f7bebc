//! The audit says who has done what, and gates say who set them.

use serde_json::{Value, json};

use super::keys_and_roles::{SECOND, closed};

#[tokio::test(start_paused = true)]
async fn the_audit_tells_who_changed_what_and_gates_tell_who_set_them() {
    let (site, root) = closed().await;
    let (id, ops) = site
        .key(&root, json!({"name": "night watch", "role": "operator"}))
        .await;
    let (_, viewer) = site
        .key(&root, json!({"name": "v", "role": "viewer"}))
        .await;
    let gate = json!({"gate": "paused", "reason": "the mail server is down"});
    let path = "/v1/callbacks/mail/gate";
    let set = site.post_by(&ops, path, gate.clone()).await.ok();
    assert_eq!(set["gates"][0]["who"], "night watch", "{set}");
    let refused = site.post_by(&viewer, path, gate).await;
    assert_eq!(refused.status, 403);
    site.get_by(&viewer, "/v1/tasks").await.ok();

    let audit = site.get_by(&root, "/v1/audit").await.ok();
    let entries = audit["entries"].as_array().unwrap().clone();
    let seen: Vec<(&str, &str, &str)> = entries
        .iter()
        .map(|entry| {
            let text = |name: &str| entry[name].as_str().unwrap();
            (text("who"), text("action"), text("outcome"))
        })
        .collect();
    let expected = [
        ("anonymous", "createApiKey", "ok"),
        ("root", "createApiKey", "ok"),
        ("root", "createApiKey", "ok"),
        ("night watch", "setGate", "ok"),
        ("v", "setGate", "access_denied"),
    ];
    assert_eq!(seen, expected);
    let entry = &entries[3];
    assert_eq!(
        (&entry["target"], &entry["key_id"]),
        (&json!(path), &json!(id))
    );
    assert_eq!(entry["status"], 200);

    // Pages, and spans.
    let (mut token, mut pages) = (String::new(), Vec::new());
    loop {
        let path = format!("/v1/audit?page_size=2&page_token={token}");
        let page = site.get_by(&root, &path).await.ok();
        pages.extend(page["entries"].as_array().unwrap().clone());
        match page["next_page_token"].as_str() {
            Some(next) => next.clone_into(&mut token),
            None => break,
        }
    }
    assert_eq!(pages, entries);
    let later = "/v1/audit?from=2100-01-01T00:00:00Z&to=2100-01-02T00:00:00Z";
    let none = site.get_by(&root, later).await.ok();
    assert_eq!(none["entries"], json!([]));
    let refused = site.get_by(&root, "/v1/audit?from=soon").await.problem();
    assert_eq!(refused.errors[0].pointer, "?from");
}

/// The rows of the audit: who, what, the outcome, and how many more of the kind.
fn rows(audit: &Value) -> Vec<(String, String, String, u64)> {
    let entries = audit["entries"].as_array().unwrap();
    let row = |entry: &Value| {
        let text = |name: &str| entry[name].as_str().unwrap().to_owned();
        let more = entry["more"].as_u64().unwrap_or_default();
        (text("who"), text("action"), text("outcome"), more)
    };
    entries.iter().map(row).collect()
}

fn row(who: &str, action: &str, outcome: &str, more: u64) -> (String, String, String, u64) {
    (who.to_owned(), action.to_owned(), outcome.to_owned(), more)
}

/// A caller that is refused without end fills no store: each kind of refusal is a row a minute, which counts the others.
#[tokio::test(start_paused = true)]
async fn refused_calls_of_a_kind_are_one_row_a_minute_that_counts_them() {
    let (site, root) = closed().await;
    let (_, viewer) = site
        .key(&root, json!({"name": "v", "role": "viewer"}))
        .await;
    let only = |role: &str| json!({"name": role, "role": role, "callbacks": ["mail"]});
    let (_, producer) = site.key(&root, only("producer")).await;
    let (_, worker) = site.key(&root, only("worker")).await;
    let (_, operator) = site.key(&root, only("operator")).await;
    let gate = json!({"gate": "paused"});
    let task = json!({"callback": "other", "delay": "1h"});
    let poll = json!({"worker": "w", "callbacks": ["other"]});
    let unclear = json!({"gate": "ajar"});
    for _ in 0..40 {
        for (key, path, body, status) in [
            (&viewer, "/v1/callbacks/mail/gate", &gate, 403),
            (&viewer, "/v1/api-keys", &json!({}), 403),
            (&producer, "/v1/tasks", &task, 403),
            (&worker, "/v1/worker/poll", &poll, 403),
            (&operator, "/v1/callbacks/mail/gate", &unclear, 400),
        ] {
            let answer = site.post_by(key, path, body.clone()).await;
            assert_eq!(answer.status, status, "{path}: {:?}", answer.body);
        }
    }
    let seen = async || rows(&site.get_by(&root, "/v1/audit").await.ok()).split_off(5);
    let expected = |more| {
        vec![
            row("v", "setGate", "access_denied", more),
            row("v", "createApiKey", "access_denied", more),
            row("producer", "createTask", "access_denied", more),
            row("worker", "poll", "access_denied", more),
            row("operator", "setGate", "invalid_request", more),
        ]
    };
    assert_eq!(seen().await, expected(0));
    site.world.pass(70 * SECOND).await;
    assert_eq!(seen().await, expected(39));
    let later = site.post_by(&worker, "/v1/worker/poll", poll).await;
    assert_eq!(later.status, 403);
    let mut all = expected(39);
    all.push(row("worker", "poll", "access_denied", 0));
    assert_eq!(seen().await, all);
}
