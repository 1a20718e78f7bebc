//! A collector of the test gets a span for each request and for each attempt, in the trace of the client that registered.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{Router, body::Bytes, routing::post as on_post};
use opentelemetry_proto::tonic::{
    collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse},
    common::v1::any_value::Value as Text,
    trace::v1::{Span, span::SpanKind, status::StatusCode},
};
use prost::Message as _;
use serde_json::{Value, json};
use tickwheel::time_source::TimeSource;

use crate::server::{Server, free_port, post};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CLIENT_SPAN: &str = "00f067aa0ba902b7";

type Spans = Arc<Mutex<Vec<Span>>>;

/// Starts a collector, and returns its address and what it gets.
async fn collector() -> (String, Spans) {
    let spans = Spans::default();
    let got = Arc::clone(&spans);
    let take = move |body: Bytes| async move {
        let request = ExportTraceServiceRequest::decode(body).unwrap();
        for resource in request.resource_spans {
            let attributes = resource.resource.unwrap().attributes;
            assert!(attributes.iter().any(|one| one.key == "service.name"));
            for scope in resource.scope_spans {
                got.lock().unwrap().extend(scope.spans);
            }
        }
        ExportTraceServiceResponse::default().encode_to_vec()
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().route("/v1/traces", on_post(take));
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    (address, spans)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn attributes(span: &Span) -> HashMap<&str, String> {
    let text = |value: Option<&Text>| match value {
        Some(Text::StringValue(text)) => text.clone(),
        Some(Text::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    };
    let all = span.attributes.iter();
    all.map(|one| {
        let value = one.value.as_ref().and_then(|value| value.value.as_ref());
        (one.key.as_str(), text(value))
    })
    .collect()
}

async fn register(url: &str, trace_parent: Option<&str>) -> Value {
    let mut request = reqwest::Client::new()
        .post(format!("{url}/v1/tasks"))
        .header("content-type", "application/json")
        .body(
            json!({"callback": "greet", "delay": "10ms", "retry": {"initial": "10ms"}}).to_string(),
        );
    if let Some(parent) = trace_parent {
        request = request.header("traceparent", parent);
    }
    let answer = request.send().await.unwrap();
    assert_eq!(answer.status(), 201);
    serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap()
}

/// Ends a server in order.
async fn stop(mut server: Server) {
    server.terminate();
    let ended = tokio::task::spawn_blocking(move || server.ended());
    assert!(ended.await.unwrap().success());
}

/// Polls one task, and reports its outcome. Returns the context that it came with.
async fn work(url: &str, outcome: &str) -> String {
    let poll = json!({"worker": "w1", "callbacks": ["greet"], "max_tasks": 1, "wait": "20s"});
    let polled = post(url, "/v1/worker/poll", &poll).await;
    let task = &polled["tasks"][0];
    let mut report = json!({"id": task["id"], "attempt": task["attempt"], "outcome": outcome});
    if outcome != "succeeded" {
        report["error"] = json!("not yet");
    }
    let report = json!({"worker": "w1", "tasks": [report]});
    let settled = post(url, "/v1/worker/settle", &report).await;
    assert_eq!(settled["results"][0]["status"], "ok");
    task["traceparent"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_and_attempts_are_spans_of_the_trace_of_their_client() {
    let directory = tempfile::tempdir().unwrap();
    let (address, spans) = collector().await;
    let server = Server::start(directory.path(), &["--otlp-endpoint", &address]).await;
    let parent = format!("00-{TRACE}-{CLIENT_SPAN}-01");
    let task = register(&server.url, Some(&parent)).await;
    let given = work(&server.url, "retry").await;
    work(&server.url, "succeeded").await;
    // A client that traces nothing has its task in a trace that begins here. One that keeps nothing decides so for all of it.
    register(&server.url, None).await;
    work(&server.url, "succeeded").await;
    register(
        &server.url,
        Some(&format!("00-{}-{CLIENT_SPAN}-00", "1".repeat(32))),
    )
    .await;
    work(&server.url, "succeeded").await;
    stop(server).await;

    let spans = spans.lock().unwrap();
    let ours: Vec<&Span> = spans
        .iter()
        .filter(|span| hex(&span.trace_id) == TRACE)
        .collect();
    let named = |name: &str| -> Vec<&Span> {
        ours.iter()
            .copied()
            .filter(|span| span.name == name)
            .collect()
    };
    let [request] = named("POST /v1/tasks")[..] else {
        panic!("one registration: {ours:?}");
    };
    assert_eq!(request.kind(), SpanKind::Server);
    assert_eq!(hex(&request.parent_span_id), CLIENT_SPAN);
    assert_eq!(attributes(request)["http.response.status_code"], "201");
    assert_eq!(
        given,
        format!("00-{TRACE}-{}-01", hex(&request.span_id)),
        "of the worker"
    );
    let mut attempts = named("attempt greet");
    attempts.sort_by_key(|span| span.start_time_unix_nano);
    let outcomes: Vec<_> = attempts
        .iter()
        .map(|span| {
            let about = attributes(span);
            assert_eq!(span.parent_span_id, request.span_id);
            assert_eq!(span.kind(), SpanKind::Consumer);
            assert_eq!(about["tickwheel.task.id"], task["id"].as_str().unwrap());
            assert_eq!(about["tickwheel.worker"], "w1");
            assert!(span.end_time_unix_nano >= span.start_time_unix_nano);
            let error = span
                .status
                .clone()
                .filter(|status| status.code() == StatusCode::Error);
            (
                about["tickwheel.attempt"].clone(),
                about["tickwheel.outcome"].clone(),
                error.map(|status| status.message),
            )
        })
        .collect();
    let said = |number: &str, outcome: &str, error: Option<&str>| {
        (
            number.to_owned(),
            outcome.to_owned(),
            error.map(str::to_owned),
        )
    };
    assert_eq!(
        outcomes,
        [
            said("1", "retry", Some("not yet")),
            said("2", "succeeded", None)
        ]
    );
    let attempts: Vec<&Span> = spans
        .iter()
        .filter(|span| span.name == "attempt greet")
        .collect();
    assert_eq!(
        attempts.len(),
        3,
        "and nothing of the trace that is not kept"
    );
    let own = attempts
        .iter()
        .find(|span| hex(&span.trace_id) != TRACE)
        .unwrap();
    let begun = spans
        .iter()
        .find(|span| span.span_id == own.parent_span_id)
        .unwrap();
    assert_eq!(begun.name, "POST /v1/tasks");
    assert!(begun.parent_span_id.is_empty(), "it begins here");
    assert!(spans.iter().all(|span| !span.name.ends_with("/readyz")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_is_away_holds_nothing_up() {
    let directory = tempfile::tempdir().unwrap();
    let nobody = format!("http://127.0.0.1:{}", free_port());
    let server = Server::start(directory.path(), &["--otlp-endpoint", &nobody]).await;
    for _ in 0..20 {
        register(&server.url, None).await;
        work(&server.url, "succeeded").await;
    }
    let stopped = TimeSource::real()
        .within(Duration::from_secs(30), stop(server))
        .await;
    assert!(stopped.is_some(), "it stops as it does without");
}
