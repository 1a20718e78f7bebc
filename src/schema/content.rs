//! The content codec converts contents of tasks to and from bytes for stores and queues.

use bytes::Bytes;
use prost::Message;

use super::{Malformed, chain, v1};
use crate::model::task::Content;

/// Encodes a content.
#[must_use]
pub fn encode_content(content: &Content) -> Bytes {
    to_message(content).encode_to_vec().into()
}

/// Returns how many bytes a content has when it is encoded.
#[must_use]
pub fn content_bytes(content: &Content) -> usize {
    to_message(content).encoded_len()
}

/// Decodes a content.
///
/// # Errors
/// [`Malformed`] when the bytes are not one.
pub fn decode_content(bytes: Bytes) -> Result<Content, Malformed> {
    from_message(v1::Content::decode(bytes)?)
}

pub(super) fn to_message(content: &Content) -> v1::Content {
    let Content {
        payload,
        content_type,
        record_key,
        record_headers,
        labels,
        trace_parent,
        previous,
    } = content;
    v1::Content {
        payload: payload.clone(),
        content_type: content_type.clone(),
        record_key: record_key.clone(),
        record_headers: record_headers
            .iter()
            .map(|(name, value)| v1::Header {
                name: name.clone(),
                value: value.clone(),
            })
            .collect(),
        labels: labels
            .iter()
            .map(|(name, value)| v1::Label {
                name: name.clone(),
                value: value.clone(),
            })
            .collect(),
        trace_parent: trace_parent.clone(),
        previous: previous.as_deref().map(chain::previous_to),
    }
}

/// Reads a content from its message.
///
/// # Errors
/// [`Malformed`] when the task that it follows is not one.
pub(super) fn from_message(message: v1::Content) -> Result<Content, Malformed> {
    let previous = message.previous.map(chain::previous_from).transpose()?;
    Ok(Content {
        payload: message.payload,
        content_type: message.content_type,
        record_key: message.record_key,
        record_headers: message
            .record_headers
            .into_iter()
            .map(|h| (h.name, h.value))
            .collect(),
        labels: message
            .labels
            .into_iter()
            .map(|l| (l.name, l.value))
            .collect(),
        trace_parent: message.trace_parent,
        previous: previous.map(Box::new),
    })
}
