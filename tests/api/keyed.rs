//! Keys of trees, and of tasks that wait for others, over the API; and `after` where it goes and where it does not.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Site, task_id};

const SECOND: Duration = Duration::from_secs(1);

async fn site() -> Site {
    let site = Site::new();
    site.world.pass(5 * SECOND).await;
    site
}

async fn register(site: &Site, body: Value) -> Value {
    let answer = site.post("/v1/tasks", body.to_string()).await;
    assert_eq!(answer.status, 201, "{:?}", answer.body);
    answer.json()
}

async fn read(site: &Site, task: &Value) -> Value {
    let path = format!("/v1/tasks/{}", task["id"].as_str().unwrap());
    site.get(&path).await.ok()
}

/// Runs what is due. Returns the payloads.
async fn work(site: &Site) -> Vec<Value> {
    let poll = json!({"worker": "w", "callbacks": ["work"], "max_tasks": 100, "wait": "1s"});
    let polled = site.post("/v1/worker/poll", poll.to_string()).await.ok();
    let tasks = polled["tasks"].as_array().unwrap().clone();
    for task in &tasks {
        let item = json!({"id": task["id"], "attempt": task["attempt"], "outcome": "succeeded"});
        let body = json!({"worker": "w", "tasks": [item]});
        site.post("/v1/worker/settle", body.to_string()).await.ok();
    }
    site.world.pass(SECOND / 2).await;
    let mut ran: Vec<Value> = tasks.iter().map(|task| task["payload"].clone()).collect();
    ran.sort_by_key(Value::to_string);
    ran
}

fn task(payload: &str) -> Value {
    json!({"callback": "work", "payload": payload})
}

fn with(mut task: Value, fields: Value) -> Value {
    let Value::Object(fields) = fields else {
        panic!("{fields} is no object");
    };
    task.as_object_mut().unwrap().extend(fields);
    task
}

/// A tree with a key, whose child comes later than its root.
fn tree(wish: &str) -> Value {
    let child = with(task("child"), json!({"delay": "3s"}));
    with(
        task("root"),
        json!({"key": "k", "on_conflict": wish, "children": [child]}),
    )
}

#[tokio::test(start_paused = true)]
async fn a_key_names_one_tree_until_it_has_ended() {
    let site = site().await;
    let first = register(&site, tree("reject")).await;
    assert_eq!(
        (&first["key"], &first["outcome"]),
        (&json!("k"), &json!("created"))
    );
    let ignored = site
        .post("/v1/tasks", tree("ignore").to_string())
        .await
        .ok();
    assert_eq!(
        (&ignored["id"], &ignored["outcome"]),
        (&first["id"], &json!("existing"))
    );
    let taken = |wish| {
        let site = &site;
        async move {
            let refused = site.post("/v1/tasks", tree(wish).to_string()).await;
            let existing = refused.json()["existing"].clone();
            (refused.problem(), existing)
        }
    };
    for wish in ["reject", "replace"] {
        let (problem, existing) = taken(wish).await;
        assert_eq!((problem.status, &*problem.code), (409, "key_taken"));
        assert_eq!(existing, first["id"]);
        assert!(
            problem.detail.contains("cancel it with its tree"),
            "{problem:?}"
        );
    }
    assert_eq!(work(&site).await, ["root"]);
    // Its own run is over, and its tree is not.
    assert_eq!(read(&site, &first).await["state"], "waiting_for_children");
    assert_eq!(taken("replace").await.0.status, 409);
    let named = json!({"callback": "work", "key": "k", "on_conflict": "replace"});
    let refused = site.post("/v1/tasks", named.to_string()).await;
    assert_eq!(refused.problem().code, "key_taken");
    site.world.pass(3 * SECOND).await;
    // No other child was planted under it.
    assert_eq!(work(&site).await, ["child"]);
    site.world.pass(SECOND).await;
    assert_eq!(read(&site, &first).await["tree_state"], "completed");
    let next = register(&site, tree("reject")).await;
    assert_ne!(next["id"], first["id"]);
    let found = site.get("/v1/tasks?callback=work&key=k").await.ok();
    assert_eq!(found["tasks"][0]["id"], next["id"]);
    assert_eq!(work(&site).await, ["root"]);
    site.world.pass(3 * SECOND).await;
    assert_eq!(work(&site).await, ["child"]);
}

