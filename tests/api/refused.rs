//! The API refuses invalid requests before it asks the service, never with a 5xx, always with the
//! place and the limit.

use axum::http::Method;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_util::sync::CancellationToken;

use super::{Answer, Site, request, task_id};

use tickwheel::{
    http::serve,
    limits::{HTTP_BODY_STEP, HTTP_BODY_STEP_BYTES, HTTP_BODY_WAIT_MAX},
};

async fn send(request: axum::http::Request<axum::body::Body>) -> Answer {
    Site::new().send(request).await
}

async fn post(path: &str, body: impl Into<axum::body::Body>) -> Answer {
    send(request(Method::POST, path, body)).await
}

async fn get(path: &str) -> Answer {
    send(request(Method::GET, path, "")).await
}

#[tokio::test]
async fn a_bad_task_is_refused_with_all_its_mistakes() {
    let answer = post("/v1/tasks", r#"{"callback":"a b","delay":"soon"}"#).await;
    assert_eq!(answer.status, 400);
    let problem = answer.problem();
    assert_eq!(
        (problem.code.as_str(), problem.retryable),
        ("invalid_request", false)
    );
    let pointers: Vec<_> = problem.errors.iter().map(|e| e.pointer.as_str()).collect();
    assert_eq!(pointers, ["/delay", "/callback"]);
}

#[tokio::test]
async fn a_body_that_is_not_json_is_refused_with_its_place() {
    for (body, says) in [
        (&b"{\"callback\": }"[..], "line 1, column 14"),
        (b"", "line 1, column 0"),
        (b"{\"callback\":\"\xff\"}", "not UTF-8 at byte 13"),
    ] {
        let answer = post("/v1/tasks", body).await;
        let problem = answer.problem();
        assert_eq!(problem.code, "malformed_json");
        assert!(problem.detail.contains(says), "{}", problem.detail);
    }
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_with_the_limit() {
    let large = format!(
        r#"{{"callback":"c","payload":"{}"}}"#,
        "x".repeat(1_100_000)
    );
    let problem = post("/v1/tasks", large).await.problem();
    assert_eq!(
        (problem.status, problem.errors[0].pointer.as_str()),
        (413, "/payload")
    );
    assert!(
        problem.detail.contains("limit is 1032192"),
        "{}",
        problem.detail
    );

    let problem = post("/v1/tasks", " ".repeat(2 * 1024 * 1024 + 1))
        .await
        .problem();
    assert_eq!(problem.status, 413);
    assert!(
        problem.detail.contains("2097152 bytes"),
        "{}",
        problem.detail
    );

    let mut announced = request(Method::POST, "/v1/tasks:batchCreate", "{}");
    let huge = "99999999999999999999".parse().unwrap();
    announced.headers_mut().insert("content-length", huge);
    assert!(send(announced).await.status.is_client_error());
}

#[tokio::test]
async fn a_body_that_is_not_announced_as_json_is_refused() {
    let mut form = request(Method::POST, "/v1/tasks", "{}");
    let form_type = "application/x-www-form-urlencoded".parse().unwrap();
    form.headers_mut().insert("content-type", form_type);
    let problem = send(form).await.problem();
    assert_eq!(problem.status, 415);
    assert!(
        problem.detail.contains("application/json"),
        "{}",
        problem.detail
    );

    let mut none = request(Method::POST, "/v1/tasks", "{}");
    none.headers_mut().remove("content-type");
    assert_eq!(send(none).await.problem().status, 415);

    let mut zipped = request(Method::POST, "/v1/tasks", "{}");
    zipped
        .headers_mut()
        .insert("content-encoding", "gzip".parse().unwrap());
    assert_eq!(send(zipped).await.problem().status, 415);

    let mut charset = request(Method::POST, "/v1/tasks", "{}");
    let utf8 = "Application/JSON; charset=utf-8".parse().unwrap();
    charset.headers_mut().insert("content-type", utf8);
    assert_eq!(
        send(charset).await.problem().status,
        400,
        "read, and found without target"
    );
}

#[tokio::test]
async fn what_is_not_there_is_a_problem_too() {
    assert_eq!(get("/v2/tasks").await.problem().code, "not_found");
    assert_eq!(get("/v1/tasks/").await.problem().code, "not_found");
    let answer = send(request(Method::DELETE, "/v1/tasks", "")).await;
    assert_eq!(answer.problem().code, "method_not_allowed");
    assert_eq!(answer.headers["allow"], "GET,HEAD,POST");
    let answer = send(request(
        Method::PUT,
        &format!("/v1/tasks/{}", task_id()),
        "",
    ))
    .await;
    assert_eq!(answer.headers["allow"], "GET,HEAD");
}

#[tokio::test]
async fn a_bad_id_is_refused_before_the_service_is_asked() {
    for id in ["x", "6e5c2f2a-5f0e-4b8e-9d6a-5a3e8f1b2c3d", "%ff", "%00"] {
        assert_eq!(
            get(&format!("/v1/tasks/{id}")).await.problem().code,
            "invalid_task_id"
        );
        for verb in ["cancel", "run", "reschedule"] {
            let answer = post(&format!("/v1/tasks/{id}/{verb}"), r"{}").await;
            assert_eq!(answer.problem().status, 400);
        }
    }
}

#[tokio::test]
async fn a_bad_query_is_refused() {
    for (query, pointer, says) in [
        ("wait=2m", "?wait", "at most 60s"),
        ("wait=30", "?wait", "not a duration"),
        ("view=full", "?view", "BASIC or FULL"),
        ("waits=3s", "?waits", "did you mean `wait`?"),
        ("x=3s", "?x", "wait, view"),
    ] {
        let problem = get(&format!("/v1/tasks/{}?{query}", task_id()))
            .await
            .problem();
        assert_eq!(
            (problem.status, problem.errors[0].pointer.as_str()),
            (400, pointer)
        );
        assert!(problem.detail.contains(says), "{}", problem.detail);
    }
}

#[tokio::test]
async fn headers_that_must_not_be_ignored_are_refused() {
    for (path, header) in [
        ("/v1/tasks:batchCreate".to_owned(), "idempotency-key"),
        (format!("/v1/tasks/{}/cancel", task_id()), "if-match"),
        ("/v1/tasks:batchCancel".to_owned(), "if-match"),
    ] {
        let mut request = request(Method::POST, &path, "{}");
        request
            .headers_mut()
            .insert(header, "\"1\"".parse().unwrap());
        let problem = send(request).await.problem();
        assert_eq!(
            (problem.status, problem.code.as_str()),
            (400, "unsupported")
        );
        assert!(problem.detail.contains(header), "{}", problem.detail);
    }
}

#[tokio::test]
async fn a_reschedule_without_a_new_start_is_refused() {
    let path = format!("/v1/tasks/{}/reschedule", task_id());
    assert!(post(&path, "{}").await.problem().detail.contains("/run"));
    let problem = post(&path, r#"{"dely":"1s"}"#).await.problem();
    assert!(
        problem.detail.contains("did you mean `delay`"),
        "{}",
        problem.detail
    );
    let path = format!("/v1/tasks/{}/cancel", task_id());
    assert_eq!(post(&path, r#"{"reason":"x"}"#).await.problem().status, 400);
}

#[tokio::test]
async fn every_bad_item_of_a_batch_has_its_own_error_at_its_place() {
    let body = r#"{"tasks":[{"callback":"a b"}, 7, {"callback":"c","dlay":"1s"}]}"#;
    let answer = post("/v1/tasks:batchCreate", body).await;
    assert_eq!(answer.status, 200);
    let results = answer.json()["results"].clone();
    assert_eq!(results[0]["error"]["errors"][0]["pointer"], "/callback");
    assert_eq!(results[1]["error"]["status"], 400);
    assert_eq!(results[2]["error"]["errors"][0]["pointer"], "/dlay");
    assert_eq!(results.as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn a_batch_has_a_limit_and_a_shape() {
    let items = vec!["0"; 1001].join(",");
    for (path, field) in [
        ("/v1/tasks:batchCreate", "tasks"),
        ("/v1/tasks:batchCancel", "ids"),
        ("/v1/worker/claim", "messages"),
        ("/v1/worker/heartbeat", "tasks"),
        ("/v1/worker/settle", "tasks"),
    ] {
        let worker = if path.starts_with("/v1/tasks") {
            ""
        } else {
            r#""worker":"w","#
        };
        let problem = post(path, format!(r#"{{{worker}"{field}":[{items}]}}"#))
            .await
            .problem();
        assert_eq!(
            (problem.status, problem.errors[0].pointer.clone()),
            (400, format!("/{field}"))
        );
        assert!(problem.detail.contains("1000"), "{}", problem.detail);
        let answer = post(path, format!(r#"{{{worker}"{field}":[]}}"#)).await;
        assert_eq!(answer.json(), json!({"results": []}), "{path}");
        let problem = post(path, format!(r#"{{{worker}"{field}":{{}}}}"#))
            .await
            .problem();
        assert_eq!(problem.errors[0].pointer, format!("/{field}"));
    }
}

#[tokio::test]
async fn worker_calls_answer_bad_items_one_by_one() {
    let id = task_id();
    for (path, body, pointer) in [
        (
            "claim",
            r#""messages":[{"id":"x","generation":0,"expected_attempt":0}]"#.to_owned(),
            "/id",
        ),
        (
            "claim",
            format!(
                r#""messages":[{{"id":"{id}","generation":0,"expected_attempt":0,"message":"AA=="}}]"#
            ),
            "/message",
        ),
        (
            "heartbeat",
            format!(r#""tasks":[{{"id":"{id}","attempt":-1}}]"#),
            "/attempt",
        ),
        (
            "settle",
            format!(r#""tasks":[{{"id":"{id}","attempt":1,"outcome":"snoozed"}}]"#),
            "/delay",
        ),
    ] {
        let answer = post(
            &format!("/v1/worker/{path}"),
            format!(r#"{{"worker":"w",{body}}}"#),
        )
        .await;
        let result = answer.json()["results"][0].clone();
        assert_eq!(result["status"], "error", "{path}");
        assert_eq!(result["error"]["errors"][0]["pointer"], pointer);
    }
    let problem = post("/v1/worker/settle", r#"{"worker":"","tasks":[]}"#)
        .await
        .problem();
    assert_eq!(problem.errors[0].pointer, "/worker");
    let problem = post(
        "/v1/worker/subscribe",
        r#"{"worker":"w","callbacks":["a","b c"]}"#,
    )
    .await
    .problem();
    assert_eq!(problem.errors[0].pointer, "/callbacks/1");
    let problem = post("/v1/worker/subscribe", r#"{"worker":"w","callbacks":[]}"#)
        .await
        .problem();
    assert_eq!(problem.errors[0].pointer, "/callbacks");
}

#[tokio::test]
async fn the_trace_id_of_a_problem_is_the_requests_own() {
    let mut request = request(Method::GET, "/nowhere", "");
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    request
        .headers_mut()
        .insert("traceparent", parent.parse().unwrap());
    let problem = send(request).await.problem();
    assert_eq!(
        problem.trace_id.as_deref(),
        Some("4bf92f3577b34da6a3ce929d0e0e4736")
    );
}

#[tokio::test]
async fn docs_are_served_without_the_network() {
    let answer = get("/openapi.json").await;
    assert_eq!(answer.json()["info"]["title"], "Tickwheel");
    let page = get("/docs/").await;
    assert_eq!(page.status, 200);
    assert!(String::from_utf8_lossy(&page.body).contains("swagger"));
    let kind = post("/v1/tasks", "{}").await.problem().kind;
    let page = get(&kind).await;
    assert!(
        page.body.starts_with(b"invalid_request (400"),
        "{:?}",
        page.body
    );
    assert_eq!(get("/problems/none").await.problem().status, 404);
    assert_eq!(get("/livez").await.status, 200);
    assert_eq!(
        get("/metrics").await.problem().status,
        404,
        "not recorded here"
    );
}

#[tokio::test]
async fn a_server_stops_when_told_and_finishes_what_it_has() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = CancellationToken::new();
    let site = Site::new();
    let server = tokio::spawn(serve(listener, site.router.clone(), shutdown.clone()));

    let mut busy = TcpStream::connect(address).await.unwrap();
    let head = "POST /v1/tasks HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 2\r\n";
    busy.write_all(head.as_bytes()).await.unwrap();
    busy.write_all(b"expect: 100-continue\r\n\r\n")
        .await
        .unwrap();
    let mut buffer = [0; 64];
    let read = busy.read(&mut buffer).await.unwrap();
    assert!(
        buffer[..read].starts_with(b"HTTP/1.1 100"),
        "the handler waits for the body"
    );

    shutdown.cancel();
    busy.write_all(b"{}").await.unwrap();
    let mut answer = String::new();
    busy.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    server.await.unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_or_comes_too_slowly_is_given_up() {
    let site = Site::new();
    let time = site.node.time.clone();
    let (step, bytes) = (HTTP_BODY_STEP, HTTP_BODY_STEP_BYTES);
    // The body sends this many bytes a second without end; the last byte may come at any time.
    for (per_second, says, after) in [
        (0, "less than 32 KiB within 10 s", step),
        (bytes / 10 - 1, "less than 32 KiB within 10 s", step),
        (bytes / 10 + 10, "within 30 s", HTTP_BODY_WAIT_MAX),
    ] {
        let drip = futures_util::stream::unfold(time.clone(), move |time| async move {
            time.sleep(std::time::Duration::from_secs(1)).await;
            let piece = axum::body::Bytes::from(vec![b' '; per_second]);
            Some((Ok::<_, std::io::Error>(piece), time))
        });
        let begun = time.moment();
        let body = axum::body::Body::from_stream(drip);
        let problem = site.post("/v1/tasks", body).await.problem();
        assert_eq!((problem.status, problem.retryable), (408, true));
        assert!(problem.detail.contains(says), "{}", problem.detail);
        assert_eq!(time.moment().since(begun), after, "{per_second}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_never_finishes_its_head_is_hung_up_on() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let site = Site::new();
    let shutdown = CancellationToken::new();
    let server = tokio::spawn(serve(listener, site.router.clone(), shutdown.clone()));
    let mut slow = TcpStream::connect(address).await.unwrap();
    slow.write_all(b"POST /v1/tasks HT").await.unwrap();
    let mut answer = Vec::new();
    slow.read_to_end(&mut answer).await.unwrap();
    shutdown.cancel();
    server.await.unwrap();
}
