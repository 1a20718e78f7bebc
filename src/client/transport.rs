//! The transport makes one call for the client at the first server that answers: time limits, fail-over,
//! reading the answer.
//!
//! The servers are tried in order, beginning with the one that answered last. The next one is tried when a
//! server cannot be connected to, or answers that it is not available. When a server does not answer at all,
//! the next one is tried only if repeating the call does no harm. Each server gets the whole time limit of
//! the call.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use bytes::Bytes;
use reqwest::{Method, StatusCode, header, redirect};
use serde::de::DeserializeOwned;

use super::{access, builder::Access, error::Error};
use crate::{api::problem::Problem, time_source::TimeSource};

/// How long one server may take for an ordinary call.
pub(crate) const CALL_LIMIT: Duration = Duration::from_secs(10);

/// How long connecting to one server may take: a dead host must not use up the time of the next.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// How many characters of an answer that is not understood are quoted at most.
const QUOTED_CHARS_MAX: usize = 200;

/// Redirects of one call that are followed: a path of a proxy, and its end.
const REDIRECTS_MAX: usize = 3;

/// A call to make.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) method: Method,
    /// Path and query, from the slash.
    pub(super) path: String,
    pub(super) body: Option<Bytes>,
    /// Whether sending it twice does no harm.
    pub(super) repeatable: bool,
    pub(super) limit: Duration,
}

/// Servers, and the connections to them.
#[derive(Debug)]
pub(super) struct Transport {
    http: reqwest::Client,
    servers: Vec<String>,
    preferred: AtomicUsize,
    time: TimeSource,
}

