//! The proxies are the addresses whose word the dashboard takes about the prefix and the scheme of its pages.
//!
//! Anybody can send these headers; only a proxy in front of the node knows them.

use std::net::IpAddr;

use axum::http::{Extensions, HeaderMap};

use crate::{http::access::Peer, model::base_path::clean};

/// The addresses of proxies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proxies(pub Vec<IpAddr>);

impl Proxies {
    fn has_sent(&self, extensions: &Extensions) -> bool {
        let peer = extensions.get::<Peer>();
        peer.is_some_and(|Peer(address)| self.0.contains(&address.ip().to_canonical()))
    }

    /// Returns the prefix under which the proxy of a request serves the pages, if a proxy says so.
    pub(super) fn prefix(&self, headers: &HeaderMap, extensions: &Extensions) -> Option<String> {
        let said = headers.get("x-forwarded-prefix")?.to_str().ok()?;
        self.has_sent(extensions).then(|| clean(said)).flatten()
    }

    /// Tells whether a browser reached the proxy of a request over TLS, if a proxy says so.
    pub(super) fn tls(&self, headers: &HeaderMap, extensions: &Extensions) -> Option<bool> {
        let said = headers.get("x-forwarded-proto")?.to_str().ok()?;
        self.has_sent(extensions)
            .then(|| said.trim().eq_ignore_ascii_case("https"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_of_a_stranger_is_not_taken() {
        let proxies = Proxies(vec!["10.0.0.1".parse().unwrap()]);
        let mut headers = HeaderMap::new();
        headers.insert("x-forwarded-prefix", "/timers/".parse().unwrap());
        headers.insert("x-forwarded-proto", "https".parse().unwrap());
        let from = |address: &str| {
            let mut extensions = Extensions::new();
            extensions.insert(Peer(address.parse().unwrap()));
            let prefix = proxies.prefix(&headers, &extensions);
            (prefix, proxies.tls(&headers, &extensions))
        };
        assert_eq!(from("10.0.0.1:9"), (Some("/timers".to_owned()), Some(true)));
        assert_eq!(from("[::ffff:10.0.0.1]:9"), from("10.0.0.1:9"));
        assert_eq!(from("10.0.0.2:9"), (None, None));
        assert_eq!(proxies.prefix(&headers, &Extensions::new()), None);
    }
}
