//! The key handlers make, list and revoke API keys for administrators, show the audit, and tell callers who they are.

use std::time::Duration;

use axum::{
    extract::State,
    http::{StatusCode, Uri, header},
    response::{IntoResponse, Response},
};

use crate::{
    api::{
        api_key::{
            ApiKeyRequest, ApiKeyResponse, AuditEntry, ListApiKeysResponse, ListAuditResponse,
            WhoAmIResponse,
        },
        problem::Problem,
        text::InstantText,
        time,
    },
    flow::base::records::key_changes::{Created, Revoked},
    http::{
        Api,
        access::{ANONYMOUS, Caller},
        answer,
        convert::api_key::{key_response, rate_response, role_response, wish},
        error::{Code, Error},
        extract::{
            FOREIGN_TOKEN, FromQuery, Json, Named, NoBody, NoIdempotencyKey, NoIfMatch, Params,
            TextPath, each, page_size, put,
        },
    },
    limits::{
        API_KEYS_MAX, AUDIT_PAGE_MAX, AUDIT_SPAN_DEFAULT, LIST_TASKS_DEFAULT, LIST_TASKS_MAX,
        RECORDS_PAGE_MAX,
    },
    model::{
        access::{ApiKey, KeyId, KeyText, Role},
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
    _: NoIfMatch,
    _: NoIdempotencyKey,
    Json(asked): Json<ApiKeyRequest>,
) -> Result<Response, Error> {
    let wish = wish(asked, api.options.time.now())?;
    match api.service.api_keys().create(wish).await? {
        Created::Made(text, key) => Ok(made(&text, &key)),
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

/// Answers with a key that was made.
fn made(text: &KeyText, key: &ApiKey) -> Response {
    tracing::info!(key = %text.id, name = key.name, role = key.role.name(), "an API key was made");
    let location = [
        (header::LOCATION, format!("/v1/api-keys/{}", text.id)),
        (header::CACHE_CONTROL, "no-store".to_owned()),
    ];
    let response = ApiKeyResponse {
        key: Some(text.reveal()),
        ..key_response(text.id, key)
    };
    (StatusCode::CREATED, location, answer::json(&response)).into_response()
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
pub(in crate::http) async fn list(
    State(api): State<Api>,
    Params(KeysQuery(page)): Params<KeysQuery>,
) -> Result<Response, Error> {
    let token = page.token.as_deref();
    let after = token.map(|token| KeyId::read(token).ok_or_else(foreign));
    let (after, size) = (after.transpose()?, page.size.min(RECORDS_PAGE_MAX));
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
    Named(text): Named<TextPath>,
    _: NoIfMatch,
    _: NoBody,
) -> Result<Response, Error> {
    let absent = || Error::new(Code::ApiKeyNotFound, "there is no API key of this id");
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
pub(in crate::http) async fn whoami(caller: Caller) -> Response {
    let who = caller.key();
    answer::json(&who.map_or_else(anonymous, |(id, key)| holder(id, key)))
}

/// Shows a caller of a service without keys.
fn anonymous() -> WhoAmIResponse {
    WhoAmIResponse {
        keys_required: false,
        id: None,
        name: ANONYMOUS.to_owned(),
        role: role_response(Role::Admin),
        callbacks: None,
        payloads: true,
        rate: None,
        expire_time: None,
    }
}

/// Shows the holder of a key.
fn holder(id: KeyId, key: &ApiKey) -> WhoAmIResponse {
    let shown = key_response(id, key);
    WhoAmIResponse {
        keys_required: true,
        id: Some(shown.id),
        name: shown.name,
        role: shown.role,
        callbacks: shown.callbacks,
        payloads: shown.payloads,
        rate: key.rate.map(rate_response),
        expire_time: shown.expire_time,
    }
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
pub(in crate::http) async fn audit(
    State(api): State<Api>,
    Params(query): Params<AuditQuery>,
) -> Result<Response, Error> {
    let span = query.span(api.options.time.now())?;
    let token = query.page.token.as_deref();
    let after = token.map(|token| spot(token).ok_or_else(foreign));
    let (after, size) = (after.transpose()?, query.page.size.min(AUDIT_PAGE_MAX));
    let (found, next) = api.service.audit().list(span, after, size).await?;
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
    Error::field(Code::InvalidRequest, "?page_token", FOREIGN_TOKEN)
}

/// The page of a list.
#[derive(Debug)]
struct AskedPage {
    size: usize,
    token: Option<String>,
}

impl AskedPage {
    const FIRST: Self = Self {
        size: LIST_TASKS_DEFAULT,
        token: None,
    };

    fn set(&mut self, name: &str, value: String) -> Option<Result<(), String>> {
        match name {
            "page_size" => Some(put(&mut self.size, page_size(&value, LIST_TASKS_MAX))),
            "page_token" => {
                let token = (!value.is_empty()).then_some(value);
                Some(put(&mut self.token, Ok(token)))
            }
            _ => None,
        }
    }
}

/// The query of the list of keys.
#[derive(Debug)]
pub(in crate::http) struct KeysQuery(AskedPage);

impl FromQuery for KeysQuery {
    fn read(uri: &Uri, _: &Api) -> Result<Self, Error> {
        let mut page = AskedPage::FIRST;
        let known = ["page_size", "page_token"];
        let violations = each(uri, &known, |name, value| page.set(name, value))?;
        violations.finish().map(|()| Self(page))
    }
}

/// The query of the audit.
#[derive(Debug)]
pub(in crate::http) struct AuditQuery {
    from: Option<Millis>,
    to: Option<Millis>,
    page: AskedPage,
}

impl AuditQuery {
    /// Returns the span that is asked for.
    fn span(&self, now: Millis) -> Result<(Millis, Millis), Error> {
        let to = self
            .to
            .unwrap_or_else(|| now.after(Duration::from_millis(100)));
        let from = self.from.unwrap_or_else(|| to.before(AUDIT_SPAN_DEFAULT));
        if from > to {
            let detail = "is after `to`: the span would be empty";
            return Err(Error::field(Code::InvalidRequest, "?from", detail));
        }
        Ok((from, to))
    }
}

impl FromQuery for AuditQuery {
    fn read(uri: &Uri, _: &Api) -> Result<Self, Error> {
        let (mut from, mut to, mut page) = (None, None, AskedPage::FIRST);
        let known = ["from", "to", "page_size", "page_token"];
        let violations = each(uri, &known, |name, value| match name {
            "from" => Some(put(&mut from, time::instant(&InstantText(value)))),
            "to" => Some(put(&mut to, time::instant(&InstantText(value)))),
            _ => page.set(name, value),
        })?;
        violations.finish().map(|()| Self { from, to, page })
    }
}
