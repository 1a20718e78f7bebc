//! Errors on the wire: RFC 9457 problem documents.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Media type of a problem document.
pub const PROBLEM_JSON: &str = "application/problem+json";

/// Why a request, or one item of it, was not done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// Where this kind of problem is explained, relative to the service.
    #[serde(rename = "type")]
    #[schema(example = "/problems/invalid_request")]
    pub kind: String,
    /// The kind of problem in words; the same for every occurrence.
    pub title: String,
    /// The status code of the answer; of an item of a batch, the one it would have had alone.
    #[schema(example = 400)]
    pub status: u16,
    /// What was wrong with this request, with the limit that it hit, if any.
    pub detail: String,
    /// The kind of problem for programs; does not change.
    #[schema(example = "invalid_request")]
    pub code: String,
    /// Whether the same request may succeed later.
    pub retryable: bool,
    /// The fields that are wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
    /// Finds the request in logs and traces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
}

/// One field that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FieldError {
    /// Where the field is: a JSON pointer (RFC 6901) into the request, or into the item of a batch.
    #[schema(example = "/retry/max")]
    pub pointer: String,
    /// What is wrong with it.
    pub detail: String,
}
