//! The stream of changes tells a browser which regions of its open pages have changed, at most once a second.
//!
//! A page marks its regions by comments. The stream makes each page anew as its reader would get it, and sends the regions whose
//! text differs from what was sent before. A browser has one stream for all its tabs; programs may read it, too. A page that is
//! answered by something else, such as the question for a key, ends.

use std::{collections::HashMap, convert::Infallible, sync::Arc};

use axum::{
    Router,
    body::{Body, Bytes, to_bytes},
    http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use futures_util::stream;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::OwnedSemaphorePermit;
use tower::ServiceExt as _;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::{
    parts::regions,
    visit::{Head, own_path},
};
use crate::{
    http::access::Peer,
    limits::{PAGE_LIVE_INTERVAL, PAGE_LIVE_PAGES_MAX},
    time_source::Moment,
};

/// Bytes of a page that is watched; larger ones are left alone.
const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Intervals after which a sign of life is sent where nothing has changed.
const SILENT_MAX: u32 = 15;

/// Pages that were just made, so that the streams of one reader share them.
#[derive(Debug, Default)]
pub(super) struct Made(Mutex<HashMap<u128, (Moment, Arc<str>)>>);

impl Made {
    /// Returns a page that was made within an interval.
    fn get(&self, of: u128, now: Moment) -> Option<Arc<str>> {
        let made = self.0.lock();
        let (at, html) = made.get(&of)?;
        (now.since(*at) < PAGE_LIVE_INTERVAL).then(|| Arc::clone(html))
    }

    fn put(&self, of: u128, now: Moment, html: &Arc<str>) {
        let mut made = self.0.lock();
        made.retain(|_, (at, _)| now.since(*at) < PAGE_LIVE_INTERVAL);
        made.insert(of, (now, Arc::clone(html)));
    }
}

/// A region that has changed.
#[derive(Debug, Serialize)]
struct Changed<'a> {
    page: &'a str,
    region: &'a str,
    html: &'a str,
}

/// A page that is watched.
struct Watched {
    path: String,
    /// The hash of each region as it was sent.
    sent: HashMap<String, u64>,
}

impl Watched {
    /// Writes the events for what has changed.
    fn events(&mut self, html: &str, text: &mut String) {
        for (region, html) in regions::of(html) {
            let hash = xxh3_64(html.as_bytes());
            if self.sent.insert(region.to_owned(), hash) == Some(hash) {
                continue;
            }
            let changed = Changed {
                page: &self.path,
                region,
                html,
            };
            // JSON has no line feed of its own, so an event is one line.
            if let Ok(data) = serde_json::to_string(&changed) {
                text.push_str("event: region\ndata: ");
                text.push_str(&data);
                text.push_str("\n\n");
            }
        }
    }
}

struct Stream {
    head: Head,
    pages: Router,
    headers: HeaderMap,
    peer: Option<Peer>,
    watched: Vec<Watched>,
    silent: u32,
    is_first: bool,
    /// Held, not read.
    _room: OwnedSemaphorePermit,
}

/// Streams the changes of the pages that the query names by `page`.
pub(super) async fn stream(head: Head, pages: Router, request: Request<Body>) -> Response {
    let query = request.uri().query().unwrap_or_default().as_bytes();
    let named = url::form_urlencoded::parse(query).filter(|(name, _)| name == "page");
    let named = named
        .map(|(_, path)| own_path(&path))
        .take(PAGE_LIVE_PAGES_MAX);
    let watched = named.map(|path| Watched {
        path,
        sent: HashMap::new(),
    });
    let watched: Vec<Watched> = watched.collect();
    let Ok(room) = Arc::clone(&head.ui.streams).try_acquire_owned() else {
        let why = "as many streams are open as this node serves: the page asks by itself";
        return (StatusCode::TOO_MANY_REQUESTS, why).into_response();
    };
    let of_page = ["cookie", "host", "x-forwarded-prefix", "x-forwarded-proto"];
    let headers = of_page.into_iter().filter_map(|name| {
        let value = request.headers().get(name)?.clone();
        Some((HeaderName::from_static(name), value))
    });
    let headers = headers.collect();
    let begun = Stream {
        head,
        pages,
        headers,
        peer: request.extensions().get().copied(),
        watched,
        silent: 0,
        is_first: true,
        _room: room,
    };
    let body = stream::unfold(begun, |mut stream| async move {
        let text = stream.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from(text)), stream))
    });
    let headers = [
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static("text/event-stream"),
        ),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        // A proxy that gathers answers would keep the events back.
        (
            HeaderName::from_static("x-accel-buffering"),
            HeaderValue::from_static("no"),
        ),
    ];
    (headers, Body::from_stream(body)).into_response()
}

