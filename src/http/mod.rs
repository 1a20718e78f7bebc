//! The HTTP API answers the requests of clients and workers over the [`Service`] of a node.
//!
//! Every answer that is not a success is a problem document (RFC 9457). Bad input is a 4xx that names the field and the limit,
//! never a 5xx and never a hang. A call with a list answers every item at its place.
//!
//! - [`server`] accepts connections and bounds them; `limit` bounds what is under way.
//! - `routes` is the table of calls; `extract` reads their requests; [`handlers`] answers them; [`convert`] decides what a
//!   request means; [`error`] lists all errors.
//! - `ui` is the dashboard for people: a client of these calls.

pub mod access;
mod advice;
mod answer;
mod code;
pub mod convert;
pub mod error;
mod extract;
mod fault;
pub mod handlers;
mod headers;
mod hosts;
mod limit;
mod paths;
mod routes;
pub mod server;
mod trace;
mod ui;

use std::{fmt, ops::Deref, sync::Arc};

use axum::{
    Router,
    extract::{Request, State},
    http::{Uri, uri::PathAndQuery},
    middleware::{self, Next},
};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use self::{
    access::rules::Rules,
    error::{Code, Error},
    limit::{admission::Admission, answers::Answers},
    routes::Calls,
};
pub use self::{
    hosts::Hosts,
    routes::document,
    server::{
        serve::{serve, serve_with},
        tls,
    },
    ui::{Answering, Far, Proxies, Settings as PageSettings},
};
/// The conversions of keys, for the commands that open a store themselves.
pub mod show {
    pub use super::convert::api_key::{key_response, wish};
}
use crate::{
    api::text::shorten,
    flow::stages::{service::Service, walk::Walk},
    limits::CONTENT_BYTES_MAX_DEFAULT,
    model::topic_names::TOPIC_PREFIX,
    telemetry::repeats::Repeats,
    time_source::TimeSource,
};

/// The pieces of a copy of the store, in order; the next one may wait for the disk. An error is the last.
pub type CopyPieces = Box<dyn Iterator<Item = Result<Vec<u8>, String>> + Send>;

/// Begins a copy of the store, or says why it cannot. It may wait for the disk.
pub type Copies = Arc<dyn Fn() -> Result<CopyPieces, String> + Send + Sync>;

/// The settings of the API beside the service.
#[derive(Clone)]
pub struct Options {
    /// The node's clocks.
    pub time: TimeSource,
    /// The renderer of metrics; with none, `/metrics` answers 404.
    pub prometheus: Option<PrometheusHandle>,
    /// Largest content of a task, encoded.
    pub content_bytes_max: usize,
    /// Whether there is a Kafka that `kafka` targets can go to.
    pub has_kafka: bool,
    /// Whether there is a server for e-mails.
    pub has_mail: bool,
    /// Whether the store is reached over a network: then a registration may take longer before fewer are let in.
    pub store_is_far: bool,
    /// The host names by which clients reach the node; on loopback by default.
    pub hosts: Hosts,
    /// The maker of copies of the store; none where the store is a cluster.
    pub copies: Option<Copies>,
    /// Callers need keys even as long as there are none: the node listens beyond this machine.
    pub keys_required: bool,
    /// The node answers reads alone.
    pub read_only: bool,
    /// Moves the clock of the node, where it is moved by hand.
    pub walk: Option<Arc<Walk>>,
    /// Clients reach the node over TLS.
    pub tls: bool,
    /// The path below which the API and the dashboard are found, such as `/timers`, beside the root; empty for the root alone.
    pub base_path: String,
    /// The proxies whose word about prefix and scheme of the dashboard is taken.
    pub proxies: Proxies,
    /// Cancelled when the node was told to stop: it is not ready any more, and still answers.
    pub stopping: CancellationToken,
    /// Ends long polls when the node stops.
    pub shutdown: CancellationToken,
}

