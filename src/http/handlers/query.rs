//! The reading of query parameters has for the handlers the texts that they share.

use axum::{
    extract::{Path, rejection::PathRejection},
    http::Uri,
};

use crate::{
    api::text::shorten,
    http::error::{Code, Error},
    model::ids::TaskId,
};

/// Returns the text without quotes, since values of a query are not quoted.
pub(super) fn unquoted(detail: &str) -> String {
    detail.replace(" in quotes", "").replace('"', "")
}

/// Refuses a query where a call takes none: its author expects something of it.
pub(super) fn refuse_query(uri: &Uri) -> Result<(), Error> {
    match uri.query().filter(|query| !query.is_empty()) {
        None => Ok(()),
        Some(query) => Err(Error::new(
            Code::InvalidRequest,
            format!("the call takes no parameters; found `{}`", shorten(query)),
        )),
    }
}

/// Reads the id of a task in a path.
pub(super) fn path_id(id: Result<Path<String>, PathRejection>) -> Result<TaskId, Error> {
    task_id(&id.map_or_else(|_| String::new(), |Path(text)| text))
}

/// Reads the id of a task.
pub(super) fn task_id(text: &str) -> Result<TaskId, Error> {
    text.parse()
        .map_err(|error: crate::model::ids::NotATaskId| {
            let detail = format!("`{}`: {error}", shorten(text));
            Error::new(Code::InvalidTaskId, detail)
        })
}
