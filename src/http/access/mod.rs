//! The access check tells the server for each request who its caller is, and whether the caller may make the call.
//!
//! Without any key every caller may do everything: then the node listens on loopback only, or was told to be open. As soon as
//! there is a key, each call needs one. `/metrics` is answered from the node's copy of the keys however old that is, since it is
//! read most when the store is away; every other call is refused when it cannot be told whether its key still holds.

mod caller;
pub mod given;
mod record;
pub(in crate::http) mod rules;

use std::{collections::HashMap, future::Future, time::Duration};

use axum::{
    RequestExt as _,
    extract::{Query, RawPathParams, Request},
    http::{HeaderValue, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use parking_lot::Mutex;

pub(in crate::http) use caller::{ANONYMOUS, Caller};
use given::{Given, given};
use record::Begun;
pub(in crate::http) use record::Peer;
use rules::{Effect, Rule, Scope};

use super::{
    Api,
    error::{Code, Error},
};
use crate::{
    flow::base::records::api_keys::hash,
    limits::{KEY_LOOK_INTERVAL, KEY_RATES_MAX},
    model::{
        access::{ApiKey, KeyId, Need, Used},
        ids::TaskId,
    },
    time_source::Moment,
};

const KEY_REQUIRED: &str = "the service asks for an API key: send `authorization: Bearer twk_...`; an administrator makes keys \
                            (`tickwheel api-key create`)";
const KEY_UNKNOWN: &str =
    "the API key is not known, or it was revoked: ask an administrator for another one";
const KEY_EXPIRED: &str = "the API key has expired: ask an administrator for another one";

/// The rates of keys as far as they are used at this node.
#[derive(Debug)]
pub(super) struct Rates {
    began: Moment,
    used: Mutex<HashMap<KeyId, Used>>,
}

impl Rates {
    pub(super) fn new(now: Moment) -> Self {
        Self {
            began: now,
            used: Mutex::default(),
        }
    }

    /// Uses one call of a key, or returns how long to wait.
    fn take(&self, id: KeyId, key: &ApiKey, now: Moment) -> Result<(), Duration> {
        let Some(rate) = key.rate else {
            return Ok(());
        };
        let now = now.since(self.began);
        let mut used = self.used.lock();
        if used.len() >= KEY_RATES_MAX && !used.contains_key(&id) {
            used.retain(|_, used| !used.is_paid_back(now));
        }
        used.entry(id).or_default().take(rate, now)
    }
}

/// Answers a request whose host is known: lets it through, or says why not.
pub(super) async fn answer(
    api: &Api,
    route: Option<&str>,
    mut request: Request,
    next: Next,
) -> Response {
    // The answers for unknown paths tell nothing.
    let Some(route) = route else {
        return next.run(request).await;
    };
    let rule = api.rules.of(request.method(), route);
    let given = given(request.headers());
    let caller = match identify(api, rule, given).await {
        Ok(caller) => caller,
        Err(refused) => return challenge(refused),
    };
    // Not audited: it had no effect, and rows of the audit would have no bound.
    if let Err(refused) = take_rate(api, rule, &caller) {
        return refused.into_response();
    }
    let allowed = allow(api, rule, &caller, &mut request).await;
    let is_audited = rule.effect == Effect::Audited;
    let may_be_refused = allowed.is_err() || caller.is_limited();
    let entry = (is_audited || may_be_refused).then(|| Begun::of(rule, &caller, &request));
    let Some(mut entry) = entry else {
        request.extensions_mut().insert(caller);
        return next.run(request).await;
    };
    if is_audited && allowed.is_ok() {
        entry = match entry.begin(api).await {
            Ok(begun) => begun,
            Err(fault) => return Error::from(fault).into_response(),
        };
    }
    let answer = match allowed {
        Ok(()) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(refused) => refused.into_response(),
    };
    entry.ended(&answer).write(api).await;
    answer
}

/// Finds out who the caller is.
async fn identify(api: &Api, rule: &Rule, given: Given) -> Result<Caller, Error> {
    if rule.need == Need::Nothing {
        return Ok(Caller::anonymous());
    }
    let keys = api.service.api_keys();
    let from_copy = rule.need == Need::Monitor && keys.exist_in_copy().is_some();
    if let Given::Key(text) = &given {
        let found = if from_copy {
            keys.find_in_copy(text.id)
        } else {
            keys.find(text.id).await?
        };
        if let Some(key) = found.filter(|key| key.matches(&hash(text))) {
            let now = api.options.time.now();
            return if key.has_expired(now) {
                Err(Error::new(Code::KeyInvalid, KEY_EXPIRED))
            } else {
                Ok(Caller::of_key(text.id, key))
            };
        }
    }
    let are_there = match keys.exist_in_copy() {
        Some(exist) if from_copy => exist,
        _ => keys.exist().await?,
    };
    if !are_there && !api.options.keys_required {
        return Ok(Caller::anonymous());
    }
    Err(match given {
        Given::Nothing => Error::new(Code::KeyRequired, KEY_REQUIRED),
        Given::Other => Error::new(
            Code::KeyInvalid,
            "the `authorization` header holds no API key: send `authorization: Bearer twk_...`, the key as it was shown once",
        ),
        Given::Key(_) => Error::new(Code::KeyInvalid, KEY_UNKNOWN),
    })
}

/// Does the work of a call that may wait for long, as long as its caller may still make it. Work that is given up is dropped.
///
/// # Errors
/// [`Code::KeyInvalid`] or [`Code::KeyRequired`] once the key was revoked or has expired, or once there is a key and the caller
/// has none. Keys are looked at while the work waits, and again before what it returns is handed on.
pub(in crate::http) async fn while_allowed<T>(
    api: &Api,
    caller: &Caller,
    work: impl Future<Output = T>,
) -> Result<T, Error> {
    let mut work = std::pin::pin!(work);
    let keys = api.service.api_keys();
    loop {
        tokio::select! {
            done = &mut work => {
                let (key, exist) = match caller.key() {
                    Some((id, _)) => (keys.find(id).await?, true),
                    None => (None, keys.exist().await?),
                };
                return still_allowed(api, caller, key.as_deref(), exist).map(|()| done);
            }
            // The copy is seconds old at most while the store answers, and costs no read of it.
            () = api.options.time.sleep(KEY_LOOK_INTERVAL) => {
                let key = caller.key().and_then(|(id, _)| keys.find_in_copy(id));
                let exist = keys.exist_in_copy().unwrap_or_default();
                still_allowed(api, caller, key.as_deref(), exist)?;
            }
        }
    }
}

/// Decides whether a caller who was let in may still be answered.
fn still_allowed(
    api: &Api,
    caller: &Caller,
    key: Option<&ApiKey>,
    exist: bool,
) -> Result<(), Error> {
    match (caller.key(), key) {
        (None, _) if exist || api.options.keys_required => {
            Err(Error::new(Code::KeyRequired, KEY_REQUIRED))
        }
        (None, _) => Ok(()),
        (Some(_), None) => Err(Error::new(Code::KeyInvalid, KEY_UNKNOWN)),
        (Some(_), Some(key)) if key.has_expired(api.options.time.now()) => {
            Err(Error::new(Code::KeyInvalid, KEY_EXPIRED))
        }
        (Some(_), Some(_)) => Ok(()),
    }
}

/// Takes the call from the rate of the key. It comes before all other refusals, so that these are bounded, too.
fn take_rate(api: &Api, rule: &Rule, caller: &Caller) -> Result<(), Error> {
    let Some((id, key)) = caller.key() else {
        return Ok(());
    };
    let now = api.options.time.moment();
    if !rule.is_beyond_rates()
        && let Err(wait) = api.rates.take(id, key, now)
    {
        let rate = key.rate.map_or(0.0, |rate| rate.per_second());
        let detail = format!(
            "the key `{}` may make {rate} calls a second at this node; this one had no effect",
            key.name
        );
        return Err(Error {
            retry_after: Some(wait),
            ..Error::new(Code::TooManyRequests, detail)
        });
    }
    Ok(())
}

/// Decides whether the caller may make the call.
async fn allow(
    api: &Api,
    rule: &Rule,
    caller: &Caller,
    request: &mut Request,
) -> Result<(), Error> {
    if let Some((_, key)) = caller.key()
        && !key.role.may(rule.need)
    {
        let (name, role) = (&key.name, key.role.name());
        let able = rule.need.roles();
        return Err(Error::new(
            Code::AccessDenied,
            format!(
                "the key `{name}` is of a {role}, and `{}` needs one of these roles: {able}",
                rule.action
            ),
        ));
    }
    if api.options.read_only && rule.effect != Effect::Reads {
        return Err(Error::new(
            Code::ReadOnly,
            "this node was started with --read-only: it answers reads alone; make the call at another node",
        ));
    }
    let Some((_, key)) = caller.key() else {
        return Ok(());
    };
    if key.callbacks.is_empty() {
        return Ok(());
    }
    in_scope(api, rule, caller, request).await
}

/// Decides whether a call concerns only callbacks that the key covers, as far as that can be seen before its body is read.
async fn in_scope(
    api: &Api,
    rule: &Rule,
    caller: &Caller,
    request: &mut Request,
) -> Result<(), Error> {
    match rule.scope {
        Scope::Free | Scope::Body | Scope::Filtered => Ok(()),
        Scope::Whole => Err(caller.refuse("the call concerns all callbacks")),
        Scope::Callback => caller.allows_callback(&path_parameter(request).await),
        Scope::Task => match path_parameter(request).await.parse::<TaskId>() {
            Ok(id) => caller.allows_tasks(api, [id]).await,
            // The handler says what is wrong with it.
            Err(_) => Ok(()),
        },
        Scope::Job => match path_parameter(request).await.parse() {
            Ok(id) => {
                let job = api.service.jobs().get(id).await?;
                job.map_or(Ok(()), |job| caller.allows_job(&job))
            }
            // There is no such job, as the handler says.
            Err(_) => Ok(()),
        },
        Scope::Schedule => {
            let name = path_parameter(request).await;
            let schedule = api.service.schedules().get(&name).await?;
            schedule.map_or(Ok(()), |schedule| {
                caller.allows_schedule(&schedule.spec.task)
            })
        }
        Scope::Query => {
            let pairs = Query::<Vec<(String, String)>>::try_from_uri(request.uri());
            let pairs = pairs.map_or_else(|_| Vec::new(), |Query(pairs)| pairs);
            let mut named = pairs
                .iter()
                .filter(|(name, _)| name == "callback")
                .peekable();
            if named.peek().is_none() {
                return Err(caller.refuse("name one of them by `?callback=`"));
            }
            named.try_for_each(|(_, callback)| caller.allows_callback(callback))
        }
    }
}

/// Returns the first parameter of the path.
async fn path_parameter(request: &mut Request) -> String {
    let parameters = request.extract_parts::<RawPathParams>().await;
    let first = parameters.as_ref().ok().and_then(|all| all.iter().next());
    first.map_or_else(String::new, |(_, value)| value.to_owned())
}

/// Answers a caller who is not known, and says which credentials it takes.
fn challenge(refused: Error) -> Response {
    let is_unknown = matches!(refused.code, Code::KeyRequired | Code::KeyInvalid);
    let mut answer = refused.into_response();
    if is_unknown {
        let scheme = HeaderValue::from_static("Bearer realm=\"Tickwheel\"");
        answer
            .headers_mut()
            .insert(header::WWW_AUTHENTICATE, scheme);
    }
    answer
}
