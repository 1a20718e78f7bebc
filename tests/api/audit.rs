//! The audit says who has done what, and gates say who set them.

use serde_json::json;

use super::keys_and_roles::closed;

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