impl Transport {
    pub(super) fn new(
        servers: &[String],
        access: &Access,
        time: TimeSource,
    ) -> Result<Self, Error> {
        let servers: Vec<String> = servers
            .iter()
            .flat_map(|list| list.split(','))
            .map(|server| server.trim().trim_end_matches('/'))
            .filter(|server| !server.is_empty())
            .map(checked)
            .collect::<Result<_, _>>()?;
        if servers.is_empty() {
            let text = "no server was given: expected an address such as http://127.0.0.1:7420";
            return Err(Error::Invalid(text.to_owned()));
        }
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_LIMIT)
            .no_proxy()
            .redirect(redirect::Policy::custom(within_origin))
            .default_headers(access::headers(access)?)
            .user_agent(concat!("tickwheel/", env!("CARGO_PKG_VERSION")));
        let http = access::certificates(http, &servers, access)?
            .build()
            .map_err(|error| {
                let causes = with_causes(&error);
                Error::Invalid(format!("cannot set up the HTTP client: {causes}"))
            })?;
        Ok(Self {
            http,
            servers,
            preferred: AtomicUsize::new(0),
            time,
        })
    }

    pub(super) const fn time(&self) -> &TimeSource {
        &self.time
    }

    /// Makes a call and reads its answer.
    pub(super) async fn call<T: DeserializeOwned>(&self, call: Call) -> Result<T, Error> {
        let (server, body) = self.send(call).await?;
        serde_json::from_slice(&body).map_err(|error| Error::Unexpected {
            server: server.to_owned(),
            reason: format!("{error} in {}", quoted(&body)),
        })
    }

    /// Makes a call. Returns the server that answered, and its answer.
    pub(super) async fn send(&self, call: Call) -> Result<(&str, Bytes), Error> {
        let first = self.preferred.load(Ordering::Relaxed);
        let count = self.servers.len();
        let mut last = None;
        for (place, server) in self
            .servers
            .iter()
            .enumerate()
            .cycle()
            .skip(first)
            .take(count)
        {
            match self.send_to(server, &call).await {
                Err(error) if tries_next(&error, call.repeatable) => last = Some(error),
                answer => {
                    self.preferred.store(place, Ordering::Relaxed);
                    return answer;
                }
            }
        }
        Err(last.unwrap_or_else(|| Error::Invalid("no server was given".to_owned())))
    }

    /// Makes a call whose answer is read piece by piece. Returns the server that answers, and the answer, which is a success.
    pub(super) async fn begin(&self, call: &Call) -> Result<(&str, reqwest::Response), Error> {
        let first = self.preferred.load(Ordering::Relaxed);
        let server = self.servers.get(first).or_else(|| self.servers.first());
        let server = server.map(String::as_str).unwrap_or_default();
        let sending = self.request(server, call).send();
        let transport = |reason, sent| Error::Transport {
            server: server.to_owned(),
            reason,
            sent,
        };
        let response = match self.time.within(call.limit, sending).await {
            Some(Ok(response)) => response,
            Some(Err(error)) if error.is_redirect() => return Err(redirected(server, &error)),
            Some(Err(error)) => return Err(transport(with_causes(&error), !error.is_connect())),
            None => {
                return Err(transport(
                    format!("no answer within {:?}", call.limit),
                    true,
                ));
            }
        };
        let (status, retry_after) = (response.status(), retry_after(response.headers()));
        if status.is_success() {
            return Ok((server, response));
        }
        let body = self.time.within(call.limit, response.bytes()).await;
        let body = body.and_then(Result::ok).unwrap_or_default();
        let refusal = refusal(server, status, retry_after, &body);
        Err(refusal.unwrap_or_else(|| transport(format!("it answered {status}"), true)))
    }

    /// Hands a request on, and returns the answer, whatever it is. The next server is tried only where none was reached.
    #[cfg(feature = "cli")]
    pub(super) async fn pass(
        &self,
        call: &Call,
        headers: &header::HeaderMap,
    ) -> Result<(StatusCode, header::HeaderMap, Bytes), Error> {
        let first = self.preferred.load(Ordering::Relaxed);
        let count = self.servers.len();
        let servers = self.servers.iter().enumerate().cycle();
        let mut last = Error::Invalid("no server was given".to_owned());
        for (place, server) in servers.skip(first).take(count) {
            let request = self.request(server, call).headers(headers.clone());
            let exchange = async {
                let response = request.send().await?;
                let (status, headers) = (response.status(), response.headers().clone());
                Ok::<_, reqwest::Error>((status, headers, response.bytes().await?))
            };
            let (reason, sent) = match self.time.within(call.limit, exchange).await {
                Some(Ok(answer)) => {
                    self.preferred.store(place, Ordering::Relaxed);
                    return Ok(answer);
                }
                Some(Err(error)) => (with_causes(&error), !error.is_connect()),
                None => (format!("no answer within {:?}", call.limit), true),
            };
            last = Error::Transport {
                server: server.clone(),
                reason,
                sent,
            };
            if sent {
                break;
            }
        }
        Err(last)
    }

    fn request(&self, server: &str, call: &Call) -> reqwest::RequestBuilder {
        let request = self
            .http
            .request(call.method.clone(), format!("{server}{}", call.path));
        match &call.body {
            None => request,
            Some(body) => request
                .header(header::CONTENT_TYPE, "application/json")
                .body(body.clone()),
        }
    }

    async fn send_to<'a>(&self, server: &'a str, call: &Call) -> Result<(&'a str, Bytes), Error> {
        let request = self.request(server, call);
        let exchange = async {
            let response = request.send().await?;
            let (status, retry_after) = (response.status(), retry_after(response.headers()));
            Ok::<_, reqwest::Error>((status, retry_after, response.bytes().await?))
        };
        let transport = |reason, sent| Error::Transport {
            server: server.to_owned(),
            reason,
            sent,
        };
        let (status, retry_after, body) = match self.time.within(call.limit, exchange).await {
            Some(Ok(answer)) => answer,
            Some(Err(error)) if error.is_redirect() => return Err(redirected(server, &error)),
            Some(Err(error)) => {
                let mut reason = with_causes(&error);
                reason.push_str(access::advice(&reason));
                return Err(transport(reason, !error.is_connect()));
            }
            None => {
                return Err(transport(
                    format!("no answer within {:?}", call.limit),
                    true,
                ));
            }
        };
        match refusal(server, status, retry_after, &body) {
            None => Ok((server, body)),
            Some(error) => Err(error),
        }
    }
}

