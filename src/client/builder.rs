//! The builder makes a client with an API key, certificates or headers for programs that talk to a service that needs them.

use std::fmt;

use super::{Client, Error};
use crate::time_source::TimeSource;

/// The credentials that a client shows at every server, and the authorities that it believes.
#[derive(Clone, Default)]
pub(crate) struct Access {
    /// The key of the API.
    pub(crate) api_key: Option<String>,
    /// Certificates of authorities in PEM form, instead of those of the machine.
    pub(crate) ca: Option<Vec<u8>>,
    /// A certificate in PEM form, and its private key.
    pub(crate) identity: Option<(Vec<u8>, Vec<u8>)>,
    /// Further headers.
    pub(crate) headers: Vec<(String, String)>,
}

impl fmt::Debug for Access {
    // Without keys and values of headers, which must not get into logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Access")
            .field("has_api_key", &self.api_key.is_some())
            .field("has_ca", &self.ca.is_some())
            .field("has_identity", &self.identity.is_some())
            .field("headers", &headers)
            .finish()
    }
}

/// Assembles a client.
///
/// ```no_run
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use tickwheel::client::Client;
///
/// let key = std::env::var("TICKWHEEL_API_KEY").unwrap_or_default();
/// let client = Client::builder()
///     .server("https://timers.example:7420")
///     .api_key(key)
///     .ca(std::fs::read("ca.pem")?) // with the feature `tls`
///     .build()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "a builder does nothing until `build`"]
pub struct ClientBuilder {
    servers: Vec<String>,
    access: Access,
}

impl ClientBuilder {
    /// Adds a server, or several, separated by commas. When one is away, the next is asked.
    pub fn server(mut self, servers: impl Into<String>) -> Self {
        self.servers.push(servers.into());
        self
    }

    /// Sets the API key that every call carries, `twk_...`.
    pub fn api_key(mut self, key: impl Into<String>) -> Self {
        self.access.api_key = Some(key.into());
        self
    }

    /// Sets the authorities, in PEM form, one of which signed the certificates of the servers. Those of the machine are
    /// not believed then. Needs the feature `tls`.
    pub fn ca(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.access.ca = Some(pem.into());
        self
    }

    /// Sets the certificate that the client shows servers that ask for one, and its private key, both in PEM form.
    /// Needs the feature `tls`.
    pub fn identity(
        mut self,
        certificate_pem: impl Into<Vec<u8>>,
        key_pem: impl Into<Vec<u8>>,
    ) -> Self {
        self.access.identity = Some((certificate_pem.into(), key_pem.into()));
        self
    }

    /// Adds a header to every call, such as the token of a proxy in between. Its value is not shown in logs.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.access.headers.push((name.into(), value.into()));
        self
    }

    /// Sets all credentials.
    #[cfg(feature = "cli")]
    pub(crate) fn access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }

    /// Builds the client; sends nothing yet.
    ///
    /// # Errors
    /// [`Error::Invalid`] when a text is not an address, a key, a header, or in PEM form, or when this build has no TLS.
    pub fn build(self) -> Result<Client, Error> {
        Client::with_access(&self.servers, &self.access, TimeSource::real())
    }
}
