//! The findings of the looks carry to the printer what is good, and what is not and how to mend it.

/// A finding about one thing.
pub(super) struct Finding {
    pub(super) about: &'static str,
    /// The good state, or the problem and its remedy.
    pub(super) result: Result<String, String>,
}

pub(super) fn good(about: &'static str, text: impl Into<String>) -> Finding {
    Finding {
        about,
        result: Ok(text.into()),
    }
}

pub(super) fn bad(about: &'static str, text: impl Into<String>) -> Finding {
    Finding {
        about,
        result: Err(text.into()),
    }
}
