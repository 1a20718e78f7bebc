//! The caller sends one request over HTTP for the delivery, within bounds, to an address that is allowed.
//!
//! The address is judged where the connection is made: names are resolved here, and only allowed addresses go on to the
//! connection. An address that stands in the URL is judged before. Redirects are not followed, and no proxy is used.

use std::{
    error::Error as _,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use reqwest::{
    Client, Url,
    dns::{Addrs, Name, Resolve, Resolving},
    header::{HeaderMap, HeaderName, HeaderValue},
    redirect,
};

use crate::{
    limits::{ANSWER_HEAD_KIB_MAX, ANSWER_HEADERS_MAX, EXECUTOR_TASKS_MAX},
    model::{
        address::Allowed,
        http_call::{HttpCall, TIMEOUT_DEFAULT},
    },
};

/// How long the resolution of a name and the connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How much of an answer is read.
pub(super) const ANSWER_BYTES_MAX: usize = 16 * 1024;

/// Connections to one host that wait for another call, and for how long: as many as a host may have calls by its callback. A new
/// connection costs several times a call. Those of all hosts together go as quickly as they are not used.
const IDLE_MAX: usize = EXECUTOR_TASKS_MAX;
const IDLE_TIME: Duration = Duration::from_secs(15);

/// The answer of a receiver.
#[derive(Debug)]
pub(in crate::app::executor) struct Answer {
    pub(super) status: u16,
    pub(super) content_type: String,
    pub(super) retry_after: Option<String>,
    /// Its beginning.
    pub(super) body: Bytes,
    /// There is more of it.
    pub(super) is_cut: bool,
}

/// The caller. Clones share their connections.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    client: Client,
    allowed: Arc<Allowed>,
}

/// Resolves names to allowed addresses.
#[derive(Debug)]
struct Guard(Arc<Allowed>);

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let allowed = Arc::clone(&self.0);
        Box::pin(async move {
            let name = name.as_str();
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name, 0)).await?.collect();
            let refusal = found
                .iter()
                .find_map(|address| refusal(&allowed, address.ip()));
            let good: Vec<SocketAddr> = found
                .into_iter()
                .filter(|address| allowed.refusal(address.ip()).is_none())
                .collect();
            match (good.is_empty(), refusal) {
                (true, Some(reason)) => Err(reason.into()),
                _ => Ok(Box::new(good.into_iter()) as Addrs),
            }
        })
    }
}

fn refusal(allowed: &Allowed, address: IpAddr) -> Option<String> {
    let what = allowed.refusal(address)?;
    Some(format!(
        "{address} is {what}: an operator may allow it with --http-allow"
    ))
}

impl Caller {
    /// Calls allowed addresses only.
    pub(super) fn new(allowed: Allowed) -> Result<Self, reqwest::Error> {
        let allowed = Arc::new(allowed);
        let builder = || {
            Client::builder()
                .no_proxy()
                .redirect(redirect::Policy::none())
                .dns_resolver(Arc::new(Guard(Arc::clone(&allowed))))
                .connect_timeout(CONNECT_TIMEOUT)
                .pool_max_idle_per_host(IDLE_MAX)
                .pool_idle_timeout(IDLE_TIME)
                .user_agent(concat!("tickwheel/", env!("CARGO_PKG_VERSION")))
        };
        // A small image has no certificates of authorities. Receivers without TLS are reached all the same.
        let client = builder().build().or_else(|error| {
            let error = told(&error);
            tracing::warn!(
                error,
                "tasks over https will fail: install the authorities (package ca-certificates), or set SSL_CERT_FILE"
            );
            builder().tls_certs_only([]).build()
        })?;
        Ok(Self { client, allowed })
    }

    /// Sends a request; `headers` are the service's own, and win.
    ///
    /// # Errors
    /// A text about why there is no answer.
    pub(super) async fn call(
        &self,
        call: &HttpCall,
        headers: Vec<(&'static str, String)>,
        body: Bytes,
    ) -> Result<Answer, String> {
        let url = Url::parse(&call.url).map_err(|error| format!("the URL is not one: {error}"))?;
        if let Some(refusal) = self.literal(&url) {
            return Err(refusal);
        }
        let method = reqwest::Method::from_bytes(call.method.name().as_bytes());
        let method = method.map_err(|error| error.to_string())?;
        let sends_body = method != reqwest::Method::GET;
        let timeout = call.timeout.unwrap_or(TIMEOUT_DEFAULT);
        let mut request = self.client.request(method, url).timeout(timeout);
        request = request.headers(all_headers(&call.headers, &headers)?);
        if sends_body {
            request = request.body(body);
        }
        let mut response = request.send().await.map_err(|error| told(&error))?;
        let text = |name: &str| {
            let value = response.headers().get(name)?;
            value.to_str().ok().map(str::to_owned)
        };
        let (content_type, retry_after) = (text("content-type"), text("retry-after"));
        let status = response.status().as_u16();
        let (mut read, mut is_cut) = (Vec::new(), false);
        while let Some(chunk) = response.chunk().await.map_err(|error| told(&error))? {
            let room = ANSWER_BYTES_MAX - read.len();
            read.extend(chunk.iter().take(room));
            if chunk.len() > room {
                is_cut = true;
                break;
            }
        }
        Ok(Answer {
            status,
            content_type: content_type.unwrap_or_default(),
            retry_after,
            body: read.into(),
            is_cut,
        })
    }

    /// Tells why an address that stands in the URL is refused. All its forms were read as one by the parser: decimal and octal
    /// numbers, fewer than four parts, and those of IPv6.
    fn literal(&self, url: &Url) -> Option<String> {
        let host = url.host_str()?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        refusal(&self.allowed, host.parse().ok()?)
    }
}

fn all_headers(
    own: &[(String, String)],
    services: &[(&'static str, String)],
) -> Result<HeaderMap, String> {
    let mut all = HeaderMap::new();
    let own = own
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()));
    let services = services.iter().map(|(name, value)| (*name, value.as_str()));
    for (name, value) in own.chain(services) {
        let header = HeaderName::try_from(name).map_err(|error| format!("{name}: {error}"))?;
        let value = HeaderValue::from_str(value).map_err(|error| format!("{name}: {error}"))?;
        all.insert(header, value);
    }
    Ok(all)
}

/// The reasons of a failure, from the outside in, without the URL: it may hold a token.
fn told(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "no answer in time".to_owned();
    }
    let mut texts: Vec<String> = Vec::new();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let is_head = |error: &hyper::Error| error.is_parse_too_large();
        if inner.downcast_ref().is_some_and(is_head) {
            return format!(
                "the answer has more than {ANSWER_HEADERS_MAX} headers, or more than {ANSWER_HEAD_KIB_MAX} KiB of them"
            );
        }
        texts.push(inner.to_string());
        cause = inner.source();
    }
    texts.dedup();
    if texts.is_empty() {
        "the request could not be sent".to_owned()
    } else {
        texts.join(": ")
    }
}
