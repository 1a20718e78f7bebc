//! Clients have the ends of tasks told, and cannot touch the service's own tasks.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tickwheel::{
    app::executor::Executor,
    http::{Options, router},
    model::{ids::TaskId, state::Outcome, time::Millis, wheel::WheelNumber},
};
use tokio_util::sync::CancellationToken;

use super::{Site, request};
use crate::sim::world::{Behaviour, World};

const SECOND: Duration = Duration::from_secs(1);

/// A site with an executor.
pub(super) async fn site() -> Site {
    executing(World::new(1, 1000)).await
}

async fn executing(world: World) -> Site {
    world.queue.create_topic("ends", None);
    let node = world.node(1);
    let executor = Executor {
        service: node.service(),
        node: "node".to_owned(),
        time: node.time.clone(),
        drain_limit: SECOND,
        allowed: Default::default(),
        mail: None,
    };
    tokio::spawn(executor.run(CancellationToken::new()));
    world.pass(SECOND * 3).await;
    Site::of(world, node)
}

fn succeeds() -> Behaviour {
    Arc::new(|_, _| {
        let result = Some(axum::body::Bytes::from_static(b"{\"sum\":7}").into());
        (SECOND / 10, Some(Outcome::Succeeded { result }))
    })
}

pub(super) fn messages(site: &Site) -> Vec<Value> {
    let records = site.world.queue.records("ends").into_iter();
    records
        .map(|published| serde_json::from_slice(&published.record.value).unwrap())
        .collect()
}

