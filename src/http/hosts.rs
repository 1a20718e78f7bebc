//! The check of hosts keeps web pages of strangers away from the API for the users of a node.
//!
//! A browser runs pages of strangers and reaches every host that its user reaches. A page may bind its own
//! name to this node's address (DNS rebinding); its requests then name a host that is not this node's. A page
//! of another site may send requests without asking first; its browser says so by `Sec-Fetch-Site` and
//! `Origin`. All of these requests are refused. Programs send none of these headers and name the host that
//! they connect to, so they pass.

use std::net::{IpAddr, SocketAddr};

use axum::{
    extract::Request,
    http::{HeaderMap, HeaderName, Method, header, uri::Authority},
};

use super::{
    Api,
    error::{Code, Error},
};
use crate::api::text::shorten;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// Paths that answer to any host: probes of orchestrators and load balancers name any, and the answers tell
/// nothing.
const OPEN_TO_ALL: [&str; 3] = ["/livez", "/readyz", "/startupz"];

/// The hosts that a node answers to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hosts {
    /// The address it listens on; none is loopback.
    listen: Option<IpAddr>,
    named: Vec<Named>,
}

/// A configured host: any port of it unless one is given.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Named {
    host: String,
    port: Option<u16>,
}

impl Hosts {
    /// Accepts the address that is listened on, loopback names, and `named` (each `HOST` or `HOST:PORT`). A
    /// node that listens on all addresses answers to every address: a stranger can bind only a name to
    /// another address.
    #[must_use]
    pub fn new(listen: SocketAddr, named: impl IntoIterator<Item = String>) -> Self {
        Self {
            listen: Some(listen.ip().to_canonical()),
            named: named
                .into_iter()
                .filter_map(|text| parse(text.as_bytes()))
                .map(|(host, port)| Named { host, port })
                .collect(),
        }
    }

    fn is_own(&self, host: &str) -> bool {
        if let Some(address) = address(host) {
            let is_listened_on = self
                .listen
                .is_some_and(|listen| listen.is_unspecified() || listen == address);
            if address.is_loopback() || is_listened_on {
                return true;
            }
        }
        // Browsers resolve these to loopback themselves (RFC 6761).
        host == "localhost"
            || host.ends_with(".localhost")
            || self.named.iter().any(|named| named.host == host)
    }

    /// Tells whether the page comes from the same host and port, or from a configured host: a proxy may name
    /// the node otherwise than the page.
    fn is_own_page(&self, origin: &[u8], requested: Option<&(String, Option<u16>)>) -> bool {
        let (scheme_port, rest) = match (
            origin.strip_prefix(b"http://"),
            origin.strip_prefix(b"https://"),
        ) {
            (Some(rest), _) => (80, rest),
            (None, Some(rest)) => (443, rest),
            (None, None) => return false,
        };
        let Some((host, port)) = parse(rest) else {
            return false;
        };
        let port = port.unwrap_or(scheme_port);
        let is_requested = requested.is_some_and(|(requested_host, requested_port)| {
            *requested_host == host && requested_port.unwrap_or(scheme_port) == port
        });
        let is_named = |named: &Named| {
            named.host == host && named.port.is_none_or(|named_port| named_port == port)
        };
        is_requested || self.named.iter().any(is_named)
    }

    /// Refuses requests that may come from a page of a stranger.
    ///
    /// # Errors
    /// [`Code::Forbidden`], with the reason.
    pub(super) fn check(&self, request: &Request) -> Result<(), Error> {
        if OPEN_TO_ALL.contains(&request.uri().path()) {
            return Ok(());
        }
        let headers = request.headers();
        let mut requested = None;
        let of_uri = request.uri().authority().map(Authority::as_str);
        let of_headers = headers.get_all(header::HOST).into_iter();
        let all = of_uri
            .map(str::as_bytes)
            .into_iter()
            .chain(of_headers.map(header::HeaderValue::as_bytes));
        for text in all {
            let parsed = parse(text);
            match parsed {
                Some((host, port)) if self.is_own(&host) => {
                    requested = requested.or(Some((host, port)));
                }
                _ => return Err(foreign_host(text)),
            }
        }
        for origin in headers.get_all(header::ORIGIN) {
            if !self.is_own_page(origin.as_bytes(), requested.as_ref()) {
                return Err(foreign_page(&format!(
                    "its Origin is {:?}",
                    shorten(&String::from_utf8_lossy(origin.as_bytes()))
                )));
            }
        }
        let is_cross_site = headers
            .get_all(FETCH_SITE)
            .into_iter()
            .any(|site| site == "cross-site");
        if is_cross_site && !is_navigation(request.method(), headers) {
            return Err(foreign_page("its Sec-Fetch-Site is cross-site"));
        }
        Ok(())
    }
}

/// Tells whether a person follows a link from elsewhere to a page: the page that links cannot read it, and
/// reading changes nothing.
fn is_navigation(method: &Method, headers: &HeaderMap) -> bool {
    let is = |name, value| headers.get(name).is_some_and(|found| found == value);
    method == Method::GET && is(FETCH_MODE, "navigate") && is(FETCH_DEST, "document")
}

fn foreign_host(text: &[u8]) -> Error {
    let detail = format!(
        "the host {:?} is not listed: connect by the node's address or localhost, or list it in the node's setting \
         `allowed_hosts` (--allowed-hosts)",
        shorten(&String::from_utf8_lossy(text))
    );
    Error::new(Code::Forbidden, detail)
}

