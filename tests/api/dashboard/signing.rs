//! Readers sign in with a key, and see and do what its role allows.

use axum::http::Method;
use serde_json::json;

use super::{Browser, GATE, keys_and_roles, text, with};

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
