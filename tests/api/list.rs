//! Lists show clients the right tasks, and the pages of a list together are the whole list.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use serde_json::{Value, json};
use tickwheel::{limits::LIST_STARTED_AHEAD, model::state::Outcome};

use super::Site;
use crate::sim::world::{Behaviour, World, succeeds};

const SECOND: Duration = Duration::from_secs(1);

/// Virtual time begins at 08:00; a walk over a whole day takes a while.
const SOON: &str = "start_time_to=2027-01-15T08:10:00Z&page_size=2";

/// Registers a task and returns its id.
async fn register(site: &Site, body: Value) -> String {
    let answer = site.post("/v1/tasks", body.to_string()).await;
    assert_eq!(answer.status, 201, "{:?}", answer.body);
    answer.json()["id"].as_str().unwrap().to_owned()
}

/// Reads all pages; returns (id, state) in the order they came, and how many pages there were.
async fn pages(site: &Site, query: &str) -> (Vec<(String, String)>, usize) {
    let (mut tasks, mut count, mut token) = (Vec::new(), 0, String::new());
    loop {
        let page = site
            .get(&format!("/v1/tasks?page_token={token}&{query}"))
            .await
            .ok();
        count += 1;
        assert!(count < 1000, "the list does not end");
        let listed = page["tasks"].as_array().unwrap();
        let starts: Vec<&str> = listed
            .iter()
            .map(|task| task["start_time"].as_str().unwrap())
            .collect();
        assert!(starts.is_sorted(), "{starts:?}");
        tasks.extend(listed.iter().map(|task| {
            let text = |name: &str| task[name].as_str().unwrap().to_owned();
            (text("id"), text("state"))
        }));
        match page["next_page_token"].as_str() {
            Some(next) => next.clone_into(&mut token),
            None => return (tasks, count),
        }
    }
}

async fn listed(site: &Site, query: &str) -> Vec<(String, String)> {
    let (tasks, _) = pages(site, query).await;
    let ids: BTreeSet<_> = tasks.iter().map(|(id, _)| id).collect();
    assert_eq!(ids.len(), tasks.len(), "listed twice: {tasks:?}");
    tasks
}

async fn many_wheels() -> Site {
    let world = World::new(8, 1000);
    let node = world.node(1);
    let site = Site::of(world, node);
    site.world.pass(3 * SECOND).await;
    site
}

#[tokio::test(start_paused = true)]
async fn pages_of_every_size_make_the_same_list() {
    check_pages(&many_wheels().await).await;
}

#[tokio::test(start_paused = true)]
async fn pages_of_every_size_make_the_same_list_on_disk() {
    let world = World::on_disk(8, 1000);
    let node = world.node(1);
    let site = Site::of(world, node);
    site.world.pass(3 * SECOND).await;
    check_pages(&site).await;
    let (_, count) = pages(&site, "start_time_to=2028-01-15T08:00:00Z").await;
    assert!(count < 3, "{count}: a year without tasks costs nothing");
}

async fn check_pages(site: &Site) {
    let mut registered = Vec::new();
    for number in 0..60 {
        // Several tasks start in one tick, several at one instant, some are near, and some ticks have none.
        let delay = format!("{}ms", 100 + (number / 4) * 1700);
        registered.push(register(site, json!({"callback": "work", "delay": delay})).await);
    }
    let whole = listed(site, SOON).await;
    assert_eq!(whole.len(), 60);
    assert_eq!(
        whole.iter().map(|(id, _)| id).collect::<BTreeSet<_>>(),
        registered.iter().collect()
    );
    for size in [1, 7, 59, 60, 1000] {
        let mut tasks = listed(
            site,
            &format!("start_time_to=2027-01-15T08:10:00Z&page_size={size}"),
        )
        .await;
        let mut whole = whole.clone();
        tasks.sort();
        whole.sort();
        assert_eq!(tasks, whole, "{size}");
    }
    let from_far = listed(
        site,
        "start_time_from=2027-01-15T08:00:13Z&start_time_to=2027-01-15T08:10:00Z&page_size=5",
    )
    .await;
    let order: Vec<&String> = from_far.iter().map(|(id, _)| id).collect();
    assert!(
        order.is_sorted(),
        "ids of tasks that wait are ordered by start"
    );
}