#[tokio::test(start_paused = true)]
async fn a_tree_takes_the_place_of_a_task_and_a_repetition_is_the_same_tree() {
    let site = site().await;
    let old = with(task("old"), json!({"key": "k", "delay": "1h"}));
    let old = register(&site, old).await;
    let replacing = with(tree("replace"), json!({"idempotency_key": "once"}));
    let new = register(&site, replacing.clone()).await;
    assert_eq!(new["outcome"], "replaced", "{new}");
    assert_eq!(read(&site, &old).await["reason"], "replaced");
    site.world.pass(2 * SECOND).await;
    let again = site.post("/v1/tasks", replacing.to_string()).await.ok();
    assert_eq!(
        (&again["id"], &again["outcome"]),
        (&new["id"], &json!("existing"))
    );
    assert_eq!(work(&site).await, ["root"]);
    site.world.pass(3 * SECOND).await;
    assert_eq!(work(&site).await, ["child"]);
    site.world.pass(SECOND).await;
    assert_eq!(read(&site, &new).await["tree_state"], "completed");
}

#[tokio::test(start_paused = true)]
async fn a_key_names_one_task_that_waits_for_others() {
    let site = site().await;
    let first = register(&site, with(task("first"), json!({"delay": "5s"}))).await;
    let waits = |payload, wish: &str, id: &Value| {
        let after = json!({"ids": [id]});
        with(
            task(payload),
            json!({"key": "k", "on_conflict": wish, "after": after}),
        )
    };
    // A wait that cannot be leaves the key free.
    let unknown = waits("x", "reject", &json!(task_id()));
    let refused = site.post("/v1/tasks", unknown.to_string()).await;
    assert_eq!(refused.problem().code, "dependency_not_found");
    let one = register(&site, waits("one", "reject", &first["id"])).await;
    assert_eq!(one["state"], "waiting", "{one}");
    let ignored = waits("two", "ignore", &first["id"]);
    let ignored = site.post("/v1/tasks", ignored.to_string()).await.ok();
    assert_eq!(ignored["id"], one["id"]);
    let refused = waits("two", "reject", &first["id"]);
    let refused = site.post("/v1/tasks", refused.to_string()).await;
    assert_eq!(refused.problem().code, "key_taken");
    let three = register(&site, waits("three", "replace", &first["id"])).await;
    assert_eq!(three["outcome"], "replaced", "{three}");
    let left = read(&site, &one).await;
    assert_eq!(
        (&left["state"], &left["reason"]),
        (&json!("cancelled"), &json!("replaced")),
        "{left}"
    );
    assert_eq!(three["after"]["ids"], json!([first["id"]]));
    site.world.pass(5 * SECOND).await;
    assert_eq!(work(&site).await, ["first"]);
    assert_eq!(work(&site).await, ["three"]);
    site.world.pass(120 * SECOND).await;
    assert_eq!(work(&site).await, Vec::<Value>::new());
    // It has ended, so its key is free; and a task that waits is cancelled by its key.
    let later = register(&site, with(task("later"), json!({"delay": "1h"}))).await;
    let four = register(&site, waits("four", "reject", &later["id"])).await;
    let by_key = json!({"callback": "work", "key": "k"}).to_string();
    let cancelled = site.post("/v1/tasks:cancel", by_key).await.ok();
    assert_eq!(
        (&cancelled["outcome"], &cancelled["task"]["id"]),
        (&json!("cancelled"), &four["id"])
    );
    register(&site, waits("five", "reject", &later["id"])).await;
}

