//! Dead letters show people the tasks that are dead, and let them redrive and delete them.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use axum::http::Method;
use serde_json::{Value, json};
use tickwheel::{
    model::state::Outcome,
    store::{Freshness, TaskStore as _, WheelStore as _},
};

use super::{Site, request, task_id};
use crate::sim::world::{Behaviour, World};

const SECOND: Duration = Duration::from_secs(1);
const LIST: &str = "/v1/dead-letters";
pub(super) const GROUPS: &str = "/v1/dead-letters:groups";
const REDRIVE: &str = "/v1/dead-letters/redrive";

/// Every attempt fails with an error that names its task.
fn fails() -> Behaviour {
    Arc::new(|id, attempt| {
        let error = format!("user {id} is gone, attempt {attempt}\nline 2");
        let outcome = Outcome::Retry { error, after: None };
        (SECOND / 10, Some(outcome))
    })
}

/// The class of these errors: the words of an id are hexadecimal, and nearly all have a digit.
const CLASS: &str = "is gone, attempt #";

/// Registers tasks of a callback and waits until they are dead, one after the other.
pub(super) async fn dead(site: &Site, callback: &str, count: usize, more: Value) -> Vec<String> {
    let mut ids = Vec::new();
    for _ in 0..count {
        let mut body = json!({"callback": callback, "max_attempts": 1, "payload": {"secret": 7}});
        for (name, value) in more.as_object().unwrap() {
            body[name] = value.clone();
        }
        let answer = site.post("/v1/tasks", body.to_string()).await;
        assert_eq!(answer.status, 201, "{:?}", answer.body);
        let id = answer.json()["id"].as_str().unwrap().to_owned();
        let ended = site.get(&format!("/v1/tasks/{id}?wait=30s")).await.ok();
        assert_eq!(ended["state"], "dead", "{ended}");
        // The end steps come behind the row.
        site.world.pass(SECOND).await;
        ids.push(id);
    }
    ids
}

/// Every page of a list.
pub(super) async fn listed(site: &Site, query: &str) -> Vec<Value> {
    let (mut letters, mut token) = (Vec::new(), String::new());
    for _ in 0..100 {
        let page = site
            .get(&format!("{LIST}?{query}&page_token={token}"))
            .await
            .ok();
        letters.extend(page["dead_letters"].as_array().unwrap().clone());
        match page["next_page_token"].as_str() {
            Some(next) => next.clone_into(&mut token),
            None => return letters,
        }
    }
    panic!("the list does not end");
}

fn ids_of(letters: &[Value]) -> Vec<&str> {
    let id = |letter: &'_ Value| letter["id"].as_str().map(str::len).is_some();
    assert!(letters.iter().all(id));
    letters
        .iter()
        .map(|letter| letter["id"].as_str().unwrap())
        .collect()
}

async fn redriven(site: &Site, body: Value) -> Value {
    site.post(REDRIVE, body.to_string()).await.ok()
}

async fn state(site: &Site, id: &str) -> Value {
    site.get(&format!("/v1/tasks/{id}")).await.ok()["state"].clone()
}

#[tokio::test(start_paused = true)]
async fn dead_tasks_are_listed_newest_first_and_grouped_by_error() {
    check_lists(World::new(2, 1000)).await;
}

#[tokio::test(start_paused = true)]
async fn dead_tasks_are_listed_newest_first_and_grouped_by_error_on_disk() {
    check_lists(World::on_disk(2, 1000)).await;
}

