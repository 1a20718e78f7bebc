//! The header extractors give the handlers what the headers of a request ask for, and refuse headers that a call does not offer.

use std::convert::Infallible;

use axum::{
    extract::FromRequestParts,
    http::{HeaderValue, header, request::Parts},
};

use crate::http::{
    Api,
    access::Caller,
    convert::new_task::Context,
    error::Error,
    headers::{self, Condition, Preconditions},
};

/// Makes extractors of the head of a request: how each is read of it, and how that fails.
macro_rules! from_head {
    ($($name:ty: $error:ty = |$parts:pat_param, $api:pat_param| $read:expr;)*) => {$(
        impl FromRequestParts<Api> for $name {
            type Rejection = $error;

            async fn from_request_parts($parts: &mut Parts, $api: &Api) -> Result<Self, $error> {
                $read
            }
        }
    )*};
}

from_head! {
    NoIfMatch: Error = |parts, _| headers::refuse_if_match(&parts.headers).map(|()| Self);
    NoIdempotencyKey: Error =
        |parts, _| headers::refuse_idempotency_key(&parts.headers).map(|()| Self);
    IdempotencyKey: Error = |parts, _| headers::idempotency_key(&parts.headers).map(Self);
    CallerKey: Error = |parts, _| {
        let key = headers::idempotency_key(&parts.headers)?;
        Ok(Self(Caller::of(&parts.extensions).in_space(key)))
    };
    IfMatch: Error = |parts, _| headers::if_match(&parts.headers).map(Self);
    IfNoneMatch: Infallible = |parts, _| {
        let values = parts.headers.get_all(header::IF_NONE_MATCH).iter();
        Ok(Self(values.cloned().collect()))
    };
    Preconditions: Error = |parts, _| headers::preconditions(&parts.headers);
    Caller: Infallible = |parts, _| Ok(Self::of(&parts.extensions));
    RoomToAnswer: Error = |_, api| api.answers.is_open().map(|()| Self);
    Context: Infallible = |parts, api| {
        let trace_parent = headers::trace_parent(&parts.headers);
        Ok(Self {
            trace_parent: trace_parent.map(str::to_owned),
            ..context(api)
        })
    };
}

/// Refuses `If-Match`: the call does not honour it.
#[derive(Debug)]
pub(in crate::http) struct NoIfMatch;

/// Refuses `Idempotency-Key`: the call does not honour it.
#[derive(Debug)]
pub(in crate::http) struct NoIdempotencyKey;

/// The `Idempotency-Key` as it was sent, for calls that may have one in their body, too.
#[derive(Debug)]
pub(in crate::http) struct IdempotencyKey(pub(in crate::http) Option<String>);

/// The `Idempotency-Key` in the space of the caller ([`Caller::in_space`]).
#[derive(Debug)]
pub(in crate::http) struct CallerKey(pub(in crate::http) Option<String>);

/// The condition on a task of `If-Match`, if there is one.
pub(in crate::http) struct IfMatch(pub(in crate::http) Option<Condition>);

/// The values of `If-None-Match`. They are read when there is a tag to compare them with.
#[derive(Debug)]
pub(in crate::http) struct IfNoneMatch(Vec<HeaderValue>);

impl IfNoneMatch {
    /// Tells whether the requester has what this tag names already.
    ///
    /// # Errors
    /// A value is not text.
    pub(in crate::http) fn names(&self, etag: &str) -> Result<bool, Error> {
        headers::if_none_match(&self.0, etag)
    }
}

/// Makes sure that the node has room for another large answer.
#[derive(Debug)]
pub(in crate::http) struct RoomToAnswer;

/// Returns what the conversion of a task needs to know, now and without a trace.
pub(in crate::http) fn context(api: &Api) -> Context {
    Context {
        now: api.options.time.now(),
        content_bytes_max: api.options.content_bytes_max,
        has_kafka: api.options.has_kafka,
        own_topics: api.own_topics.clone(),
        has_mail: api.options.has_mail,
        trace_parent: None,
    }
}
