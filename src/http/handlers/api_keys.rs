//! The key handlers make, list and revoke API keys for administrators, show the audit, and tell callers who they are.

use axum::{
    extract::{Path, Query, Request, State, rejection::PathRejection},
    http::{StatusCode, Uri, header},
    response::{IntoResponse, Response},
};

use super::list::page_size;
use crate::{
    api::{
        api_key::{
            ApiKeyRequest, ApiKeyResponse, AuditEntry, ListApiKeysResponse, ListAuditResponse,
            WhoAmIResponse,
        },
        problem::Problem,
        text::{InstantText, shorten},
        time,
    },
    flow::base::records::key_changes::{Created, Revoked},
    http::{
        Api,
        access::{ANONYMOUS, Caller},
        answer, body,
        convert::{
            Violations,
            api_key::{key_response, rate_response, role_response, wish},
            json, unknown,
        },
        error::{Code, Error},
        headers,
    },
    limits::{
        API_KEYS_MAX, AUDIT_PAGE_MAX, AUDIT_SPAN_DEFAULT, LIST_TASKS_DEFAULT, RECORDS_PAGE_MAX,
        REQUEST_BYTES_MAX,
    },
    model::{
        access::{KeyId, Role},
        audit::{Entry, Spot},
        time::Millis,
    },
};