#[tokio::test(start_paused = true)]
async fn tasks_in_children_wait_for_tasks_that_were_there_before() {
    let site = site().await;
    let first = register(&site, with(task("first"), json!({"delay": "3s"}))).await;
    let waits = |payload, id: &Value| with(task(payload), json!({"after": {"ids": [id]}}));
    let branch = with(
        waits("branch", &first["id"]),
        json!({"children": [task("leaf")]}),
    );
    let whole = |branch: Value| with(task("root"), json!({"children": [task("free"), branch]}));
    let root = register(&site, whole(branch)).await;
    assert_eq!(work(&site).await, ["free", "leaf", "root"]);
    let nodes = site
        .get(&format!("/v1/tasks/{}/tree", root["id"].as_str().unwrap()))
        .await
        .ok()["nodes"]
        .clone();
    let waiting = nodes.as_array().unwrap().iter();
    let waiting = waiting.filter(|node| node["state"] == "waiting").count();
    assert_eq!(waiting, 1, "{nodes}");
    site.world.pass(3 * SECOND).await;
    assert_eq!(work(&site).await, ["first"]);
    assert_eq!(work(&site).await, ["branch"]);
    site.world.pass(SECOND).await;
    assert_eq!(read(&site, &root).await["tree_state"], "completed");
    // A wait that cannot be refuses the whole tree.
    let before = site.get("/v1/tasks").await.ok()["tasks"]
        .as_array()
        .unwrap()
        .len();
    let deep = with(
        task("branch"),
        json!({"children": [waits("leaf", &json!(task_id()))]}),
    );
    let refused = site.post("/v1/tasks", whole(deep).to_string()).await;
    let problem = refused.problem();
    assert_eq!(
        (problem.status, &*problem.code),
        (404, "dependency_not_found")
    );
    assert_eq!(
        problem.errors[0].pointer, "/children/1/children/0/after/ids/0",
        "{problem:?}"
    );
    let busy = register(
        &site,
        with(task("busy"), json!({"delay": "1h", "children": []})),
    )
    .await;
    let refused = site
        .post("/v1/tasks", whole(waits("x", &busy["id"])).to_string())
        .await;
    let problem = refused.problem();
    assert_eq!((problem.status, &*problem.code), (422, "unusable_after"));
    assert_eq!(problem.errors[0].pointer, "/children/1/after/ids/0");
    site.world.pass(120 * SECOND).await;
    assert_eq!(work(&site).await, Vec::<Value>::new());
    let after = site.get("/v1/tasks").await.ok()["tasks"]
        .as_array()
        .unwrap()
        .len();
    assert!(after <= before + 1, "{after} tasks, {before} before");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_says_why() {
    let site = site().await;
    let known = register(&site, with(task("known"), json!({"delay": "1h"}))).await;
    let waits = with(task("x"), json!({"after": {"ids": [known["id"]]}}));
    let keyed = with(task("x"), json!({"key": "k"}));
    for (body, code, pointer, words) in [
        (
            with(keyed.clone(), json!({"parent": known["id"]})),
            "unusable_parent",
            "/key",
            "before it could be asked",
        ),
        (
            with(task("x"), json!({"children": [keyed.clone()]})),
            "unusable_parent",
            "/children/0/key",
            "before it could be asked",
        ),
        (
            with(task("x"), json!({"then": [{"task": waits}]})),
            "unusable_then",
            "/then/0/task/after",
            "may be forgotten by then",
        ),
        (
            with(task("x"), json!({"then": [{"task": keyed}]})),
            "unusable_then",
            "/then/0/task/key",
            "follows another one",
        ),
    ] {
        let problem = site.post("/v1/tasks", body.to_string()).await.problem();
        assert_eq!((problem.status, &*problem.code), (422, code), "{problem:?}");
        let error = &problem.errors[0];
        assert_eq!(error.pointer, pointer, "{problem:?}");
        assert!(error.detail.contains(words), "{problem:?}");
    }
    let schedule = json!({"every": "1m", "task": waits}).to_string();
    let put = super::request(axum::http::Method::PUT, "/v1/schedules/s", schedule);
    let problem = site.send(put).await.problem();
    let error = &problem.errors[0];
    assert_eq!(error.pointer, "/task/after", "{problem:?}");
    assert!(error.detail.contains("end once"), "{problem:?}");
}

/// Tasks that name each other are refused when that is seen, and end at their deadlines otherwise.
#[tokio::test(start_paused = true)]
async fn tasks_that_wait_for_each_other_are_refused_or_end() {
    let site = site().await;
    let start = site.world.time.now().after(SECOND);
    let ids: Vec<String> = (1..=3)
        .map(|number| tickwheel::model::client_id::make(start, 60 * SECOND, 1, number).to_string())
        .collect();
    let start = tickwheel::model::time::rfc3339(start);
    let waits = |own: usize, other: usize, more: Value| {
        let after = with(json!({"ids": [ids[other]]}), more);
        with(
            task("never"),
            json!({"id": ids[own], "start_time": start, "after": after}),
        )
    };
    let own = site
        .post("/v1/tasks", waits(0, 0, json!({})).to_string())
        .await;
    let problem = own.problem();
    assert_eq!((problem.status, &*problem.code), (422, "unusable_after"));
    // Three in a circle, in one request: none of them was there before.
    let circle = |more: &Value| {
        let tasks: Vec<Value> = (0..3)
            .map(|at| waits(at, (at + 1) % 3, more.clone()))
            .collect();
        json!({"tasks": tasks}).to_string()
    };
    let refused = site
        .post("/v1/tasks:batchCreate", circle(&json!({})))
        .await
        .ok();
    for result in refused["results"].as_array().unwrap() {
        assert_eq!(result["error"]["code"], "dependency_not_found", "{refused}");
    }
    let later = json!({"later": true, "deadline": "30s"});
    let made = site
        .post("/v1/tasks:batchCreate", circle(&later))
        .await
        .ok();
    for result in made["results"].as_array().unwrap() {
        assert_eq!(result["task"]["state"], "waiting", "{made}");
    }
    site.world.pass(20 * SECOND).await;
    assert_eq!(
        read(&site, &json!({"id": ids[0]})).await["state"],
        "waiting"
    );
    site.world.pass(15 * SECOND).await;
    for id in &ids {
        let ended = read(&site, &json!({"id": id})).await;
        let reason = ended["reason"].as_str().unwrap_or_default();
        assert!(
            ["deadline_passed", "dependency_failed"].contains(&reason),
            "{ended}"
        );
    }
    assert_eq!(work(&site).await, Vec::<Value>::new());
}