impl Stream {
    /// Waits for changes and writes them; none ends the stream.
    async fn next(&mut self) -> Option<String> {
        loop {
            let settings = &self.head.ui.settings;
            if !std::mem::take(&mut self.is_first) {
                tokio::select! {
                    () = settings.time.sleep(PAGE_LIVE_INTERVAL) => {}
                    () = settings.shutdown.cancelled() => return None,
                }
            }
            let mut text = String::new();
            let mut at = 0;
            while let Some(path) = self.watched.get(at).map(|page| page.path.clone()) {
                let html = self.page(&path).await;
                match (html, self.watched.get_mut(at)) {
                    (Some(html), Some(page)) => {
                        page.events(&html, &mut text);
                        at += 1;
                    }
                    _ => {
                        let gone = serde_json::to_string(&path).unwrap_or_default();
                        text.push_str(&format!("event: gone\ndata: {gone}\n\n"));
                        self.watched.remove(at);
                    }
                }
            }
            if self.watched.is_empty() && text.is_empty() {
                return None;
            }
            self.silent += 1;
            if text.is_empty() && self.silent < SILENT_MAX {
                continue;
            }
            self.silent = 0;
            if text.is_empty() {
                text.push_str(": nothing has changed\n\n");
            }
            return Some(text);
        }
    }

    /// Returns a page as its reader gets it; none where that is something else.
    async fn page(&self, path: &str) -> Option<Arc<str>> {
        let now = self.head.ui.settings.time.moment();
        let of = self.reader(path);
        if let Some(made) = self.head.ui.made.get(of, now) {
            return Some(made);
        }
        let html: Arc<str> = self.make(path).await?.into();
        self.head.ui.made.put(of, now, &html);
        Some(html)
    }

    /// Returns what tells the pages of readers apart.
    fn reader(&self, path: &str) -> u128 {
        let mut hasher = Xxh3::new();
        let values = self.headers.iter();
        for (name, value) in values {
            hasher.update(name.as_str().as_bytes());
            hasher.update(b"\0");
            hasher.update(value.as_bytes());
            hasher.update(b"\0");
        }
        let address = self.peer.map(|Peer(address)| address.ip().to_string());
        hasher.update(address.unwrap_or_default().as_bytes());
        hasher.update(b"\0");
        hasher.update(path.as_bytes());
        hasher.digest128()
    }

    async fn make(&self, path: &str) -> Option<String> {
        let mut request = Request::builder()
            .method(Method::GET)
            .uri(path)
            .body(Body::empty())
            .ok()?;
        *request.headers_mut() = self.headers.clone();
        if let Some(peer) = self.peer {
            request.extensions_mut().insert(peer);
        }
        let answer = self.pages.clone().oneshot(request).await.ok()?;
        if answer.status() != StatusCode::OK {
            return None;
        }
        let bytes = to_bytes(answer.into_body(), PAGE_BYTES_MAX).await.ok()?;
        String::from_utf8(bytes.to_vec()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_changed_is_sent() {
        let mut watched = Watched {
            path: "/".to_owned(),
            sent: HashMap::new(),
        };
        let mut events = |html: &str| {
            let mut text = String::new();
            watched.events(html, &mut text);
            text
        };
        let html = |rows: &str| {
            format!(
                "<p><!--live:a-->1<!--/live:a--></p>\n<div><!--live:b-->{rows}<!--/live:b--></div>"
            )
        };
        let first = events(&html("x"));
        assert_eq!(first.matches("event: region").count(), 2);
        assert_eq!(events(&html("x")), "");
        let next = events(&html("y\n\"z\""));
        assert_eq!(
            next,
            "event: region\ndata: {\"page\":\"/\",\"region\":\"b\",\"html\":\"y\\n\\\"z\\\"\"}\n\n"
        );
    }
}