/// Follows a redirect within the origin that was asked. Another one must get neither credentials nor payloads, and is not
/// believed.
fn within_origin(attempt: redirect::Attempt<'_>) -> redirect::Action {
    let asked = attempt.previous().first().map(reqwest::Url::origin);
    if asked.is_none_or(|asked| asked != attempt.url().origin()) {
        let to = attempt.url().origin().ascii_serialization();
        return attempt.error(format!(
            "it redirects to {to}, which was not asked: give that address, if it is the service"
        ));
    }
    if attempt.previous().len() >= REDIRECTS_MAX {
        return attempt.error(format!("it redirects more than {REDIRECTS_MAX} times"));
    }
    attempt.follow()
}

/// Returns the error for a redirect that is not followed.
fn redirected(server: &str, error: &reqwest::Error) -> Error {
    Error::Unexpected {
        server: server.to_owned(),
        reason: with_causes(error),
    }
}

/// Tells whether another server may succeed, and may be asked.
fn tries_next(error: &Error, repeatable: bool) -> bool {
    match error {
        Error::Transport { sent, .. } => repeatable || !sent,
        Error::Unavailable { problem, .. } => {
            problem.status == StatusCode::SERVICE_UNAVAILABLE.as_u16()
        }
        Error::Refused { .. }
        | Error::NotFound { .. }
        | Error::Unexpected { .. }
        | Error::Invalid(_) => false,
    }
}

/// Reads an answer that is not a success.
fn refusal(
    server: &str,
    status: StatusCode,
    retry_after: Option<Duration>,
    body: &[u8],
) -> Option<Error> {
    if status.is_success() {
        return None;
    }
    let server = server.to_owned();
    let Ok(problem) = serde_json::from_slice::<Problem>(body).map(Box::new) else {
        let reason = format!("{status}: {}", quoted(body));
        return Some(match status {
            // The answer of a proxy in between, whose server is away.
            StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => Error::Transport {
                server,
                reason,
                sent: true,
            },
            _ => Error::Unexpected { server, reason },
        });
    };
    Some(Error::of_problem(status, problem, retry_after))
}

fn checked(server: &str) -> Result<String, Error> {
    let schemes: &[&str] = if cfg!(feature = "tls") {
        &["http", "https"]
    } else {
        &["http"]
    };
    let invalid = |reason: &str| {
        Error::Invalid(format!(
            "{server:?} is not an address of a server: {reason}; expected one such as http://127.0.0.1:7420"
        ))
    };
    // An address as people write it. The rest of `http://` without its slashes is no host.
    let server = if server.contains("://") || server.ends_with(':') {
        server.to_owned()
    } else {
        format!("http://{server}")
    };
    let url = reqwest::Url::parse(&server).map_err(|error| invalid(&error.to_string()))?;
    if url.scheme() == "https" && !schemes.contains(&"https") {
        return Err(invalid("this build has no TLS (feature `tls`)"));
    }
    if !schemes.contains(&url.scheme()) || !url.has_host() {
        return Err(invalid("it begins with neither http:// nor a host"));
    }
    Ok(server)
}

fn retry_after(headers: &header::HeaderMap) -> Option<Duration> {
    let seconds = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
    seconds.trim().parse().ok().map(Duration::from_secs)
}

fn quoted(body: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(body)
        .chars()
        .take(QUOTED_CHARS_MAX)
        .collect();
    format!("{text:?}")
}

/// Returns an error with its causes: `reqwest` itself only says that sending failed, and the reason is in its
/// sources.
fn with_causes(error: &dyn std::error::Error) -> String {
    let Some(cause) = error.source() else {
        return error.to_string();
    };
    let causes = std::iter::successors(Some(cause), |cause| cause.source());
    let texts: Vec<String> = causes.map(ToString::to_string).collect();
    texts.join(": ")
}
