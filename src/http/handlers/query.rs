//! The reading of query parameters has for the handlers the texts that they share.

/// Returns the text without quotes, since values of a query are not quoted.
pub(super) fn unquoted(detail: &str) -> String {
    detail.replace(" in quotes", "").replace('"', "")
}