/// Makes a key. The answer is the only place where it can be read. It works on every node two seconds after the answer.
///
/// The first key must be one of an admin: from then on every call needs a key.
#[utoipa::path(post, path = "/v1/api-keys", tag = "access", operation_id = "createApiKey",
    request_body = ApiKeyRequest,
    responses(
        (status = 201, description = "Made; `key` is the key itself", body = ApiKeyResponse, headers(("location" = String))),
        (status = 409, description = "`admin_key_needed`: it would be the first key. `too_many_api_keys`", body = Problem, content_type = "application/problem+json"),
        (status = "default", description = "Not made", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn create(
    State(api): State<Api>,
    request: Request,
) -> Result<Response, Error> {
    headers::refuse_if_match(request.headers())?;
    headers::refuse_idempotency_key(request.headers())?;
    let text = body::read_text(&api, request, REQUEST_BYTES_MAX).await?;
    let wish = wish(json::read::<ApiKeyRequest>(&text)?, api.options.time.now())?;
    drop(text);
    match api.service.api_keys().create(wish).await? {
        Created::Made(text, key) => {
            tracing::info!(key = %text.id, name = key.name, role = key.role.name(), "an API key was made");
            let location = [
                (header::LOCATION, format!("/v1/api-keys/{}", text.id)),
                (header::CACHE_CONTROL, "no-store".to_owned()),
            ];
            let response = ApiKeyResponse {
                key: Some(text.reveal()),
                ..key_response(text.id, &key)
            };
            let answer = answer::json(&response);
            Ok((StatusCode::CREATED, location, answer).into_response())
        }
        Created::NotAdmin => Err(Error::new(
            Code::AdminKeyNeeded,
            "there is no key yet, and from the first one on every call needs a key: make one with the role `admin` first",
        )),
        Created::TooMany => Err(Error::new(
            Code::TooManyApiKeys,
            format!("there are {API_KEYS_MAX} keys already: revoke some"),
        )),
    }
}

/// Lists keys by their ids: names, roles and limits, never the keys themselves. Keys that have expired are listed until they are
/// revoked.
#[utoipa::path(get, path = "/v1/api-keys", tag = "access", operation_id = "listApiKeys",
    params(
        ("page_size" = Option<usize>, Query, minimum = 1,
            description = "At most so many keys; 100 by default; more than 100 is 100"),
        ("page_token" = Option<String>, Query, description = "`next_page_token` of the page before")),
    responses(
        (status = 200, description = "A page", body = ListApiKeysResponse),
        (status = "default", description = "Not listed", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn list(State(api): State<Api>, uri: Uri) -> Result<Response, Error> {
    let asked = Asked::read(&uri, &["page_size", "page_token"])?;
    let after = match asked.token.as_deref() {
        None => None,
        Some(token) => Some(KeyId::read(token).ok_or_else(foreign)?),
    };
    let size = asked.size.min(RECORDS_PAGE_MAX);
    let (keys, next) = api.service.api_keys().list(after, size).await?;
    let shown = keys.iter().map(|(id, key)| key_response(*id, key));
    Ok(answer::json(&ListApiKeysResponse {
        api_keys: shown.collect(),
        next_page_token: next.map(|id| id.to_string()),
    }))
}

/// Revokes a key. It works nowhere two seconds after the answer.
#[utoipa::path(delete, path = "/v1/api-keys/{id}", tag = "access", operation_id = "revokeApiKey",
    params(("id" = String, Path, description = "The key's id")),
    responses(
        (status = 204, description = "Revoked"),
        (status = 404, description = "`api_key_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "`admin_key_needed`: the other keys would be left without an admin", body = Problem, content_type = "application/problem+json"),
        (status = "default", description = "Not revoked", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn revoke(
    State(api): State<Api>,
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, Error> {
    headers::refuse_if_match(request.headers())?;
    body::read_nothing(&api, request, REQUEST_BYTES_MAX).await?;
    let absent = || Error::new(Code::ApiKeyNotFound, "there is no API key of this id");
    let text = id.map_or_else(|_| String::new(), |Path(text)| text);
    let id = KeyId::read(&text).ok_or_else(absent)?;
    match api.service.api_keys().revoke(id).await? {
        Revoked::Done(key) => {
            tracing::info!(key = %id, name = key.name, "an API key was revoked");
            Ok(StatusCode::NO_CONTENT.into_response())
        }
        Revoked::Absent => Err(absent()),
        Revoked::LastAdmin => Err(Error::new(
            Code::AdminKeyNeeded,
            "it is the last key of an admin, and there are other keys: make another one, or revoke the others first",
        )),
    }
}

/// Tells the caller which key it has, and what that may do.
#[utoipa::path(get, path = "/v1/whoami", tag = "access", operation_id = "whoAmI",
    responses(
        (status = 200, description = "The caller", body = WhoAmIResponse),
        (status = "default", description = "Not known", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn whoami(State(_api): State<Api>, request: Request) -> Response {
    let caller = Caller::of(&request);
    let Some((id, key)) = caller.key() else {
        return answer::json(&WhoAmIResponse {
            keys_required: false,
            id: None,
            name: ANONYMOUS.to_owned(),
            role: role_response(Role::Admin),
            callbacks: None,
            payloads: true,
            rate: None,
            expire_time: None,
        });
    };
    let shown = key_response(id, key);
    answer::json(&WhoAmIResponse {
        keys_required: true,
        id: Some(shown.id),
        name: shown.name,
        role: shown.role,
        callbacks: shown.callbacks,
        payloads: shown.payloads,
        rate: key.rate.map(rate_response),
        expire_time: shown.expire_time,
    })
}

/// Lists calls that changed the configuration or many tasks, and all calls that a key may not make, the oldest first: who made
/// them, on what, from where, and how they ended. Refused calls of one kind are one row a minute. Rows are kept for 90 days.
#[utoipa::path(get, path = "/v1/audit", tag = "access", operation_id = "listAudit",
    params(
        ("from" = Option<InstantText>, Query, description = "Only calls at or after this; by default a day before `to`"),
        ("to" = Option<InstantText>, Query, description = "Only calls before this; by default now"),
        ("page_size" = Option<usize>, Query, minimum = 1,
            description = "At most so many; 100 by default; more than 1000 is 1000"),
        ("page_token" = Option<String>, Query, description = "`next_page_token` of the page before, with the same span")),
    responses(
        (status = 200, description = "A page", body = ListAuditResponse),
        (status = "default", description = "Not listed", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn audit(State(api): State<Api>, uri: Uri) -> Result<Response, Error> {
    let asked = Asked::read(&uri, &["from", "to", "page_size", "page_token"])?;
    let now = api.options.time.now();
    let to = asked
        .to
        .unwrap_or_else(|| now.after(std::time::Duration::from_millis(100)));
    let from = asked.from.unwrap_or_else(|| to.before(AUDIT_SPAN_DEFAULT));
    if from > to {
        let detail = "is after `to`: the span would be empty";
        return Err(Error::field(Code::InvalidRequest, "?from", detail));
    }
    let after = match asked.token.as_deref() {
        None => None,
        Some(token) => Some(spot(token).ok_or_else(foreign)?),
    };
    let size = asked.size.min(AUDIT_PAGE_MAX);
    let (found, next) = api.service.audit().list((from, to), after, size).await?;
    Ok(answer::json(&ListAuditResponse {
        entries: found.into_iter().map(shown).collect(),
        next_page_token: next.map(|spot| format!("{}.{:016x}", spot.time.0, spot.random)),
    }))
}

fn spot(token: &str) -> Option<Spot> {
    let (time, random) = token.split_once('.')?;
    Some(Spot {
        time: Millis(time.parse().ok()?),
        random: u64::from_str_radix(random, 16).ok()?,
    })
}

fn shown((spot, entry): (Spot, Entry)) -> AuditEntry {
    let some = |text: String| (!text.is_empty()).then_some(text);
    let outcome = match (entry.status, entry.code.as_str()) {
        (None, _) => "unknown",
        (Some(_), "") => "ok",
        (Some(_), code) => code,
    };
    AuditEntry {
        time: spot.time.into(),
        outcome: outcome.to_owned(),
        who: entry.who,
        key_id: some(entry.key),
        action: entry.action,
        target: entry.target,
        from: some(entry.from),
        status: entry.status,
        more: (entry.more > 0).then_some(entry.more),
    }
}

fn foreign() -> Error {
    let detail = "is not a token of this service: send `next_page_token` as it was";
    Error::field(Code::InvalidRequest, "?page_token", detail)
}

/// The query of a list.
#[derive(Debug)]
struct Asked {
    from: Option<Millis>,
    to: Option<Millis>,
    size: usize,
    token: Option<String>,
}

impl Asked {
    fn read(uri: &Uri, known: &[&str]) -> Result<Self, Error> {
        let pairs = Query::<Vec<(String, String)>>::try_from_uri(uri)
            .map_err(|error| Error::new(Code::InvalidRequest, error.body_text()))?;
        let mut asked = Self {
            from: None,
            to: None,
            size: LIST_TASKS_DEFAULT,
            token: None,
        };
        let mut violations = Violations::default();
        for (name, value) in pairs.0 {
            let pointer = format!("?{}", shorten(&name));
            if !known.contains(&name.as_str()) {
                violations.add(pointer, unknown("query parameter", &name, known));
                continue;
            }
            match name.as_str() {
                "from" => {
                    asked.from = violations.take(&pointer, time::instant(&InstantText(value)))
                }
                "to" => asked.to = violations.take(&pointer, time::instant(&InstantText(value))),
                "page_size" => {
                    asked.size = violations
                        .take(&pointer, page_size(&value))
                        .unwrap_or(asked.size);
                }
                _ => asked.token = (!value.is_empty()).then_some(value),
            }
        }
        violations.finish().map(|()| asked)
    }
}
