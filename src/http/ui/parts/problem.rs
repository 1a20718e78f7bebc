//! The page of a problem says why there is no other page, or why nothing was done.

use askama::Template;

use super::{frame::Frame, text::visible};
use crate::http::ui::gate::Failure;

#[derive(Template)]
#[template(path = "problem.html", config = "src/http/ui/askama.toml")]
struct Page<'a> {
    frame: &'a Frame,
    status: u16,
    title: &'a str,
    detail: String,
    fields: Vec<(String, String)>,
}

/// Writes the page.
pub(in crate::http::ui) fn page(frame: &Frame, failure: &Failure) -> Result<String, askama::Error> {
    let fields = failure.errors.iter();
    Page {
        frame,
        status: failure.status.as_u16(),
        title: &failure.title,
        detail: visible(&failure.detail),
        fields: fields
            .map(|error| (visible(&error.pointer), visible(&error.detail)))
            .collect(),
    }
    .render()
}
