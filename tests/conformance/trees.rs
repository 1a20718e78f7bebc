//! Tasks have children, and their trees end once.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};

use super::service::{Behaviour, Service, echoes, text};

pub(super) async fn a_tree_ends_after_its_last_child(service: Arc<Service>) {
    let callback = service.name("tree");
    let runs = service.worker(&callback, &echoes(10));
    let child = |delay: &str| json!({"callback": callback, "delay": delay});
    let body = json!({"callback": callback, "children": [
        child("1s"),
        {"callback": callback, "children": [child("2s"), child("3s")]}]});
    let root = service.register(body).await;
    service
        .until("the tree has ended", || async {
            service.task(&root).await["tree_state"] == "completed"
        })
        .await;
    assert_eq!(runs.lock().unwrap().len(), 5, "each has run once");
    let path = format!("/v1/tasks/{root}/tree");
    let tree = service.get(&path).await.ok();
    let nodes = tree["nodes"].as_array().unwrap();
    assert_eq!((nodes.len(), &nodes[0]["id"]), (5, &json!(root)), "{tree}");
    let added = service
        .post("/v1/tasks", &json!({"callback": callback, "parent": root}))
        .await;
    assert_eq!(added.problem(409), "tree_ended");
    let open = json!({"callback": callback, "delay": "1h", "children": [child("1h")]});
    let open = service.register(open).await;
    let added = service
        .register(json!({"callback": callback, "parent": open, "delay": "1h"}))
        .await;
    let cancel = format!("/v1/tasks/{open}/cancel");
    service.post(&cancel, &json!({"tree": true})).await.ok();
    assert_eq!(service.ended(&added).await["state"], "cancelled");
    let children = service.get(&format!("/v1/tasks?parent={open}")).await.ok();
    let ids = children["tasks"].as_array().unwrap().iter();
    let ids: Vec<String> = ids.map(|task| text(&task["id"])).collect();
    assert!(ids.len() == 2 && ids.contains(&added), "{children}");
}

pub(super) async fn the_failed_part_of_a_tree_runs_again(service: Arc<Service>) {
    let callback = service.name("retried");
    let fails_first: Behaviour = Arc::new(|task: &Value| {
        let report = if task["payload"] == "bad" && task["attempt"] == 1 {
            json!({"outcome": "failed", "error": "no"})
        } else {
            json!({"outcome": "succeeded"})
        };
        (Duration::ZERO, report)
    });
    let runs = service.worker(&callback, &fails_first);
    let task = |payload: &str| json!({"callback": callback, "payload": payload});
    let body = json!({"callback": callback, "children": [
        task("good"),
        {"callback": callback, "children": [task("bad")]}]});
    let root = service.register(body).await;
    let ends = |state: &'static str| {
        let (service, root) = (&service, &root);
        service.until("the tree has ended", move || async move {
            service.task(root).await["tree_state"] == state
        })
    };
    ends("faulted").await;
    let path = format!("/v1/tasks/{root}/retry-failed");
    let done = service.post(&path, &json!({})).await.ok();
    assert_eq!(
        (&done["retried"], &done["complete"]),
        (&json!(1), &json!(true)),
        "{done}"
    );
    ends("completed").await;
    assert_eq!(runs.lock().unwrap().len(), 5, "one task has run twice");
    let again = service.post(&path, &json!({})).await;
    assert_eq!(again.problem(409), "nothing_failed");
}
