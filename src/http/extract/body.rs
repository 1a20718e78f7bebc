//! The body extractors take the body of a request for the handlers and bound its size, its time and its memory.
//!
//! A body must be announced as JSON and be UTF-8. It may not be too large or too slow, alone or together with
//! others.

use std::{future::poll_fn, marker::PhantomData, ops::Deref, task::Poll};

use axum::{
    body::{Body, BodyDataStream, Bytes},
    extract::{FromRequest, Request},
    http::{HeaderMap, header},
};
use futures_util::StreamExt as _;
use serde::{Deserialize, de::DeserializeOwned};

use crate::{
    http::{
        Api,
        convert::{is_json, json},
        error::{Code, Error},
        limit::admission::{self, Sender, Share},
    },
    limits::{
        BATCH_REQUEST_BYTES_MAX, HTTP_BODY_STEP, HTTP_BODY_STEP_BYTES, HTTP_BODY_WAIT_MAX,
        REQUEST_BYTES_MAX,
    },
    time_source::TimeSource,
};

/// The kind of a body: who sends it, and how large it may be.
pub(in crate::http) trait BodyKind: Send {
    /// The kind of sender.
    const SENDER: Sender;
    /// Largest body.
    const BYTES_MAX: usize;
}

/// A call of a client.
#[derive(Debug)]
pub(in crate::http) struct OfClient;

impl BodyKind for OfClient {
    const SENDER: Sender = Sender::Client;
    const BYTES_MAX: usize = REQUEST_BYTES_MAX;
}

/// A list of a client.
#[derive(Debug)]
pub(in crate::http) struct BatchOfClient;

impl BodyKind for BatchOfClient {
    const SENDER: Sender = Sender::Client;
    const BYTES_MAX: usize = BATCH_REQUEST_BYTES_MAX;
}

/// A call of a worker, for which a part of the room is kept.
#[derive(Debug)]
pub(in crate::http) struct OfWorker;

impl BodyKind for OfWorker {
    const SENDER: Sender = Sender::Worker;
    const BYTES_MAX: usize = REQUEST_BYTES_MAX;
}

/// A list of a worker.
#[derive(Debug)]
pub(in crate::http) struct BatchOfWorker;

impl BodyKind for BatchOfWorker {
    const SENDER: Sender = Sender::Worker;
    const BYTES_MAX: usize = BATCH_REQUEST_BYTES_MAX;
}

/// The text of a body that must be JSON, and its share of the memory for bodies: drop it once it is read.
#[derive(Debug)]
pub(in crate::http) struct Text<K> {
    text: String,
    share: Share,
    kind: PhantomData<K>,
}

impl<K> Text<K> {
    /// Reads the text as strict JSON.
    ///
    /// # Errors
    /// As [`json::read`].
    pub(in crate::http) fn read<'a, T: Deserialize<'a>>(&'a self) -> Result<T, Error> {
        json::read(&self.text)
    }

    /// Drops the text, and keeps its share for what was read from it.
    pub(in crate::http) fn into_share(self) -> Share {
        self.share
    }
}

impl<K> Deref for Text<K> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

/// Fails with 408, 413, 415 or 429, or says that it is not UTF-8.
impl<K: BodyKind> FromRequest<Api> for Text<K> {
    type Rejection = Error;

    async fn from_request(request: Request, api: &Api) -> Result<Self, Error> {
        let (parts, body) = request.into_parts();
        check_media_type(&parts.headers)?;
        collect(api, &parts.headers, body).await
    }
}

/// A value that a client sends as strict JSON.
#[derive(Debug)]
pub(in crate::http) struct Json<T>(pub(in crate::http) T);

impl<T: DeserializeOwned> FromRequest<Api> for Json<T> {
    type Rejection = Error;

    async fn from_request(request: Request, api: &Api) -> Result<Self, Error> {
        let text = Text::<OfClient>::from_request(request, api).await?;
        text.read().map(Self)
    }
}

/// A value that a worker sends as strict JSON.
#[derive(Debug)]
pub(in crate::http) struct WorkerJson<T>(pub(in crate::http) T);

impl<T: DeserializeOwned> FromRequest<Api> for WorkerJson<T> {
    type Rejection = Error;

    async fn from_request(request: Request, api: &Api) -> Result<Self, Error> {
        let text = Text::<OfWorker>::from_request(request, api).await?;
        text.read().map(Self)
    }
}

/// A value that may be left out: then the body is empty.
#[derive(Debug)]
pub(in crate::http) struct OptionalJson<T>(pub(in crate::http) T);

impl<T: DeserializeOwned + Default> FromRequest<Api> for OptionalJson<T> {
    type Rejection = Error;

    async fn from_request(request: Request, api: &Api) -> Result<Self, Error> {
        let (parts, body) = request.into_parts();
        let text: Text<OfClient> = collect(api, &parts.headers, body).await?;
        if text.is_empty() {
            return Ok(Self(T::default()));
        }
        check_media_type(&parts.headers)?;
        text.read().map(Self)
    }
}

/// A value that may be left out: then no media type announces a body.
#[derive(Debug)]
pub(in crate::http) struct AnnouncedJson<T>(pub(in crate::http) T);

