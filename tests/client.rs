//! The client meets small HTTP servers with scripted answers: these tests cover fail-over, time
//! limits and errors.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{
    Json, Router,
    http::{StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use tickwheel::{
    client::{CancelOutcome, Client, Error, Task, TaskState, secs},
    model::ids::TaskId,
};
use tokio::net::TcpListener;

const ID: &str = "018bcfe5-6800-8000-8000-000000000001";
const TIME: &str = "2030-01-01T00:00:00.000Z";

/// A server that counts its requests and answers all of them alike.
struct Peer {
    address: SocketAddr,
    requests: Arc<AtomicUsize>,
}

impl Peer {
    /// A server that does not tell what ids are made of.
    async fn start(answer: fn(&Uri, &Value) -> Response) -> Self {
        Self::of(None, answer).await
    }

    /// A server with so many wheels.
    async fn of(wheels: Option<u16>, answer: fn(&Uri, &Value) -> Response) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let requests = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&requests);
        let router = Router::new().fallback(move |uri: Uri, body: String| async move {
            if uri.path() == "/v1/ids" {
                return match wheels {
                    Some(wheels) => Json(json!({"wheels": wheels, "time": TIME})).into_response(),
                    None => problem(StatusCode::NOT_FOUND, false),
                };
            }
            let before = counter.fetch_add(1, Ordering::SeqCst);
            let body = serde_json::from_str(&body).unwrap_or(Value::Null);
            if body["callback"] == "lost" && before == 0 {
                std::future::pending::<()>().await;
            }
            if uri.path() == "/v1/tasks" && body["callback"] == "slow" {
                std::future::pending::<()>().await;
            }
            answer(&uri, &body)
        });
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, requests }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

/// An address without a listener.
async fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    format!("http://{address}")
}

fn task(state: &str) -> Value {
    let at = "2030-01-01T00:00:00.000Z";
    json!({
        "id": ID, "target": {"type": "callback", "name": "c"}, "state": state, "start_time": at,
        "effective_start_time": at, "create_time": at, "attempt": 0, "max_attempts": 5,
        "priority": "normal", "generation": 0, "a_field_of_the_future": 1,
    })
}

fn registered(_: &Uri, body: &Value) -> Response {
    assert_eq!(
        *body,
        json!({"callback": "c", "delay": "90s", "payload": {"user": 7}})
    );
    (StatusCode::CREATED, Json(task("scheduled"))).into_response()
}

fn problem(status: StatusCode, retryable: bool) -> Response {
    let body = json!({
        "type": "/problems/x", "title": "X", "status": status.as_u16(), "detail": "what was wrong",
        "code": "x", "retryable": retryable,
    });
    let headers = [
        (header::RETRY_AFTER, "7"),
        (header::CONTENT_TYPE, "application/problem+json"),
    ];
    (status, headers, body.to_string()).into_response()
}

fn unavailable(_: &Uri, _: &Value) -> Response {
    problem(StatusCode::SERVICE_UNAVAILABLE, true)
}

fn reset() -> Task {
    let task = Task::callback("c")
        .delay(secs(90))
        .json(&json!({"user": 7}));
    task.expect("JSON")
}

fn id() -> TaskId {
    ID.parse().expect("an id")
}

#[tokio::test]
async fn a_registration_moves_on_to_a_server_that_answers() {
    let (away, busy) = (nobody().await, Peer::start(unavailable).await);
    let good = Peer::start(registered).await;
    let client = Client::connect_any([away, busy.url(), good.url()]).unwrap();
    assert_eq!(client.register(reset()).await.unwrap().id, id());
    client.register(reset()).await.unwrap();
    assert_eq!(
        (busy.requests(), good.requests()),
        (1, 2),
        "the one that answered is asked first"
    );
}

#[tokio::test]
async fn a_registration_that_may_have_arrived_is_not_sent_again() {
    let (slow, other) = (Peer::start(registered).await, Peer::start(registered).await);
    let client = Client::connect_any([slow.url(), other.url()]).unwrap();
    let client = client.call_limit(Duration::from_millis(100));
    let error = client.register(Task::callback("slow")).await.unwrap_err();
    assert!(
        error.is_temporary() && error.to_string().contains("not known whether"),
        "{error}"
    );
    assert_eq!(other.requests(), 0);
}

