//! This conversion writes what is configured as it was set, secrets included, and reads it again at another service.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::{
    api_key::{key_response, wish},
    callback::{configuration, gate_change},
    violations::Violations,
};
use crate::{
    api::{
        api_key::{ApiKeyRequest, ApiKeyResponse},
        callback::{CallbackConfiguration, CallbackRequest, GateRequest},
        configuration::{GateSetting, NamedApiKey, NamedCallback},
        problem::FieldError,
        time,
    },
    flow::base::records::callbacks::GateChange,
    http::error::{Code, Error},
    limits::{GATES_MAX, KEY_CHARS_MAX},
    model::{
        access::{ApiKey, KeyId},
        callback::{Callback, Policy},
        gate::{Gate, GateState},
        http_call::HttpPolicy,
        time::Millis,
    },
};

/// Writes a callback as it was set.
pub(in crate::http) fn named_callback(
    name: &str,
    callback: &Callback,
    now: Millis,
) -> NamedCallback {
    let closed = callback.gates.iter();
    let closed = closed.filter(|gate| gate.state_at(now) != GateState::Open);
    NamedCallback {
        name: name.to_owned(),
        configuration: callback.policy.as_ref().map(request),
        gates: Some(closed.map(gate_setting).collect()),
    }
}

/// Writes a policy as the request that sets it.
fn request(policy: &Policy) -> CallbackRequest {
    let CallbackConfiguration {
        description,
        max_attempts,
        retry,
        claim_timeout,
        heartbeat_timeout,
        attempt_timeout,
        retention,
        dead_retention,
        expire_after,
        priority,
        labels,
        rate,
        max_in_flight,
        indexed_labels,
        notify,
        http,
        dead_letter_topic,
        on_retry,
        list_succeeded,
    } = configuration(policy);
    let secrets = policy.http.as_ref().and_then(secrets);
    let some = |labels: BTreeMap<String, String>| (!labels.is_empty()).then_some(labels);
    CallbackRequest {
        description,
        max_attempts,
        retry,
        claim_timeout,
        heartbeat_timeout,
        attempt_timeout,
        retention,
        dead_retention,
        expire_after,
        priority,
        labels: some(labels),
        rate,
        max_in_flight,
        indexed_labels: (!indexed_labels.is_empty()).then_some(indexed_labels),
        notify,
        http: http.map(|http| crate::api::callback::HttpDefaults { secrets, ..http }),
        dead_letter_topic,
        on_retry,
        list_succeeded,
    }
}

/// The secrets as they were given.
fn secrets(http: &HttpPolicy) -> Option<Vec<String>> {
    let all: Vec<String> = http
        .secrets
        .iter()
        .map(|one| one.text().to_owned())
        .collect();
    (!all.is_empty()).then_some(all)
}

fn gate_setting(gate: &Gate) -> GateSetting {
    let some = |text: &String| (!text.is_empty()).then(|| text.clone());
    GateSetting {
        collection: some(&gate.collection),
        gate: super::callback::gate_state(gate.state),
        reason: some(&gate.reason),
        until: gate.until.map(Into::into),
        who: some(&gate.who),
    }
}

/// Reads gates. Those whose time has passed are left out: they are open.
///
/// # Errors
/// All mistakes of the first gate that has any.
pub(in crate::http) fn gates(
    settings: Vec<GateSetting>,
    now: Millis,
) -> Result<Vec<GateChange>, Error> {
    if settings.len() > GATES_MAX {
        let detail = format!("has more than {GATES_MAX} items");
        return Err(Error::field(Code::InvalidRequest, "/gates", detail));
    }
    let mut changes = Vec::with_capacity(settings.len());
    for (index, setting) in settings.into_iter().enumerate() {
        let at = |pointer: &str| format!("/gates/{index}{pointer}");
        let who = setting.who.unwrap_or_default();
        if who.chars().count() > KEY_CHARS_MAX {
            let detail = format!("has more than {KEY_CHARS_MAX} characters");
            return Err(Error::field(Code::InvalidRequest, at("/who"), detail));
        }
        let until = setting.until.as_ref().map(time::instant);
        if matches!(until, Some(Ok(until)) if until <= now) {
            continue;
        }
        let request = GateRequest {
            gate: setting.gate,
            collection: setting.collection,
            reason: setting.reason,
            until: setting.until,
        };
        changes.push(gate_change(request, &who, now).map_err(below(&at("")))?);
    }
    Ok(changes)
}

/// Places the fields of an error below a member.
pub(in crate::http) fn below(at: &str) -> impl Fn(Error) -> Error {
    move |error| {
        if error.errors.is_empty() {
            return error;
        }
        let fields = error.errors.into_iter().map(|field| FieldError {
            pointer: format!("{at}{}", field.pointer),
            detail: field.detail,
        });
        Error::fields(error.code, fields.collect())
    }
}

/// Writes a key as it was made.
pub(in crate::http) fn named_key(id: KeyId, key: &ApiKey) -> NamedApiKey {
    let ApiKeyResponse {
        id,
        name,
        role,
        callbacks,
        rate,
        create_time,
        expire_time,
        ..
    } = key_response(id, key);
    NamedApiKey {
        id,
        name,
        role,
        callbacks,
        payloads: key.payloads.then_some(true),
        rate,
        create_time,
        expire_time,
        secret_sha256: STANDARD.encode(key.hash),
    }
}

/// Reads a key. One that has expired is a key, too: its end must not open a service.
///
/// # Errors
/// All mistakes of the request.
pub(in crate::http) fn key(named: NamedApiKey) -> Result<(KeyId, ApiKey), Error> {
    let mut violations = Violations::default();
    let wrong = &mut violations;
    let no_id = || "must be the id of a key: 16 digits 0-9 and a-f".to_owned();
    let id = wrong.take("/id", KeyId::read(&named.id).ok_or_else(no_id));
    let created = wrong.take("/create_time", time::instant(&named.create_time));
    let no_hash = || "must be the base64 of 32 bytes".to_owned();
    let hash = STANDARD.decode(&named.secret_sha256).ok();
    let hash = hash.and_then(|bytes| bytes.try_into().ok());
    let hash = wrong.take("/secret_sha256", hash.ok_or_else(no_hash));
    violations.finish()?;
    let asked = ApiKeyRequest {
        name: named.name,
        role: named.role,
        callbacks: named.callbacks,
        expire_time: named.expire_time,
        payloads: named.payloads,
        rate: named.rate,
    };
    // As of its creation: its end may have passed since.
    let created = created.unwrap_or(Millis(0));
    let wish = wish(asked, created)?;
    let key = ApiKey {
        name: wish.name,
        role: wish.role,
        callbacks: wish.callbacks,
        payloads: wish.payloads,
        rate: wish.rate,
        created,
        expires: wish.expires,
        hash: hash.unwrap_or_default(),
    };
    Ok((id.unwrap_or(KeyId(0)), key))
}
