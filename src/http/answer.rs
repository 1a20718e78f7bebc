//! The writers of answers give the handlers their results as JSON.

use axum::{
    http::header,
    response::{IntoResponse, Response},
};
use serde::Serialize;

use super::error::{Code, Error};

/// Writes an answer as JSON.
pub(super) fn json(body: &impl Serialize) -> Response {
    json_text(body).map_or_else(IntoResponse::into_response, json_of)
}

/// Writes the text of an answer.
///
/// # Errors
/// When it cannot be written, which is a bug.
pub(super) fn json_text(body: &impl Serialize) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(body).map_err(|error| {
        let detail = format!("the answer cannot be written as JSON: {error}");
        Error::new(Code::Internal, detail)
    })
}

/// Answers with a text that is JSON.
pub(super) fn json_of(text: Vec<u8>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}
