//! A node refuses every request that a page of another site may have sent, whatever the request asks for.

use axum::http::Method;

use super::{Site, request, task_id};

#[tokio::test]
async fn a_page_of_a_stranger_gets_nothing() {
    let site = Site::new();
    let list = "/v1/tasks";
    let cancel = format!("/v1/tasks/{}/cancel", task_id());
    for (method, path, header, value) in [
        // The host name of the page itself, bound to the node's address.
        (Method::GET, list, "host", "evil.example:7420"),
        (Method::GET, "/", "host", "evil.example:7420"),
        (Method::GET, "/metrics", "host", "evil.example:7420"),
        (Method::POST, "/v1/worker/poll", "host", "evil.example"),
        // A browser sends a call without a body without asking the node first.
        (Method::POST, &cancel, "origin", "https://evil.example"),
        (Method::POST, &cancel, "sec-fetch-site", "cross-site"),
        (Method::GET, list, "sec-fetch-site", "cross-site"),
        (Method::GET, list, "origin", "null"),
    ] {
        let mut request = request(method, path, "");
        let host = "localhost:7420".parse().unwrap();
        request.headers_mut().insert("host", host);
        request.headers_mut().insert(header, value.parse().unwrap());
        let answer = site.send(request).await;
        let problem = answer.problem();
        assert_eq!(
            (problem.status, problem.code.as_str()),
            (403, "forbidden"),
            "{path} {value}"
        );
        assert!(problem.detail.contains("--allowed-hosts"), "{problem:?}");
    }
    for (header, value) in [
        ("host", "127.0.0.1:7420"),
        ("origin", "http://localhost:7420"),
        ("sec-fetch-site", "same-origin"),
    ] {
        let mut request = request(Method::GET, list, "");
        let host = "localhost:7420".parse().unwrap();
        request.headers_mut().insert("host", host);
        request.headers_mut().insert(header, value.parse().unwrap());
        assert_eq!(site.send(request).await.status, 200, "{value}");
    }
    assert_eq!(site.get(list).await.status, 200, "a program need not say");
    let mut probe = request(Method::GET, "/livez", "");
    let any = "balancer.example".parse().unwrap();
    probe.headers_mut().insert("host", any);
    assert_eq!(site.send(probe).await.status, 200);
}

#[tokio::test]
async fn no_page_is_shown_in_a_frame_of_another() {
    let site = Site::new();
    for page in ["/docs/", "/docs/swagger-ui.css"] {
        let policy = site.get(page).await;
        let policy = policy.header("content-security-policy");
        assert!(
            policy.contains("frame-ancestors 'none'"),
            "{page}: {policy}"
        );
        assert!(policy.contains("default-src 'none'"), "{page}: {policy}");
    }
}
