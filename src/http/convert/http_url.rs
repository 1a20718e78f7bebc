//! The URL check reads URLs of requests over HTTP for the conversions and the executor, and names the callbacks of their hosts.
//!
//! A URL is kept as it was written. Its host has one name however it is written: in small letters, without the default port and
//! without leading zeros of a port (RFC 3986, 6.2.2 and 6.2.3), addresses in their usual form, and without the dot behind a full
//! name. It is the reading of the program that connects, so no URL leads elsewhere than its callback says.

use std::net::{Ipv4Addr, Ipv6Addr};

use axum::http::Uri;
use url::{Host, ParseError, Url};

use crate::{
    limits::{NAME_CHARS_MAX, URL_CHARS_MAX},
    model::{credential, http_call::CALLBACK_PREFIX},
};

/// Checks a URL: `http` or `https`, a host that can be, no user.
pub(super) fn checked(text: &str) -> Result<String, String> {
    if text.chars().count() > URL_CHARS_MAX {
        return Err(format!("has more than {URL_CHARS_MAX} characters"));
    }
    let uri: Uri = text.parse().map_err(|error| {
        format!("is not a URL, which begins with `http://` or `https://`: {error}")
    })?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err("must begin with `http://` or `https://`".to_owned());
    }
    let authority = uri.authority().map(|authority| authority.as_str());
    if authority.is_some_and(|authority| authority.contains('@')) {
        return Err("must not have a user: send an `authorization` header".to_owned());
    }
    if uri.host().unwrap_or_default().is_empty() {
        return Err("has no host".to_owned());
    }
    let url = Url::parse(text).map_err(why_none)?;
    if url.port() == Some(0) {
        return Err(NO_PORT.to_owned());
    }
    checked_name(callback_of(&url)).map_err(|_| {
        let most = NAME_CHARS_MAX - CALLBACK_PREFIX.len();
        format!(
            "has a host, perhaps with a port, of more than {most} characters, or with others than letters, digits, `.`, `_` and `-`"
        )
    })?;
    if credential::has_mark(text) {
        let mark = credential::MASK;
        return Err(format!(
            "has `{mark}` where a credential was shown in part: give it whole"
        ));
    }
    if is_https(text) && cfg!(not(feature = "tls")) {
        return Err(
            "needs TLS, which this program was built without: build it with the feature `tls`"
                .to_owned(),
        );
    }
    Ok(text.to_owned())
}

const NO_PORT: &str = "has a port that cannot be: write 1 to 65535, or leave it out";

fn why_none(error: ParseError) -> String {
    match error {
        ParseError::InvalidPort => NO_PORT.to_owned(),
        ParseError::InvalidIpv4Address => {
            "has a host that ends in a number and is no IPv4 address: write four numbers from 0 to 255, or a name".to_owned()
        }
        ParseError::InvalidIpv6Address => {
            "has no IPv6 address in its brackets: write one such as `[2001:db8::1]`".to_owned()
        }
        other => format!("is not a URL: {other}"),
    }
}

/// Returns the name of the callback of the host of a URL: `http:`, the host, and its port if that is not the usual one.
pub(in crate::http) fn callback_of_url(url: &str) -> String {
    let read = Url::parse(url);
    read.map_or_else(|_| CALLBACK_PREFIX.to_owned(), |url| callback_of(&url))
}

fn callback_of(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    // The dot says of a full name that it is one. Of a single word it says more.
    let full = host.strip_suffix('.').filter(|host| host.contains('.'));
    let host = full.unwrap_or(host);
    let port = url.port().map(|port| format!(":{port}"));
    format!("{CALLBACK_PREFIX}{host}{}", port.unwrap_or_default())
}

/// Returns host and port of a URL as its callback has them.
pub(crate) fn host(url: &str) -> String {
    match callback_of_url(url).strip_prefix(CALLBACK_PREFIX) {
        None | Some("") => "an unknown host".to_owned(),
        Some(host) => host.to_owned(),
    }
}

/// Checks the name of the callback of a host.
pub(super) fn checked_name(text: String) -> Result<String, String> {
    let host = text.strip_prefix(CALLBACK_PREFIX).unwrap_or_default();
    // An address of version 6 stands in brackets.
    let fits =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | ':' | '[' | ']');
    if host.is_empty() || text.chars().count() > NAME_CHARS_MAX || !host.chars().all(fits) {
        return Err(format!(
            "must be `{CALLBACK_PREFIX}` and a host, perhaps with a port, in at most {NAME_CHARS_MAX} characters"
        ));
    }
    let [clear, secure] =
        ["http", "https"].map(|scheme| callback_of_url(&format!("{scheme}://{host}/")));
    if clear == CALLBACK_PREFIX {
        return Err(format!(
            "must be `{CALLBACK_PREFIX}` and a host, perhaps with a port from 1 to 65535"
        ));
    }
    if ![&clear, &secure].contains(&&text) {
        return Err(format!(
            "names the host otherwise than tasks do: write `{clear}`"
        ));
    }
    Ok(text)
}

