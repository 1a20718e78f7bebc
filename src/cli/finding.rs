//! The findings of the looks carry to the printer what is good, and what is not and how to mend it.

/// A finding about one thing.
pub(in crate::cli) struct Finding {
    pub(in crate::cli) about: &'static str,
    /// The good state, or the problem and its remedy.
    pub(in crate::cli) result: Result<String, String>,
}

pub(in crate::cli) fn good(about: &'static str, text: impl Into<String>) -> Finding {
    Finding {
        about,
        result: Ok(text.into()),
    }
}

pub(in crate::cli) fn bad(about: &'static str, text: impl Into<String>) -> Finding {
    Finding {
        about,
        result: Err(text.into()),
    }
}
