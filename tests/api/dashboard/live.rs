//! Open pages are told what has changed, and nothing while nothing changes.

use std::time::Duration;

use axum::{
    body::BodyDataStream,
    http::{Method, header},
};
use futures_util::StreamExt as _;
use serde_json::json;
use tower::ServiceExt as _;

use super::{Browser, Site, full, guarded, keys_and_roles};

async fn stream(site: &Site, browser: &Browser, path: &str) -> BodyDataStream {
    let request = browser.request(Method::GET, path, String::new());
    let answer = site.router.clone().oneshot(request).await.unwrap();
    assert_eq!(answer.headers()[header::CONTENT_TYPE], "text/event-stream");
    answer.into_body().into_data_stream()
}

async fn next(stream: &mut BodyDataStream) -> Option<String> {
    let bytes = stream.next().await?.unwrap();
    Some(String::from_utf8(bytes.to_vec()).unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_region_is_sent_when_it_has_changed_and_not_before() {
    let (site, [dead, ..]) = full().await;
    // The job of the list has ended by then.
    site.world.pass(Duration::from_secs(60)).await;
    let browser = Browser::default();
    let path = format!("/live?page=%2Ftasks%2F{dead}&page=%2Fjobs");
    let mut events = stream(&site, &browser, &path).await;
    let first = next(&mut events).await.unwrap();
    for region in [
        "\"region\":\"head\"",
        "\"region\":\"life\"",
        "\"page\":\"/jobs\"",
    ] {
        assert!(first.contains(region), "{region}: {first}");
    }
    let quiet = next(&mut events).await.unwrap();
    assert!(quiet.starts_with(": nothing"), "{quiet}");
    site.post(&format!("/v1/tasks/{dead}/run"), "").await.ok();
    let told = next(&mut events).await.unwrap();
    assert!(
        told.contains("\"region\":\"head\"") && !told.contains("/jobs"),
        "{told}"
    );
    // Where no stream is to be had, a page asks with the tag of what it has.
    let page = browser.get(&site, "/jobs").await;
    let mut request = browser.request(Method::GET, "/jobs", String::new());
    let tag = page.headers[header::ETAG].clone();
    request.headers_mut().insert(header::IF_NONE_MATCH, tag);
    assert_eq!(site.send(request).await.status, 304);
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_with_its_key_and_with_its_node() {
    let (site, admin, _) = guarded().await;
    let (id, key) = site
        .key(&admin, json!({"name": "ada", "role": "viewer"}))
        .await;
    let mut events = stream(&site, &Browser::of(&key), "/live?page=%2Fjobs").await;
    next(&mut events).await.unwrap();
    let path = format!("/v1/api-keys/{id}");
    site.by(&admin, Method::DELETE, &path, &json!(null)).await;
    site.world.pass(3 * keys_and_roles::SECOND).await;
    let gone = next(&mut events).await.unwrap();
    assert!(gone.contains("event: gone"), "{gone}");
    assert_eq!(next(&mut events).await, None);

    let mut events = stream(
        &site,
        &Browser::of(&admin),
        "/live?page=%2Fjobs&page=%2Fnowhere",
    )
    .await;
    let first = next(&mut events).await.unwrap();
    assert!(first.contains("event: gone\ndata: \"/nowhere\""), "{first}");
    site.shutdown.cancel();
    let minute = Duration::from_secs(60);
    let ended = site.node.time.within(minute, next(&mut events)).await;
    assert_eq!(ended, Some(None));
}