fn foreign_page(why: &str) -> Error {
    let detail = format!(
        "the request comes from a web page of another site: {why}; to allow a site, list it in the node's setting `allowed_hosts` \
         (--allowed-hosts)"
    );
    Error::new(Code::Forbidden, detail)
}

/// Reads `HOST` or `HOST:PORT`, with an IPv6 address in brackets. Returns the host in lower case.
fn parse(text: &[u8]) -> Option<(String, Option<u16>)> {
    let authority = Authority::try_from(text).ok()?;
    let host = authority.host().to_ascii_lowercase();
    let host = host.strip_suffix('.').unwrap_or(&host);
    (!host.is_empty()).then(|| (host.to_owned(), authority.port_u16()))
}

fn address(host: &str) -> Option<IpAddr> {
    let bare = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let address: IpAddr = bare.unwrap_or(host).parse().ok()?;
    Some(address.to_canonical())
}

/// Lets requests through that come from a program or from a page of this node.
///
/// # Errors
/// [`Code::Forbidden`], with the reason.
pub(super) fn check(api: &Api, request: &Request) -> Result<(), Error> {
    api.options.hosts.check(request).inspect_err(|refused| {
        if let Some(others) = api.refusals.say(api.options.time.moment()) {
            tracing::warn!(
                reason = refused.detail,
                others,
                "refused a request by its host or its page"
            );
        }
    })
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn hosts(listen: &str, named: &[&str]) -> Hosts {
        let named = named.iter().map(|name| (*name).to_owned());
        Hosts::new(listen.parse().unwrap(), named)
    }

    fn refused(hosts: &Hosts, method: &str, headers: &[(&str, &str)]) -> bool {
        let request = headers.iter().fold(
            Request::builder().method(method).uri("/v1/tasks"),
            |request, (name, value)| request.header(*name, *value),
        );
        let checked = hosts.check(&request.body(Body::empty()).unwrap());
        checked.is_err_and(|error| error.code == Code::Forbidden)
    }

    #[test]
    fn a_node_answers_to_its_own_names_only() {
        let loopback = hosts("127.0.0.1:7420", &["timer.example:443"]);
        let everywhere = hosts("0.0.0.0:7420", &[]);
        let one = hosts("10.1.2.3:7420", &[]);
        for (host, by_loopback, by_everywhere, by_one) in [
            ("localhost:7420", false, false, false),
            ("LOCALHOST.", false, false, false),
            ("app.localhost:1", false, false, false),
            ("127.0.0.1", false, false, false),
            ("127.9.9.9:8080", false, false, false),
            ("[::1]:7420", false, false, false),
            ("[::ffff:127.0.0.1]", false, false, false),
            ("10.1.2.3:7420", true, false, false),
            ("[fe80::1]:7420", true, false, true),
            ("timer.example", false, true, true),
            ("evil.example:7420", true, true, true),
            ("localhost.evil.example", true, true, true),
            ("127.0.0.1.evil.example", true, true, true),
            ("10.1.2.3.", true, false, false),
            ("", true, true, true),
            ("a b", true, true, true),
        ] {
            let answers = [&loopback, &everywhere, &one]
                .map(|hosts| refused(hosts, "GET", &[("host", host)]));
            assert_eq!(answers, [by_loopback, by_everywhere, by_one], "{host:?}");
        }
        let two = [("host", "localhost"), ("host", "evil.example")];
        assert!(refused(&loopback, "GET", &two));
        assert!(!refused(&loopback, "GET", &[]), "HTTP/1.0 names none");
    }

    #[test]
    fn a_host_that_is_not_listed_is_told_where_to_list_it() {
        let request = Request::builder().header("host", "timer.example");
        let request = request.body(Body::empty()).unwrap();
        let error = hosts("127.0.0.1:7420", &[]).check(&request).unwrap_err();
        assert_eq!(
            error.code.title(),
            "The host, or the site of the web page, is not listed"
        );
        for said in ["\"timer.example\" is not listed", "`allowed_hosts`"] {
            assert!(error.detail.contains(said), "{}", error.detail);
        }
    }

    #[test]
    fn a_page_of_another_site_is_refused_and_a_link_is_not() {
        let own = hosts("127.0.0.1:7420", &["timer.example:443", "any.example"]);
        for (origin, is_refused) in [
            ("http://localhost:7420", false),
            ("https://timer.example", false),
            ("https://any.example:9", false),
            ("http://localhost:3000", true),
            ("http://127.0.0.1:7420", true),
            ("http://timer.example", true),
            ("https://evil.example", true),
            ("file://localhost:7420", true),
            ("null", true),
        ] {
            let headers = [("host", "localhost:7420"), ("origin", origin)];
            assert_eq!(refused(&own, "POST", &headers), is_refused, "{origin}");
        }
        let page = |site, more: &[(&'static str, &'static str)]| {
            let mut headers = vec![("host", "localhost:7420"), ("sec-fetch-site", site)];
            headers.extend(more);
            headers
        };
        let link = [
            ("sec-fetch-mode", "navigate"),
            ("sec-fetch-dest", "document"),
        ];
        let frame = [("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe")];
        assert!(refused(&own, "POST", &page("cross-site", &[])));
        assert!(refused(&own, "GET", &page("cross-site", &[])));
        assert!(refused(&own, "GET", &page("cross-site", &frame)));
        assert!(refused(&own, "POST", &page("cross-site", &link)));
        assert!(!refused(&own, "GET", &page("cross-site", &link)));
        assert!(!refused(&own, "POST", &page("same-origin", &[])));
        assert!(!refused(&own, "GET", &page("none", &[])));
    }
}
