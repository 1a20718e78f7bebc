//! The configuration of TLS is made for the listener from the contents of its files.

use std::{
    io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use sha2::{Digest as _, Sha256};
use tokio::io::AsyncReadExt as _;
use tokio_rustls::rustls::{
    self, RootCertStore, ServerConfig,
    crypto::{CryptoProvider, aws_lc_rs},
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};

use super::Files;
use crate::{
    limits::TLS_FILE_BYTES_MAX,
    model::{certificate, time::Millis},
};

/// Permissions that let every user of the machine read a file.
const READ_BY_OTHERS: u32 = 0o004;

/// Why the files of TLS cannot be used. No text shows a part of a key.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file is not there, too large, or not for this user.
    #[error("the {what} {} cannot be read: {cause}", path.display())]
    Unreadable {
        /// The contents that it should have.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the system.
        cause: io::Error,
    },
    /// A file has other contents.
    #[error("{} has no {what} in PEM form: {expected}", path.display())]
    Missing {
        /// The contents that it should have.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The line that it should have.
        expected: &'static str,
    },
    /// The key is not that of the certificate, or of a kind that is not known.
    #[error("the certificate {} and the key {} cannot be used together: {cause}", certificate.display(), key.display())]
    Unusable {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// The error of the library.
        cause: rustls::Error,
    },
    /// The authorities of clients cannot be used.
    #[error("the authorities of clients in {} cannot be used: {cause}", path.display())]
    Authorities {
        /// The file.
        path: PathBuf,
        /// The error of the library.
        cause: String,
    },
}

/// A configuration in force.
#[derive(Debug)]
pub(super) struct Current {
    pub(super) config: Arc<ServerConfig>,
    /// The end of the certificate, or of one between it and its authority that ends before.
    pub(super) end: Option<Millis>,
}

/// The contents of the files.
pub(super) struct Contents {
    certificate: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
    others_read_key: bool,
}

impl Contents {
    /// Reads all files.
    pub(super) async fn read(files: &Files) -> Result<Self, Error> {
        let (certificate, _) = read("certificate", &files.certificate).await?;
        let (key, mode) = read("private key", &files.key).await?;
        let client_ca = match &files.client_ca {
            Some(path) => Some(read("authorities of clients", path).await?.0),
            None => None,
        };
        Ok(Self {
            certificate,
            key,
            client_ca,
            others_read_key: mode & READ_BY_OTHERS != 0,
        })
    }

    /// Returns a hash, by which a change is seen without keeping the key.
    pub(super) fn hash(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        let client_ca = self.client_ca.as_deref().unwrap_or_default();
        for part in [&*self.certificate, &*self.key, client_ca] {
            hash.update(part.len().to_be_bytes());
            hash.update(part);
        }
        hash.finalize().into()
    }

    /// Warns of a key that every user of the machine can read.
    pub(super) fn warn_of_readers(&self, files: &Files) {
        if self.others_read_key {
            tracing::warn!(
                key = %files.key.display(),
                "every user of this machine can read the private key of TLS: take that right away (chmod o-r)"
            );
        }
    }

    /// Makes the configuration.
    pub(super) fn configured(&self, files: &Files) -> Result<Current, Error> {
        let chain = certificates("certificate", &files.certificate, &self.certificate)?;
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(|_| Error::Missing {
            what: "private key",
            path: files.key.clone(),
            expected: "expected `-----BEGIN PRIVATE KEY-----`; an encrypted one cannot be used",
        })?;
        let unusable = |cause| Error::Unusable {
            certificate: files.certificate.clone(),
            key: files.key.clone(),
            cause,
        };
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(unusable)?;
        let builder = match (&files.client_ca, &self.client_ca) {
            (Some(path), Some(bytes)) => {
                builder.with_client_cert_verifier(clients(path, bytes, provider)?)
            }
            _ => builder.with_no_client_auth(),
        };
        let end = chain.iter().filter_map(|one| certificate::end(one)).min();
        let mut config = builder.with_single_cert(chain, key).map_err(unusable)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Current {
            config: Arc::new(config),
            end,
        })
    }
}

/// Reads a file; returns its permissions, too.
async fn read(what: &'static str, path: &Path) -> Result<(Vec<u8>, u32), Error> {
    let reading = async {
        let file = tokio::fs::File::open(path).await?;
        let mode = file.metadata().await?.permissions().mode();
        let mut bytes = Vec::new();
        let mut limited = file.take(TLS_FILE_BYTES_MAX + 1);
        limited.read_to_end(&mut bytes).await?;
        if bytes.len() as u64 > TLS_FILE_BYTES_MAX {
            let text = format!("it has more than {TLS_FILE_BYTES_MAX} bytes");
            return Err(io::Error::other(text));
        }
        Ok((bytes, mode))
    };
    reading.await.map_err(|cause| Error::Unreadable {
        what,
        path: path.to_owned(),
        cause,
    })
}

fn certificates(
    what: &'static str,
    path: &Path,
    pem: &[u8],
) -> Result<Vec<CertificateDer<'static>>, Error> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = read.unwrap_or_default();
    if found.is_empty() {
        return Err(Error::Missing {
            what,
            path: path.to_owned(),
            expected: "expected `-----BEGIN CERTIFICATE-----`",
        });
    }
    Ok(found)
}

/// Makes the check of the certificates of clients.
fn clients(
    path: &Path,
    pem: &[u8],
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, Error> {
    let unusable = |cause: String| Error::Authorities {
        path: path.to_owned(),
        cause,
    };
    let mut authorities = RootCertStore::empty();
    for authority in certificates("certificate of an authority", path, pem)? {
        let added = authorities.add(authority);
        added.map_err(|error| unusable(error.to_string()))?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), provider)
        .build()
        .map_err(|error| unusable(error.to_string()))
}
