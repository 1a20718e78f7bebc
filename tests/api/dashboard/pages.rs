//! Every page is there, is bound to its own origin, and shows texts of others as texts.

use serde_json::json;

use super::{Browser, PAGES, schedules, text};

#[tokio::test(start_paused = true)]
async fn every_page_is_there_and_an_empty_one_teaches_a_command() {
    let site = schedules::site().await;
    let browser = Browser::default();
    for path in PAGES {
        let answer = browser.get(&site, path).await;
        assert_eq!(answer.status, 200, "{path}");
        let policy = answer.header("content-security-policy").to_owned();
        assert!(
            policy.starts_with("default-src 'none'; script-src 'self'"),
            "{policy}"
        );
        assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        let html = text(&answer);
        assert!(
            !html.contains(" style=") && !html.contains("<script>"),
            "{path}"
        );
        assert!(
            !html.contains(" onclick") && !html.contains("hx-on"),
            "{path}"
        );
        let teaches = html.contains("http://localhost:7420");
        assert!(teaches || path == "/cluster", "{path}: {html}");
        assert!(html.contains("No keys: everybody"), "{path}");
    }
    let none = browser.page(&site, "/callbacks/hello").await;
    assert!(none.contains("--callback hello"), "{none}");
    for gone in ["/tasks/7", "/schedules/none", "/jobs/7", "/nowhere"] {
        let answer = browser.get(&site, gone).await;
        assert!(answer.status.is_client_error(), "{gone}: {}", answer.status);
    }
    let asset = browser.get(&site, "/assets/htmx.LICENSE").await;
    assert!(text(&asset).starts_with("Zero-Clause BSD"));
}

#[tokio::test(start_paused = true)]
async fn texts_of_others_are_shown_as_they_are_and_never_run() {
    let site = schedules::site().await;
    let evil = "<script>alert(1)</script>";
    let payload = r#"{"n": 9007199254740993, "n": 1.50, "t": "</pre><script>alert(1)</script>\u0000", "rtl": "שלום"}"#;
    let body = format!(
        r#"{{"callback": "work", "delay": "1h", "key": {0}, "ordering_key": {0}, "labels": {{"x": {0}}}, "payload": {payload}}}"#,
        json!(evil)
    );
    let made = site.post("/v1/tasks", body).await;
    assert_eq!(made.status, 201, "{:?}", made.body);
    let id = made.json()["id"].as_str().unwrap().to_owned();
    let bytes = json!({"callback": "work", "delay": "1h", "payload_base64": "AP88c2NyaXB0Pg==", "content_type": "image/png"});
    let bytes = site.post("/v1/tasks", bytes.to_string()).await.json();
    let browser = Browser::default();
    for path in [
        format!("/tasks/{id}"),
        "/tasks".to_owned(),
        "/tasks?q=%3Cscript%3Ealert(2)%3C%2Fscript%3E".to_owned(),
    ] {
        let html = browser.page(&site, &path).await;
        assert!(!html.contains("<script>alert"), "{path}: {html}");
    }
    let html = browser.page(&site, &format!("/tasks/{id}")).await;
    for shown in ["9007199254740993", "1.50", "שלום", "\\u0000"] {
        assert!(html.contains(shown), "{shown} is not shown: {html}");
    }
    let sent = browser.get(&site, &format!("/tasks/{id}/payload")).await;
    assert_eq!(text(&sent), payload);
    assert_eq!(sent.header("content-type"), "application/octet-stream");
    assert!(sent.header("content-disposition").starts_with("attachment"));
    let html = browser
        .page(&site, &format!("/tasks/{}", bytes["id"].as_str().unwrap()))
        .await;
    assert!(html.contains("00 ff 3c 73 63 72"), "{html}");
}
