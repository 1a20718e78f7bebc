//! The body reader takes the body of a request for the handlers and bounds its size, its time and its memory.
//!
//! A body must be announced as JSON and be UTF-8. It may not be too large or too slow, alone or together with
//! others.

use std::{future::poll_fn, ops::Deref, task::Poll};

use axum::{
    body::{Body, BodyDataStream, Bytes},
    extract::Request,
    http::{HeaderMap, header},
};
use futures_util::StreamExt;

use super::{
    Api,
    convert::{is_json, json},
    error::{Code, Error},
    limit::admission::{self, Caller, Share},
};
use crate::{
    limits::{HTTP_BODY_STEP, HTTP_BODY_STEP_BYTES, HTTP_BODY_WAIT_MAX},
    time_source::TimeSource,
};

/// A body, and its share of the memory for bodies.
#[derive(Debug)]
pub(super) struct Text {
    text: String,
    share: Share,
}

impl Text {
    /// Drops the text, and keeps its share for what was read from it.
    pub(super) fn into_share(self) -> Share {
        self.share
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

/// Reads a body that must be JSON, as text. It holds its share of the memory for bodies: drop it once it is
/// read.
///
/// # Errors
/// 408, 413, 415 or 429, or that it is not UTF-8.
pub(super) async fn read_text(
    api: &Api,
    request: Request,
    bytes_max: usize,
) -> Result<Text, Error> {
    let share = api.admission.body(Caller::Client);
    read_for(api, request, bytes_max, share).await
}

/// The same for a call of a worker, for which a part of the room is kept.
///
/// # Errors
/// As [`read_text`].
pub(super) async fn read_worker_text(
    api: &Api,
    request: Request,
    bytes_max: usize,
) -> Result<Text, Error> {
    let share = api.admission.body(Caller::Worker);
    read_for(api, request, bytes_max, share).await
}

async fn read_for(
    api: &Api,
    request: Request,
    bytes_max: usize,
    share: Share,
) -> Result<Text, Error> {
    let (parts, body) = request.into_parts();
    check_media_type(&parts.headers)?;
    collect(api, &parts.headers, body, bytes_max, share).await
}

/// Makes sure that the body of a call that needs none is empty, or an empty JSON object.
///
/// # Errors
/// As [`read_text`], or that there is something in it.
pub(super) async fn read_nothing(
    api: &Api,
    request: Request,
    bytes_max: usize,
) -> Result<(), Error> {
    #[derive(serde::Deserialize, Default)]
    #[serde(deny_unknown_fields)]
    struct Nothing {}

    read_or_default(api, request, bytes_max)
        .await
        .map(|Nothing {}| ())
}

/// Reads a body that may be left out.
///
/// # Errors
/// As [`read_text`], or that it is not what it should be.
pub(super) async fn read_or_default<T: serde::de::DeserializeOwned + Default>(
    api: &Api,
    request: Request,
    bytes_max: usize,
) -> Result<T, Error> {
    let (parts, body) = request.into_parts();
    let share = api.admission.body(Caller::Client);
    let text = collect(api, &parts.headers, body, bytes_max, share).await?;
    if text.is_empty() {
        return Ok(T::default());
    }
    check_media_type(&parts.headers)?;
    json::read(&text)
}

/// Refuses a request that cannot be let in, in turn.
pub(super) async fn refuse(api: &Api, request: Request, bytes_max: usize, refused: Error) -> Error {
    discard(api, request, bytes_max).await;
    api.admission.refusal().await;
    refused
}

/// Reads a body and keeps nothing of it, for an answer that does not depend on it. A client that is still
/// sending when the connection is closed may never see the answer.
async fn discard(api: &Api, request: Request, bytes_max: usize) {
    let mut left = bytes_max;
    let mut stream = request.into_body().into_data_stream();
    let reading = async {
        while let Some(Ok(chunk)) = stream.next().await
            && chunk.len() <= left
        {
            left -= chunk.len();
        }
    };
    // A client that is slower than that is cut off.
    let time = &api.options.time;
    time.within(HTTP_BODY_WAIT_MAX, reading).await;
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

async fn collect(
    api: &Api,
    headers: &HeaderMap,
    body: Body,
    bytes_max: usize,
    mut share: Share,
) -> Result<Text, Error> {
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
    Ok(Text { text, share })
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