async fn check_lists(world: World) {
    let node = world.node(1);
    let site = Site::of(world, node);
    let worker = site.world.worker(site.node.service(), fails());
    site.world.pass(3 * SECOND).await;
    let ids = dead(&site, "work", 23, json!({})).await;
    let mut newest_first: Vec<&str> = ids.iter().map(String::as_str).collect();
    newest_first.reverse();
    for size in [1, 7, 22, 23, 1000] {
        for filter in ["", "callback=work&", "callback=w*&"] {
            let letters = listed(&site, &format!("{filter}page_size={size}")).await;
            assert_eq!(ids_of(&letters), newest_first, "{filter} {size}");
        }
    }
    let letters = listed(&site, "callback=work").await;
    for letter in &letters {
        let task = &letter["task"];
        assert_eq!(letter["callback"], "work");
        assert_eq!(
            (&letter["id"], &letter["end_time"]),
            (&task["id"], &task["end_time"])
        );
        assert_eq!(
            (&letter["attempt"], &task["state"]),
            (&json!(1), &json!("dead"))
        );
        let class = letter["error"].as_str().unwrap();
        assert!(class.ends_with(CLASS) && !class.contains('\n'), "{class}");
        assert!(task["error"].as_str().unwrap().contains("line 2"));
        assert!(task.get("payload").is_none(), "a list has no payloads");
    }
    for other in ["other", "worker", "worker*"] {
        assert!(listed(&site, &format!("callback={other}")).await.is_empty());
    }
    let groups = site.get(&format!("{GROUPS}?callback=work")).await.ok();
    let groups = groups.as_array().unwrap();
    let tasks: u64 = groups
        .iter()
        .map(|group| group["tasks"].as_u64().unwrap())
        .sum();
    assert_eq!(tasks, 23);
    for (several, found) in [("wo*", json!(groups)), ("wor.*", json!([]))] {
        let of = format!("{GROUPS}?callback={several}");
        assert_eq!(site.get(&of).await.ok(), found, "{several}");
    }
    let largest = &groups[0];
    assert_eq!(
        site.get(GROUPS).await.ok(),
        json!(groups),
        "of all callbacks"
    );
    let names: BTreeSet<&str> = largest
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(
        names,
        ["callback", "error", "newest", "oldest", "tasks"].into()
    );
    assert!(largest["oldest"].as_str() <= largest["newest"].as_str());
    // The filter takes the class, and a whole error of it.
    let of_class: Vec<&Value> = letters
        .iter()
        .filter(|letter| letter["error"] == largest["error"])
        .collect();
    assert_eq!(of_class.len() as u64, largest["tasks"].as_u64().unwrap());
    let text = of_class[0]["task"]["error"].as_str().unwrap();
    for error in [largest["error"].as_str().unwrap(), text] {
        let query = format!("error={}&page_size=5", escaped(error));
        assert_eq!(listed(&site, &query).await.len(), of_class.len(), "{error}");
    }
    assert!(listed(&site, "error=other").await.is_empty());
    worker.abort();
}

pub(super) fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

async fn site() -> (Site, tokio::task::JoinHandle<()>) {
    let site = Site::new();
    let worker = site.world.worker(site.node.service(), fails());
    site.world.pass(3 * SECOND).await;
    (site, worker)
}

