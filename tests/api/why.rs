//! A task tells over the API why it does not run: each cause, since when, and what to do.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    Site,
    callbacks::ready,
    keys_and_roles::{closed, code},
    task_id,
    worker::call,
};

const SECOND: Duration = Duration::from_secs(1);

fn path(task: &Value) -> String {
    format!("/v1/tasks/{}", task["id"].as_str().unwrap())
}

impl Site {
    async fn why(&self, task: &Value) -> Value {
        self.get(&format!("{}/why", path(task))).await.ok()
    }

    async fn polls(&self, callback: &str, wait: &str) -> Vec<Value> {
        let poll = json!({"worker": "w", "callbacks": [callback], "max_tasks": 1, "wait": wait});
        let answer = self.post("/v1/worker/poll", poll.to_string()).await.ok();
        answer["tasks"].as_array().unwrap().clone()
    }

    /// Reports the end of an attempt.
    async fn settle_as(&self, task: &Value, outcome: &str) {
        let report = json!({"id": task["id"], "attempt": task["attempt"], "outcome": outcome, "error": "no route"});
        let settled = call(self, "/v1/worker/settle", report).await;
        assert_eq!(settled["status"], "ok", "{settled}");
    }
}

fn codes(why: &Value) -> Vec<&str> {
    let causes = why["causes"].as_array().unwrap().iter();
    causes
        .map(|cause| cause["code"].as_str().unwrap())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_task_tells_on_its_way_what_it_waits_for() {
    let site = ready().await;
    let retry = json!({"initial": "60s", "factor": 1, "jitter": "none"});
    let task = json!({"callback": "mail", "delay": "10s", "max_attempts": 2, "retry": retry});
    let task = site.registered(task).await;
    assert_eq!(task["waiting_for"], "not_due");
    let why = site.why(&task).await;
    assert_eq!(codes(&why), ["not_due"]);
    assert_eq!(why["causes"][0]["until"], task["start_time"]);
    assert_eq!(why["causes"][0]["since"], task["create_time"]);

    let polled = site.polls("mail", "30s").await;
    let why = site.why(&task).await;
    assert_eq!(
        (codes(&why), &why["state"]),
        (vec!["running"], &json!("claimed"))
    );
    let cause = &why["causes"][0];
    assert_eq!((&cause["who"], &cause["attempt"]), (&json!("w"), &json!(1)));
    let full = site.get(&format!("{}?view=FULL", path(&task))).await.ok();
    assert!(full.get("waiting_for").is_none(), "it runs");

    site.settle_as(&polled[0], "retry").await;
    let why = site.why(&task).await;
    assert_eq!(
        (codes(&why), &why["causes"][0]["error"]),
        (vec!["retry"], &json!("no route"))
    );
    let full = site.get(&format!("{}?view=FULL", path(&task))).await.ok();
    assert_eq!(full["waiting_for"], "retry");
    let basic = site.get(&path(&task)).await.ok();
    assert!(basic.get("waiting_for").is_none());

    site.world.pass(61 * SECOND).await;
    assert_eq!(codes(&site.why(&task).await), ["no_worker"]);
    let polled = site.polls("mail", "30s").await;
    site.settle_as(&polled[0], "retry").await;
    let why = site.why(&task).await;
    assert_eq!((codes(&why), &why["state"]), (vec!["dead"], &json!("dead")));
    let sentence = why["sentence"].as_str().unwrap();
    assert!(
        sentence.ends_with("after 2 attempts: no route."),
        "{sentence}"
    );
    let advice = why["causes"][0]["advice"].as_str().unwrap();
    assert!(advice.contains("tickwheel task run"), "{advice}");
}

#[tokio::test(start_paused = true)]
async fn a_closed_gate_is_told_with_its_reason_and_its_end() {
    let site = ready().await;
    let until = site.world.time.now().after(600 * SECOND);
    let until = tickwheel::model::time::rfc3339(until);
    let gate = json!({"gate": "paused", "reason": "smtp moves", "until": until});
    let gate = site.post("/v1/callbacks/mail/gate", gate.to_string()).await;
    gate.ok();
    let task = site.registered(json!({"callback": "mail"})).await;
    site.world.pass(2 * SECOND).await;
    let why = site.why(&task).await;
    let cause = &why["causes"][0];
    assert_eq!(
        (&cause["code"], &cause["reason"], &cause["until"]),
        (&json!("gate"), &json!("smtp moves"), &json!(until))
    );
    assert_eq!(
        cause["since"], task["start_time"],
        "the gate was closed before"
    );
    let sentence = why["sentence"].as_str().unwrap();
    assert!(
        sentence.starts_with("Due since ") && sentence.contains("smtp moves"),
        "{sentence}"
    );
    site.post("/v1/callbacks/mail/gate", r#"{"gate":"open"}"#)
        .await
        .ok();
    site.world.pass(5 * SECOND).await;
    assert!(!codes(&site.why(&task).await).contains(&"gate"));
}

#[tokio::test(start_paused = true)]
async fn a_typo_of_a_callback_names_the_one_that_is_polled() {
    let site = ready().await;
    let task = site.registered(json!({"callback": "sendemail"})).await;
    for _ in 0..4 {
        site.polls("send_email", "7s").await;
    }
    let why = site.why(&task).await;
    assert_eq!(
        (codes(&why), &why["causes"][0]["nearest"]),
        (vec!["no_worker"], &json!("send_email"))
    );
    let right = site.registered(json!({"callback": "send_email"})).await;
    site.world.pass(SECOND).await;
    assert_eq!(
        codes(&site.why(&right).await),
        ["queued"],
        "its worker is about to poll"
    );
}

#[tokio::test(start_paused = true)]
async fn tasks_that_are_waited_for_are_named_to_those_who_may_see_them() {
    let (site, root) = closed().await;
    let register = async |task: Value| {
        let answer = site.post_by(&root, "/v1/tasks", task).await;
        assert_eq!(answer.status, 201, "{:?}", answer.body);
        answer.json()
    };
    let later = || json!({"callback": "bank", "delay": "1h"});
    let (one, two) = (register(later()).await, register(later()).await);
    let after = json!({"ids": [one["id"], two["id"]]});
    let waiter = register(json!({"callback": "mail", "after": after})).await;
    let child = json!({"callback": "mail", "after_parent": true});
    let parent = json!({"callback": "bank", "delay": "1h", "children": [child]});
    let parent = register(parent).await;
    let tree = site
        .get_by(&root, &format!("{}/tree", path(&parent)))
        .await
        .ok();
    let child = &tree["nodes"][1];

    let why =
        async |key: &str, task: &Value| site.get_by(key, &format!("{}/why", path(task))).await.ok();
    let told = why(&root, &waiter).await;
    let cause = &told["causes"][0];
    assert_eq!((codes(&told), &cause["count"]), (vec!["tasks"], &json!(2)));
    let mut named: Vec<&Value> = cause["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| &task["id"])
        .collect();
    named.sort_by_key(|id| id.as_str().unwrap().to_owned());
    let mut wanted = vec![&one["id"], &two["id"]];
    wanted.sort_by_key(|id| id.as_str().unwrap().to_owned());
    assert_eq!(named, wanted);
    assert_eq!(cause["tasks"][0]["callback"], "bank");
    let told = why(&root, child).await;
    assert_eq!(codes(&told), ["parent"]);
    assert_eq!(told["causes"][0]["tasks"][0]["id"], parent["id"]);

    let wish = json!({"name": "v", "role": "viewer", "callbacks": ["mail"]});
    let (_, viewer) = site.key(&root, wish).await;
    for (task, hidden) in [(&waiter, &one), (child, &parent)] {
        let told = why(&viewer, task).await.to_string();
        assert!(told.contains("another task"), "{told}");
        assert!(
            !told.contains("bank") && !told.contains(hidden["id"].as_str().unwrap()),
            "{told}"
        );
    }
    let denied = site.get_by(&viewer, &format!("{}/why", path(&one))).await;
    assert_eq!(code(&denied).0, 403);
}

#[tokio::test(start_paused = true)]
async fn a_task_behind_another_of_its_key_names_it() {
    let site = ready().await;
    let task = || json!({"callback": "mail", "ordering_key": "a"});
    let first = site.registered(task()).await;
    site.world.pass(SECOND).await;
    let second = site.registered(task()).await;
    assert_eq!(site.polls("mail", "5s").await.len(), 1);
    site.world.pass(SECOND).await;
    let why = site.why(&second).await;
    assert_eq!(codes(&why), ["turn"]);
    assert_eq!(why["causes"][0]["tasks"][0]["id"], first["id"]);
    assert_eq!(codes(&site.why(&first).await), ["running"]);
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_is_reached_is_named() {
    let site = ready().await;
    site.put("/v1/callbacks/mail", &json!({"max_in_flight": 1}))
        .await;
    site.world.pass(3 * SECOND).await;
    let first = site.registered(json!({"callback": "mail"})).await;
    let second = site.registered(json!({"callback": "mail"})).await;
    assert_eq!(site.polls("mail", "5s").await.len(), 1);
    assert_eq!(site.polls("mail", "1s").await.len(), 0);
    let (one, two) = (site.why(&first).await, site.why(&second).await);
    let limited = if codes(&one) == ["running"] { two } else { one };
    let cause = &limited["causes"][0];
    assert_eq!(
        (codes(&limited), &cause["limit"]),
        (vec!["limit"], &json!("max_in_flight"))
    );
    assert_eq!(cause["certain"], true);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_gone_and_a_parameter_are_refused() {
    let site = ready().await;
    let gone = site.get(&format!("/v1/tasks/{}/why", task_id())).await;
    assert_eq!(code(&gone), (404, "task_not_found".to_owned()));
    let task = site
        .registered(json!({"callback": "mail", "delay": "1h"}))
        .await;
    let odd = site.get(&format!("{}/why?view=FULL", path(&task))).await;
    assert_eq!(code(&odd).0, 400);
    let record = site
        .registered(json!({"kafka": {"topic": "orders"}, "delay": "1h"}))
        .await;
    assert_eq!(codes(&site.why(&record).await), ["not_due"]);
}

#[tokio::test(start_paused = true)]
async fn a_schedule_tells_of_a_time_why_it_has_no_run() {
    let site = ready().await;
    let schedule = json!({"every": "1m", "overlap": "skip", "task": {"callback": "mail"}});
    let set = site.put("/v1/schedules/ping", &schedule).await;
    assert_eq!(set.status, 201, "{:?}", set.body);
    let why = async |time: &str| {
        let answer = site
            .get(&format!("/v1/schedules/ping/why{time}"))
            .await
            .ok();
        assert_eq!(answer["causes"].as_array().unwrap().len(), 1);
        answer
    };
    let at = |time: &Value| format!("?time={}", time.as_str().unwrap());
    site.world.pass(150 * SECOND).await;
    // The run of the first minute has no worker, so the second time is skipped.
    let last = why("").await;
    let cause = &last["causes"][0];
    assert_eq!(
        (&cause["code"], &cause["policy"]),
        (&json!("overlap"), &json!("skip"))
    );
    let first = why(&at(&last["previous_time"])).await;
    let cause = &first["causes"][0];
    assert_eq!(cause["code"], "started");
    let task = site.why(&cause["task"]).await;
    assert_eq!(codes(&task), ["no_worker"]);
    let next = why(&at(&last["next_time"])).await;
    assert_eq!(next["causes"][0]["code"], "not_due");
    let odd = why("?time=2030-01-01T00:00:00.123Z").await;
    assert_eq!(odd["causes"][0]["code"], "not_a_time");
    let pause = json!({"reason": "month end", "who": "ada"}).to_string();
    site.post("/v1/schedules/ping/pause", pause).await.ok();
    let paused = why(&at(&last["next_time"])).await;
    let cause = &paused["causes"][0];
    assert_eq!(
        (&cause["code"], &cause["who"], &cause["reason"]),
        (&json!("paused"), &json!("ada"), &json!("month end"))
    );
    let bad = site.get("/v1/schedules/ping/why?time=noon").await;
    assert_eq!(bad.problem().errors[0].pointer, "?time");
    assert_eq!(site.get("/v1/schedules/none/why").await.status, 404);
}
