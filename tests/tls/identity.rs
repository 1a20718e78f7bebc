//! Authorities and identities for tests, made anew for each.

use std::sync::atomic::{AtomicUsize, Ordering};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

/// Authorities have different names, as those of different people have.
static MADE: AtomicUsize = AtomicUsize::new(0);

/// An authority that signs certificates.
pub(crate) struct Authority {
    pub(crate) certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its private key, in PEM form.
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut of_authority = CertificateParams::new(Vec::new()).unwrap();
        of_authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let name = format!("authority {}", MADE.fetch_add(1, Ordering::Relaxed));
        let named = &mut of_authority.distinguished_name;
        named.push(DnType::CommonName, name);
        Self {
            certificate: of_authority.self_signed(&key).unwrap().pem(),
            issuer: Issuer::new(of_authority, key),
        }
    }

    /// An identity of these names.
    pub(crate) fn identity(&self, names: &[&str]) -> Identity {
        self.identity_until(names, 2100)
    }

    /// The same, until the beginning of a year.
    pub(crate) fn identity_until(&self, names: &[&str], year: i32) -> Identity {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut of_holder = CertificateParams::new(names).unwrap();
        of_holder.not_after = rcgen::date_time_ymd(year, 1, 1);
        let key = KeyPair::generate().unwrap();
        Identity {
            certificate: of_holder.signed_by(&key, &self.issuer).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }
}
