//! The credentials tell the access check which API key a request carries.
//!
//! A key is taken whole or not at all: its text has one form, and a request has one `authorization` header. Whether the key is
//! known is left to the access check.

use axum::http::{HeaderMap, Method, header};
use base64::{Engine as _, engine::general_purpose::STANDARD};

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

/// Reads the credentials. Browsers ask people for a name and a password: the password is the key then. Only reads are
/// answered so, because a browser sends it again by itself.
#[must_use]
pub fn given(method: &Method, headers: &HeaderMap) -> Given {
    let mut all = headers.get_all(header::AUTHORIZATION).into_iter();
    let Some(value) = all.next() else {
        return Given::Nothing;
    };
    let text = value.to_str().unwrap_or_default().trim();
    let (scheme, rest) = text.split_once(' ').unwrap_or((text, ""));
    let rest = rest.trim();
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    let key = if all.next().is_some() {
        None
    } else if scheme.eq_ignore_ascii_case("bearer") {
        KeyText::read(rest)
    } else if scheme.eq_ignore_ascii_case("basic") && is_read {
        let decoded = STANDARD.decode(rest).ok();
        let decoded = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
        decoded.and_then(|text| KeyText::read(text.split_once(':')?.1))
    } else {
        None
    };
    key.map_or(Given::Other, Given::Key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::access::KeyId;

    fn read(method: &Method, values: &[&str]) -> Option<String> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::AUTHORIZATION, value.parse().unwrap());
        }
        match given(method, &headers) {
            Given::Nothing => None,
            Given::Other => Some("other".to_owned()),
            Given::Key(text) => Some(text.reveal()),
        }
    }

    #[test]
    fn a_key_comes_as_a_bearer_and_for_reads_as_a_password() {
        let key = KeyText::new(KeyId(1), [2; 32]).reveal();
        let basic = format!("Basic {}", STANDARD.encode(format!("me:{key}")));
        let other = Some("other".to_owned());
        assert_eq!(read(&Method::GET, &[]), None);
        for good in [
            format!("Bearer {key}"),
            format!("bearer  {key}"),
            basic.clone(),
        ] {
            assert_eq!(read(&Method::GET, &[&good]), Some(key.clone()), "{good}");
        }
        assert_eq!(read(&Method::POST, &[&basic]), other);
        for bad in ["", "Bearer", "Bearer twk_1_2", &key, "Basic !", "Digest x"] {
            assert_eq!(read(&Method::GET, &[bad]), other, "{bad}");
        }
        let good = format!("Bearer {key}");
        assert_eq!(read(&Method::GET, &[&good, &good]), other, "one is enough");
    }
}
