//! The key conversion checks requests for API keys, and shows keys, for the handlers.

use super::{Violations, any_callback, checked_name};
use crate::{
    api::{
        api_key::{ApiKeyRequest, ApiKeyResponse, ApiRole},
        callback::RateLimit,
        time,
    },
    flow::base::records::key_changes::Wish,
    http::error::Error,
    limits::API_KEY_CALLBACKS_MAX,
    model::{
        access::{ApiKey, KeyId, Role},
        limit::{RATE_MAX, RATE_MIN, Rate},
        time::Millis,
    },
};

/// Reads a request for a key.
///
/// # Errors
/// All mistakes of the request.
pub fn wish(request: ApiKeyRequest, now: Millis) -> Result<Wish, Error> {
    let mut violations = Violations::default();
    let wrong = &mut violations;
    let name = wrong.take("/name", checked_name(request.name));
    let role = role(request.role);
    if request.callbacks.as_ref().is_some_and(Vec::is_empty) {
        let detail = "names no callback: leave it out for a key of all callbacks";
        wrong.add("/callbacks", detail);
    }
    let callbacks = request.callbacks.unwrap_or_default();
    if callbacks.len() > API_KEY_CALLBACKS_MAX {
        let detail = format!("has more than {API_KEY_CALLBACKS_MAX} items");
        wrong.add("/callbacks", detail);
    }
    if role == Role::Admin && !callbacks.is_empty() {
        let detail = "an admin is not limited to callbacks: leave it out, or choose another role";
        wrong.add("/callbacks", detail);
    }
    let callbacks = callbacks
        .into_iter()
        .take(API_KEY_CALLBACKS_MAX)
        .enumerate();
    let callbacks = callbacks
        .filter_map(|(index, text)| wrong.take(&format!("/callbacks/{index}"), any_callback(text)));
    let callbacks = callbacks.collect();
    let expires = request.expire_time.as_ref();
    let expires = expires.and_then(|text| wrong.take("/expire_time", time::instant(text)));
    if expires.is_some_and(|expires| expires <= now) {
        wrong.add("/expire_time", "has passed: give a later time");
    }
    let rate = request.rate.and_then(|RateLimit { per_second, burst }| {
        let rate = Rate::new(per_second, burst);
        if rate.is_none() {
            let detail = format!(
                "`per_second` must be from {RATE_MIN} to {RATE_MAX}, and `burst` at least the calls of a tenth of a second"
            );
            wrong.add("/rate", detail);
        }
        rate
    });
    violations.finish()?;
    Ok(Wish {
        name: name.unwrap_or_default(),
        role,
        callbacks,
        payloads: request.payloads.unwrap_or(false),
        rate,
        expires,
    })
}

/// Shows a key, without its secret.
#[must_use]
pub fn key_response(id: KeyId, key: &ApiKey) -> ApiKeyResponse {
    let callbacks = &key.callbacks;
    ApiKeyResponse {
        id: id.to_string(),
        name: key.name.clone(),
        role: role_response(key.role),
        callbacks: (!callbacks.is_empty()).then(|| callbacks.iter().cloned().collect()),
        payloads: key.sees_payloads(),
        rate: key.rate.map(rate_response),
        create_time: key.created.into(),
        expire_time: key.expires.map(Into::into),
        key: None,
    }
}

pub(in crate::http) fn rate_response(rate: Rate) -> RateLimit {
    RateLimit {
        per_second: rate.per_second(),
        burst: Some(rate.burst()),
    }
}

const fn role(role: ApiRole) -> Role {
    match role {
        ApiRole::Viewer => Role::Viewer,
        ApiRole::Producer => Role::Producer,
        ApiRole::Worker => Role::Worker,
        ApiRole::Operator => Role::Operator,
        ApiRole::Admin => Role::Admin,
    }
}

pub(in crate::http) const fn role_response(role: Role) -> ApiRole {
    match role {
        Role::Viewer => ApiRole::Viewer,
        Role::Producer => ApiRole::Producer,
        Role::Worker => ApiRole::Worker,
        Role::Operator => ApiRole::Operator,
        Role::Admin => ApiRole::Admin,
    }
}
