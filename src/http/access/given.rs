//! The credentials tell the access check which API key a request carries.
//!
//! A key is taken whole or not at all: its text has one form, and a request has one `authorization` header. Whether the key is
//! known is left to the access check.

use axum::http::{HeaderMap, header};

use crate::model::access::KeyText;

/// The credentials of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Given {
    /// None.
    Nothing,
    /// The text of a key, which may be of no key that there is.
    Key(KeyText),
    /// Something that is not the text of a key, or more than one header.
    Other,
}

/// Reads the credentials. A cookie is none: a browser sends it by itself, so the pages alone take it.
#[must_use]
pub fn given(headers: &HeaderMap) -> Given {
    let mut all = headers.get_all(header::AUTHORIZATION).into_iter();
    let Some(value) = all.next() else {
        return Given::Nothing;
    };
    let text = value.to_str().unwrap_or_default().trim();
    let (scheme, rest) = text.split_once(' ').unwrap_or((text, ""));
    let rest = rest.trim();
    let key = if all.next().is_some() {
        None
    } else if scheme.eq_ignore_ascii_case("bearer") {
        KeyText::read(rest)
    } else {
        None
    };
    key.map_or(Given::Other, Given::Key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::access::KeyId;

    fn read(values: &[&str]) -> Option<String> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::AUTHORIZATION, value.parse().unwrap());
        }
        match given(&headers) {
            Given::Nothing => None,
            Given::Other => Some("other".to_owned()),
            Given::Key(text) => Some(text.reveal()),
        }
    }

    #[test]
    fn a_key_comes_as_a_bearer() {
        let key = KeyText::new(KeyId(1), [2; 32]).reveal();
        let other = Some("other".to_owned());
        assert_eq!(read(&[]), None);
        for good in [format!("Bearer {key}"), format!("bearer  {key}")] {
            assert_eq!(read(&[&good]), Some(key.clone()), "{good}");
        }
        for bad in [
            "",
            "Bearer",
            "Bearer twk_1_2",
            &key,
            "Basic bTp4",
            "Digest x",
        ] {
            assert_eq!(read(&[bad]), other, "{bad}");
        }
        let good = format!("Bearer {key}");
        assert_eq!(read(&[&good, &good]), other, "one is enough");
    }
}
