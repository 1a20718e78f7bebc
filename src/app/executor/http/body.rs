//! The body of a delivery is the payload of its task, or for a follow-up that has one, the payload and the result before it.
//!
//! The result of the task before a follow-up is its payload where it has none ([`crate::model::chain_task`]). One of a callback
//! may have both: its client cannot know whether workers take it or the service delivers it.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::{
    api::previous::{Parts, PreviousResponse},
    worker::{Job, Previous, Raw},
};

/// The media type of a body with both, and of most others.
const JSON: &str = "application/json";

/// A body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Body {
    /// Its bytes.
    pub(super) bytes: Bytes,
    /// Their media type.
    pub(super) content_type: String,
    /// The id of the task before, if the body has its result.
    pub(super) previous: Option<String>,
}

/// A payload with the task before.
#[derive(Debug, Serialize)]
struct Both<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<&'a str>,
    previous: PreviousResponse,
}

impl Body {
    /// Returns the body of the delivery of a task.
    ///
    /// # Errors
    /// A text, when it cannot be written.
    pub(super) fn of(job: &Job<Raw>) -> Result<Self, String> {
        let plain = || Self {
            bytes: job.payload.0.clone(),
            content_type: job.content_type.clone(),
            previous: None,
        };
        let goes_along =
            |previous: &&Previous| previous.result.is_some() || previous.error.is_some();
        let previous = job.previous.as_ref().filter(goes_along);
        let Some(previous) = previous.filter(|_| !job.payload.0.is_empty()) else {
            return Ok(plain());
        };
        let payload = json_of(&job.payload.0, &job.content_type);
        let both = Both {
            payload_base64: payload.is_none().then(|| STANDARD.encode(&job.payload.0)),
            content_type: payload.is_none().then_some(&*job.content_type),
            payload,
            previous: response(previous),
        };
        let bytes = serde_json::to_vec(&both);
        Ok(Self {
            bytes: bytes.map_err(|error| error.to_string())?.into(),
            content_type: JSON.to_owned(),
            previous: Some(previous.id.to_string()),
        })
    }
}

/// Reads bytes of this media type as they are, if they are JSON.
fn json_of<'a>(bytes: &'a Bytes, content_type: &str) -> Option<&'a RawValue> {
    let is_json = content_type.is_empty() || content_type.starts_with(JSON);
    serde_json::from_slice(bytes).ok().filter(|_| is_json)
}

/// Writes the task before as polls show it.
fn response(previous: &Previous) -> PreviousResponse {
    let content_type = &previous.result_content_type;
    let mut response = PreviousResponse::new(Parts {
        id: previous.id.to_string(),
        state: previous.state,
        tree_state: previous.tree_state,
        error: previous.error.clone(),
    });
    response.result_content_type = (!content_type.is_empty()).then(|| content_type.clone());
    if let Some(bytes) = &previous.result {
        response.result = json_of(bytes, content_type).map(ToOwned::to_owned);
        if response.result.is_none() {
            response.result_base64 = Some(STANDARD.encode(bytes));
        }
    }
    response
}