/// Answers as the service does to a task whose id the client made.
fn named(_: &Uri, body: &Value) -> Response {
    let mut answer = task("scheduled");
    answer["id"] = body["id"].clone();
    answer["start_time"] = body["start_time"].clone();
    answer["outcome"] = json!("existing");
    Json(answer).into_response()
}

#[tokio::test]
async fn a_registration_whose_answer_was_lost_is_sent_again_with_the_same_id() {
    let peer = Peer::of(Some(4), named).await;
    let client = Client::connect(&peer.url()).unwrap();
    let client = client.call_limit(Duration::from_millis(300));
    let lost = Task::callback("lost").delay(secs(90));
    let registered = client.register(lost).await.unwrap();
    assert_eq!(peer.requests(), 2);
    assert!(registered.id.wheel().get() < 4);
    // The delay counts from the time of the service.
    let start = registered.id.first_start().0 - 1_893_456_090_000;
    assert!((0..10_000).contains(&start), "{start}");
    let mark = Task::callback("lost").delay(secs(90)).idempotency_key("k");
    let silent = Peer::start(named).await;
    let client = Client::connect(&silent.url()).unwrap();
    let client = client.call_limit(Duration::from_millis(300));
    // The answer of this server names no task.
    assert!(client.register(mark).await.is_err());
    assert_eq!(silent.requests(), 2);
}

/// Answers registrations, one by one and together; the callback `bad` is refused.
fn each_named(uri: &Uri, body: &Value) -> Response {
    let one = |body: &Value| {
        if body["callback"] == "bad" {
            let error = json!({"type": "/p", "title": "X", "status": 400, "detail": "d", "code": "x", "retryable": false});
            return json!({ "error": error });
        }
        let mut answer = task("scheduled");
        answer["id"] = body["id"].clone();
        json!({"outcome": "created", "task": answer})
    };
    if uri.path() == "/v1/tasks" {
        return named(uri, body);
    }
    assert_eq!(uri.path(), "/v1/tasks:batchCreate");
    let tasks = body["tasks"].as_array().expect("a list");
    assert!(tasks.len() <= 256, "{}", tasks.len());
    let results: Vec<Value> = tasks.iter().map(one).collect();
    Json(json!({ "results": results })).into_response()
}

#[tokio::test]
async fn concurrent_registrations_travel_together_and_each_has_its_own_answer() {
    let peer = Peer::of(Some(4), each_named).await;
    let client = Client::connect(&peer.url()).unwrap();
    for alone in 1..=3 {
        client.register(Task::callback("c")).await.unwrap();
        assert_eq!(
            peer.requests(),
            alone,
            "a lonely caller has its own request"
        );
    }
    let register = |place: usize| {
        let bad = place == 7 || place == 300;
        let task = Task::callback(if bad { "bad" } else { "c" }).ordering_key("k");
        let client = client.clone();
        async move { client.register(task).await }
    };
    let results = futures_util::future::join_all((0..400).map(register)).await;
    assert!(peer.requests() <= 8, "{} requests", peer.requests());
    let (mut ids, mut refused) = (Vec::new(), Vec::new());
    for (place, result) in results.into_iter().enumerate() {
        match result {
            Ok(registered) => ids.push(registered.id),
            Err(Error::Refused { problem }) => refused.push((place, problem.detail)),
            Err(error) => panic!("{place}: {error}"),
        }
    }
    let starts: Vec<_> = ids.iter().map(|id| id.first_start()).collect();
    assert!(
        starts.is_sorted_by(|one, next| one < next),
        "in the order of the calls"
    );
    assert_eq!(refused, [(7, "d".to_owned()), (300, "d".to_owned())]);
}

