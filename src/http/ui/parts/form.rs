//! The forms of pages have fields with hints, and the API's own words beside a field that it refuses.

use std::borrow::Cow;

use super::text::visible;
use crate::http::ui::gate::Failure;

/// A field of a form.
#[derive(Debug, Clone)]
pub(in crate::http::ui) struct Field {
    pub(in crate::http::ui) name: &'static str,
    pub(in crate::http::ui) label: &'static str,
    pub(in crate::http::ui) value: String,
    pub(in crate::http::ui) hint: &'static str,
    /// The choices; none for a text.
    pub(in crate::http::ui) choices: &'static [&'static str],
    pub(in crate::http::ui) is_long: bool,
    pub(in crate::http::ui) wrong: Option<String>,
}

impl Field {
    /// Returns a field for a text.
    pub(in crate::http::ui) fn text(
        name: &'static str,
        label: &'static str,
        value: impl Into<String>,
        hint: &'static str,
    ) -> Self {
        Self {
            name,
            label,
            value: value.into(),
            hint,
            choices: &[],
            is_long: false,
            wrong: None,
        }
    }

    /// Returns a field for one of some texts.
    pub(in crate::http::ui) fn choice(
        name: &'static str,
        label: &'static str,
        value: impl Into<String>,
        choices: &'static [&'static str],
    ) -> Self {
        Self {
            choices,
            ..Self::text(name, label, value, "")
        }
    }

    /// Makes it a field of several lines.
    pub(in crate::http::ui) fn long(self) -> Self {
        Self {
            is_long: true,
            ..self
        }
    }
}

/// Puts mistakes beside their fields. `pointers` has the place of each field in the request. Returns the words for what belongs
/// to no field.
pub(in crate::http::ui) fn mistaken(
    fields: &mut [Field],
    failure: &Failure,
    pointer: impl Fn(&str) -> Cow<'static, str>,
) -> String {
    let mut rest = failure.errors.clone();
    for field in fields.iter_mut() {
        let at = pointer(field.name);
        field.wrong = failure.of_field(&at).map(visible);
        rest.retain(|error| {
            let below = error.pointer.strip_prefix(&*at);
            !below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        });
    }
    if failure.errors.is_empty() {
        return visible(&failure.detail);
    }
    let rest = rest.iter().map(|error| {
        visible(&format!(
            "{} {}",
            error.pointer.trim_start_matches('/'),
            error.detail
        ))
    });
    rest.collect::<Vec<_>>().join("; ")
}
