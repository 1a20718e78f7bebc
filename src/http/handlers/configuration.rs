//! The configuration handlers hand out for administrators what is configured, with all that is needed to configure another
//! service so, and configure a service so.
//!
//! An export has the secrets of callbacks and the hashes of API keys. It is audited as a change is. Schedules have an export of
//! their own, as there may be a million of them. An import that ends early has set some of its items; sent again, it changes
//! nothing about those.

use std::collections::BTreeSet;

use axum::{
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use futures_util::{StreamExt as _, stream};
use serde::Deserialize;

use super::callbacks;
use crate::{
    api::{
        configuration::{
            ConfigurationItem, ExportConfigurationRequest, ExportConfigurationResponse,
            ImportConfigurationRequest, ImportConfigurationResponse, ImportConfigurationResult,
            NamedApiKey, NamedCallback,
        },
        problem::Problem,
        schedule::ImportOutcome,
    },
    flow::base::records::{
        callbacks::Changed,
        key_changes::{Known, Restored},
    },
    http::{
        Api,
        access::Caller,
        answer,
        convert::{
            any_callback,
            callback::{callback_name, policy},
            configuration::{below, gates, key, named_callback, named_key},
            json,
        },
        error::{Code, Error},
        extract::{BatchOfClient, FOREIGN_TOKEN, Json, NoIdempotencyKey, NoIfMatch, Text},
    },
    limits::{API_KEYS_MAX, RECORDS_PAGE_MAX},
    model::access::{ApiKey, KeyId, Role},
};

/// Callbacks of an import that are set at once: each is a conditional write.
const IMPORTS_IN_FLIGHT: usize = 8;

/// The place where a page begins.
#[derive(Debug, PartialEq, Eq)]
enum Begin {
    /// Behind a callback; none is the first.
    Callback(Option<String>),
    /// Behind a key; none is the first.
    Key(Option<KeyId>),
}

impl Begin {
    fn read(token: Option<&str>) -> Option<Self> {
        match token {
            None | Some("") => Some(Self::Callback(None)),
            Some("k") => Some(Self::Key(None)),
            Some(token) => match token.split_at_checked(1)? {
                ("k", id) => Some(Self::Key(Some(KeyId::read(id)?))),
                ("c", name) => {
                    let name = URL_SAFE_NO_PAD.decode(name).ok()?;
                    let name = any_callback(String::from_utf8(name).ok()?).ok()?;
                    Some(Self::Callback(Some(name)))
                }
                _ => None,
            },
        }
    }
}

/// Hands out callbacks with their gates and secrets, then API keys without their texts: what an import takes. Schedules are
/// exported by `GET /v1/schedules:export`.
#[utoipa::path(post, path = "/v1/configuration:export", tag = "access", operation_id = "exportConfiguration",
    request_body = ExportConfigurationRequest,
    responses(
        (status = 200, description = "A page: `items` is what an import takes", body = ExportConfigurationResponse),
        (status = "default", description = "Not read", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn export(
    State(api): State<Api>,
    _: NoIfMatch,
    Json(asked): Json<ExportConfigurationRequest>,
) -> Result<Response, Error> {
    let from = Begin::read(asked.page_token.as_deref())
        .ok_or_else(|| Error::field(Code::InvalidRequest, "/page_token", FOREIGN_TOKEN))?;
    let (items, next_page_token) = match from {
        Begin::Callback(after) => callbacks_page(&api, after.as_deref()).await?,
        Begin::Key(after) => keys_page(&api, after).await?,
    };
    let page = answer::json(&ExportConfigurationResponse {
        items,
        next_page_token,
    });
    Ok(([(header::CACHE_CONTROL, "no-store")], page).into_response())
}

async fn callbacks_page(
    api: &Api,
    after: Option<&str>,
) -> Result<(Vec<ConfigurationItem>, Option<String>), Error> {
    let page = api.service.callbacks().list(after, RECORDS_PAGE_MAX).await;
    let ((page, next), now) = (page?, api.options.time.now());
    let known = page.iter().filter(|(_, callback)| callback.is_known(now));
    let items = known.map(|(name, callback)| {
        ConfigurationItem::Callback(Box::new(named_callback(name, callback, now)))
    });
    let token = next.map(|name| format!("c{}", URL_SAFE_NO_PAD.encode(name)));
    Ok((
        items.collect(),
        Some(token.unwrap_or_else(|| "k".to_owned())),
    ))
}

async fn keys_page(
    api: &Api,
    after: Option<KeyId>,
) -> Result<(Vec<ConfigurationItem>, Option<String>), Error> {
    let keys = api.service.api_keys();
    let (page, next) = keys.list_whole(after, RECORDS_PAGE_MAX).await?;
    let items = page.iter();
    let items = items.map(|(id, key)| ConfigurationItem::ApiKey(named_key(*id, key)));
    Ok((items.collect(), next.map(|id| format!("k{id}"))))
}

/// Sets callbacks and API keys as they were elsewhere. A callback is set as a whole, with its gates. Keys are set behind the
/// callbacks, those of admins first: from the first one on every call needs a key. A key that was revoked here works again.
#[utoipa::path(post, path = "/v1/configuration:import", tag = "access", operation_id = "importConfiguration",
    request_body = ImportConfigurationRequest,
    responses(
        (status = 200, description = "A result for each, in order", body = ImportConfigurationResponse),
        (status = "default", description = "None was set", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn import(
    State(api): State<Api>,
    _: NoIfMatch,
    _: NoIdempotencyKey,
    caller: Caller,
    text: Text<BatchOfClient>,
) -> Result<Response, Error> {
    let call: ImportCall<'_> = text.read()?;
    let items = call.items.0.into_iter().map(json::read_item).collect();
    drop(text);
    let Import {
        keys,
        callbacks,
        mut results,
    } = Import::of(items);
    let who = caller.name();
    let set = stream::iter(callbacks)
        .map(async |(index, named)| (index, callback(&api, named, who).await))
        .buffer_unordered(IMPORTS_IN_FLIGHT);
    let mut set: Vec<(usize, Result<ImportOutcome, Error>)> = set.collect().await;
    set.extend(api_keys(&api, keys, who).await?);
    for (index, outcome) in set {
        if let Some(result) = results.get_mut(index) {
            *result = outcome.into();
        }
    }
    Ok(answer::json(&ImportConfigurationResponse { results }))
}

/// An [`ImportConfigurationRequest`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ImportCall<'a> {
    #[serde(borrow)]
    items: json::Items<'a>,
}

/// The items of an import with their places, and the results of those that cannot be set.
#[derive(Default)]
struct Import {
    keys: Vec<(usize, NamedApiKey)>,
    callbacks: Vec<(usize, NamedCallback)>,
    results: Vec<ImportConfigurationResult>,
}

impl Import {
    fn of(items: Vec<Result<ConfigurationItem, Error>>) -> Self {
        let mut names = BTreeSet::new();
        let mut import = Self::default();
        for (index, item) in items.into_iter().enumerate() {
            let mut result = ImportConfigurationResult::default();
            match item {
                Err(error) => result = Err(error).into(),
                Ok(ConfigurationItem::Callback(callback)) if names.contains(&callback.name) => {
                    let detail = "is named by an item before: name each callback once";
                    let error = Error::field(Code::InvalidRequest, "/callback/name", detail);
                    result = Err(error).into();
                }
                Ok(ConfigurationItem::Callback(callback)) => {
                    names.insert(callback.name.clone());
                    import.callbacks.push((index, *callback));
                }
                Ok(ConfigurationItem::ApiKey(key)) => import.keys.push((index, key)),
            }
            import.results.push(result);
        }
        import
    }
}

/// Sets a callback.
async fn callback(api: &Api, named: NamedCallback, who: &str) -> Result<ImportOutcome, Error> {
    let at = below("/callback");
    let name = callback_name(named.name).map_err(&at)?;
    let set = named.configuration.as_ref();
    let set = set.map(|set| policy(set, api.options.has_kafka, &api.own_topics));
    let policy = set.transpose().map_err(below("/callback/configuration"))?;
    let gates = named.gates.map(|set| gates(set, api.options.time.now()));
    let gates = gates.transpose().map_err(&at)?;
    let callbacks = api.service.callbacks();
    let changed = callbacks.restore(&name, policy, gates.as_deref()).await?;
    let outcome = match changed {
        Changed::Created(_) => ImportOutcome::Created,
        Changed::Replaced(_) => ImportOutcome::Replaced,
        Changed::Same(_) => return Ok(ImportOutcome::Unchanged),
        other => return Err(callbacks::refused(&name, &other)),
    };
    // The audit has the call alone.
    tracing::info!(callback = name, who, "a callback was set by an import");
    Ok(outcome)
}

/// A key of an import, or its mistakes.
type ReadKey = Result<(KeyId, ApiKey), Error>;

/// Sets keys, those of admins that have not expired first, because there must be one before any other.
async fn api_keys(
    api: &Api,
    named: Vec<(usize, NamedApiKey)>,
    who: &str,
) -> Result<Vec<(usize, Result<ImportOutcome, Error>)>, Error> {
    if named.is_empty() {
        return Ok(Vec::new());
    }
    let now = api.options.time.now();
    let read = named
        .into_iter()
        .map(|(index, named)| (index, key(named).map_err(below("/api_key"))));
    let mut keys: Vec<(usize, ReadKey)> = read.collect();
    keys.sort_by_key(|(_, read)| {
        let key = read.as_ref().ok().map(|(_, key)| key);
        key.is_none_or(|key| key.role != Role::Admin || key.has_expired(now))
    });
    let mut known = Known::default();
    let mut outcomes = Vec::with_capacity(keys.len());
    for (index, read) in keys {
        let outcome = match read {
            Ok((id, key)) => api_key(api, &mut known, (id, &key), who).await,
            Err(error) => Err(error),
        };
        outcomes.push((index, outcome));
    }
    Ok(outcomes)
}

/// Sets a key.
async fn api_key(
    api: &Api,
    known: &mut Known,
    (id, key): (KeyId, &ApiKey),
    who: &str,
) -> Result<ImportOutcome, Error> {
    let restored = api.service.api_keys().restore(known, id, key).await?;
    let outcome = match restored {
        Restored::Created => ImportOutcome::Created,
        Restored::Replaced => ImportOutcome::Replaced,
        Restored::Same => return Ok(ImportOutcome::Unchanged),
        Restored::NoAdmin => {
            return Err(Error::new(
                Code::AdminKeyNeeded,
                "no key of an admin that has not expired would be left: set one of an admin first",
            ));
        }
        Restored::TooMany => {
            let detail = format!("there are {API_KEYS_MAX} keys already: revoke some");
            return Err(Error::new(Code::TooManyApiKeys, detail));
        }
    };
    let (name, role) = (&key.name, key.role.name());
    tracing::info!(key = %id, name, role, who, "an API key was set by an import");
    Ok(outcome)
}

impl From<Result<ImportOutcome, Error>> for ImportConfigurationResult {
    fn from(result: Result<ImportOutcome, Error>) -> Self {
        let (outcome, error) = match result {
            Ok(outcome) => (Some(outcome), None),
            Err(error) => (None, Some(error.problem_of_item())),
        };
        Self { outcome, error }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_says_where_a_page_begins() {
        assert_eq!(Begin::read(None), Some(Begin::Callback(None)));
        assert_eq!(Begin::read(Some("")), Some(Begin::Callback(None)));
        assert_eq!(Begin::read(Some("k")), Some(Begin::Key(None)));
        let id = KeyId(0x1234);
        let token = format!("k{id}");
        assert_eq!(Begin::read(Some(&token)), Some(Begin::Key(Some(id))));
        let token = format!("c{}", URL_SAFE_NO_PAD.encode("mail"));
        let mail = Begin::Callback(Some("mail".to_owned()));
        assert_eq!(Begin::read(Some(&token)), Some(mail));
        let token = format!("c{}", URL_SAFE_NO_PAD.encode("http:a.example:80"));
        let host = Begin::Callback(Some("http:a.example:80".to_owned()));
        assert_eq!(Begin::read(Some(&token)), Some(host));
        for foreign in ["x", "é", "k12", "c", "c!", "cLi4"] {
            assert_eq!(Begin::read(Some(foreign)), None, "{foreign}");
        }
    }
}