#[tokio::test]
async fn a_caller_that_goes_away_leaves_the_line_and_the_others_are_sent() {
    let peer = Peer::of(Some(4), each_named).await;
    let client = Client::connect(&peer.url()).unwrap();
    client.register(Task::callback("c")).await.unwrap();
    let client = client.call_limit(Duration::from_millis(200));
    let call = |callback: &str| {
        let (client, task) = (client.clone(), Task::callback(callback));
        tokio::spawn(async move { client.register(task).await })
    };
    let slow = call("slow");
    tokio::task::yield_now().await;
    let (gone, stays) = (call("gone"), call("c"));
    tokio::task::yield_now().await;
    gone.abort();
    assert!(slow.await.unwrap().unwrap_err().is_temporary());
    stays.await.unwrap().unwrap();
    // The first one, the slow one and its repetition, and one task alone.
    assert_eq!(peer.requests(), 4);
}

#[tokio::test]
async fn errors_say_what_to_do() {
    let refusing = Peer::start(|_, _| problem(StatusCode::BAD_REQUEST, false)).await;
    let missing = Peer::start(|_, _| problem(StatusCode::NOT_FOUND, false)).await;
    let busy = Peer::start(unavailable).await;
    let other = Peer::start(|_, _| "<html>".into_response()).await;
    let get = async |url: String| Client::connect(&url).unwrap().get(id()).await.unwrap_err();
    let refused = get(refusing.url()).await;
    assert!(!refused.is_temporary());
    assert_eq!(refused.to_string(), "refused: what was wrong");
    assert_eq!(
        get(missing.url()).await.to_string(),
        "not found: what was wrong"
    );
    assert_eq!(get(busy.url()).await.retry_after(), Some(secs(7)));
    assert!(
        get(other.url())
            .await
            .to_string()
            .contains("unexpected answer")
    );
    let away = get(nobody().await).await;
    assert!(
        matches!(&away, Error::Transport { sent: false, .. }),
        "{away}"
    );
    assert!(away.to_string().contains("refused"), "{away}");
}

#[tokio::test]
async fn a_task_is_read_with_its_payload() {
    let peer = Peer::start(|uri, _| {
        assert_eq!(uri.to_string(), format!("/v1/tasks/{ID}?view=FULL&wait=5s"));
        Json(task("succeeded")).into_response()
    });
    let client = Client::connect(&peer.await.url()).unwrap();
    assert_eq!(
        client.wait(id(), secs(5)).await.unwrap().state,
        TaskState::Succeeded
    );
}

#[tokio::test]
async fn a_key_stands_for_its_task() {
    let peer = Peer::start(|uri, body| {
        let named = json!({"callback": "c", "key": "a b&c"});
        match uri.to_string().as_str() {
            "/v1/tasks?callback=c&key=a%20b%26c" => {
                let tasks = [task("scheduled")];
                Json(json!({"tasks": tasks, "start_time_to": TIME})).into_response()
            }
            "/v1/tasks?callback=c&key=unknown" => {
                Json(json!({"tasks": [], "start_time_to": TIME})).into_response()
            }
            "/v1/tasks:cancel" if *body == named => {
                Json(json!({"outcome": "cancelled", "task": task("cancelled")})).into_response()
            }
            "/v1/tasks:run" if *body == named => {
                Json(json!({"outcome": "rescheduled", "task": task("scheduled")})).into_response()
            }
            "/v1/tasks:reschedule" if body["delay"] == "90s" => {
                Json(json!({"outcome": "too_late", "task": task("dead")})).into_response()
            }
            _ => problem(StatusCode::NOT_FOUND, false),
        }
    });
    let client = Client::connect(&peer.await.url()).unwrap();
    let found = client.get_by_key("c", "a b&c").await.unwrap();
    assert_eq!(found.map(|task| task.id), Some(ID.to_owned()));
    assert!(client.get_by_key("c", "unknown").await.unwrap().is_none());
    let cancelled = client.cancel_by_key("c", "a b&c").await.unwrap();
    assert_eq!(cancelled.outcome, CancelOutcome::Cancelled);
    assert_eq!(client.run_by_key("c", "a b&c").await.unwrap().task.id, ID);
    let moved = client.reschedule_by_key("c", "a b&c", secs(90)).await;
    assert_eq!(moved.unwrap().task.state, TaskState::Dead);
    let error = client.cancel_by_key("c", "unknown").await.unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error}");
}

