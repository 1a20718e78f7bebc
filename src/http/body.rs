//! Reads the body of a request: bounded in size, time and slowness, alone and together with others, announced as JSON, UTF-8.

use std::ops::Deref;

use axum::{
    body::Body,
    extract::Request,
    http::{HeaderMap, header},
};
use futures_util::StreamExt;

use super::{
    Api,
    admission::{self, Caller, Share},
    dto::{is_json, json},
    error::{Code, Error},
};
use crate::{
    limits::{HTTP_BODY_STEP, HTTP_BODY_STEP_BYTES, HTTP_BODY_WAIT_MAX},
    time_source::TimeSource,
};

/// A body, and its share of what may be held at once.
#[derive(Debug)]
pub(super) struct Text {
    text: String,
    #[allow(dead_code, reason = "held, not read")]
    share: Share,
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

/// Reads a body that must be JSON, as text. It holds its share of what may be held at once: drop it once it is read.
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
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Nothing {}

    let (parts, body) = request.into_parts();
    let share = api.admission.body(Caller::Client);
    let text = collect(api, &parts.headers, body, bytes_max, share).await?;
    if text.is_empty() {
        return Ok(());
    }
    check_media_type(&parts.headers)?;
    json::read(&text).map(|Nothing {}| ())
}

/// Refuses a request that cannot be let in, in turn.
pub(super) async fn refuse(api: &Api, request: Request, bytes_max: usize, refused: Error) -> Error {
    discard(api, request, bytes_max).await;
    api.admission.refusal().await;
    refused
}

/// Reads a body and keeps nothing of it, for an answer that does not depend on it: who is still sending when the connection
/// is closed may never see the answer.
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
    // Whoever is slower than that is cut off.
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
    let time = &api.options.time;
    let reading = read_whole(body, bytes_max, &mut share, time);
    let bytes = time
        .within(HTTP_BODY_WAIT_MAX, reading)
        .await
        .ok_or_else(|| {
            let limit = HTTP_BODY_WAIT_MAX.as_secs();
            too_slow(format!("the body did not arrive within {limit} s"))
        })??;
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
    let (mut step_end, mut at_step) = (time.moment().after(HTTP_BODY_STEP), 0);
    loop {
        let left = step_end.since(time.moment());
        let chunk = match time.within(left, stream.next()).await {
            Some(None) => return Ok(bytes),
            Some(Some(chunk)) => chunk.map_err(|error| {
                Error::new(Code::InvalidRequest, format!("the body broke off: {error}"))
            })?,
            None if bytes.len() - at_step < HTTP_BODY_STEP_BYTES => {
                return Err(too_slow(format!(
                    "the body brought less than {} KiB within {} s",
                    HTTP_BODY_STEP_BYTES / 1024,
                    HTTP_BODY_STEP.as_secs()
                )));
            }
            None => {
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

fn too_large(bytes_max: usize) -> Error {
    let detail = format!("the body is larger than {bytes_max} bytes, the limit of this call");
    Error::new(Code::TooLarge, detail)
}

fn too_slow(detail: String) -> Error {
    Error::new(Code::RequestTimeout, detail)
}