impl Options {
    /// Returns options without metrics, with the default limit.
    #[must_use]
    pub fn new(time: TimeSource, shutdown: CancellationToken) -> Self {
        Self {
            time,
            prometheus: None,
            content_bytes_max: CONTENT_BYTES_MAX_DEFAULT,
            has_kafka: true,
            has_mail: true,
            store_is_far: false,
            hosts: Hosts::default(),
            copies: None,
            keys_required: false,
            read_only: false,
            walk: None,
            tls: false,
            base_path: String::new(),
            proxies: Proxies::default(),
            stopping: shutdown.clone(),
            shutdown,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("content_bytes_max", &self.content_bytes_max)
            .finish_non_exhaustive()
    }
}

/// The state that every handler gets. It is cloned several times for each request, so a clone is one pointer.
#[derive(Debug, Clone)]
struct Api(Arc<Parts>);

/// The parts of the API.
#[derive(Debug)]
struct Parts {
    service: Arc<Service>,
    options: Options,
    /// The beginning of the names of the service's own topics.
    own_topics: Arc<str>,
    admission: Admission,
    answers: Answers,
    /// Of requests by their host or page.
    refusals: Repeats,
    /// Requests that failed since the store or the queue takes nothing.
    outages: Repeats,
    rates: access::Rates,
    rules: Rules,
    /// One copy of the store is made at a time.
    copying: Arc<Semaphore>,
}

impl Deref for Api {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

/// Returns the whole API, and the dashboard over it.
pub fn router(service: Arc<Service>, options: Options) -> Router {
    let (routes, rules) = Calls::all().into_parts();
    let api = Api(Arc::new(Parts {
        own_topics: service.queue_name(TOPIC_PREFIX).into(),
        service,
        rules,
        admission: Admission::new(options.time.clone(), options.store_is_far),
        answers: Answers::default(),
        refusals: Repeats::default(),
        outages: Repeats::default(),
        rates: access::Rates::new(options.time.moment()),
        copying: Arc::new(Semaphore::new(1)),
        options,
    }));
    // One layer for all that every request needs: each layer costs a request several allocations.
    let wrapped = middleware::from_fn_with_state(api.clone(), server::wrap::wrap);
    let calls = routes
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method)
        .layer(wrapped.clone())
        .with_state(api.clone());
    let pages = ui::router(ui::Gate::Here(calls.clone()), page_settings(&api));
    let pages = pages
        .method_not_allowed_fallback(wrong_method)
        .layer(wrapped);
    below(&api.options.base_path, calls.merge(pages))
}

/// Returns the dashboard over a service elsewhere, for browsers that reach it by one of these hosts.
pub fn far(far: Far, settings: PageSettings, hosts: Hosts) -> Router {
    let base = settings.base_path.clone();
    let check = middleware::from_fn(move |request: Request, next: Next| {
        let refused = hosts.check(&request).err();
        async move {
            match refused {
                Some(refused) => refused.respond(None),
                None => next.run(request).await,
            }
        }
    });
    below(&base, ui::router(ui::Gate::Far(far), settings).layer(check))
}

fn page_settings(api: &Api) -> PageSettings {
    let options = &api.options;
    PageSettings {
        time: options.time.clone(),
        base_path: options.base_path.clone(),
        proxies: options.proxies.clone(),
        tls: options.tls,
        read_only: options.read_only,
        has_docs: true,
        shutdown: options.shutdown.clone(),
    }
}

/// Serves a router at a prefix, too: a proxy may leave the prefix in the path, or take it out.
fn below(prefix: &str, router: Router) -> Router {
    if prefix.is_empty() {
        return router;
    }
    let prefix: Arc<str> = prefix.into();
    Router::new().fallback(move |mut request: Request| {
        let (router, prefix) = (router.clone(), Arc::clone(&prefix));
        if let Some(uri) = stripped(request.uri(), &prefix) {
            *request.uri_mut() = uri;
        }
        router.oneshot(request)
    })
}

/// Returns an address without its prefix; none where it has another one.
fn stripped(uri: &Uri, prefix: &str) -> Option<Uri> {
    let path = uri.path_and_query()?.as_str();
    let rest = path.strip_prefix(prefix)?;
    let rest = match rest.chars().next() {
        None => "/".to_owned(),
        Some('?') => format!("/{rest}"),
        Some('/') => rest.to_owned(),
        Some(_) => return None,
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(rest).ok()?);
    Uri::from_parts(parts).ok()
}

async fn unknown_path(State(api): State<Api>, request: Request) -> Error {
    let path = shorten(request.uri().path());
    let detail = match paths::meant(request.uri().path(), api.rules.paths()) {
        Some(meant) => format!("there is no `{path}`; did you mean `{meant}`?"),
        None => format!("there is no `{path}`; /openapi.json lists what there is"),
    };
    Error::new(Code::NotFound, detail)
}

// The router adds the Allow header.
async fn wrong_method(request: Request) -> Error {
    let path = shorten(request.uri().path());
    let mut detail = format!("`{path}` does not take {}", request.method());
    if let Some(advice) = paths::instead(request.method(), request.uri().path()) {
        detail.push_str(&format!("; {advice}"));
    }
    Error::new(Code::MethodNotAllowed, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_taken_out_of_a_path() {
        for (path, rest) in [
            ("/a/b", Some("/")),
            ("/a/b?q=1", Some("/?q=1")),
            ("/a/b/v1/tasks?q=/a/b", Some("/v1/tasks?q=/a/b")),
            ("/a/bc", None),
            ("/v1/tasks", None),
        ] {
            let uri = path.parse().unwrap();
            let found = stripped(&uri, "/a/b").map(|uri| uri.to_string());
            assert_eq!(found.as_deref(), rest, "{path}");
        }
    }
}
