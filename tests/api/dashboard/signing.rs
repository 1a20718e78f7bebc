//! Readers sign in with a key, and see and do what its role allows.

use axum::http::Method;
use serde_json::json;

use super::{Browser, GATE, PAGES, forms, guarded, keys_and_roles, text, values, with};

#[tokio::test(start_paused = true)]
async fn a_reader_signs_in_with_a_key_and_out_again() {
    let (site, admin) = keys_and_roles::closed().await;
    let nobody = Browser::default();
    let asked = nobody.get(&site, "/tasks?q=state%3Adead").await;
    assert_eq!(asked.status, 303);
    assert_eq!(
        asked.header("location"),
        "/sign-in?next=%2Ftasks%3Fq%3Dstate%253Adead"
    );
    let page = nobody
        .page(&site, "/sign-in?next=%2Ftasks%3Fq%3Dstate%253Adead")
        .await;
    assert!(page.contains("value=\"/tasks?q=state%3Adead\""), "{page}");
    for (key, said) in [
        ("secret", "no API key"),
        (&admin.replace("twk_", "twk_f"), "API key"),
        ("", "API key"),
    ] {
        let refused = nobody
            .send(&site, "/sign-in", &[("key", key), ("next", "/")])
            .await;
        assert_eq!(refused.status, 401, "{key}");
        assert!(text(&refused).contains(said), "{key}: {}", text(&refused));
    }
    let signed = nobody
        .send(
            &site,
            "/sign-in",
            &[("key", &admin), ("next", "//evil.example")],
        )
        .await;
    assert_eq!(
        (signed.status.as_u16(), signed.header("location")),
        (303, "/")
    );
    let cookie = signed.header("set-cookie");
    assert_eq!(
        cookie,
        format!("tickwheel_key={admin}; Path=/; HttpOnly; SameSite=Strict")
    );
    let browser = Browser::of(&admin);
    let overview = browser.page(&site, "/").await;
    assert!(
        overview.contains("<b>root</b>") && overview.contains("Sign out"),
        "{overview}"
    );
    let out = browser.send(&site, "/sign-out", &[]).await;
    assert!(
        out.header("set-cookie")
            .starts_with("tickwheel_key=; Path=/"),
        "{}",
        out.header("set-cookie")
    );
    assert!(out.header("set-cookie").contains("Max-Age=0"));
    // The API takes no cookie.
    assert_eq!(browser.get(&site, "/v1/tasks").await.status, 401);
    let secure = with(site, |options| options.tls = true);
    let signed = nobody.send(&secure, "/sign-in", &[("key", &admin)]).await;
    assert!(signed.header("set-cookie").contains("; Secure"));
}

#[tokio::test(start_paused = true)]
async fn a_cookie_ends_with_its_key() {
    let (site, admin) = keys_and_roles::closed().await;
    let (id, key) = site
        .key(&admin, json!({"name": "ada", "role": "operator"}))
        .await;
    let browser = Browser::of(&key);
    browser.page(&site, "/jobs").await;
    let root = Browser::of(&admin);
    let (_, said) = root
        .done(&site, "/keys", &[("act", "revoke"), ("id", &id)])
        .await;
    assert_eq!(said, "+The key is revoked.");
    site.world.pass(3 * keys_and_roles::SECOND).await;
    assert_eq!(
        browser.get(&site, "/jobs").await.header("location"),
        "/sign-in?next=%2Fjobs"
    );
    let acted = browser
        .send(&site, "/schedules/x", &[("act", "trigger")])
        .await;
    assert!(acted.header("location").starts_with("/sign-in"));
}

#[tokio::test(start_paused = true)]
async fn a_form_of_another_site_is_refused() {
    let (site, admin) = keys_and_roles::closed().await;
    let browser = Browser::of(&admin);
    let path = GATE;
    for (name, value) in [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
        ("sec-fetch-site", "none"),
        ("origin", "https://evil.example"),
        ("origin", "null"),
    ] {
        let mut request = browser.request(Method::POST, path, "gate=paused".to_owned());
        request.headers_mut().remove("sec-fetch-site");
        request.headers_mut().insert(name, value.parse().unwrap());
        assert_eq!(site.send(request).await.status, 403, "{name}: {value}");
    }
    let mut bare = browser.request(Method::POST, path, "gate=paused".to_owned());
    bare.headers_mut().remove("sec-fetch-site");
    assert_eq!(site.send(bare).await.status, 403);
    let read = site.get_by(&admin, "/v1/callbacks/work").await;
    assert_eq!(read.status, 404, "nothing was done");
}

