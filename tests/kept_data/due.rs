//! A worker runs all that is due in kept data, and the tasks end as they say.

use std::{collections::HashMap, time::Duration};

use serde_json::{Value, json};
use tickwheel::time_source::TimeSource;

use super::Site;

const CALLBACKS: [&str; 7] = ["work", "lane", "next", "joined", "paced", "often", "held"];

/// Tasks that end by success once everything that is due within two hours has run.
const SUCCEED: [&str; 16] = [
    "later", "large", "told", "twice", "beside", "paced-1", "paced-2", "paced-3", "lane-1",
    "lane-2", "lane-3", "tree", "chain", "join", "retrying", "done",
];

/// The time for all of it.
const LIMIT: Duration = Duration::from_secs(120);

async fn state(site: &Site, id: &Value) -> Value {
    site.get(&format!("/v1/tasks/{}", id.as_str().unwrap()))
        .await
}

/// Runs what is handed out until these tasks have succeeded; returns the payloads by callback in the order of their starts.
async fn work(site: &Site, ids: &Value, names: &[&str]) -> HashMap<String, Vec<Value>> {
    let time = TimeSource::real();
    let until = time.moment().after(LIMIT);
    let mut ran: HashMap<String, Vec<Value>> = HashMap::new();
    let mut open: Vec<&str> = names.to_vec();
    while let Some(name) = open.last().copied() {
        for task in site.poll(&CALLBACKS, 20, "1s").await {
            let callback = task["callback"].as_str().unwrap().to_owned();
            site.settle(&task, &json!({"outcome": "succeeded", "result": 1}))
                .await;
            ran.entry(callback).or_default().push(task);
        }
        let task = state(site, &ids[name]).await;
        if task["state"] == "succeeded" {
            open.pop();
        }
        assert!(time.moment() < until, "{open:?}: {name} is {task}");
    }
    ran
}

/// Runs all of it, and tasks that only one of the stores starts again so soon.
pub(super) async fn run(site: &Site, ids: &Value, more: &[&str]) {
    let ran = work(site, ids, &[&SUCCEED[..], more].concat()).await;
    assert!(!ran.contains_key("held"), "its gate is closed");
    let lane: Vec<&Value> = ran["lane"].iter().map(|task| &task["payload"]).collect();
    assert_eq!(lane, ["lane-2", "lane-3"], "in their order");
    assert!(ran["often"].len() >= 2, "{} runs", ran["often"].len());
    // The follow-up has the result, and the one that waited came after both.
    assert_eq!(
        ran["next"][0]["previous"]["result"], 1,
        "{}",
        ran["next"][0]
    );
    assert_eq!(ran["joined"].len(), 1);
    let tree = state(site, &ids["tree"]).await;
    assert_eq!(tree["tree_state"], "completed", "{tree}");

    // Tasks that stand still can be let go.
    let gate = json!({"gate": "open"});
    site.done("POST", "/v1/callbacks/held/gate", gate).await;
    let ran = work(site, ids, &["held-1", "held-2"]).await;
    assert_eq!(ran["held"].len(), 2);
    let redrive = json!({"ids": [ids["dead"]]});
    site.done("POST", "/v1/dead-letters/redrive", redrive).await;
    work(site, ids, &["dead"]).await;

    // A name that was used stands for the same task.
    let again = json!({"tasks": [{"callback": "work", "delay": "1h", "idempotency_key": "once"}]});
    let again = site.done("POST", "/v1/tasks:batchCreate", again).await;
    assert_eq!(again["results"][0]["task"]["id"], ids["twice"], "{again}");
    let revoke = format!("/v1/api-keys/{}", ids["producer"].as_str().unwrap());
    site.done("DELETE", &revoke, Value::Null).await;
}
