//! This target sends requests to the whole API of a node: none is answered with 500, every
//! refusal is a problem document.

use std::{cell::RefCell, sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{Request, StatusCode, header},
};
use tickwheel::{
    doubles::{
        queue::memory::{Keep, MemoryQueue},
        store::memory::MemoryStore,
    },
    flow::{base::context::Context, stages::node::Node},
    http::{Options, router},
    model::{clock::Rules, ids::NodeId, time::TickLength, wheel::Shape},
    time_source::TimeSource,
};
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::{
    requests::{RECORD, REQUEST, WORDS},
    run::Target,
    samples::{START, id},
};

/// After this many requests a new node takes over, so that the accepted tasks do not pile up.
const REQUESTS_MAX: u32 = 5000;

/// A node in virtual time, on the store and the queue in memory.
struct Site {
    runtime: Runtime,
    router: Router,
    _node: Node,
    left: u32,
}

impl Site {
    fn new() -> Self {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        let guard = runtime.enter();
        let time = TimeSource::simulated(START, 1);
        let shape = Shape::new(1, TickLength::new(Duration::from_secs(1)).unwrap(), 1000).unwrap();
        let queue = MemoryQueue::new(time.clone(), 4, Keep::UntilHandled).handle();
        let context = Context {
            subscriptions: Some(Arc::new(queue.clone())),
            ..Context::new(
                NodeId(time.random_uuid()),
                MemoryStore::new(shape, time.clone()).handle(),
                Arc::new(queue),
                time.clone(),
                Rules {
                    shape,
                    look_ahead: 2,
                    lease: Duration::from_secs(5),
                    grace: Duration::from_secs(3),
                    skew_max: Duration::from_secs(1),
                    stall_max: Duration::from_secs(15),
                },
            )
        };
        let node = Node::start(context, Duration::from_secs(3));
        let router = router(node.service(), Options::new(time, CancellationToken::new()));
        drop(guard);
        Self {
            runtime,
            router,
            _node: node,
            left: REQUESTS_MAX,
        }
    }

    /// Sends the request of the text: method and path in its first line, the body after it. None
    /// when that is no request.
    fn answer(&self, bytes: &[u8]) -> Option<(StatusCode, String, Vec<u8>)> {
        let end = bytes.iter().position(|byte| *byte == b'\n')?;
        let line = std::str::from_utf8(&bytes[..end]).ok()?;
        let (method, path) = line.split_once(' ')?;
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(bytes[end + 1..].to_vec()))
            .ok()?;
        self.runtime.block_on(async {
            let response = self.router.clone().oneshot(request).await.unwrap();
            let (parts, body) = response.into_parts();
            let kind = parts.headers.get(header::CONTENT_TYPE);
            let kind = kind.map_or_else(String::new, |kind| kind.to_str().unwrap().to_owned());
            let body = to_bytes(body, usize::MAX).await.unwrap();
            Some((parts.status, kind, body.to_vec()))
        })
    }
}

