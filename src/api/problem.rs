//! The problem documents (RFC 9457) describe errors for clients.

use serde::{Deserialize, Serialize};
#[cfg(feature = "server")]
use utoipa::ToSchema;

/// Media type of a problem document.
pub const PROBLEM_JSON: &str = "application/problem+json";

/// Why a request, or one item of it, was not done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct Problem {
    /// Where this kind of problem is explained, relative to the service.
    #[serde(rename = "type")]
    #[cfg_attr(feature = "server", schema(example = "/problems/invalid_request"))]
    pub kind: String,
    /// The kind of problem in words; the same for every occurrence.
    pub title: String,
    /// The status code of the answer. In an item of a batch: the code that the item would have had alone.
    #[cfg_attr(feature = "server", schema(example = 400))]
    pub status: u16,
    /// A description of the mistake in this request, with the limit that it hit, if any.
    pub detail: String,
    /// The kind of problem for programs; it never changes.
    #[cfg_attr(feature = "server", schema(example = "invalid_request"))]
    pub code: String,
    /// Whether the same request may succeed later.
    pub retryable: bool,
    /// The fields that are wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
    /// The task that has the key, with `key_taken`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub existing: Option<String>,
    /// The trace id of the request, to find it in logs and traces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
}

/// One field that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct FieldError {
    /// Where the field is: a JSON pointer (RFC 6901) into the request, or into the item of a batch.
    #[cfg_attr(feature = "server", schema(example = "/retry/max"))]
    pub pointer: String,
    /// A description of the mistake.
    pub detail: String,
}