/// Tells whether two URLs name the same, however they are written.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    match (Url::parse(one), Url::parse(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}

/// Tells whether a request to a URL is encrypted.
pub(crate) fn is_https(url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| url.scheme() == "https")
}

/// Tells whether a URL names this machine, so that nobody else is on the way.
pub(crate) fn is_loopback(url: &str) -> bool {
    let url = Url::parse(url).ok();
    match url.as_ref().and_then(Url::host) {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => Ipv4Addr::is_loopback(&address),
        Some(Host::Ipv6(address)) => Ipv6Addr::is_loopback(&address),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_one_name_however_it_is_written() {
        for (urls, name) in [
            (
                &[
                    "http://h.example",
                    "http://h.example/",
                    "http://h.example:80/",
                    "http://h.example:/",
                    "http://h.example:0080/x",
                    "HTTP://H.Example./",
                    "https://h.example:443/x?y",
                    "https://h.example",
                ][..],
                "http:h.example",
            ),
            (&["https://h:80/", "https://h:080"], "http:h:80"),
            (&["http://h:443", "http://h:00443/"], "http:h:443"),
            (&["http://h./"], "http:h."),
            (
                &[
                    "http://127.1:99/",
                    "http://0x7f000001:99",
                    "http://127.0.0.1:99",
                ],
                "http:127.0.0.1:99",
            ),
            (
                &["http://[::1]:8080/", "http://[0:0:0:0:0:0:0:1]:08080/"],
                "http:[::1]:8080",
            ),
        ] {
            for url in urls {
                assert_eq!(checked(url).as_deref(), Ok(*url));
                assert_eq!(callback_of_url(url), name, "{url}");
                assert_eq!(checked_name(name.to_owned()).as_deref(), Ok(name));
            }
        }
    }

    #[test]
    fn the_name_of_a_host_is_taken_in_its_one_form() {
        for (name, says) in [
            ("http:H.example", "write `http:h.example`"),
            ("http:h:0080", "write `http:h`"),
            ("http:127.1", "write `http:127.0.0.1`"),
            ("http:h:", "write `http:h`"),
            ("http:h:99999", "65535"),
            ("http:999.1.1.1", "a host"),
            ("http:", "a host"),
            ("http:a/b", "a host"),
        ] {
            let refused = checked_name(name.to_owned()).unwrap_err();
            assert!(refused.contains(says), "{name}: {refused}");
        }
    }

    #[test]
    fn ports_and_addresses_that_cannot_be_are_refused() {
        for (url, says) in [
            ("http://h:99999/", "1 to 65535"),
            ("http://h:65536", "1 to 65535"),
            ("http://h:0/", "1 to 65535"),
            ("http://h:00", "1 to 65535"),
            ("http://999.1.1.1/", "0 to 255"),
            ("http://1.2.3.4.5", "0 to 255"),
            ("http://256.0.0.1:80", "0 to 255"),
            ("http://a.example.1/", "0 to 255"),
            ("http://[::g]/", ""),
            ("http://[1::2::3]/", ""),
            ("http://a+b/", "letters"),
            ("http://h/?token=***", "give it whole"),
        ] {
            let refused = checked(url).unwrap_err();
            assert!(refused.contains(says), "{url}: {refused}");
        }
    }

    #[test]
    fn the_same_url_may_be_written_in_several_ways() {
        assert!(is_same("http://H", "http://h:80/"));
        assert!(is_same("https://h:0443/x?y", "https://h/x?y"));
        for other in ["https://h/", "http://h/x", "http://h/?a", "http://h:81/"] {
            assert!(!is_same("http://h/", other), "{other}");
        }
        assert!(is_https("HTTPS://h/") && !is_https("http://h/") && !is_https("https"));
    }

    #[test]
    fn this_machine_is_known_by_its_names_and_addresses() {
        for url in [
            "http://localhost:1/",
            "http://a.localhost",
            "http://127.9.9.9/",
            "http://[::1]/",
        ] {
            assert!(is_loopback(url), "{url}");
        }
        for url in [
            "http://localhost.example",
            "http://10.0.0.1",
            "http://[::2]/",
            "x",
        ] {
            assert!(!is_loopback(url), "{url}");
        }
    }
}
