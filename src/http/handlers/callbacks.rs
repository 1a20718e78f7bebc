//! The callback handlers read and change, for clients, what is set for the callbacks at `/v1/callbacks`.
//!
//! An entity tag follows the configuration alone: neither gates nor figures change it, so a client that has read a callback can
//! replace its configuration whatever else has happened. For the same reason a read answers no 304.

use axum::{
    extract::State,
    http::{HeaderMap, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::Serialize;

use crate::{
    api::{
        callback::{
            CallbackActivity, CallbackLateness, CallbackRequest, CallbackResponse, CallbackWorker,
            GateRequest, ListCallbacksResponse,
        },
        problem::Problem,
    },
    flow::{base::records::callbacks::Changed, stages::query::activity::Activity},
    http::{
        Api,
        access::Caller,
        answer,
        convert::{
            any_callback,
            callback::{callback_response, gate_change, policy},
            masked,
        },
        error::{Code, Error},
        extract::{
            CallbackPath, FOREIGN_TOKEN, FromQuery, Json, Named, NoBody, NoIfMatch, Params, each,
            page_size, put,
        },
        headers::{self, Preconditions},
    },
    limits::{
        CALLBACK_LIST_READS_MAX, CALLBACKS_AHEAD, CALLBACKS_MAX, GATES_MAX, NAME_CHARS_MAX,
        RECORDS_PAGE_MAX,
    },
    model::callback::{Callback, Policy},
};

/// Reads a callback: its configuration, its gates, and what is going on as far as this node knows.
///
/// One that nothing is set for is shown while this node knows of due tasks or workers of it, or finds a task of it that starts
/// later, as far as one page of a list reads.
#[utoipa::path(get, path = "/v1/callbacks/{name}", tag = "callbacks", operation_id = "getCallback",
    params(("name" = String, Path, description = "The callback")),
    responses(
        (status = 200, description = "The callback", body = CallbackResponse,
            headers(("etag" = String, description = "Of the configuration; absent where there is none"))),
        (status = 404, description = "Nothing is set for it, and this node knows of nothing that goes on; its tasks have the defaults of the service", body = Problem, content_type = "application/problem+json"),
        (status = "default", description = "Not read", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn read(
    State(api): State<Api>,
    Named(name): Named<CallbackPath>,
    caller: Caller,
) -> Result<Response, Error> {
    let now = api.options.time.now();
    let callback = api.service.callbacks().get(&name).await?;
    let callback = callback.filter(|callback| callback.is_known(now));
    let seen = api.service.activity(&name).await?;
    if callback.is_none() && seen.is_idle() && !api.service.has_task_ahead(&name).await? {
        return Err(not_found(&name));
    }
    let callback = callback.unwrap_or_default();
    let response = CallbackResponse {
        activity: Some(activity(seen)),
        ..callback_response(&name, &callback, now)
    };
    let shown = caller.seen(response, masked::callback);
    Ok(tagged(&callback, &shown))
}

/// Configures a callback. The configuration is replaced as a whole; gates stay as they are. It is in force on every node two
/// seconds after the answer, for tasks that are registered from then on.
#[utoipa::path(put, path = "/v1/callbacks/{name}", tag = "callbacks", operation_id = "setCallback",
    params(
        ("name" = String, Path, description = "The callback"),
        ("if-match" = Option<String>, Header, description = "Only if the configuration still has this ETag"),
        ("if-none-match" = Option<String>, Header, description = "`*`: only if it is not configured yet")),
    request_body = CallbackRequest,
    responses(
        (status = 200, description = "Replaced, or it was so already", body = CallbackResponse, headers(("etag" = String))),
        (status = 201, description = "Configured for the first time", body = CallbackResponse, headers(("etag" = String))),
        (status = 412, description = "It has changed", body = Problem, content_type = "application/problem+json"),
        (status = "default", description = "Not configured", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn set(
    State(api): State<Api>,
    Named(name): Named<CallbackPath>,
    condition: Preconditions,
    caller: Caller,
    Json(asked): Json<CallbackRequest>,
) -> Result<Response, Error> {
    let policy = policy(&asked, api.options.has_kafka, &api.own_topics)?;
    // Asked of the configuration that is replaced, so nothing else can be set in between.
    let notify = policy.notify.clone();
    let allows = |old: Option<&Policy>| {
        let old = old.and_then(|policy| policy.notify.as_ref());
        caller.allows_notice(notify.as_ref(), old)
    };
    let holds = holds(&condition);
    let holds = |old: Option<&Policy>| holds(old) && allows(old).is_ok();
    let callbacks = api.service.callbacks();
    let changed = callbacks.configure(&name, policy, &holds).await?;
    if let Changed::Mismatch(old) = &changed {
        allows(old.policy.as_ref())?;
    }
    let answer = changed_to(&api, &name, &changed)?;
    if !matches!(changed, Changed::Created(_)) {
        return Ok(answer);
    }
    let location = [(header::LOCATION, format!("/v1/callbacks/{name}"))];
    Ok((StatusCode::CREATED, location, answer).into_response())
}

/// Shows a callback as it is after a change.
fn changed_to(api: &Api, name: &str, changed: &Changed) -> Result<Response, Error> {
    match changed {
        Changed::Created(callback) | Changed::Replaced(callback) | Changed::Same(callback) => {
            let response = callback_response(name, callback, api.options.time.now());
            Ok(tagged(callback, &response))
        }
        other => Err(refused(name, other)),
    }
}

/// Removes the configuration of a callback, whose gates must be open. Tasks that are registered from then on have the defaults
/// of the service.
#[utoipa::path(delete, path = "/v1/callbacks/{name}", tag = "callbacks", operation_id = "deleteCallback",
    params(
        ("name" = String, Path, description = "The callback"),
        ("if-match" = Option<String>, Header, description = "Only if the configuration still has this ETag")),
    responses(
        (status = 204, description = "Removed"),
        (status = 404, description = "It is not configured", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "`gate_not_open`", body = Problem, content_type = "application/problem+json"),
        (status = 412, description = "It has changed", body = Problem, content_type = "application/problem+json"),
        (status = "default", description = "Not removed", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn remove(
    State(api): State<Api>,
    Named(name): Named<CallbackPath>,
    condition: Preconditions,
    _: NoBody,
) -> Result<Response, Error> {
    let callbacks = api.service.callbacks();
    match callbacks.remove(&name, &holds(&condition)).await? {
        Changed::Removed | Changed::Replaced(_) => Ok(StatusCode::NO_CONTENT.into_response()),
        other => Err(refused(&name, &other)),
    }
}

/// Opens or closes a gate: of a callback, or of one of its collections. From two seconds after the answer no attempt of a task
/// behind a closed gate begins. A callback need not be configured for that.
#[utoipa::path(post, path = "/v1/callbacks/{name}/gate", tag = "callbacks", operation_id = "setGate",
    params(("name" = String, Path, description = "The callback")),
    request_body = GateRequest,
    responses(
        (status = 200, description = "The callback", body = CallbackResponse, headers(("etag" = String))),
        (status = "default", description = "Not changed", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn set_gate(
    State(api): State<Api>,
    Named(name): Named<CallbackPath>,
    _: NoIfMatch,
    caller: Caller,
    Json(asked): Json<GateRequest>,
) -> Result<Response, Error> {
    let change = gate_change(asked, caller.name(), api.options.time.now())?;
    let changed = api.service.callbacks().set_gate(&name, &change).await?;
    changed_to(&api, &name, &changed)
}

/// Lists callbacks that were configured, or that have a gate which is not open, by name.
#[utoipa::path(get, path = "/v1/callbacks", tag = "callbacks", operation_id = "listCallbacks",
    params(
        ("page_size" = Option<usize>, Query, minimum = 1,
            description = "At most so many callbacks; 100 by default; more than 100 is 100"),
        ("page_token" = Option<String>, Query, description = "`next_page_token` of the page before")),
    responses(
        (status = 200, description = "A page", body = ListCallbacksResponse),
        (status = "default", description = "Not listed", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn list(
    State(api): State<Api>,
    caller: Caller,
    Params(query): Params<CallbacksQuery>,
) -> Result<Response, Error> {
    let (callbacks, next) = page(&api, &caller, query).await?;
    Ok(answer::json(&ListCallbacksResponse {
        callbacks,
        next_page_token: next.map(|name| URL_SAFE_NO_PAD.encode(name)),
    }))
}

/// Reads on until the page is full, or so many reads were made: records may be left of callbacks that nothing is set for any
/// more. Also returns behind which name there may be more.
async fn page(
    api: &Api,
    caller: &Caller,
    query: CallbacksQuery,
) -> Result<(Vec<CallbackResponse>, Option<String>), Error> {
    let now = api.options.time.now();
    let (mut listed, mut next) = (Vec::new(), query.after);
    for _ in 0..CALLBACK_LIST_READS_MAX {
        let rows = CALLBACKS_AHEAD.max(query.page_size - listed.len());
        let (page, behind) = api.service.callbacks().list(next.as_deref(), rows).await?;
        next = behind;
        let known =
            |(name, callback): &&(String, Callback)| callback.is_known(now) && caller.covers(name);
        for (name, callback) in page.iter().filter(known) {
            if listed.len() >= query.page_size {
                let last = listed
                    .last()
                    .map(|last: &CallbackResponse| last.name.clone());
                return Ok((listed, last));
            }
            listed.push(caller.seen(callback_response(name, callback, now), masked::callback));
        }
        if next.is_none() || listed.len() >= query.page_size {
            break;
        }
    }
    Ok((listed, next))
}

/// The query of a list.
#[derive(Debug)]
pub(in crate::http) struct CallbacksQuery {
    page_size: usize,
    after: Option<String>,
}

impl FromQuery for CallbacksQuery {
    fn read(uri: &Uri, _: &Api) -> Result<Self, Error> {
        let mut query = Self {
            page_size: RECORDS_PAGE_MAX,
            after: None,
        };
        let violations = each(uri, &["page_size", "page_token"], |name, value| {
            Some(match name {
                "page_size" => put(&mut query.page_size, page_size(&value, RECORDS_PAGE_MAX)),
                "page_token" if value.is_empty() => Ok(()),
                "page_token" => put(&mut query.after, behind(&value)),
                _ => return None,
            })
        })?;
        violations.finish().map(|()| query)
    }
}

/// Reads the name behind which a list goes on.
fn behind(token: &str) -> Result<String, String> {
    let foreign = || FOREIGN_TOKEN.to_owned();
    // A character of the token has six bits.
    if token.len() > NAME_CHARS_MAX * 2 {
        return Err(foreign());
    }
    let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| foreign())?;
    let name = String::from_utf8(bytes).map_err(|_| foreign())?;
    any_callback(name).map_err(|_| foreign())
}

fn activity(seen: Activity) -> CallbackActivity {
    let workers = seen.workers.into_iter();
    CallbackActivity {
        workers: workers
            .map(|polled| CallbackWorker {
                name: polled.worker,
                version: polled.version,
                last_poll_ms: u64::try_from(polled.ago.as_millis()).unwrap_or(u64::MAX),
            })
            .collect(),
        ready: seen.ready,
        oldest_due_time: seen.oldest.map(Into::into),
        running: seen.running,
        retrying: seen.retrying,
        held: seen.held,
        dead: seen.dead,
        lateness: seen.lateness.map(|late| CallbackLateness {
            p50_ms: late.p50_ms,
            p99_ms: late.p99_ms,
            max_ms: late.max_ms,
        }),
        partial: seen.partial,
    }
}

fn holds(condition: &Preconditions) -> impl Fn(Option<&Policy>) -> bool + Send + Sync {
    |policy| condition.hold(policy.map(headers::etag_of_policy).as_deref())
}

fn not_found(name: &str) -> Error {
    let detail = format!(
        "nothing is set for the callback `{name}`: its tasks have the defaults of the service"
    );
    Error::new(Code::CallbackNotFound, detail)
}

/// Returns the problem of a change that was not made.
pub(super) fn refused(name: &str, changed: &Changed) -> Error {
    match changed {
        Changed::Mismatch(callback) => {
            let detail = callback.policy.as_ref().map_or_else(
                || format!("the callback `{name}` is not configured"),
                |policy| {
                    format!(
                        "the configuration's ETag is {} now",
                        headers::etag_of_policy(policy)
                    )
                },
            );
            Error::new(Code::PreconditionFailed, detail)
        }
        Changed::NotOpen(_) => {
            let detail = format!("a gate of the callback `{name}` is not open: open it first");
            Error::new(Code::GateNotOpen, detail)
        }
        Changed::TooManyGates => {
            let detail = format!(
                "the callback has {GATES_MAX} gates already, those opened within a week included"
            );
            Error::field(Code::InvalidRequest, "/collection", detail)
        }
        Changed::TooMany => {
            let detail = format!(
                "{CALLBACKS_MAX} callbacks are configured already: delete some, or use `{name}` without a configuration"
            );
            Error::new(Code::TooManyCallbacks, detail)
        }
        Changed::Absent
        | Changed::Created(_)
        | Changed::Replaced(_)
        | Changed::Same(_)
        | Changed::Removed => not_found(name),
    }
}

fn tagged(callback: &Callback, body: &impl Serialize) -> Response {
    let mut headers = HeaderMap::new();
    let tag = callback.policy.as_ref().map(headers::etag_of_policy);
    if let Some(Ok(tag)) = tag.map(|tag| tag.parse()) {
        headers.insert(header::ETAG, tag);
    }
    (headers, answer::json(body)).into_response()
}
