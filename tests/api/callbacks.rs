//! Callbacks are configured and their gates are set over HTTP, for users who want all tasks of a name alike.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{body::Body, http::Method};
use serde_json::{Value, json};
use tickwheel::{
    doubles::store::faulty::Fate,
    limits::CALLBACKS_MAX,
    model::{
        callback::{Callback, Policy},
        record::{Change, Kind, Mark, Name},
    },
    schema::encode_callback,
    store::{Swapped, records::RecordStore as _},
};

use super::{
    Answer, Site, request,
    worker::{claim, due},
};

const SECOND: Duration = Duration::from_secs(1);
pub(super) const PATH: &str = "/v1/callbacks/send_email";

pub(super) async fn ready() -> Site {
    let site = Site::new();
    site.world.pass(3 * SECOND).await;
    site
}

impl Site {
    pub(super) async fn put(&self, path: &str, body: &Value) -> Answer {
        self.put_if(path, body, &[]).await
    }

    pub(super) async fn put_if(
        &self,
        path: &str,
        body: &Value,
        headers: &[(&str, &str)],
    ) -> Answer {
        let mut request = request(Method::PUT, path, body.to_string());
        for (name, value) in headers {
            let name: axum::http::HeaderName = name.parse().unwrap();
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        self.send(request).await
    }

    pub(super) async fn delete(&self, path: &str) -> Answer {
        self.send(request(Method::DELETE, path, Body::empty()))
            .await
    }

    /// Registers a task, and returns all of it.
    pub(super) async fn registered(&self, task: Value) -> Value {
        let answer = self.post("/v1/tasks", task.to_string()).await;
        assert_eq!(answer.status, 201, "{:?}", answer.body);
        let id = answer.json()["id"].as_str().unwrap().to_owned();
        self.get(&format!("/v1/tasks/{id}?view=FULL")).await.ok()
    }
}

fn full() -> Value {
    json!({
        "description": "Sends mail", "max_attempts": 8,
        "retry": {"initial": "2s", "factor": 1.5, "max": "1m", "jitter": "none"},
        "claim_timeout": "1m 30s", "heartbeat_timeout": "50s", "retention": "24h", "expire_after": "1h",
        "priority": "low", "labels": {"team": "mail", "tenant": "acme"}
    })
}

#[tokio::test(start_paused = true)]
async fn a_configuration_is_created_replaced_read_listed_and_removed() {
    let site = ready().await;
    assert_eq!(site.get(PATH).await.problem().code, "callback_not_found");
    let created = site.put(PATH, &full()).await;
    assert_eq!(created.status, 201, "{:?}", created.body);
    assert_eq!(created.header("location"), PATH);
    let tag = created.header("etag").to_owned();
    let read = site.get(PATH).await;
    assert_eq!(read.header("etag"), tag);
    let (shown, given) = (read.ok(), full());
    for (name, value) in given.as_object().unwrap() {
        assert_eq!(shown[name], *value, "{name}");
    }
    assert_eq!(shown["gate"], "open");
    // Another one has another tag; the first one again has the first tag.
    let other = site.put(PATH, &json!({"max_attempts": 3})).await;
    assert_eq!(other.status, 200);
    assert_ne!(other.header("etag"), tag);
    let read = site.get(PATH).await.ok();
    assert_eq!(read["max_attempts"], 3);
    assert!(read.get("retry").is_none() && read.get("description").is_none());
    assert_eq!(site.put(PATH, &full()).await.header("etag"), tag);
    assert_eq!(site.put(PATH, &full()).await.status, 200);
    let list = site.get("/v1/callbacks").await.ok();
    assert_eq!(list["callbacks"][0]["name"], "send_email");
    assert_eq!(list["callbacks"].as_array().unwrap().len(), 1);
    assert_eq!(site.delete(PATH).await.status, 204);
    assert_eq!(site.delete(PATH).await.problem().code, "callback_not_found");
    assert_eq!(site.get(PATH).await.status, 404);
    let list = site.get("/v1/callbacks").await.ok();
    assert_eq!(list["callbacks"], json!([]));
    assert_eq!(site.put(PATH, &full()).await.status, 201);
}

#[tokio::test(start_paused = true)]
async fn preconditions_are_honoured() {
    let site = ready().await;
    let any = [("if-match", "*")];
    assert_eq!(
        site.put_if(PATH, &full(), &any).await.problem().code,
        "precondition_failed"
    );
    let new = [("if-none-match", "*")];
    let created = site.put_if(PATH, &full(), &new).await;
    assert_eq!(created.status, 201);
    assert_eq!(site.put_if(PATH, &full(), &new).await.status, 412);
    let tag = created.header("etag").to_owned();
    let replaced = site.put_if(PATH, &json!({}), &[("if-match", &tag)]).await;
    assert_eq!(replaced.status, 200);
    let late = site.put_if(PATH, &full(), &[("if-match", &tag)]).await;
    assert_eq!(late.status, 412);
    // The tag follows the configuration: a gate does not change it.
    let tag = replaced.header("etag").to_owned();
    let gate = site
        .post(&format!("{PATH}/gate"), r#"{"gate":"paused"}"#)
        .await;
    assert_eq!(gate.header("etag"), tag);
    let replaced = site.put_if(PATH, &full(), &[("if-match", &tag)]).await;
    assert_eq!(replaced.ok()["gate"], "paused");
    let mut wrong = request(Method::DELETE, PATH, Body::empty());
    wrong.headers_mut().insert("if-match", tag.parse().unwrap());
    assert_eq!(site.send(wrong).await.status, 412);
}

#[tokio::test(start_paused = true)]
async fn tasks_have_the_fields_of_their_callback_and_their_own_win() {
    let site = ready().await;
    let unknown = site
        .registered(json!({"callback": "send_email", "delay": "1h"}))
        .await;
    assert_eq!(
        (&unknown["max_attempts"], &unknown["retention"]),
        (&json!(10), &json!("3d"))
    );
    site.put(PATH, &full()).await;
    let task = site
        .registered(json!({"callback": "send_email", "delay": "1h"}))
        .await;
    for name in [
        "max_attempts",
        "retry",
        "claim_timeout",
        "heartbeat_timeout",
        "retention",
        "expire_after",
        "priority",
        "labels",
    ] {
        assert_eq!(task[name], full()[name], "{name}");
    }
    let own = json!({
        "callback": "send_email", "delay": "1h", "max_attempts": 2, "retry": {"initial": "5s"}, "claim_timeout": "40s",
        "priority": "high", "labels": {"tenant": "own", "user": "7"}
    });
    let task = site.registered(own).await;
    assert_eq!(task["max_attempts"], 2);
    assert_eq!(
        task["retry"],
        json!({"initial": "5s", "factor": 1.5, "max": "1m", "jitter": "none"})
    );
    assert_eq!(
        (&task["claim_timeout"], &task["priority"]),
        (&json!("40s"), &json!("high"))
    );
    assert_eq!(task["heartbeat_timeout"], "50s");
    assert_eq!(
        task["labels"],
        json!({"team": "mail", "tenant": "own", "user": "7"})
    );
    let other = site
        .registered(json!({"callback": "other", "delay": "1h"}))
        .await;
    assert_eq!(
        (&other["max_attempts"], &other["labels"]),
        (&json!(10), &Value::Null)
    );
    let record = site
        .registered(json!({"kafka": {"topic": "send_email"}, "delay": "1h", "payload": 1}))
        .await;
    assert!(record.get("labels").is_none());
    // A task keeps what it was registered with.
    site.delete(PATH).await;
    let again = site
        .get(&format!(
            "/v1/tasks/{}?view=FULL",
            task["id"].as_str().unwrap()
        ))
        .await
        .ok();
    assert_eq!(again["heartbeat_timeout"], "50s");
    let after = site
        .registered(json!({"callback": "send_email", "delay": "1h"}))
        .await;
    assert_eq!(after["max_attempts"], 10);
}

/// A site whose calls of one operation fail while the switch is on.
async fn failing(operation: &'static str, fate: Fate) -> (Site, Arc<AtomicBool>) {
    let on = Arc::new(AtomicBool::new(false));
    let switch = Arc::clone(&on);
    let site = Site::with_fates(Arc::new(move |_, call| {
        let fails = call.operation == operation && on.load(Ordering::SeqCst);
        if fails { fate } else { Fate::Go }
    }));
    site.world.pass(3 * SECOND).await;
    (site, switch)
}

#[tokio::test(start_paused = true)]
async fn a_registration_reads_the_callback_itself_when_the_copy_is_old() {
    let (site, away) = failing("record", Fate::Fail).await;
    assert_eq!(site.put(PATH, &full()).await.status, 201);
    away.store(true, Ordering::SeqCst);
    site.world.pass(5 * SECOND).await;
    let task = json!({"callback": "send_email", "delay": "1h"});
    let problem = site.post("/v1/tasks", task.to_string()).await.problem();
    assert!(
        problem.retryable,
        "with other rules it would not be the same task: {problem:?}"
    );
    let record = json!({"kafka": {"topic": "t"}, "delay": "1h", "payload": 1});
    assert_eq!(site.registered(record).await["target"]["topic"], "t");
    // The node reads its copy anew within a second: the store is back for this registration only.
    away.store(false, Ordering::SeqCst);
    assert_eq!(site.registered(task).await["max_attempts"], 8);
}

#[tokio::test(start_paused = true)]
async fn wrong_configurations_are_refused_with_all_their_mistakes() {
    let site = ready().await;
    let wrong = json!({"max_attempts": 0, "retry": {"factor": 0.5, "initial": "2s", "max": "1s"}, "rate": {"per_second": 0}});
    let problem = site.put(PATH, &wrong).await.problem();
    assert_eq!((problem.status, &*problem.code), (400, "invalid_request"));
    let mut pointers: Vec<&str> = problem.errors.iter().map(|e| &*e.pointer).collect();
    pointers.sort_unstable();
    assert_eq!(
        pointers,
        [
            "/max_attempts",
            "/rate/per_second",
            "/retry/factor",
            "/retry/max"
        ]
    );
    let problem = site.put(PATH, &json!({"maxx_attempts": 3})).await.problem();
    assert!(
        problem.detail.contains("did you mean `max_attempts`"),
        "{problem:?}"
    );
    assert_eq!(site.get(PATH).await.status, 404, "nothing of it was stored");
    for (name, status) in [
        ("tickwheel.jobs", 403),
        ("a%20b", 400),
        (&"x".repeat(129), 400),
    ] {
        let problem = site
            .put(&format!("/v1/callbacks/{name}"), &json!({}))
            .await
            .problem();
        assert_eq!(
            (problem.status, &*problem.errors[0].pointer),
            (status, "/name"),
            "{name}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_comes_in_pages() {
    let site = ready().await;
    for number in 0..5 {
        let path = format!("/v1/callbacks/c{number}");
        assert_eq!(site.put(&path, &json!({})).await.status, 201);
    }
    let (mut names, mut token) = (Vec::new(), String::new());
    loop {
        let page = site
            .get(&format!("/v1/callbacks?page_size=2&page_token={token}"))
            .await
            .ok();
        let callbacks = page["callbacks"].as_array().unwrap();
        assert!(callbacks.len() <= 2);
        names.extend(
            callbacks
                .iter()
                .map(|one| one["name"].as_str().unwrap().to_owned()),
        );
        match page["next_page_token"].as_str() {
            Some(next) => token = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(names, ["c0", "c1", "c2", "c3", "c4"]);
    for query in ["page_size=0", "page_token=%21", "page=2"] {
        let problem = site.get(&format!("/v1/callbacks?{query}")).await.problem();
        assert_eq!(problem.status, 400, "{query}");
    }
    for path in ["/v1/callbacks", "/v1/schedules", "/v1/tasks", "/v1/jobs"] {
        let problem = site.get(&format!("{path}?page_size=0")).await.problem();
        let detail = &problem.errors[0].detail;
        let range = "`0` is not a whole number from 1 to 1";
        assert!(
            detail.starts_with(range) && detail.ends_with('0'),
            "{path}: {detail}"
        );
    }
}

/// Of a callback whose gate was closed something is left for a while, so that all nodes release what it held.
#[tokio::test(start_paused = true)]
async fn what_is_left_of_deleted_callbacks_takes_no_room_of_a_page() {
    let site = ready().await;
    for number in 10..60 {
        let path = format!("/v1/callbacks/c{number}");
        assert_eq!(site.put(&path, &json!({})).await.status, 201);
        if [40, 50, 59].contains(&number) {
            continue;
        }
        for gate in [r#"{"gate":"paused"}"#, r#"{"gate":"open"}"#] {
            site.post(&format!("{path}/gate"), gate).await.ok();
        }
        assert_eq!(site.delete(&path).await.status, 204);
    }
    let (mut names, mut token) = (Vec::new(), String::new());
    for _ in 0..3 {
        let path = format!("/v1/callbacks?page_size=1&page_token={token}");
        let page = site.get(&path).await.ok();
        assert_eq!(page["callbacks"].as_array().unwrap().len(), 1, "{page}");
        names.push(page["callbacks"][0]["name"].clone());
        let next = page["next_page_token"].as_str();
        token = next.unwrap_or_default().to_owned();
    }
    assert_eq!(names, ["c40", "c50", "c59"]);
    assert_eq!(token, "", "the last page is the last");
    let whole = site.get("/v1/callbacks?page_size=2").await.ok();
    assert_eq!(whole["callbacks"].as_array().unwrap().len(), 2, "{whole}");
}

#[tokio::test(start_paused = true)]
async fn gates_are_set_and_shown() {
    let site = ready().await;
    let gate = format!("{PATH}/gate");
    let opened = site.post(&gate, r#"{"gate":"open"}"#).await.ok();
    assert_eq!(opened["gates"], json!([]));
    assert_eq!(site.get(PATH).await.status, 404, "nothing is set yet");
    let until = "2099-01-01T00:00:00.000Z";
    let closed =
        json!({"gate": "paused", "collection": "bulk", "reason": "too many", "until": until});
    let answer = site.post(&gate, closed.to_string()).await.ok();
    assert_eq!(answer["gate"], "open");
    let shown = &answer["gates"][0];
    for name in ["gate", "collection", "reason", "until"] {
        assert_eq!(shown[name], closed[name], "{name}");
    }
    let since = shown["since"].clone();
    site.world.pass(2 * SECOND).await;
    let again = site.post(&gate, closed.to_string()).await.ok();
    assert_eq!(again["gates"][0]["since"], since, "it was so already");
    let read = site.get(PATH).await;
    assert!(!read.headers.contains_key("etag"), "it is not configured");
    assert_eq!(read.ok()["gates"], again["gates"]);
    let all = site.post(&gate, r#"{"gate":"dropping"}"#).await.ok();
    assert_eq!(
        (&all["gate"], all["gates"].as_array().unwrap().len()),
        (&json!("dropping"), 2)
    );
    assert_eq!(site.delete(PATH).await.problem().code, "gate_not_open");
    assert_eq!(site.put(PATH, &json!({})).await.status, 201);
    assert_eq!(site.delete(PATH).await.problem().code, "gate_not_open");
    site.post(&gate, r#"{"gate":"open"}"#).await.ok();
    assert_eq!(site.delete(PATH).await.problem().code, "gate_not_open");
    site.post(&gate, r#"{"gate":"open","collection":"bulk"}"#)
        .await
        .ok();
    assert_eq!(site.delete(PATH).await.status, 204);
    for wrong in [
        r#"{"gate":"shut"}"#,
        "{}",
        r#"{"gate":"open","why":"x"}"#,
        r#"{"gate":"paused","until":"2020-01-01T00:00:00Z"}"#,
    ] {
        assert_eq!(
            site.post(&gate, wrong).await.problem().status,
            400,
            "{wrong}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_of_unknown_fate_may_be_repeated() {
    let (site, lost) = failing("swap_record", Fate::ApplyLater(600 * SECOND)).await;
    lost.store(true, Ordering::SeqCst);
    let problem = site.put(PATH, &full()).await.problem();
    assert_eq!(
        (&*problem.code, problem.retryable),
        ("outcome_unknown", true)
    );
    lost.store(false, Ordering::SeqCst);
    assert_eq!(site.put(PATH, &full()).await.status, 201);
    // The first write arrives, and changes nothing any more.
    site.world.pass(700 * SECOND).await;
    assert_eq!(site.put(PATH, &json!({})).await.status, 200);
    assert_eq!(site.get(PATH).await.ok().get("max_attempts"), None);
}

#[tokio::test(start_paused = true)]
async fn a_claim_behind_a_closed_gate_is_answered_gated_and_a_dropped_task_says_so() {
    let site = ready().await;
    let message = due(&site, r#"{"callback":"work","payload":1}"#).await;
    let gate = format!("/v1/callbacks/{}/gate", "work");
    let gate = gate.as_str();
    site.post(gate, r#"{"gate":"paused"}"#).await.ok();
    let answer = claim(&site, &message, "").await;
    assert_eq!(answer["status"], "gated");
    let path = format!("/v1/tasks/{}", message.dispatch.id);
    site.world.pass(30 * SECOND).await;
    assert_eq!(site.get(&path).await.ok()["attempt"], 0);
    site.post(gate, r#"{"gate":"dropping","reason":"too late"}"#)
        .await
        .ok();
    site.world.pass(3 * SECOND).await;
    let task = site.get(&path).await.ok();
    assert_eq!(
        (&task["state"], &task["reason"]),
        (&json!("cancelled"), &json!("dropped"))
    );
    assert!(task["error"].as_str().unwrap().ends_with(": too late"));
}

/// Every node holds all of them in memory.
#[tokio::test(start_paused = true)]
async fn configured_callbacks_have_a_bound_and_those_that_are_there_can_be_changed() {
    let site = ready().await;
    let (store, time) = (&site.world.store, &site.world.time);
    let value = encode_callback(&Callback {
        policy: Some(Policy::default()),
        gates: Vec::new(),
    });
    for number in 0..CALLBACKS_MAX {
        let name = Name::new(Kind::Callback, &format!("c{number}")).unwrap();
        let mark = Mark {
            nonce: time.random_uuid(),
            stamp: time.stamp(),
        };
        let change = Change::put(name, None, value.clone(), None, mark).unwrap();
        assert_eq!(store.put_if(&change).await.unwrap(), Swapped::Applied);
    }
    // A node reads all records twice a minute, also those that nobody has announced.
    site.world.pass(40 * SECOND).await;
    let refused = site.put(PATH, &full()).await.problem();
    assert_eq!(
        (refused.status, &*refused.code),
        (409, "too_many_callbacks")
    );
    let gate = site.post("/v1/callbacks/new/gate", r#"{"gate":"paused"}"#);
    assert_eq!(gate.await.problem().code, "too_many_callbacks");
    assert_eq!(site.put("/v1/callbacks/c7", &full()).await.status, 200);
    let gate = site.post("/v1/callbacks/c8/gate", r#"{"gate":"paused"}"#);
    assert_eq!(gate.await.ok()["gate"], "paused");
}
