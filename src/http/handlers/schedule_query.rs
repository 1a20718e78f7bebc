//! The schedule queries read the queries of lists and previews for the schedule handlers.

use axum::{extract::Query, http::Uri};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

use crate::{
    api::{
        text::{InstantText, shorten},
        time,
    },
    http::{
        convert::{Violations, name as checked_name, unknown},
        error::{Code, Error},
    },
    limits::PREVIEW_TIMES_MAX,
    model::time::Millis,
};

/// Longest token of a page: a name or a place, as base64.
const TOKEN_CHARS_MAX: usize = 512;

/// Times of a preview that names no count.
const PREVIEW_TIMES: usize = 10;

/// The query of a list.
pub(super) struct Page {
    pub(super) size: usize,
    pub(super) after: Option<Vec<u8>>,
}

/// The mistake in a token.
pub(super) const FOREIGN: &str = "is not a token of this service: send `next_page_token` as it was";

impl Page {
    pub(super) fn read(uri: &Uri, most: usize, known: &[&str]) -> Result<Self, Error> {
        let (mut page, mut violations) = (
            Self {
                size: most,
                after: None,
            },
            Violations::default(),
        );
        for (name, value) in pairs(uri)? {
            match name.as_str() {
                // A larger number counts as the largest: a client that wants all need not know the limit.
                "page_size" => {
                    let size = violations.take("?page_size", number(&value, usize::MAX, most));
                    page.size = size.map_or(most, |size| size.min(most));
                }
                "page_token" if value.is_empty() => {}
                "page_token" => {
                    let short = value.len() <= TOKEN_CHARS_MAX;
                    let read = short.then(|| URL_SAFE_NO_PAD.decode(&value).ok()).flatten();
                    page.after =
                        violations.take("?page_token", read.ok_or_else(|| FOREIGN.to_owned()));
                }
                _ => violations.add(
                    format!("?{}", shorten(&name)),
                    unknown("query parameter", &name, known),
                ),
            }
        }
        violations.finish().map(|()| page)
    }
}

/// The query of a preview.
pub(super) struct Times {
    pub(super) name: String,
    pub(super) from: Millis,
    pub(super) count: usize,
}

impl Times {
    pub(super) fn read(uri: &Uri, now: Millis) -> Result<Self, Error> {
        let (mut times, mut violations) = (
            Self {
                name: String::new(),
                from: now,
                count: PREVIEW_TIMES,
            },
            Violations::default(),
        );
        let of_one = uri.path().ends_with("/preview");
        for (name, value) in pairs(uri)? {
            match name.as_str() {
                "count" => {
                    let count = violations.take(
                        "?count",
                        number(&value, PREVIEW_TIMES_MAX, PREVIEW_TIMES_MAX),
                    );
                    times.count = count.unwrap_or(PREVIEW_TIMES);
                }
                "from" => {
                    let from = violations.take("?from", time::instant(&InstantText(value)));
                    times.from = from.unwrap_or(now);
                }
                "name" if !of_one => {
                    times.name = violations
                        .take("?name", checked_name(value))
                        .unwrap_or_default();
                }
                _ => {
                    let known: &[&str] = if of_one {
                        &["count", "from"]
                    } else {
                        &["count", "from", "name"]
                    };
                    violations.add(
                        format!("?{}", shorten(&name)),
                        unknown("query parameter", &name, known),
                    );
                }
            }
        }
        violations.finish().map(|()| times)
    }
}

fn pairs(uri: &Uri) -> Result<Vec<(String, String)>, Error> {
    let pairs = Query::<Vec<(String, String)>>::try_from_uri(uri);
    pairs
        .map(|pairs| pairs.0)
        .map_err(|error| Error::new(Code::InvalidRequest, error.body_text()))
}

/// Reads a number from 1 to `most`; people are told that it is at most `told`.
fn number(text: &str, most: usize, told: usize) -> Result<usize, String> {
    let number = text.parse().ok();
    let number = number.filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| {
        let text = shorten(text);
        format!("`{text}` is not a whole number from 1 to {told}")
    })
}