#[tokio::test(start_paused = true)]
async fn filters_choose() {
    let site = many_wheels().await;
    let mine = register(
        &site,
        json!({"callback": "work", "start_time": "2027-01-15T09:00:00Z"}),
    )
    .await;
    let other = register(
        &site,
        json!({"callback": "rest", "start_time": "2027-01-15T10:00:00Z"}),
    )
    .await;
    let record = register(
        &site,
        json!({"kafka": {"topic": "users"}, "start_time": "2027-01-15T11:00:00Z"}),
    )
    .await;
    let far = register(
        &site,
        json!({"callback": "work", "start_time": "2027-02-15T09:00:00Z"}),
    )
    .await;
    let cancelled = register(&site, json!({"callback": "rest", "delay": "1h"})).await;
    site.post(&format!("/v1/tasks/{cancelled}/cancel"), "")
        .await
        .ok();
    let ids = async |query: &str| -> Vec<String> {
        let tasks = listed(&site, query).await;
        tasks.into_iter().map(|(id, _)| id).collect()
    };
    assert_eq!(
        ids("callback=work").await,
        std::slice::from_ref(&mine),
        "the horizon is a day"
    );
    assert_eq!(
        ids("callback=re*&state=scheduled").await,
        std::slice::from_ref(&other)
    );
    assert_eq!(ids("state=cancelled").await, [cancelled]);
    assert_eq!(ids("callback=nobody").await, [""; 0]);
    let range = "start_time_from=2027-01-15T10:00:00Z&start_time_to=2027-01-15T11:00:00Z";
    assert_eq!(ids(range).await, [other], "from is included, to is not");
    let range = "start_time_from=2027-01-15T10:00:00.001Z&start_time_to=2027-01-15T11:00:00.001Z";
    assert_eq!(ids(range).await, [record]);
    // The offset has a plus sign that was not escaped.
    let range = "start_time_from=2027-02-15T10:00:00+01:00&start_time_to=2027-02-15T10:00:01+01:00";
    assert_eq!(ids(range).await, [far]);
    let page = site
        .get("/v1/tasks?start_time_to=2027-01-15T12:00:00Z")
        .await
        .ok();
    assert_eq!(page["start_time_to"], "2027-01-15T12:00:00.000Z");
}

#[tokio::test(start_paused = true)]
async fn a_task_is_listed_once_in_every_state_of_its_life() {
    let site = many_wheels().await;
    let behaviour: Behaviour = Arc::new(|_, attempt| {
        let outcome = match attempt {
            1 => Some(Outcome::Retry {
                error: "again".to_owned(),
                after: Some(40 * SECOND),
            }),
            _ => Some(Outcome::Succeeded { result: None }),
        };
        (30 * SECOND, outcome)
    });
    let near = register(&site, json!({"callback": "work", "claim_timeout": "5s"})).await;
    let far = register(
        &site,
        json!({"callback": "work", "delay": "10s", "claim_timeout": "60s"}),
    )
    .await;
    let record = register(&site, json!({"kafka": {"topic": "users"}})).await;
    site.world.queue.create_topic("users", None);
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut worker = None;
    for second in 0..240 {
        if second == 60 {
            worker = Some(
                site.world
                    .worker(site.node.service(), Arc::clone(&behaviour)),
            );
        }
        site.world.pass(SECOND).await;
        let tasks = listed(&site, SOON).await;
        for id in [&near, &far] {
            let state = tasks.iter().find(|(other, _)| other == id);
            let read = site.get(&format!("/v1/tasks/{id}")).await.ok();
            if let Some((_, state)) = state {
                assert_eq!(read["state"], **state, "{second}");
                seen.insert(state.clone());
            } else {
                assert_eq!(
                    read["state"], "succeeded",
                    "{id} is not listed at {second} s"
                );
            }
        }
        if second < 20 {
            assert!(tasks.iter().any(|(id, _)| *id == record), "{second}");
        }
    }
    let expected = ["claimed", "enqueued", "retrying", "scheduled", "succeeded"];
    assert_eq!(seen, expected.map(str::to_owned).into());
    site.world.pass(120 * SECOND).await;
    assert_eq!(
        listed(&site, SOON).await,
        [],
        "what ended long ago is erased"
    );
    worker.unwrap().abort();
}

