//! The times of pages are elements that name their instant in UTC. A script writes them in the reader's own zone, and how far
//! away they are.

use crate::{
    api::{text::InstantText, time::instant},
    model::time::{Millis, rfc3339},
};

/// Returns the instant that an answer of the API names.
pub(in crate::http::ui) fn read(text: &InstantText) -> Option<Millis> {
    instant(text).ok()
}

/// Returns the element of a time, to the millisecond.
pub(in crate::http::ui) fn at(time: Millis) -> String {
    element(time, "ms", 23)
}

/// Returns the element of a time that is to come, with how far away it is.
pub(in crate::http::ui) fn ahead(time: Millis) -> String {
    format!("{}<span class=\"ago\"></span>", at(time))
}

/// Returns the element of a time of an answer, to the millisecond; a dash where there is none.
pub(in crate::http::ui) fn of(text: Option<&InstantText>) -> String {
    text.and_then(read).map_or_else(none, at)
}

/// Returns the element of a time to the second, with how far away it is, for rows of tables.
pub(in crate::http::ui) fn row(text: &InstantText) -> String {
    read(text).map_or_else(none, |time| {
        format!("{}<span class=\"ago\"></span>", element(time, "s", 19))
    })
}

/// Returns the element that shows only how far away a time is.
pub(in crate::http::ui) fn ago(time: Millis) -> String {
    format!("{}<span class=\"ago\"></span>", element(time, "none", 19))
}

/// Returns what stands where there is no time.
pub(in crate::http::ui) fn none() -> String {
    "<span class=\"none\">none</span>".to_owned()
}

fn element(time: Millis, form: &str, chars: usize) -> String {
    // The text has digits and signs of times alone.
    let text = rfc3339(time);
    let shown = text.get(..chars.min(text.len())).unwrap_or(&text);
    let shown = shown.trim_end_matches('Z').replace('T', " ");
    format!("<time datetime=\"{text}\" data-form=\"{form}\">{shown}</time>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_names_its_instant() {
        let text = InstantText("2026-11-30T10:00:00.250+01:00".to_owned());
        let shown = of(Some(&text));
        assert_eq!(
            shown,
            "<time datetime=\"2026-11-30T09:00:00.250Z\" data-form=\"ms\">2026-11-30 09:00:00.250</time>"
        );
        assert!(row(&text).contains(">2026-11-30 09:00:00</time>"));
        assert_eq!(of(Some(&InstantText("<b>".to_owned()))), none());
    }
}