async fn registered(site: &Site, body: Value) -> String {
    let answer = site.post("/v1/tasks", body.to_string()).await;
    assert_eq!(answer.status, 201, "{:?}", answer.body);
    answer.json()["id"].as_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn an_end_is_told_with_its_result_and_its_attempts() {
    let site = site().await;
    site.world.worker(site.node.service(), succeeds());
    let notify = json!({"kafka": {"topic": "ends"}});
    let body = json!({"callback": "work", "payload": {"secret": 1}, "labels": {"a": "b"}, "notify": notify});
    let id = registered(&site, body).await;
    let other = registered(&site, json!({"callback": "work"})).await;
    site.world.pass(SECOND * 5).await;
    let told = messages(&site);
    assert_eq!(told.len(), 1, "{told:?} {other}");
    let (message, data) = (&told[0], &told[0]["data"]);
    assert_eq!(message["type"], "task.succeeded");
    assert_eq!(
        (&data["task_id"], &data["state"]),
        (&json!(id), &json!("succeeded"))
    );
    assert_eq!(message["timestamp"], data["end_time"]);
    let task = &data["task"];
    assert_eq!(
        (&task["result"], &task["labels"]["a"]),
        (&json!({"sum": 7}), &json!("b"))
    );
    assert_eq!(task["attempts"][0]["outcome"], "succeeded");
    assert!(task.get("payload").is_none(), "{task}");
    let record = &site.world.queue.records("ends")[0].record;
    let header = |name: &str| {
        let found = record.headers.iter().find(|(found, _)| found == name);
        String::from_utf8(found.unwrap().1.to_vec()).unwrap()
    };
    assert_eq!(header("ce_type"), "tickwheel.task.succeeded");
    assert_eq!(header("ce_id"), message["id"].as_str().unwrap());
    assert_eq!(
        (header("ce_subject"), header("content-type")),
        (id.clone(), "application/json".to_owned())
    );
    // The task reads back with it, so that it can be registered again as it is.
    let read = site.get(&format!("/v1/tasks/{id}?view=FULL")).await.ok();
    assert_eq!(read["notify"], notify);
    assert!(
        site.get(&format!("/v1/tasks/{id}"))
            .await
            .ok()
            .get("notify")
            .is_none()
    );
}

#[tokio::test(start_paused = true)]
async fn a_callback_has_its_ends_told_unless_a_task_says_otherwise() {
    let site = site().await;
    site.world.queue.create_topic("deaths", None);
    let policy =
        json!({"max_attempts": 1, "notify": {"kafka": {"topic": "deaths"}, "states": ["dead"]}});
    let put = request(
        axum::http::Method::PUT,
        "/v1/callbacks/work",
        policy.to_string(),
    );
    let answer = site.send(put).await;
    assert_eq!(answer.status, 201, "{:?}", answer.body);
    assert_eq!(answer.json()["notify"], policy["notify"]);
    site.world.pass(SECOND * 3).await;
    let fails: Behaviour = Arc::new(|_, _| {
        let error = "no route".to_owned();
        (SECOND / 10, Some(Outcome::Retry { error, after: None }))
    });
    site.world.worker(site.node.service(), fails);
    let by_callback = registered(&site, json!({"callback": "work"})).await;
    let own =
        json!({"callback": "work", "notify": {"kafka": {"topic": "ends"}, "states": ["dead"]}});
    let own = registered(&site, own).await;
    let cancelled = registered(&site, json!({"callback": "work", "delay": "1h"})).await;
    site.post(&format!("/v1/tasks/{cancelled}/cancel"), "")
        .await
        .ok();
    site.world.pass(SECOND * 10).await;
    let of = |topic: &str| {
        let records = site.world.queue.records(topic);
        let keys = records
            .iter()
            .map(|record| record.record.key.clone().unwrap());
        keys.map(|key| String::from_utf8(key.to_vec()).unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!((of("deaths"), of("ends")), (vec![by_callback], vec![own]));
}

/// Each end has a message of its own, and a task says which of them it wants.
#[tokio::test(start_paused = true)]
async fn the_end_of_a_tree_is_told_apart_from_that_of_the_run() {
    let site = site().await;
    site.world.worker(site.node.service(), succeeds());
    let notify = |states: &[&str]| json!({"kafka": {"topic": "ends"}, "states": states});
    let leaf = json!({"callback": "work", "delay": "20s"});
    let both = notify(&["succeeded", "completed"]);
    let both = registered(
        &site,
        json!({"callback": "work", "notify": both, "children": [leaf]}),
    )
    .await;
    let of_tree = notify(&["completed", "faulted"]);
    let of_tree = registered(
        &site,
        json!({"callback": "work", "notify": of_tree, "children": []}),
    )
    .await;
    let other = notify(&["faulted"]);
    registered(
        &site,
        json!({"callback": "work", "notify": other, "children": []}),
    )
    .await;
    let kinds = || {
        let told = messages(&site).into_iter();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let mut kinds: Vec<(String, String)> = told
            .map(|told| (text(&told["data"]["task_id"]), text(&told["type"])))
            .collect();
        kinds.sort();
        kinds
    };
    let sorted = |mut ends: Vec<(&String, &str)>| {
        ends.sort();
        ends.into_iter()
            .map(|(id, kind)| (id.clone(), kind.to_owned()))
            .collect::<Vec<_>>()
    };
    site.world.pass(SECOND * 10).await;
    let first = vec![(&both, "task.succeeded"), (&of_tree, "tree.completed")];
    assert_eq!(kinds(), sorted(first.clone()));
    site.world.pass(SECOND * 60).await;
    let all = [first, vec![(&both, "tree.completed")]].concat();
    assert_eq!(kinds(), sorted(all));

    let records = site.world.queue.records("ends");
    let record = &records.last().unwrap().record;
    let header = |name: &str| {
        let found = record.headers.iter().find(|(found, _)| found == name);
        String::from_utf8(found.unwrap().1.to_vec()).unwrap()
    };
    let message: Value = serde_json::from_slice(&record.value).unwrap();
    assert_eq!(header("ce_type"), "tickwheel.tree.completed");
    assert_eq!(json!(header("ce_id")), message["id"]);
    assert_eq!(
        (header("ce_subject"), record.key.as_deref()),
        (both.clone(), Some(both.as_bytes()))
    );
    let data = &message["data"];
    assert_eq!(data["tree_state"], "completed");
    assert_eq!(message["timestamp"], data["tree_end_time"]);
    assert_eq!(data["task"]["tree_state"], "completed");
    let read = site.get(&format!("/v1/tasks/{both}?view=FULL")).await.ok();
    assert_eq!(read["notify"]["states"], json!(["succeeded", "completed"]));
}

/// The default of a callback tells nothing about the trees of tasks that have none.
#[tokio::test(start_paused = true)]
async fn a_callback_has_the_ends_of_its_trees_told() {
    let site = site().await;
    let policy = json!({"notify": {"kafka": {"topic": "ends"}, "states": ["faulted"]}});
    let put = request(
        axum::http::Method::PUT,
        "/v1/callbacks/work",
        policy.to_string(),
    );
    let answer = site.send(put).await;
    assert_eq!(answer.status, 201, "{:?}", answer.body);
    assert_eq!(answer.json()["notify"], policy["notify"]);
    site.world.pass(SECOND * 3).await;
    let fails: Behaviour = Arc::new(|_, _| {
        let error = "no route".to_owned();
        (SECOND / 10, Some(Outcome::Failed { error }))
    });
    site.world.worker(site.node.service(), fails);
    registered(&site, json!({"callback": "work"})).await;
    let parent = registered(&site, json!({"callback": "work", "children": []})).await;
    site.world.pass(SECOND * 10).await;
    let told = messages(&site);
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(
        (&told[0]["type"], &told[0]["data"]["task_id"]),
        (&json!("tree.faulted"), &json!(parent))
    );
}

#[tokio::test(start_paused = true)]
async fn a_wish_that_cannot_be_met_is_refused_with_its_field() {
    let site = Site::new();
    for (body, status, pointer) in [
        (json!({"callback": "c", "notify": {}}), 400, "/notify"),
        (
            json!({"callback": "c", "notify": {"kafka": {"topic": "a b"}}}),
            400,
            "/notify/kafka/topic",
        ),
        (
            json!({"callback": "c", "notify": {"kafka": {"topic": "tickwheel.c.high"}}}),
            400,
            "/notify/kafka/topic",
        ),
        (
            json!({"callback": "c", "notify": {"kafka": {"topic": "t"}, "states": []}}),
            400,
            "/notify/states",
        ),
        (
            json!({"kafka": {"topic": "t"}, "notify": {"kafka": {"topic": "t"}}}),
            400,
            "/notify",
        ),
        (
            json!({"callback": "c", "notify": {"kafka": {"topic": "t"}, "states": ["done"]}}),
            400,
            "/notify/states/0",
        ),
        (
            json!({"callback": "c", "notify": {"kafka": {"topic": "t"}, "states": ["dead", "faulted"]}}),
            400,
            "/notify/states",
        ),
        (
            json!({"callback": "c", "children": [
                {"callback": "c", "notify": {"kafka": {"topic": "t"}, "states": ["completed"]}}
            ]}),
            400,
            "/children/0/notify/states",
        ),
        (
            json!({"callback": "c", "then": [{"task": {
                "callback": "c", "notify": {"kafka": {"topic": "t"}, "states": ["completed"]}
            }}]}),
            400,
            "/then/0/task/notify/states",
        ),
    ] {
        let answer = site.post("/v1/tasks", body.to_string()).await;
        assert_eq!(answer.status, status, "{body}");
        let problem = answer.problem();
        assert_eq!(problem.errors[0].pointer, pointer, "{body}: {problem:?}");
    }
    let options = Options {
        has_kafka: false,
        ..Options::new(site.node.time.clone(), CancellationToken::new())
    };
    let plain = router(site.node.service(), options);
    let body = json!({"callback": "c", "notify": {"kafka": {"topic": "t"}}}).to_string();
    let sent = request(axum::http::Method::POST, "/v1/tasks", body.clone());
    let problem = super::Answer::of(plain.clone(), sent).await.problem();
    assert_eq!(
        (&*problem.code, &*problem.errors[0].pointer),
        ("unsupported", "/notify/kafka")
    );
    let put = json!({"notify": {"kafka": {"topic": "t"}}}).to_string();
    let put = request(axum::http::Method::PUT, "/v1/callbacks/c", put);
    let problem = super::Answer::of(plain, put).await.problem();
    assert_eq!(problem.code, "unsupported");
}

#[tokio::test(start_paused = true)]
async fn what_is_the_services_own_is_read_and_not_touched() {
    let site = site().await;
    site.world.worker(site.node.service(), succeeds());
    let notify = json!({"kafka": {"topic": "ends"}});
    registered(&site, json!({"callback": "work", "notify": notify})).await;
    site.world.pass(SECOND * 5).await;
    let internal = messages(&site)[0]["id"].as_str().unwrap().to_owned();
    let read = site.get(&format!("/v1/tasks/{internal}")).await.ok();
    assert_eq!(
        (&read["target"]["name"], &read["state"]),
        (&json!("tickwheel.notify"), &json!("succeeded"))
    );
    let ids = async |query: &str| {
        let page = site.get(&format!("/v1/tasks?{query}")).await.ok();
        let tasks = page["tasks"].as_array().unwrap();
        tasks
            .iter()
            .map(|task| task["id"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert!(!ids("").await.contains(&internal));
    assert!(ids("internal=true").await.contains(&internal));
    assert_eq!(
        ids("callback=tickwheel.notify").await,
        std::slice::from_ref(&internal)
    );

    let own = TaskId::internal(Millis(1_800_000_009_000), WheelNumber::new(0).unwrap(), 7);
    let own = own.to_string();
    for (path, body) in [
        (
            "/v1/tasks".to_owned(),
            json!({"callback": "tickwheel.notify"}),
        ),
        (
            "/v1/tasks:cancel".to_owned(),
            json!({"callback": "tickwheel.notify", "key": "k"}),
        ),
        (format!("/v1/tasks/{internal}/cancel"), json!({})),
        (format!("/v1/tasks/{internal}/run"), json!({})),
        (
            format!("/v1/tasks/{internal}/reschedule"),
            json!({"delay": "1s"}),
        ),
        (
            "/v1/worker/poll".to_owned(),
            json!({"worker": "w", "callbacks": ["tickwheel.notify"]}),
        ),
        (
            "/v1/worker/subscribe".to_owned(),
            json!({"worker": "w", "callbacks": ["tickwheel.notify"]}),
        ),
        (
            "/v1/callbacks/tickwheel.notify/gate".to_owned(),
            json!({"gate": "paused"}),
        ),
        (
            "/v1/jobs".to_owned(),
            json!({"kind": "cancel", "filter": {"callback": "tickwheel.notify"}}),
        ),
    ] {
        let body = if body == json!({}) {
            String::new()
        } else {
            body.to_string()
        };
        let answer = site.post(&path, body).await;
        assert_eq!(answer.status, 403, "{path}: {:?}", answer.body);
        assert_eq!(answer.problem().code, "reserved", "{path}");
    }
    let put = request(
        axum::http::Method::PUT,
        "/v1/callbacks/tickwheel.notify",
        "{}",
    );
    assert_eq!(site.send(put).await.problem().code, "reserved");
    for (path, body) in [
        (
            "/v1/worker/claim",
            json!({"worker": "w", "messages": [{"id": own, "generation": 0, "expected_attempt": 0}]}),
        ),
        (
            "/v1/worker/heartbeat",
            json!({"worker": "w", "tasks": [{"id": own, "attempt": 1}]}),
        ),
        (
            "/v1/worker/settle",
            json!({"worker": "w", "tasks": [{"id": own, "attempt": 1, "outcome": "succeeded"}]}),
        ),
        ("/v1/tasks:batchCancel", json!({"ids": [own]})),
        (
            "/v1/tasks:batchCreate",
            json!({"tasks": [{"callback": "tickwheel.notify"}]}),
        ),
    ] {
        let answer = site.post(path, body.to_string()).await.ok();
        assert_eq!(
            answer["results"][0]["error"]["code"], "reserved",
            "{path}: {answer}"
        );
    }
    let taken = json!({"callback": "c", "id": own, "start_time": "2027-01-15T08:00:09Z"});
    let problem = site.post("/v1/tasks", taken.to_string()).await.problem();
    assert_eq!(problem.code, "unusable_id");
    assert!(problem.detail.contains("service's own"), "{problem:?}");
}

/// The figures are about the tasks of clients.
#[tokio::test(start_paused = true)]
async fn figures_leave_internal_tasks_out() {
    let site = site().await;
    site.world.worker(site.node.service(), succeeds());
    let notify = json!({"kafka": {"topic": "ends"}});
    for _ in 0..3 {
        registered(&site, json!({"callback": "work", "notify": notify})).await;
    }
    site.world.pass(SECOND * 10).await;
    assert_eq!(messages(&site).len(), 3);
    let stats = site.get("/v1/stats").await.ok();
    let text = stats.to_string();
    assert!(!text.contains("tickwheel.notify"), "{text}");
}

/// A node with the role `executor` and without `controller` runs internal tasks and answers no polls.
#[tokio::test(start_paused = true)]
async fn a_node_may_execute_and_answer_no_polls() {
    let mut world = World::new(1, 1000);
    world.settings.answers_polls = false;
    let site = executing(world).await;
    site.world.worker(site.node.service(), succeeds());
    let notify = json!({"kafka": {"topic": "ends"}});
    registered(&site, json!({"callback": "work", "notify": notify})).await;
    site.world.pass(SECOND * 5).await;
    assert_eq!(messages(&site).len(), 1);
    let poll = json!({"worker": "w", "callbacks": ["work"], "wait": "0s"});
    let problem = site
        .post("/v1/worker/poll", poll.to_string())
        .await
        .problem();
    assert_eq!(problem.code, "role_missing");
}

/// The command of docs/notify.md asks for what the page says.
#[tokio::test(start_paused = true)]
async fn the_command_of_the_page_has_a_death_told() {
    let command = crate::readme_block::block_of(include_str!("../../docs/notify.md"), "notify");
    let (_, body) = command.split_once("-d '").unwrap();
    let body: Value = serde_json::from_str(body.trim().trim_end_matches('\'')).unwrap();
    let site = site().await;
    let id = registered(&site, body).await;
    let read = site.get(&format!("/v1/tasks/{id}?view=FULL")).await.ok();
    assert_eq!(
        read["notify"],
        json!({"kafka": {"topic": "ends"}, "states": ["failed", "dead"]})
    );
    let claim = json!({"worker": "w", "callbacks": ["greet"], "wait": "5s"});
    let polled = site.post("/v1/worker/poll", claim.to_string()).await.ok();
    let attempt = &polled["tasks"][0]["attempt"];
    let report = json!({"id": id, "attempt": attempt, "outcome": "failed", "error": "no route"});
    let report = json!({"worker": "w", "tasks": [report]});
    site.post("/v1/worker/settle", report.to_string())
        .await
        .ok();
    site.world.pass(SECOND * 5).await;
    let told = messages(&site);
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(
        (&told[0]["type"], &told[0]["data"]["task"]["error"]),
        (&json!("task.failed"), &json!("no route"))
    );
}
