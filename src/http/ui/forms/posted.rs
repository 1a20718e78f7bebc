//! A form that was sent: where it comes from, and its fields.

use axum::{
    body::to_bytes,
    extract::{FromRequest, Request},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
};

use crate::{
    api::text::{DurationText, InstantText},
    http::{
        code::Code,
        error::Error,
        ui::{Ui, gate::Failure, parts::frame::Said},
    },
    limits::PAGE_FORM_BYTES_MAX,
};

/// The outcome of a form.
pub(in crate::http::ui) enum Done {
    /// The browser goes to a page, which says it.
    To(String, Said),
    /// The form is shown again.
    Again(String),
}

impl Done {
    pub(in crate::http::ui) fn good(path: impl Into<String>, text: impl Into<String>) -> Self {
        let text = text.into();
        Self::To(path.into(), Said { text, bad: false })
    }

    pub(in crate::http::ui) fn bad(path: impl Into<String>, text: impl Into<String>) -> Self {
        let text = text.into();
        Self::To(path.into(), Said { text, bad: true })
    }
}

/// The fields of a form.
#[derive(Debug, Clone, Default)]
pub(in crate::http::ui) struct Posted(Vec<(String, String)>);

impl Posted {
    /// Returns the text of a field that is not empty.
    pub(in crate::http::ui) fn text(&self, name: &str) -> Option<&str> {
        let mut found = self.0.iter().filter(|(found, _)| found == name);
        let (_, text) = found.next()?;
        Some(text.trim()).filter(|text| !text.is_empty())
    }

    /// Returns the text of a field; empty where it has none.
    pub(in crate::http::ui) fn or_empty(&self, name: &str) -> String {
        self.text(name).unwrap_or_default().to_owned()
    }

    /// Returns all texts of a field.
    pub(in crate::http::ui) fn all(&self, name: &str) -> Vec<String> {
        let found = self.0.iter().filter(|(found, _)| found == name);
        found.map(|(_, text)| text.clone()).collect()
    }

    /// Returns a rate; none where it is left out.
    pub(in crate::http::ui) fn rate(&self) -> Result<Option<f64>, Failure> {
        let text = self.text("rate");
        let read = text.map(|text| {
            text.parse::<f64>().map_err(|_| {
                Failure::new(
                    StatusCode::BAD_REQUEST,
                    "The rate is no number",
                    format!("{text} is not a number of tasks a second, such as 50"),
                )
            })
        });
        read.transpose()
    }
}

/// Reads a time, or how far away it is. The API checks the rest.
pub(in crate::http::ui) fn start(text: &str) -> (Option<InstantText>, Option<DurationText>) {
    // An instant has a date, and durations have no dash.
    if text.contains('-') {
        (Some(InstantText(text.to_owned())), None)
    } else {
        (None, Some(DurationText(text.to_owned())))
    }
}

/// Tells whether a browser says that a page of this origin has sent a request. Every browser says it by one of two headers; where
/// it comes from has been compared with the host of the request before ([`crate::http::hosts`]).
fn is_of_own_page(headers: &HeaderMap) -> bool {
    match headers.get("sec-fetch-site") {
        Some(site) => site == "same-origin",
        None => headers.contains_key(header::ORIGIN),
    }
}

impl FromRequest<Ui> for Posted {
    type Rejection = Response;

    async fn from_request(request: Request, _: &Ui) -> Result<Self, Response> {
        if !is_of_own_page(request.headers()) {
            let why = "the form does not come from a page of this service: nothing was done";
            return Err(Error::new(Code::Forbidden, why).into_response());
        }
        let read = to_bytes(request.into_body(), PAGE_FORM_BYTES_MAX).await;
        let body = read.map_err(|_| {
            let why = format!("a form has at most {PAGE_FORM_BYTES_MAX} bytes");
            Error::new(Code::TooLarge, why).into_response()
        })?;
        let pairs = url::form_urlencoded::parse(&body).into_owned();
        Ok(Self(pairs.collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_of_this_origin_send_forms() {
        let of = |pairs: &[(&'static str, &str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.insert(*name, value.parse().unwrap());
            }
            is_of_own_page(&headers)
        };
        assert!(of(&[("sec-fetch-site", "same-origin")]));
        assert!(of(&[("origin", "http://localhost:7420")]));
        assert!(!of(&[]));
        for site in ["cross-site", "same-site", "none"] {
            let pairs = [("sec-fetch-site", site), ("origin", "http://localhost")];
            assert!(!of(&pairs), "{site}");
        }
    }

    #[test]
    fn a_start_is_a_time_or_a_wait() {
        assert!(start("10m").1.is_some());
        assert!(start("2026-12-01T09:00:00Z").0.is_some());
        let posted = Posted(vec![("rate".to_owned(), " 5.5 ".to_owned())]);
        assert_eq!(posted.rate().unwrap(), Some(5.5));
        let posted = Posted(vec![("rate".to_owned(), "fast".to_owned())]);
        assert!(posted.rate().is_err());
    }
}
