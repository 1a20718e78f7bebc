//! Checks see every state of a task, and payloads of actions are shown where payloads are.

use serde_json::{Value, json};

use super::actions::{SECOND, email, read, registered, site, succeeds};

#[tokio::test(start_paused = true)]
async fn payloads_of_actions_are_shown_where_payloads_are() {
    let (site, _) = site().await;
    let http = json!({"url": "https://example.org/x", "method": "POST"});
    let deed = json!({"http": http, "payload": {"text": "{{task.state}}"}});
    let follow = json!({"states": ["succeeded"], "task": {"callback": "c", "actions": [deed]}});
    let task = json!({"callback": "work", "delay": "1h", "actions": [deed], "then": [follow],
        "checks": [{"at": "2h", "in": ["succeeded"], "else": deed}]});
    let id = registered(&site, &task).await;
    let full = site.get(&format!("/v1/tasks/{id}?view=FULL")).await.ok();
    let basic = read(&site, &id).await;
    for place in ["/actions/0", "/checks/0/else", "/then/0/task/actions/0"] {
        assert_eq!(full.pointer(place), Some(&deed), "{place}");
        let shown = basic.pointer(place).unwrap();
        assert_eq!(*shown, json!({"http": http}), "{place}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_check_sees_states_of_tasks_that_go_on_and_of_trees() {
    let (site, letters) = site().await;
    site.world.worker(site.node.service(), succeeds());
    let deed = |text: &str| json!({"email": email(text, "{{task.state}} {{task.tree_state}}")});
    let check = |states: Value, text: &str| json!({"at": "30s", "in": states, "then": deed(text), "else": deed("not")});
    // No worker runs tasks of `other`.
    for task in [
        json!({"callback": "other", "checks": [check(json!(["enqueued", "claimed"]), "alone")]}),
        json!({"callback": "other", "checks": [check(json!(["dead", "processing"]), "alone")]}),
        json!({"callback": "work", "children": [{"callback": "work"}],
            "checks": [check(json!(["completed"]), "whole")]}),
        json!({"callback": "work", "children": [{"callback": "other"}],
            "checks": [check(json!(["cancelled", "completed", "faulted"]), "whole")]}),
        json!({"callback": "work", "children": [{"callback": "other"}],
            "checks": [check(json!(["waiting_for_children"]), "open")]}),
    ] {
        let id = registered(&site, &task).await;
        let shown = site.get(&format!("/v1/tasks/{id}?view=FULL")).await.ok();
        assert_eq!(shown["checks"][0]["in"], task["checks"][0]["in"], "{shown}");
    }
    site.world.pass(SECOND * 40).await;
    let taken = letters.taken().into_iter();
    let mut subjects: Vec<String> = taken.map(|(_, mail)| mail.subject).collect();
    subjects.sort();
    assert_eq!(subjects, ["alone", "not", "not", "open", "whole"]);
}
