//! The list of violations collects all mistakes of a request, so that its author learns of them at once.

use super::{foreign, http_url};
use crate::{
    api::{problem::FieldError, text::shorten},
    http::error::{Code, Error},
    limits::{KEY_CHARS_MAX, NAME_CHARS_MAX},
    model::http_call::CALLBACK_PREFIX,
};

/// The wrong fields found so far.
#[derive(Debug, Default)]
pub(in crate::http) struct Violations(Vec<FieldError>);

/// The callbacks of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::http) enum Callbacks {
    /// The one with this name.
    One(String),
    /// Those whose names begin with this.
    Beginning(String),
}

impl Violations {
    /// Notes a wrong field.
    pub(in crate::http) fn add(&mut self, pointer: impl Into<String>, detail: impl Into<String>) {
        self.0.push(FieldError {
            pointer: pointer.into(),
            detail: detail.into(),
        });
    }

    /// Returns the value, or notes why there is none.
    pub(in crate::http) fn take<T>(
        &mut self,
        pointer: &str,
        result: Result<T, String>,
    ) -> Option<T> {
        result.map_err(|detail| self.add(pointer, detail)).ok()
    }

    /// Notes two fields that exclude each other when both are there.
    pub(super) fn exclusive(&mut self, one: (&str, bool), other: (&str, bool)) {
        if one.1 && other.1 {
            self.add(
                format!("/{}", other.0),
                format!("`{}` and `{}` exclude each other: give one", one.0, other.0),
            );
        }
    }

    /// Tells that nothing was wrong.
    ///
    /// # Errors
    /// One error with every wrong field.
    pub(in crate::http) fn finish(self) -> Result<(), Error> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(Error::fields(Code::InvalidRequest, self.0))
        }
    }
}

/// Checks the name of a callback, collection or topic.
pub(in crate::http) fn name(text: String) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if !(1..=NAME_CHARS_MAX).contains(&text.chars().count()) {
        Err(format!("must have 1 to {NAME_CHARS_MAX} characters"))
    } else if let Some(odd) = text.chars().find(|c| !fits(*c)) {
        Err(format!(
            "must consist of A-Z, a-z, 0-9, `.`, `_` and `-`; found {odd:?}"
        ))
    } else if text == "." || text == ".." {
        Err("must not be `.` or `..`".to_owned())
    } else {
        Ok(text)
    }
}

/// Checks a key that a client chose for a task.
///
/// # Errors
/// A text about the mistake.
pub(in crate::http) fn checked_name(key: String) -> Result<String, String> {
    if !(1..=KEY_CHARS_MAX).contains(&key.chars().count()) {
        return Err(format!("must have 1 to {KEY_CHARS_MAX} characters"));
    }
    match key.chars().find(|c| c.is_control()) {
        Some(odd) => Err(format!("must have no control characters; found {odd:?}")),
        None => Ok(key),
    }
}

/// Checks the name of a callback that exists: also that of a host, which tasks over HTTP have that name no callback.
pub(in crate::http) fn callback(text: String) -> Result<String, String> {
    if text.starts_with(CALLBACK_PREFIX) {
        http_url::checked_name(text)
    } else {
        name(text)
    }
}

/// Reads the callbacks of a list: the name of one, or, with `*` at its end, the beginning of the names of several.
pub(in crate::http) fn callbacks(text: String) -> Result<Callbacks, String> {
    let Some(beginning) = text.strip_suffix('*') else {
        return callback(text).map(Callbacks::One);
    };
    let fits =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | ':' | '[' | ']');
    if let Some(odd) = beginning.chars().find(|c| !fits(*c)) {
        return Err(format!(
            "must be a name, or the beginning of one and `*`; found {odd:?}"
        ));
    }
    if !(1..=NAME_CHARS_MAX).contains(&beginning.len()) {
        return Err(format!(
            "must have 1 to {NAME_CHARS_MAX} characters before `*`; leave it out for all callbacks"
        ));
    }
    Ok(Callbacks::Beginning(beginning.to_owned()))
}

/// Says that a name is not known, and suggests the name that was probably meant.
pub(in crate::http) fn unknown(kind: &str, name: &str, known: &[&str]) -> String {
    let name = shorten(name);
    if let Some(meant) = foreign::meant(&name, known) {
        return format!("unknown {kind} `{name}`; here it is `{meant}`");
    }
    let allowed = (name.chars().count() / 3).max(1);
    let nearest = known
        .iter()
        .map(|known| (strsim::damerau_levenshtein(known, &name), known))
        .filter(|(distance, _)| *distance <= allowed)
        .min();
    match nearest {
        Some((_, meant)) => format!("unknown {kind} `{name}`; did you mean `{meant}`?"),
        None if known.is_empty() => {
            format!("unknown {kind} `{name}`; no {kind}s are expected here")
        }
        None => format!("unknown {kind} `{name}`; known are: {}", known.join(", ")),
    }
}