impl<T: DeserializeOwned + Default> FromRequest<Api> for AnnouncedJson<T> {
    type Rejection = Error;

    async fn from_request(request: Request, api: &Api) -> Result<Self, Error> {
        if request.headers().contains_key(header::CONTENT_TYPE) {
            let Json(value) = Json::from_request(request, api).await?;
            return Ok(Self(value));
        }
        let OptionalJson(value) = OptionalJson::from_request(request, api).await?;
        Ok(Self(value))
    }
}

/// Makes sure that the body of a call that needs none is empty, or an empty JSON object.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct NoBody {}

impl FromRequest<Api> for NoBody {
    type Rejection = Error;

    async fn from_request(request: Request, api: &Api) -> Result<Self, Error> {
        let OptionalJson(nothing) = OptionalJson::from_request(request, api).await?;
        Ok(nothing)
    }
}

fn check_media_type(headers: &HeaderMap) -> Result<(), Error> {
    let refuse = |detail: String| Err(Error::new(Code::UnsupportedMediaType, detail));
    if let Some(encoding) = headers.get(header::CONTENT_ENCODING)
        && encoding.as_bytes() != b"identity"
    {
        return refuse(format!(
            "the content encoding is {encoding:?}; send the body uncompressed, without `content-encoding`"
        ));
    }
    let hint = "send `content-type: application/json`";
    match headers.get(header::CONTENT_TYPE) {
        None => refuse(format!("the content type is missing; {hint}")),
        Some(value) if value.to_str().is_ok_and(is_json) => Ok(()),
        Some(value) => refuse(format!("the content type is {value:?}; {hint}")),
    }
}

async fn collect<K: BodyKind>(
    api: &Api,
    headers: &HeaderMap,
    body: Body,
) -> Result<Text<K>, Error> {
    let bytes_max = K::BYTES_MAX;
    let mut share = api.admission.body(K::SENDER);
    let announced = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|bytes| usize::try_from(bytes).map_or(true, |n| n > bytes_max)) {
        return Err(too_large(bytes_max));
    }
    let bytes = read_whole(body, bytes_max, &mut share, &api.options.time).await?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Error::new(
            Code::MalformedJson,
            format!("the body is not UTF-8 at byte {at}"),
        )
    })?;
    let kind = PhantomData;
    Ok(Text { text, share, kind })
}

/// Reads a body to its end while it is not too large, not too slow, and there is room for it.
async fn read_whole(
    body: Body,
    bytes_max: usize,
    share: &mut Share,
    time: &TimeSource,
) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let mut stream = body.into_data_stream();
    let begun = time.moment();
    let end = begun.after(HTTP_BODY_WAIT_MAX);
    let (mut step_end, mut at_step) = (begun.after(HTTP_BODY_STEP), 0);
    loop {
        let chunk = match at_once(&mut stream).await {
            Some(next) => Some(next),
            None => {
                let left = step_end.min(end).since(time.moment());
                time.within(left, stream.next()).await
            }
        };
        let chunk = match chunk {
            Some(None) => return Ok(bytes),
            Some(Some(chunk)) => chunk.map_err(|error| {
                Error::new(Code::InvalidRequest, format!("the body broke off: {error}"))
            })?,
            None => {
                check_speed(bytes.len() - at_step, time.moment() >= end)?;
                (step_end, at_step) = (time.moment().after(HTTP_BODY_STEP), bytes.len());
                continue;
            }
        };
        if bytes.len() + chunk.len() > bytes_max {
            return Err(too_large(bytes_max));
        }
        if !share.grow(chunk.len()) {
            return Err(admission::no_room());
        }
        bytes.extend_from_slice(&chunk);
    }
}

/// Returns the next part of a body if the server has it already, and none if it is still to come.
///
/// A connection hands a part over only after it was asked for it, so this asks twice. Nearly all bodies are
/// whole by then: a timer for each would cost more than to read it. The work of one turn is bounded by the
/// bytes that the connection has read.
async fn at_once(stream: &mut BodyDataStream) -> Option<Option<Result<Bytes, axum::Error>>> {
    let mut asked = false;
    poll_fn(|context| match stream.poll_next_unpin(context) {
        Poll::Ready(next) => Poll::Ready(Some(next)),
        Poll::Pending if asked => Poll::Ready(None),
        Poll::Pending => {
            asked = true;
            context.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await
}

/// Refuses a body that is late as a whole, or brought too little since its last step.
fn check_speed(brought: usize, is_late: bool) -> Result<(), Error> {
    if is_late {
        let limit = HTTP_BODY_WAIT_MAX.as_secs();
        return Err(too_slow(format!(
            "the body did not arrive within {limit} s"
        )));
    }
    if brought < HTTP_BODY_STEP_BYTES {
        return Err(too_slow(format!(
            "the body brought less than {} KiB within {} s",
            HTTP_BODY_STEP_BYTES / 1024,
            HTTP_BODY_STEP.as_secs()
        )));
    }
    Ok(())
}

fn too_large(bytes_max: usize) -> Error {
    let detail = format!("the body is larger than {bytes_max} bytes, the limit of this call");
    Error::new(Code::TooLarge, detail)
}

fn too_slow(detail: String) -> Error {
    Error::new(Code::RequestTimeout, detail)
}
