//! The access tells the HTTP library for the transport which headers every call carries, and which certificates count.

use reqwest::{ClientBuilder, header};

use super::{builder::Access, error::Error};

fn invalid(text: impl Into<String>) -> Error {
    Error::Invalid(text.into())
}

/// Returns the headers that say who calls. No text of a mistake shows a value.
pub(super) fn headers(access: &Access) -> Result<header::HeaderMap, Error> {
    let mut headers = header::HeaderMap::new();
    for (name, value) in &access.headers {
        let read = header::HeaderName::try_from(name.trim());
        let read = read.map_err(|_| invalid(format!("{name:?} is not the name of a header")))?;
        let value = header::HeaderValue::from_str(value.trim());
        let mut value = value.map_err(|_| {
            invalid(format!(
                "the value of the header {name:?} has characters that no header may have"
            ))
        })?;
        value.set_sensitive(true);
        headers.append(read, value);
    }
    if let Some(key) = &access.api_key {
        if headers.contains_key(header::AUTHORIZATION) {
            return Err(invalid(
                "the header `authorization` carries the API key: leave out one of the two",
            ));
        }
        let value = header::HeaderValue::from_str(&format!("Bearer {}", key.trim()));
        let mut value = value
            .ok()
            .filter(|_| key.trim().starts_with("twk_"))
            .ok_or_else(|| {
                invalid("the API key is not one: expected a text such as twk_0123456789abcdef_...")
            })?;
        value.set_sensitive(true);
        headers.insert(header::AUTHORIZATION, value);
    }
    Ok(headers)
}

/// Sets the certificates. Those of the machine are read only where a server speaks TLS: a small image has none.
#[cfg(feature = "tls")]
pub(super) fn certificates(
    builder: ClientBuilder,
    servers: &[String],
    access: &Access,
) -> Result<ClientBuilder, Error> {
    use reqwest::{Certificate, Identity};

    let speaks_tls = servers.iter().any(|server| is_https(server));
    let mut builder = match &access.ca {
        Some(pem) => {
            let authorities = Certificate::from_pem_bundle(pem).ok();
            let authorities = authorities.filter(|found| !found.is_empty()).ok_or_else(|| {
                invalid("the CA has no certificate in PEM form: expected `-----BEGIN CERTIFICATE-----`")
            })?;
            builder.tls_certs_only(authorities)
        }
        None if speaks_tls => builder,
        None => builder.tls_certs_only([]),
    };
    if let Some((certificate, key)) = &access.identity {
        let both = [certificate.as_slice(), b"\n", key].concat();
        let identity = Identity::from_pem(&both).map_err(|_| {
            invalid("the client certificate and its private key cannot be read: both must be in PEM form, the key not encrypted")
        })?;
        builder = builder.identity(identity);
    }
    Ok(builder)
}

/// Refuses certificates, which need TLS.
#[cfg(not(feature = "tls"))]
pub(super) fn certificates(
    builder: ClientBuilder,
    _servers: &[String],
    access: &Access,
) -> Result<ClientBuilder, Error> {
    if access.ca.is_some() || access.identity.is_some() {
        return Err(invalid(
            "certificates need TLS: this build has none (feature `tls`)",
        ));
    }
    Ok(builder)
}

/// Tells whether an address asks for TLS.
#[cfg(feature = "tls")]
fn is_https(server: &str) -> bool {
    let scheme = server.get(..8);
    scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://"))
}

/// Returns what may help when a connection failed for these reasons.
pub(super) fn advice(reasons: &str) -> &'static str {
    // The signature is bad when an authority was made anew under its old name.
    if reasons.contains("UnknownIssuer") || reasons.contains("BadSignature") {
        return "; its authority is not known here: name it by --ca, TICKWHEEL_CA_FILE or `ca` of the builder";
    }
    if reasons.contains("CertificateRequired") {
        return "; the server asks for a client certificate: --client-cert and --client-key, or `identity` of the builder";
    }
    // The reason that the server gave may be lost where it closes the connection before the request is written.
    if reasons.contains("connection was not ready") {
        return "; the server closed the connection at once: if it asks for a client certificate, give --client-cert and --client-key, \
                or `identity` of the builder";
    }
    if reasons.contains("InvalidContentType") {
        return "; the server does not speak TLS: try http://";
    }
    ""
}
