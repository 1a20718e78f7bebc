//! The page that asks a reader for a key.

use askama::Template;

use super::rows::written;
use crate::http::ui::{gate::Failure, parts::frame::Frame, visit::Head};

#[derive(Template)]
#[template(path = "sign_in.html", config = "src/http/ui/askama.toml")]
struct Page {
    frame: Frame,
    next: String,
    problem: Option<String>,
}

/// Asks for a key; `problem` says what was wrong with the one before.
pub(in crate::http::ui) fn page(
    head: &Head,
    next: String,
    problem: Option<String>,
) -> Result<String, Failure> {
    written(&Page {
        frame: head.frame(None),
        next,
        problem,
    })
}