#[tokio::test(start_paused = true)]
async fn ids_are_redriven_once_and_each_is_answered_at_its_place() {
    let (site, worker) = site().await;
    let ids = dead(&site, "work", 2, json!({})).await;
    worker.abort();
    let scheduled = site
        .post("/v1/tasks", r#"{"callback":"work","delay":"1h"}"#)
        .await
        .json();
    let scheduled = scheduled["id"].as_str().unwrap();
    let stranger = task_id();
    let dry = redriven(
        &site,
        json!({"ids": [ids[0], scheduled, ids[1]], "dry_run": true}),
    )
    .await;
    assert_eq!(
        (&dry["matching"], &dry["dry_run"]),
        (&json!(2), &json!(true))
    );
    assert_eq!(dry["sample"].as_array().unwrap().len(), 2);
    assert_eq!(
        state(&site, &ids[0]).await,
        "dead",
        "a dry run changes nothing"
    );
    let asked = json!([ids[0], "no id", scheduled, stranger, ids[0], 7]);
    let answer = redriven(&site, json!({"ids": asked})).await;
    let results = answer["results"].as_array().unwrap();
    let outcomes: Vec<&str> = results
        .iter()
        .map(|result| {
            result["outcome"]
                .as_str()
                .unwrap_or_else(|| result["error"]["code"].as_str().unwrap())
        })
        .collect();
    let expected = [
        "redriven",
        "invalid_task_id",
        "not_dead",
        "task_not_found",
        "not_dead",
        "invalid_request",
    ];
    assert_eq!(outcomes, expected);
    assert_eq!(results[0]["task"]["id"], ids[0].as_str());
    assert_eq!(
        (&results[1]["id"], &results[5]["id"]),
        (&json!("no id"), &json!(""))
    );
    let counts = ["redriven", "not_dead", "failed"].map(|name| answer[name].as_u64().unwrap());
    assert_eq!(counts, [1, 2, 3]);
    let again = redriven(&site, json!({"ids": [ids[0]]})).await;
    assert_eq!(again["results"][0]["outcome"], "not_dead");
    assert_eq!(
        state(&site, scheduled).await,
        "scheduled",
        "only dead tasks are started"
    );
    assert_eq!(ids_of(&listed(&site, "").await), [&ids[1]]);
    let run = site
        .post(&format!("/v1/tasks/{}/run", ids[1]), "")
        .await
        .ok();
    assert_eq!(run["outcome"], "rescheduled");
    assert!(listed(&site, "").await.is_empty(), "a run redrives, too");
    assert_eq!(site.get(GROUPS).await.ok(), json!([]));
    // A task that dies again is listed again, once.
    let worker = site.world.worker(site.node.service(), fails());
    site.world.pass(30 * SECOND).await;
    let letters = listed(&site, "callback=work").await;
    assert_eq!(letters.len(), 2, "{letters:?}");
    assert!(letters.iter().all(|letter| letter["attempt"] == 2));
    worker.abort();
}

/// Lets a task of another callback die, by the calls of a worker over HTTP.
async fn dead_elsewhere(site: &Site, callback: &str) -> String {
    let body = json!({"callback": callback, "max_attempts": 1}).to_string();
    let id = site.post("/v1/tasks", body).await.json()["id"].clone();
    let poll = json!({"worker": "w", "callbacks": [callback], "max_tasks": 1, "wait": "20s"});
    let polled = site.post("/v1/worker/poll", poll.to_string()).await.ok();
    assert_eq!(polled["tasks"][0]["id"], id, "{polled}");
    let report = json!({"id": id, "attempt": 1, "outcome": "retry", "error": "disk full"});
    let settle = json!({"worker": "w", "tasks": [report]}).to_string();
    site.post("/v1/worker/settle", settle).await.ok();
    site.world.pass(SECOND).await;
    id.as_str().unwrap().to_owned()
}

/// Redrives those of a filter by a job, and returns the job at its end.
pub(super) async fn by_job(site: &Site, body: Value) -> Value {
    let answer = site.post(REDRIVE, body.to_string()).await;
    assert_eq!(answer.status, 202);
    let id = answer.json()["id"].as_str().unwrap().to_owned();
    for _ in 0..100 {
        let job = site.get(&format!("/v1/jobs/{id}")).await.ok();
        if job["state"] == "completed" {
            return job;
        }
        site.world.pass(SECOND).await;
    }
    panic!("the job does not end");
}

#[tokio::test(start_paused = true)]
async fn a_filter_redrives_what_it_lists_and_says_how_many() {
    let (site, worker) = site().await;
    let work = dead(&site, "work", 3, json!({})).await;
    let one = dead_elsewhere(&site, "other").await;
    let another = dead_elsewhere(&site, "other").await;
    worker.abort();
    assert_eq!(listed(&site, "").await.len(), 5);
    assert_eq!(
        ids_of(&listed(&site, "callback=other").await),
        [&another, &one]
    );
    let disk = "error=disk%20full";
    assert_eq!(ids_of(&listed(&site, disk).await), [&another, &one]);
    let groups = site.get(GROUPS).await.ok();
    let groups = groups.as_array().unwrap();
    let is_other = |group: &&Value| group["callback"] == "other";
    let other: Vec<&Value> = groups.iter().filter(is_other).collect();
    assert_eq!(other.len(), 1, "{groups:?}");
    assert_eq!(
        (&other[0]["error"], &other[0]["tasks"]),
        (&json!("disk full"), &json!(2))
    );
    let sizes = groups.iter().map(|group| group["tasks"].as_u64());
    assert!(sizes.is_sorted_by(|one, next| one >= next), "{groups:?}");
    let dry = by_job(&site, json!({"error": "disk full", "dry_run": true})).await;
    assert_eq!(
        (&dry["total_estimate"], &dry["done"]),
        (&json!(2), &json!(0))
    );
    let sample: Vec<&str> = dry["sample"]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| task["id"].as_str().unwrap())
        .collect();
    assert_eq!(sample, [&another, &one]);
    assert_eq!(listed(&site, "").await.len(), 5);
    let other = by_job(&site, json!({"callback": "other", "rate_per_second": 100})).await;
    assert_eq!(
        (&other["done"], &other["skipped"], &other["failed"]),
        (&json!(2), &json!(0), &json!(0))
    );
    assert_eq!(
        ids_of(&listed(&site, "").await),
        [&work[2], &work[1], &work[0]]
    );
    let again = by_job(&site, json!({"callback": "other"})).await;
    assert_eq!((&again["done"], &again["failed"]), (&json!(0), &json!(0)));
    assert_eq!(state(&site, &one).await, "enqueued");
    assert_eq!(state(&site, &work[0]).await, "dead");
}

