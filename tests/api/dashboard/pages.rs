//! Every page is there, full and empty, is bound to its own origin, and shows texts of others as texts.

use serde_json::json;

use super::{Browser, PAGES, Site, full, schedules, text, values, with};

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
async fn every_page_shows_what_there_is_and_its_links_lead_somewhere() {
    let (site, [dead, later, job]) = full().await;
    let browser = Browser::default();
    let things = [
        format!("/tasks/{dead}"),
        format!("/tasks/{later}"),
        format!("/jobs/{job}"),
        "/callbacks/work".to_owned(),
        "/schedules/nightly".to_owned(),
        "/tasks?q=callback%3Awork+state%3Adead".to_owned(),
    ];
    let all = PAGES.iter().map(|path| (*path).to_owned()).chain(things);
    let mut seen = std::collections::BTreeSet::new();
    for path in all {
        let html = browser.page(&site, &path).await;
        assert!(
            !html.contains("<b>says</b>"),
            "{path}: text of an error is markup"
        );
        for link in values(&html, "href") {
            let link = link.replace("&amp;", "&").replace("&#38;", "&");
            let is_page = link.starts_with('/') && !link.starts_with("/docs");
            if is_page && seen.insert(link.clone()) {
                let status = browser.get(&site, &link).await.status;
                assert_eq!(status, 200, "{path} links to {link}");
            }
        }
    }
    assert!(seen.len() > 20, "{seen:?}");
    let overview = browser.page(&site, "/").await;
    assert!(
        overview.contains("work is paused") && overview.contains("smtp moves"),
        "{overview}"
    );
    let task = browser.page(&site, &format!("/tasks/{dead}")).await;
    assert!(
        task.contains("smtp &#60;b&#62;says&#60;/b&#62; 550")
            || task.contains("smtp &lt;b&gt;says&lt;/b&gt; 550"),
        "{task}"
    );
    let letters = browser.page(&site, "/dead-letters").await;
    let group = values(&letters, "href")
        .into_iter()
        .find(|link| link.contains("error="));
    let group = group.unwrap().replace("&amp;", "&").replace("&#38;", "&");
    let group = browser.page(&site, &group).await;
    assert!(group.contains("Redrive all 2"), "{group}");
}

#[tokio::test(start_paused = true)]
async fn a_task_is_found_by_its_id_its_key_and_its_words() {
    let (site, [dead, later, _]) = full().await;
    let browser = Browser::default();
    for (query, id) in [
        (later.as_str(), &later),
        ("order-17", &later),
        ("callback%3Abill+order-17", &later),
    ] {
        let answer = browser.get(&site, &format!("/tasks?q={query}")).await;
        assert_eq!(answer.status, 303, "{query}: {}", text(&answer));
        assert_eq!(answer.header("location"), format!("/tasks/{id}"));
    }
    for (query, found) in [
        ("label%3Atenant%3Dacme", true),
        ("error%3A%22smtp+%3Cb%3Esays%3C%2Fb%3E+551%22", true),
        ("state%3Adead+callback%3Awork", true),
        ("state%3Ascheduled", false),
        ("callback%3Abill", false),
    ] {
        let html = browser.parts(&site, &format!("/tasks?q={query}")).await;
        assert_eq!(html.contains(&dead), found, "{query}: {html}");
    }
    for (query, said) in [
        ("colour%3Ared", "colour: is not known"),
        ("state%3Aodd", "state"),
        ("order-18", "No task has the id or the key order-18"),
    ] {
        let html = browser.page(&site, &format!("/tasks?q={query}")).await;
        assert!(html.contains(said), "{query}: {html}");
    }
    let suggested = browser.page(&site, "/suggest?q=callback%3Awork+sta").await;
    assert!(suggested.contains("callback:work state:"), "{suggested}");
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

#[tokio::test(start_paused = true)]
async fn pages_stand_below_a_prefix_whether_a_proxy_takes_it_out_or_not() {
    let (site, [dead, ..]) = full().await;
    let site: Site = with(site, |options| options.base_path = "/a/b".to_owned());
    let browser = Browser::default();
    for path in [
        "/a/b/",
        "/",
        "/a/b",
        &format!("/a/b/tasks/{dead}"),
        "/a/b/tasks?q=state%3Adead",
    ] {
        let html = browser.page(&site, path).await;
        let links = ["href", "src", "action", "hx-get"].map(|name| values(&html, name));
        for link in links.into_iter().flatten() {
            assert!(
                link.starts_with("/a/b/") || link == "#main",
                "{path}: {link}"
            );
        }
        assert!(html.contains("data-base=\"/a/b\""), "{path}");
    }
    let asset = browser.get(&site, "/a/b/assets/ui.css").await;
    assert_eq!(asset.status, 200);
    site.get("/a/b/v1/stats").await.ok();
    site.get("/v1/stats").await.ok();
    let (path, _) = browser
        .done(&site, &format!("/a/b/tasks/{dead}"), &[("act", "run")])
        .await;
    assert_eq!(path, format!("/a/b/tasks/{dead}"));
    let other = site.get("/a/bc/v1/stats").await;
    assert_eq!(other.status, 404);
}
