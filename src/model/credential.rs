//! The rule of credentials tells which headers and which parts of a URL prove who somebody is, and how they are shown.
//!
//! Names decide: a service cannot know what a value is worth. Readers who may not have it see a mark, which is refused where it
//! comes back as a value, so a copy of what was read does not replace what is kept.

/// The mark in the place of a value.
pub const MASK: &str = "***";

/// Parts of names of headers and of parameters of URLs that hold credentials.
const PARTS: [&str; 13] = [
    "auth",
    "token",
    "secret",
    "passw",
    "credential",
    "cookie",
    "signature",
    "session",
    "api-key",
    "api_key",
    "apikey",
    "access-key",
    "access_key",
];

/// Whole names of such headers and parameters.
const NAMES: [&str; 7] = ["key", "sig", "pwd", "pass", "jwt", "code", "sas"];

/// Tells whether a header, or a parameter of a URL, of this name holds a credential.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    NAMES.contains(&&*name) || PARTS.iter().any(|part| name.contains(part))
}

/// Returns a URL with the mark in the place of each credential among its parameters. None if it has none. A URL has no user: such
/// a one is refused where it is read.
#[must_use]
pub fn masked_url(url: &str) -> Option<String> {
    let (start, query) = url.split_once('?')?;
    let (query, fragment) = match query.split_once('#') {
        Some((query, fragment)) => (query, Some(fragment)),
        None => (query, None),
    };
    let (mut masked, mut is_changed) = (start.to_owned(), false);
    for (index, parameter) in query.split('&').enumerate() {
        masked.push(if index == 0 { '?' } else { '&' });
        match parameter.split_once('=') {
            Some((name, value)) if is_name(name) && !value.is_empty() => {
                is_changed = true;
                masked.extend([name, "=", MASK]);
            }
            _ => masked.push_str(parameter),
        }
    }
    masked.extend(fragment.iter().flat_map(|fragment| ["#", fragment]));
    is_changed.then_some(masked)
}

/// Tells whether a URL holds the mark where a credential was.
#[must_use]
pub fn has_mark(url: &str) -> bool {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let mut parameters = query
        .split(['&', '#'])
        .filter_map(|one| one.split_once('='));
    parameters.any(|(name, value)| is_name(name) && value == MASK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_credentials_are_known_in_any_case() {
        for name in [
            "Authorization",
            "proxy-authorization",
            "X-Api-Key",
            "apikey",
            "x-auth-token",
            "cookie",
            "Set-Cookie",
            "x-hub-signature-256",
            "access_token",
            "client_secret",
            "X-Amz-Credential",
            "password",
            "sig",
            "key",
        ] {
            assert!(is_name(name), "{name}");
        }
        for name in [
            "content-type",
            "x-tenant",
            "accept",
            "keyboard",
            "codec",
            "page",
        ] {
            assert!(!is_name(name), "{name}");
        }
    }

    #[test]
    fn credentials_of_a_url_are_masked_and_nothing_else() {
        for (url, shown) in [
            (
                "https://a/x?token=abc&page=2",
                "https://a/x?token=***&page=2",
            ),
            (
                "https://a?page=2&SIG=abc#top",
                "https://a?page=2&SIG=***#top",
            ),
            ("https://a/x?key=a=b", "https://a/x?key=***"),
        ] {
            let masked = masked_url(url);
            assert_eq!(masked.as_deref(), Some(shown));
            assert!(has_mark(shown) && !has_mark(url), "{shown}");
        }
        for url in [
            "https://a/x@y",
            "https://a?page=2",
            "https://a?token",
            "https://a?token=",
        ] {
            assert_eq!(masked_url(url), None, "{url}");
        }
    }
}
