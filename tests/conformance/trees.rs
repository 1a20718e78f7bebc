//! Tasks have children, and their trees end once.

use std::sync::Arc;

use serde_json::json;

use super::service::{Service, echoes, text};

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