fn samples() -> Vec<Vec<u8>> {
    let id = id();
    let item = format!(r#"{{"id":"{id}","attempt":1"#);
    let calls = [
        format!("POST /v1/tasks\n{REQUEST}"),
        format!("POST /v1/tasks\n{RECORD}"),
        format!("POST /v1/tasks:batchCreate\n{{\"tasks\":[{REQUEST},{RECORD}]}}"),
        format!("POST /v1/tasks:batchCancel\n{{\"ids\":[\"{id}\",\"x\",1]}}"),
        format!("GET /v1/tasks/{id}?view=FULL&wait=1s\n"),
        format!("GET /v1/tasks/{id}/messages?attempt=1\n"),
        format!("POST /v1/tasks/{id}/cancel\n{{}}"),
        format!("POST /v1/tasks/{id}/reschedule\n{{\"delay\":\"5s\"}}"),
        format!("POST /v1/tasks/{id}/run\n{{}}"),
        "GET /v1/tasks?callback=c&state=scheduled&start_time_from=2030-01-01T00:00:00Z&page_size=10\n".to_owned(),
        "POST /v1/worker/poll\n{\"worker\":\"w\",\"callbacks\":[\"c\"],\"max_tasks\":2,\"wait\":\"1s\"}".to_owned(),
        "GET /v1/dead-letters?callback=c&error=e&page_size=10\n".to_owned(),
        "GET /v1/dead-letters:groups?callback=c\n".to_owned(),
        format!("POST /v1/dead-letters/redrive\n{{\"ids\":[\"{id}\",\"x\",1]}}"),
        "POST /v1/dead-letters/redrive\n{\"callback\":\"c\",\"dry_run\":true}".to_owned(),
        format!("DELETE /v1/dead-letters/{id}\n"),
        "POST /v1/worker/leave\n{\"worker\":\"w\"}".to_owned(),
        format!("POST /v1/worker/reopen\n{{\"worker\":\"w\",\"id\":\"{id}\",\"attempt\":1}}"),
        format!("POST /v1/tasks/{id}/reopen\n{{\"attempt\":1}}"),
        format!("POST /v1/tasks/{id}/children-complete\n"),
        "POST /v1/worker/subscribe\n{\"worker\":\"w\",\"callbacks\":[\"c\"]}".to_owned(),
        format!(
            "POST /v1/worker/claim\n{{\"worker\":\"w\",\"messages\":[{{\"id\":\"{id}\",\"generation\":0,\"expected_attempt\":0}}]}}"
        ),
        format!("POST /v1/worker/heartbeat\n{{\"worker\":\"w\",\"tasks\":[{item},\"progress\":[1]}}]}}"),
        format!(
            "POST /v1/worker/settle\n{{\"worker\":\"w\",\"tasks\":[{item},\"outcome\":\"succeeded\",\"result\":1}}]}}"
        ),
        "PUT /v1/callbacks/c\n{\"max_attempts\":3,\"retry\":{\"factor\":1.5},\"labels\":{\"a\":\"b\"}}".to_owned(),
        "POST /v1/callbacks/c/gate\n{\"gate\":\"paused\",\"collection\":\"b\",\"until\":\"2099-01-01T00:00:00Z\"}".to_owned(),
        "GET /v1/callbacks?page_size=2&page_token=Yw\n".to_owned(),
        "POST /v1/jobs\n{\"kind\":\"redrive\",\"filter\":{\"callback\":\"c\",\"labels\":{\"a\":\"b\"},\"state\":\"dead\"},\"dry_run\":true}".to_owned(),
        "GET /v1/jobs?page_size=2&page_token=1.01b8dac5-b4fa-8000-8f23-456789abcdef\n".to_owned(),
        format!("POST /v1/jobs/{id}/pause\n{{}}"),
        "GET /v1/stats\n".to_owned(),
        "GET /v1/ids\n".to_owned(),
        // Wheel 0 and a look step that covers the default claim timeout.
        "POST /v1/tasks\n{\"callback\":\"c\",\"id\":\"01b8dac5-b4fa-8000-8f23-456789abcdef\",\"start_time\":\"2030-01-01T00:00:00.250Z\"}".to_owned(),
        "POST /v1/tasks:batchCreate\n{\"tasks\":[{\"callback\":\"c\",\"key\":\"k\",\"on_conflict\":\"ignore\",\"idempotency_key\":\"k\"}]}".to_owned(),
    ];
    calls.map(String::into_bytes).to_vec()
}

#[test]
fn requests() {
    let target = Target {
        name: "http",
        samples: samples(),
        words: &[
            &WORDS[..],
            &["%00", "%", "?", "&", "//", "../", "page_token=", "\r\n"],
        ]
        .concat(),
        // The node's own work during a request is counted, too.
        bytes_max: (4 * 1024 * 1024, 128),
        seconds: 8,
    };
    let site = RefCell::new(Site::new());
    // The start of a node, with the description of its API, takes more memory than a request may.
    let renew = || {
        let mut site = site.borrow_mut();
        site.left -= 1;
        if site.left == 0 {
            *site = Site::new();
        }
    };
    target.run_after(renew, |bytes| {
        let Some((status, kind, body)) = site.borrow().answer(bytes) else {
            return false;
        };
        let shown = String::from_utf8_lossy(&body);
        assert_ne!(status, StatusCode::INTERNAL_SERVER_ERROR, "{shown}");
        let refused = status.is_client_error() || status.is_server_error();
        assert!(
            !refused || kind == "application/problem+json",
            "{status} {kind}: {shown}"
        );
        // A missing task counts as an accepted request.
        !refused || status == StatusCode::NOT_FOUND
    });
}
