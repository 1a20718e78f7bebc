//! The configuration of TLS encrypts the connections of the link to Cassandra, and checks whom it talks to.
//!
//! Files are read when a node connects. Connections that are made later use what was read then: a node that shall use
//! a new certificate is started again.

use std::{fs, io::Read as _, path::Path, sync::Arc};

use tokio_rustls::rustls::{
    self, CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject as _},
};

use crate::{
    limits::TLS_FILE_BYTES_MAX,
    model::server_access::{Pem, Tls},
    store::Error,
};

fn unusable(reason: String) -> Error {
    Error::Unsuitable { reason }
}

/// Makes the configuration. `hosts` are the contact points, as `host:port`.
pub(super) fn configured(tls: &Tls, hosts: &[String]) -> Result<Arc<ClientConfig>, Error> {
    let Some(authorities) = &tls.authorities else {
        return Err(unusable(
            "TLS needs the authorities of the servers: set cassandra_ca".to_owned(),
        ));
    };
    let library = |error: rustls::Error| unusable(format!("TLS cannot be used: {error}"));
    let provider = Arc::new(aws_lc_rs::default_provider());
    let checks = WebPkiServerVerifier::builder_with_provider(
        Arc::new(roots(authorities)?),
        Arc::clone(&provider),
    );
    let checks = checks
        .build()
        .map_err(|error| unusable(format!("cassandra_ca cannot be used: {error}")))?;
    let verifier = Arc::new(Named {
        checks,
        names: names(hosts),
    });
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(library)?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let Some(identity) = &tls.identity else {
        return Ok(Arc::new(builder.with_no_client_auth()));
    };
    let chain = certificates("cassandra_cert", &identity.certificate)?;
    let key = PrivateKeyDer::from_pem_slice(&bytes("cassandra_key", &identity.key)?);
    let key = key.map_err(|_| {
        unusable(format!(
            "cassandra_key: {:?} has no private key in PEM form: expected `-----BEGIN PRIVATE KEY-----`; an encrypted \
             one cannot be used",
            identity.key
        ))
    })?;
    let config = builder.with_client_auth_cert(chain, key);
    let config = config.map_err(|error| {
        unusable(format!(
            "cassandra_cert and cassandra_key cannot be used together: {error}"
        ))
    })?;
    Ok(Arc::new(config))
}

fn bytes(setting: &str, pem: &Pem) -> Result<Vec<u8>, Error> {
    let path: &Path = match pem {
        Pem::Text(text) => return Ok(text.clone().into_bytes()),
        Pem::File(path) => path,
    };
    let shown = path.display();
    let mut bytes = Vec::new();
    let opened = fs::File::open(path);
    let read = opened.and_then(|file| file.take(TLS_FILE_BYTES_MAX + 1).read_to_end(&mut bytes));
    match read {
        Ok(length) if length as u64 > TLS_FILE_BYTES_MAX => Err(unusable(format!(
            "{setting}: {shown} has more than {TLS_FILE_BYTES_MAX} bytes"
        ))),
        Ok(_) => Ok(bytes),
        Err(error) => Err(unusable(format!(
            "{setting}: {shown} cannot be read: {error}"
        ))),
    }
}

fn certificates(setting: &str, pem: &Pem) -> Result<Vec<CertificateDer<'static>>, Error> {
    let bytes = bytes(setting, pem)?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let found = read.unwrap_or_default();
    if found.is_empty() {
        return Err(unusable(format!(
            "{setting}: {pem:?} has no certificate in PEM form: expected `-----BEGIN CERTIFICATE-----`"
        )));
    }
    Ok(found)
}

fn roots(pem: &Pem) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    // Bundles of machines have authorities that this library does not take; the others count.
    let (taken, _) = roots.add_parsable_certificates(certificates("cassandra_ca", pem)?);
    if taken == 0 {
        return Err(unusable(format!(
            "cassandra_ca: {pem:?} has no authority that can be used"
        )));
    }
    Ok(roots)
}

/// Returns the hosts of the contact points as names that a certificate may have.
fn names(hosts: &[String]) -> Vec<ServerName<'static>> {
    let name = |host: &String| {
        let name = host
            .rsplit_once(':')
            .map_or(host.as_str(), |(name, _)| name);
        let name = name.trim_start_matches('[').trim_end_matches(']');
        ServerName::try_from(name.to_owned()).ok()
    };
    hosts.iter().filter_map(name).collect()
}

