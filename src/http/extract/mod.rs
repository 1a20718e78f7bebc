//! The extractors read the parts of a request for the handlers, and make the checks that many calls share.
//!
//! A handler names them in the order of its checks. They run from left to right, the first that fails answers the request, and
//! the one that reads the body is the last: a call whose headers are wrong is refused before its body is read.
//!
//! - `gate` lets registrations in, before anything of them is read.
//! - `path`, `query` and `headers` read the head of a request; [`Caller`] says who sent it.
//! - `body` reads its body, as text or as strict JSON.

mod body;
mod gate;
mod headers;
mod path;
mod query;

pub(in crate::http) use body::{
    AnnouncedJson, BatchOfClient, BatchOfWorker, Json, NoBody, OfClient, OptionalJson, Text,
    WorkerJson,
};
pub(in crate::http) use gate::Gated;
pub(in crate::http) use headers::{
    CallerKey, IdempotencyKey, IfMatch, IfNoneMatch, NoIdempotencyKey, NoIfMatch, RoomToAnswer,
    context,
};
pub(in crate::http) use path::{
    CallbackPath, ClientTaskPath, JobPath, Named, SchedulePath, TaskPath, TextPath, task_id,
};
pub(in crate::http) use query::{
    FOREIGN_TOKEN, FromQuery, NoQuery, Params, each, each_once, page_size, put, unquoted, view,
    whole_number,
};

#[cfg(doc)]
use super::access::Caller;