#[tokio::test]
async fn a_batch_answers_one_by_one() {
    let peer = Peer::start(|_, body| {
        assert_eq!(body["tasks"].as_array().map(Vec::len), Some(2));
        let error = json!({"type": "/p", "title": "X", "status": 400, "detail": "d", "code": "x", "retryable": false});
        Json(json!({"results": [{"task": task("scheduled")}, {"error": error}]})).into_response()
    });
    let client = Client::connect(&peer.await.url()).unwrap();
    let results = client.register_batch(vec![reset(), reset()]).await.unwrap();
    assert_eq!(results[0].as_ref().unwrap().id, id());
    assert_eq!(results[1].as_ref().unwrap_err().detail, "d");
}

#[tokio::test]
async fn a_batch_of_cancels_answers_one_by_one() {
    let peer = Peer::start(|uri, body| {
        assert_eq!(uri.path(), "/v1/tasks:batchCancel");
        assert_eq!(body["ids"], json!([ID, ID]));
        let error = json!({"type": "/p", "title": "X", "status": 404, "detail": "d", "code": "x", "retryable": false});
        let done = json!({"outcome": "cancelled", "task": task("cancelled")});
        Json(json!({"results": [done, {"error": error}]})).into_response()
    });
    let client = Client::connect(&peer.await.url()).unwrap();
    let results = client.cancel_batch(&[id(), id()]).await.unwrap();
    let first = results[0].as_ref().unwrap();
    assert_eq!(
        (first.outcome, first.task.state),
        (CancelOutcome::Cancelled, TaskState::Cancelled)
    );
    assert_eq!(results[1].as_ref().unwrap_err().status, 404);
}

#[tokio::test]
async fn a_retry_of_a_large_tree_goes_on_until_it_is_complete() {
    let peer = Peer::start(|uri, body| {
        assert_eq!(uri.path(), format!("/v1/tasks/{ID}/retry-failed"));
        let task = task("succeeded");
        if body["failed_before"].is_null() {
            let part = json!({"task": task, "retried": 1000, "left": 2, "complete": false, "failed_before": TIME});
            return (StatusCode::ACCEPTED, Json(part)).into_response();
        }
        assert_eq!(body["failed_before"], TIME);
        Json(json!({"task": task, "retried": 7, "left": 2, "complete": true})).into_response()
    });
    let peer = peer.await;
    let client = Client::connect(&peer.url()).unwrap();
    let done = client.retry_failed(id()).await.unwrap();
    assert_eq!(
        (done.retried, done.left, done.complete, peer.requests()),
        (1007, 2, true, 2)
    );
}

#[tokio::test]
async fn calls_about_rounds_and_children_name_their_attempt_and_say_what_was_refused() {
    let peer = Peer::start(|uri, body| match uri.path().rsplit('/').next() {
        Some("reopen") if body["attempt"] == 7 => problem(StatusCode::CONFLICT, false),
        Some("reopen") => Json(json!({"task": task("enqueued")})).into_response(),
        Some("children-complete") => Json(task("waiting_for_children")).into_response(),
        _ => problem(StatusCode::NOT_FOUND, false),
    });
    let client = Client::connect(&peer.await.url()).unwrap();
    let open = client.reopen(id(), None).await.unwrap();
    assert_eq!(open.task.state, TaskState::Enqueued);
    let refused = client.reopen(id(), Some(7)).await.unwrap_err();
    assert!(matches!(refused, Error::Refused { .. }), "{refused}");
    let held = client.complete_children(id()).await.unwrap();
    assert_eq!(held.state, TaskState::WaitingForChildren);
}

#[test]
fn an_address_that_is_none_is_refused() {
    // People write it in this way.
    assert!(Client::connect("127.0.0.1:7420, localhost:7421").is_ok());
    for server in ["", "ftp://x", "http://", "a b"] {
        let error = Client::connect(server).unwrap_err();
        assert!(
            matches!(&error, Error::Invalid(text) if text.contains("7420")),
            "{server}: {error}"
        );
    }
}
