//! Streams of events tell what becomes of a task, and of the tasks of a callback.

use std::time::Duration;

use axum::{
    body::{Body, BodyDataStream},
    http::{Method, Request, header},
};
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::{
    Answer, Site,
    callbacks::ready,
    keys_and_roles::{closed, code},
    request, task_id,
    worker::call,
};

const SECOND: Duration = Duration::from_secs(1);

/// An event: its type, its id and its data.
type Event = (String, String, Value);

/// A stream of events that is open.
struct Events(BodyDataStream, String);

impl Events {
    /// Returns the next event; none when the stream has ended.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some((text, rest)) = self.1.split_once("\n\n") {
                let (text, rest) = (text.to_owned(), rest.to_owned());
                self.1 = rest;
                let field = |name: &str| {
                    let mut lines = text.lines();
                    let found = lines.find_map(|line| line.strip_prefix(name));
                    found.unwrap_or_default().trim_start().to_owned()
                };
                if text.starts_with(':') {
                    continue;
                }
                let data = serde_json::from_str(&field("data:")).unwrap();
                return Some((field("event:"), field("id:"), data));
            }
            let piece = self.0.next().await?.unwrap();
            self.1.push_str(std::str::from_utf8(&piece).unwrap());
        }
    }

    /// Returns the ids of all events until the end.
    async fn ids(mut self) -> Vec<String> {
        let mut ids = Vec::new();
        while let Some((_, id, _)) = self.next().await {
            ids.push(id);
        }
        ids
    }
}

fn asked(path: &str, headers: &[(&str, &str)]) -> Request<Body> {
    let mut request = request(Method::GET, path, "");
    for (name, value) in headers {
        let name: axum::http::HeaderName = name.parse().unwrap();
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    request
}

impl Site {
    async fn events(&self, path: &str, headers: &[(&str, &str)]) -> Events {
        let answer = self.router.clone().oneshot(asked(path, headers)).await;
        let answer = answer.unwrap();
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        Events(answer.into_body().into_data_stream(), String::new())
    }

    async fn polled_one(&self) -> Value {
        let poll = json!({"worker": "w", "callbacks": ["mail"], "max_tasks": 1, "wait": "30s"});
        let answer = self.post("/v1/worker/poll", poll.to_string()).await.ok();
        answer["tasks"][0].clone()
    }

    async fn reports(&self, task: &Value, outcome: &str) {
        let mut report = json!({"id": task["id"], "attempt": task["attempt"], "outcome": outcome});
        if outcome != "succeeded" {
            report["error"] = json!("no");
        }
        assert_eq!(
            call(self, "/v1/worker/settle", report).await["status"],
            "ok"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_is_followed_to_its_end() {
    let site = ready().await;
    let retry = json!({"initial": "20s", "factor": 1, "jitter": "none"});
    let task = json!({"callback": "mail", "delay": "5s", "retry": retry});
    let task = site.registered(task).await;
    let path = format!("/v1/tasks/{}/events", task["id"].as_str().unwrap());
    let mut stream = site.events(&path, &[]).await;
    let (kind, id, data) = stream.next().await.unwrap();
    assert_eq!((&*kind, &*id), ("state", "0.0.scheduled"));
    assert_eq!(
        (&data["task"], &data["state"]),
        (&task["id"], &json!("scheduled"))
    );
    let reading = tokio::spawn(stream.ids());
    let first = site.polled_one().await;
    site.world.pass(2 * SECOND).await;
    site.reports(&first, "retry").await;
    let second = site.polled_one().await;
    site.world.pass(2 * SECOND).await;
    // A reader that was away sees the attempt that ended meanwhile, and the present state.
    let mut late = site
        .events(&path, &[("last-event-id", "0.1.claimed")])
        .await;
    let (_, id, data) = late.next().await.unwrap();
    assert_eq!((&*id, &data["outcome"]), ("0.1.retrying", &json!("retry")));
    assert_eq!(late.next().await.unwrap().1, "0.2.claimed");
    drop(late);
    site.reports(&second, "succeeded").await;
    let mut ids = reading.await.unwrap();
    ids.retain(|id| !id.ends_with("enqueued"));
    assert_eq!(
        ids,
        [
            "0.1.claimed",
            "0.1.retrying",
            "0.2.claimed",
            "0.2.succeeded"
        ]
    );
    let again = site
        .events(&path, &[("last-event-id", "0.2.claimed")])
        .await;
    assert_eq!(again.ids().await, ["0.2.succeeded"]);
    let seen = asked(&path, &[("last-event-id", "0.2.succeeded")]);
    assert_eq!(
        site.send(seen).await.status,
        204,
        "a browser comes back no more"
    );
    let gone = site.get(&format!("/v1/tasks/{}/events", task_id())).await;
    assert_eq!(code(&gone).1, "task_not_found");
}

#[tokio::test(start_paused = true)]
async fn a_callback_is_followed_as_long_as_its_reader_may() {
    let (site, root) = closed().await;
    let (id, viewer) = site
        .key(
            &root,
            json!({"name": "v", "role": "viewer", "callbacks": ["mail"]}),
        )
        .await;
    let bearer = format!("Bearer {viewer}");
    let path = "/v1/callbacks/mail/events";
    let key = (header::AUTHORIZATION.as_str(), &*bearer);
    let mut stream = site.events(path, &[key, ("last-event-id", "x")]).await;
    let (kind, _, data) = stream.next().await.unwrap();
    // Any node of this cluster may write the rows of the others.
    assert_eq!(
        (&*kind, &data["callback"], &data["all"]),
        ("scope", &json!("mail"), &json!(false))
    );
    assert_eq!(stream.next().await.unwrap().0, "missed");
    for callback in ["bank", "mail"] {
        let task = json!({"callback": callback, "delay": "1h"});
        let made = site.post_by(&root, "/v1/tasks", task).await.json();
        let cancel = format!("/v1/tasks/{}/cancel", made["id"].as_str().unwrap());
        site.post_by(&root, &cancel, Value::Null).await.ok();
    }
    let (kind, id_of_event, data) = stream.next().await.unwrap();
    assert_eq!((&*kind, &data["state"]), ("state", &json!("cancelled")));
    assert_eq!(
        id_of_event,
        format!("{}.0.0.cancelled", data["task"].as_str().unwrap())
    );
    let denied = site.get_by(&viewer, "/v1/callbacks/bank/events").await;
    assert_eq!(code(&denied).0, 403);
    let revoked: Answer = site
        .by(
            &root,
            Method::DELETE,
            &format!("/v1/api-keys/{id}"),
            &Value::Null,
        )
        .await;
    assert!(revoked.status.is_success(), "{:?}", revoked.body);
    assert!(stream.next().await.is_none(), "its key is gone");
}
