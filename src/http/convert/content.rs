//! This conversion reads and writes payloads for requests and answers: JSON as JSON, everything else as
//! base64.
//!
//! The bytes are always the same.

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use serde_json::value::RawValue;

use super::{json, violations::Violations};
use crate::limits::CONTENT_TYPE_CHARS_MAX;

/// Media type of `payload`.
pub(super) const JSON: &str = "application/json";

/// Media type of a `payload_base64` without a `content_type`.
pub(super) const BYTES: &str = "application/octet-stream";

/// The three fields of a payload.
#[derive(Debug, Clone, Default)]
pub(super) struct Parts {
    /// A JSON value.
    pub(super) payload: Option<Box<RawValue>>,
    /// Or bytes.
    pub(super) payload_base64: Option<String>,
    /// Their media type.
    pub(super) content_type: Option<String>,
}

/// A payload and its media type.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Payload {
    /// Its bytes.
    pub(super) bytes: Bytes,
    /// Its media type.
    pub(super) content_type: String,
}

/// Reads the payload of a request.
pub(super) fn read(parts: Parts, violations: &mut Violations) -> Payload {
    let Parts {
        payload,
        payload_base64,
        content_type,
    } = parts;
    violations.exclusive(
        ("payload", payload.is_some()),
        ("payload_base64", payload_base64.is_some()),
    );
    let content_type =
        content_type.and_then(|text| violations.take("/content_type", media_type(text)));
    if payload.is_some() && content_type.as_deref().is_some_and(|text| !is_json(text)) {
        violations.add(
            "/content_type",
            "`payload` is JSON; send other media types as `payload_base64`",
        );
    }
    let (bytes, default) = match (payload, payload_base64) {
        (Some(json), _) => (violations.take("/payload", json::readable(&json)), JSON),
        (None, Some(text)) => (violations.take("/payload_base64", base64(&text)), BYTES),
        (None, None) => (None, JSON),
    };
    Payload {
        bytes: bytes.unwrap_or_default(),
        content_type: content_type.unwrap_or_else(|| default.to_owned()),
    }
}

/// Writes the payload of an answer; an empty one is no payload.
pub(super) fn write(bytes: &Bytes, content_type: &str) -> Parts {
    if bytes.is_empty() {
        return Parts::default();
    }
    let payload = is_json(content_type).then(|| raw(bytes)).flatten();
    Parts {
        payload_base64: payload.is_none().then(|| STANDARD.encode(bytes)),
        payload,
        content_type: Some(content_type.to_owned()),
    }
}

/// Returns bytes as a JSON value, byte for byte, when they are one that every parser can read.
pub(super) fn raw(bytes: &Bytes) -> Option<Box<RawValue>> {
    let value: Box<RawValue> = serde_json::from_slice(bytes).ok()?;
    // White space around a value is not part of it.
    let exact = value.get().len() == bytes.len();
    (exact && json::readable(&value).is_ok()).then_some(value)
}

/// Reads base64 in its standard alphabet, with padding.
pub(super) fn base64(text: &str) -> Result<Bytes, String> {
    STANDARD
        .decode(text)
        .map(Bytes::from)
        .map_err(|error| format!("not base64 (standard alphabet, with padding): {error}"))
}

/// Writes bytes as base64.
pub(super) fn to_base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Tells whether a media type is JSON.
pub(in crate::http) fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    let essence = essence.to_ascii_lowercase();
    essence == JSON || (essence.contains('/') && essence.ends_with("+json"))
}

/// Checks a media type.
pub(crate) fn media_type(text: String) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_graphic() || c == ' ';
    if text.len() > CONTENT_TYPE_CHARS_MAX {
        Err(format!("longer than {CONTENT_TYPE_CHARS_MAX} characters"))
    } else if !text.contains('/') || !text.chars().all(fits) {
        Err("must be a media type, such as \"application/protobuf\"".to_owned())
    } else {
        Ok(text)
    }
}