#[tokio::test(start_paused = true)]
async fn a_task_that_was_moved_is_listed_at_its_new_start_only() {
    let site = many_wheels().await;
    let mut ids = Vec::new();
    for target in [
        json!({"callback": "work"}),
        json!({"kafka": {"topic": "users"}}),
    ] {
        let mut body = target.clone();
        body["delay"] = json!("1h");
        let id = register(&site, body).await;
        for delay in ["2h", "3h"] {
            let body = json!({"delay": delay}).to_string();
            site.post(&format!("/v1/tasks/{id}/reschedule"), body)
                .await
                .ok();
        }
        ids.push(id);
    }
    let before = "start_time_to=2027-01-15T10:59:00Z";
    assert_eq!(listed(&site, before).await, []);
    let behind = listed(&site, "start_time_from=2027-01-15T10:59:00Z").await;
    let found: BTreeSet<String> = behind.into_iter().map(|(id, _)| id).collect();
    assert_eq!(found, ids.iter().cloned().collect());
    assert_eq!(
        listed(&site, "start_time_to=2027-01-15T12:00:00Z")
            .await
            .len(),
        2
    );
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_a_worker_for_long_is_still_found() {
    let site = many_wheels().await;
    let id = register(&site, json!({"callback": "work", "delay": "10s"})).await;
    for _ in 0..12 {
        site.world.pass(1200 * SECOND).await;
        assert_eq!(
            listed(&site, "start_time_to=2027-01-15T08:10:00Z&state=enqueued").await,
            [(id.clone(), "enqueued".to_owned())]
        );
    }
    let worker = site.world.worker(site.node.service(), succeeds(SECOND));
    site.world.pass(5 * SECOND).await;
    let listed = listed(&site, "callback=work").await;
    assert_eq!(
        listed,
        [(id, "succeeded".to_owned())],
        "until its look has gone"
    );
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn a_long_walk_is_cut_into_requests_that_each_read_little() {
    let site = many_wheels().await;
    let id = register(&site, json!({"callback": "work", "delay": "2h"})).await;
    let before = site
        .node
        .operations
        .load(std::sync::atomic::Ordering::Relaxed);
    let first = site.get("/v1/tasks").await.ok();
    let reads = site
        .node
        .operations
        .load(std::sync::atomic::Ordering::Relaxed)
        - before;
    assert!(reads < 4300, "{reads} reads in one request");
    assert_eq!(first["tasks"], json!([]));
    assert!(
        first["next_page_token"].is_string(),
        "an empty page is not the last"
    );
    let (tasks, count) = pages(&site, "start_time_to=2027-01-15T11:00:00Z").await;
    assert_eq!(tasks, [(id, "scheduled".to_owned())]);
    let ticks = 3 * 3600;
    assert!(
        (ticks * 8 / 4096..ticks * 8 / 4096 + 5).contains(&count),
        "{count}"
    );
    assert!(LIST_STARTED_AHEAD < 3600 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_query_that_is_wrong_says_how() {
    let site = many_wheels().await;
    let token = site.get("/v1/tasks?callback=a").await.ok()["next_page_token"].clone();
    let token = token.as_str().unwrap();
    for (query, words) in [
        (
            "page_size=0",
            "?page_size: `0` is not a whole number from 1 to 1000",
        ),
        ("page_size=many", "from 1 to 1000"),
        (
            "pagesize=5",
            "unknown query parameter `pagesize`; did you mean `page_size`?",
        ),
        ("x=5", "known are: callback, collection, key, state,"),
        ("state=scheduld", "did you mean `scheduled`?"),
        ("state=Scheduled", "did you mean `scheduled`?"),
        ("state=wait", "known are: scheduled, enqueued"),
        ("callback=", "must have 1 to 128 characters"),
        ("callback=a/b", "must consist of"),
        ("callback=a&callback=b", "is given twice"),
        ("start_time_from=tomorrow", "is not an RFC 3339 time"),
        ("start_time_to=2030-01-01T00:00:00", "?start_time_to"),
        (
            "start_time_from=2030-01-01T00:00:00Z&start_time_to=2030-01-01T00:00:00Z",
            "must be later than `start_time_from`",
        ),
        (
            "page_token=abc",
            "?page_token: is not a token of this service",
        ),
        (&format!("page_token={token}"), "another `callback`"),
        (
            &format!("callback=a&state=dead&page_token={token}"),
            "another `state`",
        ),
    ] {
        let answer = site.get(&format!("/v1/tasks?{query}")).await;
        let problem = answer.problem();
        assert_eq!(
            (problem.status, problem.code.as_str()),
            (400, "invalid_request")
        );
        assert!(
            problem.detail.contains(words),
            "{query}: {}",
            problem.detail
        );
    }
    let two = site.get("/v1/tasks?page_size=0&state=x").await.problem();
    assert_eq!(two.errors.len(), 2);
    site.get(&format!(
        "/v1/tasks?callback=a&page_size=3&page_token={token}"
    ))
    .await
    .ok();
}

#[tokio::test(start_paused = true)]
async fn on_disk_a_list_has_no_horizon_and_what_has_ended_is_listed_for_its_retention() {
    let world = World::on_disk(2, 1000);
    let node = world.node(1);
    let site = Site::of(world, node);
    site.world.pass(3 * SECOND).await;
    let fails: Behaviour = Arc::new(|_, _| {
        let error = "no".to_owned();
        (SECOND, Some(Outcome::Failed { error }))
    });
    let worker = site.world.worker(site.node.service(), fails);
    let far = register(&site, json!({"callback": "trial", "delay": "30d"})).await;
    let cancelled = register(&site, json!({"callback": "other", "delay": "2h"})).await;
    let path = format!("/v1/tasks/{cancelled}/cancel");
    site.post(&path, "").await.ok();
    let mut failed = Vec::new();
    for _ in 0..5 {
        failed.push(register(&site, json!({"callback": "work"})).await);
    }
    let kept = json!({"callback": "work", "retention": "20m"});
    let short = register(&site, kept).await;
    site.world.pass(10 * SECOND).await;
    worker.abort();
    let begun = site.world.time.now();
    let first = site.get("/v1/tasks?callback=trial").await.ok();
    assert_eq!(first["tasks"][0]["id"], json!(far), "{first}");
    assert_eq!(first["start_time_to"], "9999-12-30T22:00:00.000Z");
    // The reads come long after the time at which the entries are erased.
    for minutes in [0, 14, 14] {
        site.world.pass(60 * minutes * SECOND).await;
        let mut expected: BTreeSet<(String, String)> = failed
            .iter()
            .map(|id| (id.clone(), "failed".to_owned()))
            .collect();
        let passed = site.world.time.now().since(begun);
        if passed < 20 * 60 * SECOND {
            expected.insert((short.clone(), "failed".to_owned()));
        }
        for query in ["state=failed&page_size=2", "state=failed", "callback=work"] {
            let found: BTreeSet<_> = listed(&site, query).await.into_iter().collect();
            assert_eq!(found, expected, "{query} after {passed:?}");
        }
        expected.insert((far.clone(), "scheduled".to_owned()));
        expected.insert((cancelled.clone(), "cancelled".to_owned()));
        for query in ["page_size=1", "page_size=3", "page_size=100000"] {
            let found = listed(&site, query).await;
            if query == "page_size=1" {
                assert_eq!(found[0].1, "scheduled", "what waits comes first");
            }
            let found: BTreeSet<_> = found.into_iter().collect();
            assert_eq!(found, expected, "{query} after {passed:?}");
        }
        let waits = listed(&site, "state=scheduled").await;
        assert_eq!(waits, [(far.clone(), "scheduled".to_owned())]);
    }
}

/// One task in memory with its row, one whose content, and so its labels, lies apart.
#[tokio::test(start_paused = true)]
async fn a_list_has_only_the_tasks_with_the_labels_the_collection_and_the_error_that_were_asked_for()
 {
    let world = World::new(2, 1000);
    let node = world.node(1);
    let site = Site::of(world, node);
    site.world.pass(3 * SECOND).await;
    let fails: Behaviour = Arc::new(|_, _| {
        let error = "host 10 is away\nsecond line".to_owned();
        (SECOND / 10, Some(Outcome::Retry { error, after: None }))
    });
    let task = |labels: Value, more: Value| {
        let mut body = json!({"callback": "work", "delay": "5m", "labels": labels});
        for (name, value) in more.as_object().unwrap() {
            body[name] = value.clone();
        }
        body
    };
    let acme = json!({"tenant": "acme", "tier": "gold"});
    let small = register(&site, task(acme.clone(), json!({}))).await;
    let large = json!({"payload": "x".repeat(40_000), "collection": "night"});
    let large = register(&site, task(acme, large)).await;
    register(&site, task(json!({"tenant": "other"}), json!({}))).await;
    register(&site, task(json!({}), json!({}))).await;
    let ids = |tasks: Vec<(String, String)>| -> BTreeSet<String> {
        tasks.into_iter().map(|(id, _)| id).collect()
    };
    let both = BTreeSet::from([small.clone(), large.clone()]);
    let of = |query: &str| format!("{query}&{SOON}");
    assert_eq!(ids(listed(&site, &of("label.tenant=acme")).await), both);
    let gold = of("callback=work&label.tier=gold&label.tenant=acme");
    assert_eq!(ids(listed(&site, &gold).await), both);
    assert_eq!(
        listed(&site, &of("label.tenant=acme&label.tier=silver")).await,
        []
    );
    let night = ids(listed(&site, &of("collection=night")).await);
    assert_eq!(night, BTreeSet::from([large]));
    assert_eq!(listed(&site, &of("error=host%2010%20is%20away")).await, []);
    let worker = site.world.worker(site.node.service(), fails);
    site.world.pass(330 * SECOND).await;
    let failed = ids(listed(&site, &of("error=host%2077%20is%20away")).await);
    assert_eq!(failed.len(), 4, "each has failed, and is tried again");
    assert_eq!(listed(&site, &of("error=host%20is%20away")).await, []);
    drop(worker);
}

#[tokio::test(start_paused = true)]
async fn a_filter_by_labels_that_is_wrong_is_refused_in_words() {
    let site = many_wheels().await;
    let many = (0..9).map(|n| format!("label.l{n}=x")).collect::<Vec<_>>();
    for (query, says) in [
        ("label.=x".to_owned(), "no label behind `label.`"),
        (format!("label.a={}", "x".repeat(1000)), "characters"),
        (many.join("&"), "more than 8 labels"),
        ("label.a=1&label.a=2".to_owned(), "given twice"),
        ("labels=a".to_owned(), "`a`, which is not NAME=VALUE"),
        ("labels=a=1,=2".to_owned(), "no label behind"),
        ("labels=a=1,a=2".to_owned(), "label `a` twice"),
        ("label.a=1&labels=a=2".to_owned(), "label `a` twice"),
    ] {
        let answer = site.get(&format!("/v1/tasks?{query}")).await;
        assert_eq!(answer.status, 400, "{query}");
        let told = answer.json().to_string();
        assert!(told.contains(says), "{query}: {told}");
    }
}
