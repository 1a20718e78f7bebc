//! The form check refuses, for the server, requests whose head HTTP/1.1 does not allow and the library below takes all the same.
//!
//! Programs before a node may read such a head in another way than the node does: as for another host, or with another end of the
//! body (RFC 9112, 3.2 and 6.1). So none is answered, whatever its path.

use axum::{
    extract::Request,
    http::{HeaderValue, Version, header, uri::Authority},
};

use crate::http::error::{Code, Error};

/// Tells what is wrong with the head of a request.
///
/// # Errors
/// [`Code::InvalidRequest`].
pub(super) fn check(request: &Request) -> Result<(), Error> {
    let headers = request.headers();
    let mut hosts = headers.get_all(header::HOST).into_iter();
    let host = hosts.next();
    if hosts.next().is_some() {
        return wrong("has more than one header `host`: send one");
    }
    // HTTP/2 has another place for it, and a client over HTTP/1.0 may not know it.
    if host.is_none() && request.version() == Version::HTTP_11 {
        return wrong("has no header `host`, which HTTP/1.1 requires: send one");
    }
    let of_uri = request.uri().authority().map(Authority::as_str);
    let host = host.map(HeaderValue::as_bytes).into_iter();
    let mut named = host.chain(of_uri.map(str::as_bytes));
    if !named.all(is_host) {
        return wrong(
            "names a host that is none with at most a port from 0 to 65535: send `HOST` or `HOST:PORT`",
        );
    }
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).into_iter();
    let is_chunked = |coding: &HeaderValue| {
        coding
            .as_bytes()
            .trim_ascii()
            .eq_ignore_ascii_case(b"chunked")
    };
    if codings.next().is_some_and(|coding| !is_chunked(coding)) || codings.next().is_some() {
        return wrong(
            "has a `transfer-encoding` other than `chunked`: send the body as it is, in chunks or with its length",
        );
    }
    Ok(())
}

fn wrong(what: &str) -> Result<(), Error> {
    let detail = format!("the request {what}");
    Err(Error::new(Code::InvalidRequest, detail))
}

/// Tells whether a text is a host, perhaps with a port. An empty one is allowed.
fn is_host(value: &[u8]) -> bool {
    if value.is_empty() {
        return true;
    }
    let Ok(authority) = Authority::try_from(value) else {
        return false;
    };
    let text = authority.as_str();
    match text.strip_prefix(authority.host()) {
        Some("" | ":") => true,
        rest => rest
            .and_then(|rest| rest.strip_prefix(':'))
            .is_some_and(is_port),
    }
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn refused(version: Version, headers: &[(&str, &str)]) -> bool {
        let mut request = Request::builder().version(version);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        check(&request.body(Body::empty()).unwrap()).is_err()
    }

    #[test]
    fn a_request_names_one_host_that_can_be() {
        let eleven = Version::HTTP_11;
        for good in [
            "localhost",
            "localhost:80",
            "localhost:",
            "h:0080",
            "[::1]:7420",
            "[::1]",
            "",
            "h_1.example",
        ] {
            assert!(!refused(eleven, &[("host", good)]), "{good}");
        }
        for bad in [
            "localhost:80a",
            "h:65536",
            "h:-1",
            "a b",
            "u@h",
            "h:1:2",
            "[::1",
            "[::1]80",
            "h/x",
        ] {
            assert!(refused(eleven, &[("host", bad)]), "{bad}");
        }
        assert!(refused(eleven, &[]));
        assert!(refused(eleven, &[("host", "a"), ("host", "a")]));
        assert!(!refused(Version::HTTP_10, &[]) && !refused(Version::HTTP_2, &[]));
        let of_uri = |uri: &str| {
            let request = Request::builder().version(Version::HTTP_2).uri(uri);
            check(&request.body(Body::empty()).unwrap()).is_err()
        };
        assert!(of_uri("http://localhost:80a/") && !of_uri("http://localhost:80/"));
    }

    #[test]
    fn a_body_comes_in_chunks_or_with_its_length() {
        let refused = |codings: &[&str]| {
            let codings = codings.iter().map(|coding| ("transfer-encoding", *coding));
            let headers: Vec<_> = codings.chain([("host", "h")]).collect();
            refused(Version::HTTP_11, &headers)
        };
        assert!(!refused(&[]) && !refused(&["chunked"]) && !refused(&[" Chunked "]));
        for other in ["gzip, chunked", "gzip", "identity", "chunked, chunked", ""] {
            assert!(refused(&[other]), "{other}");
        }
        assert!(refused(&["gzip", "chunked"]));
    }
}