#[tokio::test(start_paused = true)]
async fn a_deleted_task_is_found_no_more_and_never_runs_again() {
    let (site, worker) = site().await;
    let large = "x".repeat(9000);
    let ids = dead(
        &site,
        "work",
        2,
        json!({"payload": large, "labels": {"tenant": "acme"}}),
    )
    .await;
    let id = ids[0].as_str();
    let delete = async |id: &str| {
        site.send(request(Method::DELETE, &format!("{LIST}/{id}"), ""))
            .await
    };
    worker.abort();
    redriven(&site, json!({"ids": [ids[1]]})).await;
    let refused = delete(&ids[1]).await;
    assert_eq!(refused.status, 404);
    assert!(
        refused.problem().detail.contains("it is enqueued"),
        "{:?}",
        refused.body
    );
    assert_eq!(delete(&task_id()).await.status, 404);
    let parsed = id.parse().unwrap();
    assert!(site.world.store.bodies(&[parsed]).await.unwrap()[0].is_some());
    let deleted = delete(id).await;
    assert_eq!((deleted.status.as_u16(), deleted.body.len()), (204, 0));
    assert_eq!(delete(id).await.status, 404);
    assert_eq!(site.get(&format!("/v1/tasks/{id}")).await.status, 404);
    assert!(listed(&site, "").await.is_empty());
    assert_eq!(site.get(GROUPS).await.ok(), json!([]));
    let again = redriven(&site, json!({"ids": [id]})).await;
    assert!(again["redriven"] == 0, "{again}");
    assert!(site.world.store.bodies(&[parsed]).await.unwrap()[0].is_none());
    let rows = site
        .world
        .store
        .tasks(&[parsed], Freshness::Serial)
        .await
        .unwrap();
    let row = rows[0].as_ref().expect("the row stays as a tombstone");
    assert!(
        row.detail.erased && !format!("{row:?}").contains("acme"),
        "{row:?}"
    );
    site.world.pass(60 * SECOND).await;
    assert_eq!(site.world.executions_of(parsed).len(), 1);
    assert!(site.world.store.bodies(&[parsed]).await.unwrap()[0].is_none());
    assert_eq!(delete("no-id").await.problem().code, "invalid_task_id");
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_with_a_request_is_said() {
    let site = Site::new();
    site.world.pass(3 * SECOND).await;
    for (body, pointer) in [
        (json!({}), ""),
        (json!({"dry_run": true}), ""),
        (json!({"ids": [], "callback": "work"}), "/ids"),
        (json!({"callback": "wo rk"}), "/callback"),
        (
            json!({"callback": "work", "rate_per_second": 0}),
            "/rate_per_second",
        ),
        (json!({"ids": [], "rate_per_second": 5}), "/rate_per_second"),
        (
            json!({"callback": "work", "page_token": "x"}),
            "/page_token",
        ),
    ] {
        let problem = site.post(REDRIVE, body.to_string()).await.problem();
        assert_eq!(problem.status, 400, "{body}");
        assert_eq!(problem.errors[0].pointer, pointer, "{body}");
    }
    let many: Vec<String> = (0..1001).map(|_| task_id()).collect();
    let many = site
        .post(REDRIVE, json!({"ids": many}).to_string())
        .await
        .problem();
    assert!(many.detail.contains("1000"), "{}", many.detail);
    for query in [
        "?callbak=x",
        "?callback=a&callback=b",
        "?callback=*",
        "?callback=a*b*",
        "?page_size=0",
        "?page_token=x",
    ] {
        let problem = site.get(&format!("{LIST}{query}")).await.problem();
        assert_eq!(problem.status, 400, "{query}");
    }
    assert_eq!(site.get(&format!("{GROUPS}?error=x")).await.status, 400);
    assert_eq!(site.get(GROUPS).await.ok(), json!([]));
}