/// The check of a server's certificate. The driver learns the servers by their addresses, and asks for these alone. A
/// certificate that names a contact point instead is that of the cluster as well: in Kubernetes addresses change.
#[derive(Debug)]
struct Named {
    checks: Arc<WebPkiServerVerifier>,
    names: Vec<ServerName<'static>>,
}

impl ServerCertVerifier for Named {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let check = |name: &ServerName<'_>| {
            let checks = &self.checks;
            checks.verify_server_cert(end_entity, intermediates, name, ocsp_response, now)
        };
        let by_address = check(server_name);
        match by_address {
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => {
                let by_name = self.names.iter().find_map(|name| check(name).ok());
                by_name.map_or(by_address, Ok)
            }
            decided => decided,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.checks
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.checks
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.checks.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

    use super::*;
    use crate::model::server_access::Identity;

    /// An authority, and a certificate of these names that it has signed.
    fn signed(names: &[&str]) -> (String, String, String) {
        let key = KeyPair::generate().unwrap();
        let mut of_authority = CertificateParams::new(Vec::new()).unwrap();
        of_authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = of_authority.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(of_authority, key);
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let key = KeyPair::generate().unwrap();
        let of_server = CertificateParams::new(names).unwrap();
        let certificate = of_server.signed_by(&key, &issuer).unwrap().pem();
        (authority, certificate, key.serialize_pem())
    }

    fn verified(of_server: &[&str], contact: &str, foreign: bool) -> Result<(), rustls::Error> {
        let (authority, certificate, _) = signed(of_server);
        let believed = if foreign {
            signed(of_server).0
        } else {
            authority
        };
        let verifier = Named {
            checks: WebPkiServerVerifier::builder_with_provider(
                Arc::new(roots(&Pem::Text(believed)).unwrap()),
                Arc::new(aws_lc_rs::default_provider()),
            )
            .build()
            .unwrap(),
            names: names(&[contact.to_owned()]),
        };
        let chain = certificates("", &Pem::Text(certificate)).unwrap();
        let address = ServerName::try_from("10.0.0.7").unwrap();
        verifier
            .verify_server_cert(&chain[0], &[], &address, &[], UnixTime::now())
            .map(drop)
    }

    #[test]
    fn a_certificate_names_the_address_or_a_contact_point() {
        verified(&["10.0.0.7"], "10.0.0.1:9042", false).unwrap();
        verified(&["*.cassandra.svc"], "a.cassandra.svc:9042", false).unwrap();
        verified(&["10.0.0.9"], "10.0.0.1:9042", false).unwrap_err();
        verified(&["b.cassandra.svc"], "a.cassandra.svc:9042", false).unwrap_err();
        verified(&["10.0.0.7"], "10.0.0.7:9042", true).unwrap_err();
    }

    #[test]
    fn files_that_cannot_be_used_are_named_without_their_contents() {
        let (authority, certificate, key) = signed(&["a"]);
        let (_, _, foreign) = signed(&["a"]);
        let text = |text: &str| Pem::Text(text.to_owned());
        let asked = |authorities: Pem, certificate: Pem, key: Pem| {
            let tls = Tls {
                authorities: Some(authorities),
                identity: Some(Identity { certificate, key }),
            };
            configured(&tls, &[]).map(drop)
        };
        let (good, shown) = (text(&authority), text(&certificate));
        asked(good.clone(), shown.clone(), text(&key)).unwrap();
        for (refused, says) in [
            (
                asked(Pem::File("/no/ca.pem".into()), shown.clone(), text(&key)),
                "cassandra_ca: /no/ca.pem cannot be read",
            ),
            (
                asked(text("x"), shown.clone(), text(&key)),
                "has no certificate in PEM form",
            ),
            (
                asked(good.clone(), shown.clone(), text(&certificate)),
                "has no private key in PEM form",
            ),
            (
                asked(good, shown, text(&foreign)),
                "cannot be used together",
            ),
        ] {
            let error = refused.unwrap_err().to_string();
            assert!(
                error.contains(says) && !error.contains("KEY-----\n"),
                "{error}"
            );
        }
    }
}
