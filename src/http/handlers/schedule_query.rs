//! The schedule queries read the queries of lists and previews for the schedule handlers.

use axum::http::Uri;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

use crate::{
    api::{text::InstantText, time},
    http::{
        Api,
        convert::name as checked_name,
        error::{Code, Error},
        extract::{FOREIGN_TOKEN, FromQuery, each, page_size, put, whole_number},
    },
    limits::{PREVIEW_TIMES_MAX, RECORDS_PAGE_MAX, RUNS_PAGE_MAX},
    model::time::Millis,
};

/// Longest token of a page: a name or a place, as base64.
const TOKEN_CHARS_MAX: usize = 512;

/// Times of a preview that names no count.
const PREVIEW_TIMES: usize = 10;

/// The query of the list of schedules.
#[derive(Debug)]
pub(in crate::http) struct SchedulesQuery {
    pub(super) size: usize,
    /// The name behind which the page begins.
    pub(super) after: Option<String>,
}

impl FromQuery for SchedulesQuery {
    fn read(uri: &Uri, _: &Api) -> Result<Self, Error> {
        let (size, place) = page(uri, RECORDS_PAGE_MAX)?;
        let foreign = || Error::field(Code::InvalidRequest, "?page_token", FOREIGN_TOKEN);
        let text = place.map(String::from_utf8).transpose();
        let name = text.map_err(|_| foreign())?.map(checked_name).transpose();
        let after = name.map_err(|_| foreign())?;
        Ok(Self { size, after })
    }
}

/// The query of the list of runs.
#[derive(Debug)]
pub(in crate::http) struct RunsQuery {
    pub(super) size: usize,
    /// The place behind which the page begins.
    pub(super) after: Option<Vec<u8>>,
}

impl FromQuery for RunsQuery {
    fn read(uri: &Uri, _: &Api) -> Result<Self, Error> {
        let (size, after) = page(uri, RUNS_PAGE_MAX)?;
        Ok(Self { size, after })
    }
}

/// Reads the size of a page, which is `most` by default, and its token.
fn page(uri: &Uri, most: usize) -> Result<(usize, Option<Vec<u8>>), Error> {
    let (mut size, mut after): (usize, Option<Vec<u8>>) = (most, None);
    let violations = each(uri, &["page_size", "page_token"], |name, value| {
        Some(match name {
            "page_size" => put(&mut size, page_size(&value, most)),
            "page_token" if value.is_empty() => Ok(()),
            "page_token" => {
                let short = value.len() <= TOKEN_CHARS_MAX;
                let place = short.then(|| URL_SAFE_NO_PAD.decode(&value).ok()).flatten();
                put(&mut after, place.ok_or_else(|| FOREIGN_TOKEN.to_owned()))
            }
            _ => return None,
        })
    })?;
    violations.finish().map(|()| (size, after))
}

/// The query of a preview.
#[derive(Debug)]
pub(in crate::http) struct Times {
    pub(super) name: String,
    pub(super) from: Millis,
    pub(super) count: usize,
}

impl FromQuery for Times {
    fn read(uri: &Uri, api: &Api) -> Result<Self, Error> {
        let mut times = Self {
            name: String::new(),
            from: api.options.time.now(),
            count: PREVIEW_TIMES,
        };
        // A schedule that is stored has a name.
        let known: &[&str] = if uri.path().ends_with("/preview") {
            &["count", "from"]
        } else {
            &["count", "from", "name"]
        };
        let violations = each(uri, known, |name, value| {
            Some(match name {
                "count" => {
                    let count = whole_number(&value, PREVIEW_TIMES_MAX, PREVIEW_TIMES_MAX);
                    put(&mut times.count, count)
                }
                "from" => put(&mut times.from, time::instant(&InstantText(value))),
                "name" if known.contains(&"name") => put(&mut times.name, checked_name(value)),
                _ => return None,
            })
        })?;
        violations.finish().map(|()| times)
    }
}
