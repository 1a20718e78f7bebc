//! `Caller` sends the requests of all clients of a drill to the nodes in turn, and returns what a client
//! knows afterwards.
//!
//! An error of the service and no answer at all are the same to a client: the change may have been made.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use reqwest::Method;
use serde_json::Value;
use tickwheel::{model::time::Millis, time_source::TimeSource};

use crate::{journal::Journal, members::Kind, site::Site};

/// A change whose outcome is not known is repeated this often; no change here is made twice by that.
pub(crate) const TRIES: usize = 30;
pub(crate) const PAUSE: Duration = Duration::from_secs(1);

/// The answer of a node that a client can rely on.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) const fn is_success(&self) -> bool {
        self.status / 100 == 2
    }
}

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct Caller {
    urls: Arc<Vec<String>>,
    http: reqwest::Client,
    pub(crate) journal: Journal,
    pub(crate) time: TimeSource,
    next: Arc<AtomicU64>,
}

/// An instant as requests have it.
pub(crate) fn instant(at: Millis) -> String {
    let at = jiff::Timestamp::from_millisecond(at.0);
    at.expect("an instant of our days").to_string()
}

impl Caller {
    pub(crate) fn new(site: &Site) -> Self {
        Self {
            urls: Arc::new(Kind::Node.members().map(|node| site.url(node)).collect()),
            http: site.http.clone(),
            journal: Journal::open(&site.root, "clients"),
            time: site.time.clone(),
            next: Arc::default(),
        }
    }

    /// A number that no other registration of this drill has.
    pub(crate) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// A random number below another one.
    pub(crate) fn draw(&self, below: u64) -> u64 {
        self.time.random() % below
    }

    /// A moment up to this many milliseconds ahead.
    pub(crate) fn soon(&self, within_ms: u64) -> Millis {
        let delay = Duration::from_millis(self.draw(within_ms));
        self.time.now().after(delay)
    }

    pub(crate) async fn post(
        &self,
        path: &str,
        mark: Option<&str>,
        body: &Value,
    ) -> Option<Answer> {
        self.call(Method::POST, path, mark, body).await
    }

    pub(crate) async fn get(&self, path: &str) -> Option<Answer> {
        self.call(Method::GET, path, None, &Value::Null).await
    }

    /// Asks one node; none when the outcome is not known. A mark is an `Idempotency-Key`.
    pub(crate) async fn call(
        &self,
        method: Method,
        path: &str,
        mark: Option<&str>,
        body: &Value,
    ) -> Option<Answer> {
        let nodes = u64::try_from(self.urls.len()).expect("a few");
        let node = usize::try_from(self.draw(nodes)).expect("a few");
        let mut request = self
            .http
            .request(method, format!("{}{path}", self.urls[node]));
        if !body.is_null() {
            request = request
                .header("content-type", "application/json")
                .body(body.to_string());
        }
        if let Some(mark) = mark {
            request = request.header("idempotency-key", mark);
        }
        let answer = request.send().await.ok()?;
        let status = answer.status().as_u16();
        // An answer that broke off tells nothing.
        let bytes = answer.bytes().await.ok()?;
        let body = serde_json::from_slice(&bytes).unwrap_or_default();
        (status < 500 && status != 429).then_some(Answer { status, body })
    }

    /// Asks until the outcome is known, at most this often.
    pub(crate) async fn until_known(
        &self,
        tries: usize,
        (method, path): (Method, &str),
        mark: Option<&str>,
        body: &Value,
    ) -> Option<Answer> {
        for _ in 0..tries {
            let answer = self.call(method.clone(), path, mark, body).await;
            if answer.is_some() {
                return answer;
            }
            self.time.sleep(PAUSE).await;
        }
        None
    }
}