/// The path that leads to a page from elsewhere: the browser leaves the cookie out, and asks again by itself.
#[tokio::test(start_paused = true)]
async fn a_link_from_elsewhere_asks_again() {
    let (site, _) = keys_and_roles::closed().await;
    let mut request = Browser::default().request(Method::GET, "/jobs", String::new());
    for (name, value) in [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-mode", "navigate"),
        ("sec-fetch-dest", "document"),
    ] {
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    let answer = site.send(request).await;
    assert!(
        text(&answer).contains("http-equiv=\"refresh\""),
        "{}",
        text(&answer)
    );
}

#[tokio::test(start_paused = true)]
async fn a_role_opens_the_pages_and_has_the_forms_that_it_may_use() {
    let (site, admin, [dead, later, job]) = guarded().await;
    let things = [
        format!("/tasks/{dead}"),
        format!("/tasks/{later}"),
        format!("/jobs/{job}"),
        "/callbacks/work".to_owned(),
        "/schedules/nightly".to_owned(),
    ];
    for role in ["viewer", "producer", "worker", "operator", "admin"] {
        let (_, key) = site.key(&admin, json!({"name": role, "role": role})).await;
        let browser = Browser::of(&key);
        let overview = browser.page(&site, "/").await;
        let ways = values(&overview, "href");
        let all = PAGES
            .iter()
            .map(|path| (*path).to_owned())
            .chain(things.clone());
        let mut sent_to = Vec::new();
        for path in all {
            let answer = browser.get(&site, &path).await;
            let of = format!(
                "/{}",
                path.trim_start_matches('/').split('/').next().unwrap()
            );
            let expected = if ways.contains(&of.as_str()) {
                200
            } else {
                403
            };
            assert_eq!(answer.status, expected, "{role} {path}");
            if expected == 200 {
                sent_to.extend(forms(&text(&answer)).into_iter().map(str::to_owned));
            }
        }
        sent_to.retain(|path| path != "/sign-out");
        let tasks = sent_to
            .iter()
            .filter(|path| path.starts_with("/tasks"))
            .count();
        match role {
            "viewer" | "worker" => assert!(sent_to.is_empty(), "{role}: {sent_to:?}"),
            "producer" => assert!(tasks > 0 && tasks == sent_to.len(), "{sent_to:?}"),
            _ => assert!(tasks > 0 && sent_to.len() > tasks, "{role}: {sent_to:?}"),
        }
        let gate = browser
            .send(&site, "/callbacks/bill/gate", &[("gate", "paused")])
            .await;
        let may = matches!(role, "operator" | "admin");
        assert_eq!(gate.status, if may { 303 } else { 403 }, "{role}");
        let payload = text(&browser.get(&site, &format!("/tasks/{later}")).await);
        let sees = matches!(role, "producer" | "operator" | "admin");
        assert_eq!(payload.contains("9007199254740993"), sees, "{role}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_limited_key_sees_its_callbacks_alone_and_a_node_for_reads_has_no_forms() {
    let (site, admin, [dead, later, _]) = guarded().await;
    let wish = json!({"name": "mailer", "role": "operator", "callbacks": ["work"]});
    let (_, key) = site.key(&admin, wish).await;
    let browser = Browser::of(&key);
    let overview = browser.page(&site, "/").await;
    assert!(
        overview.contains("/callbacks/work") && !overview.contains("bill"),
        "{overview}"
    );
    for path in [
        "/tasks",
        "/callbacks",
        "/dead-letters",
        "/callbacks/work",
        &format!("/tasks/{dead}"),
    ] {
        let html = browser.page(&site, path).await;
        assert!(
            !html.contains("order-17") && !html.contains("bill"),
            "{path}: {html}"
        );
    }
    for path in [
        format!("/tasks/{later}"),
        "/callbacks/bill".to_owned(),
        "/jobs".to_owned(),
    ] {
        assert_eq!(browser.get(&site, &path).await.status, 403, "{path}");
    }
    let read_only = with(site, |options| options.read_only = true);
    let root = Browser::of(&admin);
    for path in [
        "/callbacks/work",
        "/schedules/nightly",
        &format!("/tasks/{dead}"),
    ] {
        let html = root.page(&read_only, path).await;
        assert_eq!(forms(&html), ["/sign-out"], "{path}");
    }
}
