//! These tests call the HTTP API from outside, through its router, on a real node with store and
//! queue in memory.

mod actions;
mod adopted;
mod attempts;
mod audit;
mod backfills;
mod browsers;
mod callback_figures;
mod callbacks;
mod cancel;
mod cancelled_trees;
mod chains;
mod checks;
mod claims_told;
mod configuration;
mod costs;
mod credentials;
mod dashboard;
mod dead_letter_topic;
mod dead_letters;
mod dependencies;
mod ended;
mod error_classes;
mod events;
mod first_page;
mod forecast;
mod held_trees;
mod http2;
mod jobs;
mod jobs_again;
mod jobs_by_rows;
mod jobs_unreadable;
mod joins;
mod keyed;
mod keys;
mod keys_and_roles;
mod keys_that_end;
mod labels;
mod large_registrations;
mod last_admin;
mod leftover;
mod limited_keys;
mod limits;
mod list;
mod notify;
mod ordering;
mod outside;
mod poll;
mod refused;
mod reopened;
mod repeats;
mod results;
mod retries;
mod schedule_pages;
mod schedules;
mod served;
mod trees;
mod why;
mod worker;

use axum::{
    Router,
    body::{Body, Bytes, to_bytes},
    http::{HeaderMap, Method, Request, StatusCode},
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::sim::world::{Fates, Simulated, World};

use tickwheel::{
    api::problem::Problem,
    http::{Options, router},
    model::{ids::TaskId, time::Millis, wheel::WheelNumber},
};

/// A node with its API.
struct Site {
    world: World,
    node: Simulated,
    router: Router,
    shutdown: CancellationToken,
}

impl Site {
    fn new() -> Self {
        let world = World::new(1, 1000);
        let node = world.node(1);
        Self::of(world, node)
    }

    /// A node with ticks of a minute, which passes days in little time.
    fn slow() -> Self {
        let world = World::with_tick(1, 1000, std::time::Duration::from_secs(60));
        let node = world.node(1);
        Self::of(world, node)
    }

    /// A node whose store calls meet the given fates.
    fn with_fates(fates: Fates) -> Self {
        let world = World::new(1, 1000);
        let node = world.node_with(1, fates);
        Self::of(world, node)
    }

    fn of(world: World, node: Simulated) -> Self {
        let shutdown = CancellationToken::new();
        let options = Options::new(node.time.clone(), shutdown.clone());
        Self {
            router: router(node.service(), options),
            world,
            node,
            shutdown,
        }
    }

    async fn send(&self, request: Request<Body>) -> Answer {
        Answer::of(self.router.clone(), request).await
    }

    async fn post(&self, path: &str, body: impl Into<Body>) -> Answer {
        self.send(request(Method::POST, path, body)).await
    }

    async fn get(&self, path: &str) -> Answer {
        self.send(request(Method::GET, path, "")).await
    }
}

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Answer {
    async fn of(router: Router, request: Request<Body>) -> Self {
        let response = router.oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        // A stream of events may have no end.
        let kind = parts.headers.get("content-type");
        let body = if kind.is_some_and(|kind| kind == "text/event-stream") {
            Bytes::new()
        } else {
            to_bytes(body, usize::MAX).await.unwrap()
        };
        Self {
            status: parts.status,
            headers: parts.headers,
            body,
        }
    }

    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {:?}", self.body))
    }

    /// Returns the body of a success.
    #[track_caller]
    fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{:?}", self.body);
        self.json()
    }

    fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }

    /// Returns the problem document, which every answer that is not a success must be.
    #[track_caller]
    fn problem(&self) -> Problem {
        assert_eq!(self.header("content-type"), "application/problem+json");
        let problem: Problem = serde_json::from_slice(&self.body).unwrap();
        assert_eq!(problem.status, self.status.as_u16());
        assert_eq!(problem.kind, format!("/problems/{}", problem.code));
        let trace_id = problem.trace_id.as_deref().unwrap_or_default();
        assert_eq!(trace_id.len(), 32, "{problem:?}");
        problem
    }
}

fn request(method: Method, path: &str, body: impl Into<Body>) -> Request<Body> {
    Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json")
        .body(body.into())
        .unwrap()
}

/// An id that no task has.
fn task_id() -> String {
    TaskId::new(Millis(1_800_000_000_000), WheelNumber::new(0).unwrap(), 1).to_string()
}
