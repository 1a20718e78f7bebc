//! The gate takes the calls of pages to the API, in this process or over the network, and brings the answers back.
//!
//! A call carries the key of the reader, so the API decides what it may see and do.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use axum::{
    Router,
    body::{Body, Bytes, to_bytes},
    http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, header},
    response::Response,
};
use serde::{Serialize, de::DeserializeOwned};
use tower::ServiceExt as _;

use crate::{
    api::problem::{FieldError, Problem},
    http::{access::Peer, error::Code, headers::TRACE_PARENT},
};

/// The answer to a call, at some time.
pub type Answering =
    Pin<Box<dyn Future<Output = Result<axum::http::Response<Bytes>, String>> + Send>>;

/// Makes a call to a service over the network, or says why it could not.
pub type Far = Arc<dyn Fn(Request<Bytes>) -> Answering + Send + Sync>;

/// The way to the API.
#[derive(Clone)]
pub(in crate::http) enum Gate {
    /// Its router, in this process.
    Here(Router),
    /// A service elsewhere.
    Far(Far),
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Here(_) => "Here",
            Self::Far(_) => "Far",
        })
    }
}

/// A call that did not succeed.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    pub(super) status: StatusCode,
    pub(super) title: String,
    pub(super) detail: String,
    /// The kind of problem; empty where no service answered.
    pub(super) code: String,
    pub(super) errors: Vec<FieldError>,
}

impl Failure {
    pub(super) fn new(status: StatusCode, title: &str, detail: impl Into<String>) -> Self {
        Self {
            status,
            title: title.to_owned(),
            detail: detail.into(),
            code: String::new(),
            errors: Vec::new(),
        }
    }

    /// Returns the failure of a page whose path or form names nothing that there is.
    pub(super) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "There is no such page", detail)
    }

    pub(super) fn internal(detail: impl Into<String>) -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            Code::Internal.title(),
            detail,
        )
    }

    fn of(status: StatusCode, body: &[u8]) -> Self {
        match serde_json::from_slice::<Problem>(body) {
            Ok(problem) => Self {
                status,
                title: problem.title,
                detail: problem.detail,
                code: problem.code,
                errors: problem.errors,
            },
            Err(_) => Self::new(
                status,
                "The service did not answer as it should",
                format!("it answered {status}, without a reason"),
            ),
        }
    }

    /// Tells whether the key is missing, or is worth nothing.
    pub(super) fn is_of_key(&self) -> bool {
        self.status == StatusCode::UNAUTHORIZED
    }

    /// Returns the mistake in a field of the request, by its JSON pointer.
    pub(super) fn of_field(&self, pointer: &str) -> Option<&str> {
        let mut found = self.errors.iter().filter(|error| {
            let below = error.pointer.strip_prefix(pointer);
            below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        });
        found.next().map(|error| error.detail.as_str())
    }
}

/// The headers of a visit that go on to the API.
#[derive(Debug, Clone, Default)]
pub(super) struct Line {
    headers: HeaderMap,
    peer: Option<Peer>,
}

impl Line {
    pub(super) fn of(headers: &HeaderMap, extensions: &Extensions, key: Option<&str>) -> Self {
        let mut passed = HeaderMap::new();
        for name in [header::HOST, HeaderName::from_static(TRACE_PARENT)] {
            if let Some(value) = headers.get(&name) {
                passed.insert(name, value.clone());
            }
        }
        let line = Self {
            headers: passed,
            peer: extensions.get().copied(),
        };
        match key {
            Some(key) => line.with_key(key),
            None => line,
        }
    }

    /// Makes calls with this key.
    pub(super) fn with_key(mut self, key: &str) -> Self {
        if let Ok(mut bearer) = HeaderValue::try_from(format!("Bearer {key}")) {
            bearer.set_sensitive(true);
            self.headers.insert(header::AUTHORIZATION, bearer);
        }
        self
    }
}

/// An answer to a call that succeeded.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Answer {
    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_slice(&self.body).map_err(|error| {
            Failure::internal(format!(
                "the answer of the service is not understood: {error}"
            ))
        })
    }

    /// Returns the tag for a conditional change.
    pub(super) fn etag(&self) -> Option<&str> {
        self.headers.get(header::ETAG)?.to_str().ok()
    }
}

/// A condition on what a call changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Condition<'a> {
    /// There is none.
    Any,
    /// It still has this tag.
    Is(&'a str),
    /// It is not there yet.
    IsNone,
}

impl Gate {
    /// Makes a call; a body is JSON.
    pub(super) async fn call(
        &self,
        line: &Line,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
        condition: Condition<'_>,
    ) -> Result<Answer, Failure> {
        let answer = self.ask(line, method, path, body, condition).await?;
        if answer.status.is_success() {
            Ok(answer)
        } else {
            Err(Failure::of(answer.status, &answer.body))
        }
    }

    /// Makes a call and returns its answer, whatever it is.
    pub(super) async fn ask(
        &self,
        line: &Line,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
        condition: Condition<'_>,
    ) -> Result<Answer, Failure> {
        let request = Request::builder().method(method).uri(path);
        let has_body = body.is_some();
        let body = Bytes::from(body.unwrap_or_default());
        let mut request = request
            .body(body)
            .map_err(|error| Failure::not_found(format!("`{path}` is no path: {error}")))?;
        let headers = request.headers_mut();
        headers.extend(line.headers.clone());
        if has_body {
            let json = HeaderValue::from_static("application/json");
            headers.insert(header::CONTENT_TYPE, json);
        }
        match condition {
            Condition::Any => {}
            Condition::Is(tag) => {
                let tag = HeaderValue::try_from(tag);
                headers.extend(tag.ok().map(|tag| (header::IF_MATCH, tag)));
            }
            Condition::IsNone => {
                headers.insert(header::IF_NONE_MATCH, HeaderValue::from_static("*"));
            }
        }
        if let Some(peer) = line.peer {
            request.extensions_mut().insert(peer);
        }
        let answer = match self {
            Self::Here(router) => here(router.clone(), request).await?,
            Self::Far(far) => far(request).await.map_err(|why| {
                Failure::new(StatusCode::BAD_GATEWAY, "The service does not answer", why)
            })?,
        };
        let (parts, body) = answer.into_parts();
        Ok(Answer {
            status: parts.status,
            headers: parts.headers,
            body,
        })
    }
}

async fn here(router: Router, request: Request<Bytes>) -> Result<Response<Bytes>, Failure> {
    let answered = router.oneshot(request.map(Body::from)).await;
    let answer = match answered {
        Ok(answer) => answer,
        Err(never) => match never {},
    };
    let (parts, body) = answer.into_parts();
    // The API bounds its answers itself.
    let body = to_bytes(body, usize::MAX)
        .await
        .map_err(|error| Failure::internal(error.to_string()))?;
    Ok(Response::from_parts(parts, body))
}

/// Writes the body of a call.
pub(super) fn json(body: &impl Serialize) -> Result<Vec<u8>, Failure> {
    serde_json::to_vec(body).map_err(|error| Failure::internal(error.to_string()))
}
