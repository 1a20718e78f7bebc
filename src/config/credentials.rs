//! The credentials say, for the settings, as whom a node reaches the servers of one kind, and refuse what
//! contradicts itself.

use std::{fmt, fs, path::PathBuf};

use super::{Problem, text::secret};
use crate::{
    limits::PASSWORD_BYTES_MAX,
    model::{
        server_access::{Identity, Login, Mechanism, Pem, Protocol, ServerAccess, Tls},
        signing::{Signing, SigningKey},
    },
};

/// The credentials for the servers of one kind.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Credentials {
    /// The user.
    pub user: Option<String>,
    /// The password, also once it was read from its file.
    pub password: Option<String>,
    /// The file with the password.
    pub password_file: Option<PathBuf>,
    /// The authorities of the servers.
    pub ca: Option<PathBuf>,
    /// The certificate that is shown to them.
    pub cert: Option<PathBuf>,
    /// The private key of that certificate.
    pub key: Option<PathBuf>,
}

impl fmt::Debug for Credentials {
    /// Leaves out the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("user", &self.user)
            .field("password_file", &self.password_file)
            .field("ca", &self.ca)
            .field("cert", &self.cert)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

/// How messages of Kafka are signed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MessageSigning {
    /// The file with the keys.
    pub key_file: Option<PathBuf>,
    /// The keys of that file, once it was read.
    pub signing: Signing,
}

impl MessageSigning {
    /// Reads the keys from their file. Returns the mistake in it, which never shows a part of it.
    pub(super) fn read_keys(&mut self) -> Option<Problem> {
        let path = self.key_file.as_ref()?;
        let read = fs::read_to_string(path).map_err(|error| format!("cannot be read: {error}"));
        let keys = read.and_then(|text| SigningKey::read_all(&text));
        match keys {
            Ok(keys) => self.signing.keys = keys,
            Err(reason) => {
                let reason = format!("{}: {reason}", path.display());
                return Some(problem("kafka", "signing_key_file", reason));
            }
        }
        None
    }
}

/// A mistake in a setting of the servers of one kind, such as `cassandra` and `user`.
fn problem(server: &str, setting: &str, reason: impl Into<String>) -> Problem {
    Problem {
        origin: format!("{server}_{setting}"),
        reason: reason.into(),
    }
}

impl Credentials {
    /// Reads the password from its file. Returns the mistake in it, which never shows a part of it.
    pub(super) fn read_password(&mut self, server: &str) -> Option<Problem> {
        let path = self.password_file.as_ref()?;
        let shown = path.display();
        let of_file = |reason| Some(problem(server, "password_file", reason));
        if self.password.is_some() {
            return of_file(format!("{server}_password is set, too: set one of them"));
        }
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) => return of_file(format!("{shown} cannot be read: {error}")),
        };
        self.password = secret(&text);
        match &self.password {
            None => of_file(format!("{shown} is empty: write the password into it")),
            Some(password) if password.len() > PASSWORD_BYTES_MAX || password.contains('\n') => {
                of_file(format!(
                    "{shown} has more than a password: one line of at most {PASSWORD_BYTES_MAX} bytes is expected"
                ))
            }
            Some(_) => None,
        }
    }

    /// Returns what contradicts itself for the servers of any kind.
    pub(super) fn contradictions(&self, server: &str) -> Vec<Problem> {
        let mut problems = Vec::new();
        let has_password = self.password.is_some() || self.password_file.is_some();
        if self.user.is_some() && !has_password {
            let reason = format!("a user needs a password: set {server}_password_file");
            problems.push(problem(server, "user", reason));
        }
        if self.user.is_none() && has_password {
            let reason = format!("a password needs its user: set {server}_user");
            problems.push(problem(server, "password_file", reason));
        }
        if self.cert.is_some() != self.key.is_some() {
            let reason = format!(
                "{server}_cert and {server}_key need each other: the certificate, and its private key"
            );
            problems.push(problem(server, "cert", reason));
        }
        problems
    }

    /// Tells whether a file of TLS is named.
    const fn has_tls(&self) -> bool {
        self.ca.is_some() || self.cert.is_some()
    }

    /// Returns the access, encrypted or not.
    pub(super) fn access(&self, encrypted: bool) -> ServerAccess {
        let login = self.user.clone().zip(self.password.clone());
        let identity = self.cert.clone().zip(self.key.clone());
        let tls = || Tls {
            authorities: self.ca.clone().map(Pem::File),
            identity: identity.map(|(certificate, key)| Identity {
                certificate: Pem::File(certificate),
                key: Pem::File(key),
            }),
        };
        ServerAccess {
            login: login.map(|(user, password)| Login { user, password }),
            tls: encrypted.then(tls),
        }
    }
}

/// Returns what contradicts itself for Cassandra.
pub(super) fn of_cassandra(
    credentials: &Credentials,
    datacenter: Option<&str>,
    rack: Option<&str>,
) -> Vec<Problem> {
    const SERVER: &str = "cassandra";
    let mut problems = credentials.contradictions(SERVER);
    if credentials.cert.is_some() && credentials.ca.is_none() {
        let reason = "a certificate is shown over TLS alone: set cassandra_ca to the authorities of the servers as well";
        problems.push(problem(SERVER, "cert", reason));
    }
    if rack.is_some() && datacenter.is_none() {
        let reason = "a rack lies in a datacenter: set cassandra_datacenter as well";
        problems.push(problem(SERVER, "rack", reason));
    }
    problems
}

/// Returns the protocol of Kafka: as it is set, or as it follows from the rest.
pub(super) fn protocol(credentials: &Credentials, set: Option<Protocol>) -> Protocol {
    let follows = match (credentials.user.is_some(), credentials.has_tls()) {
        (false, false) => Protocol::Plaintext,
        (false, true) => Protocol::Ssl,
        (true, false) => Protocol::SaslPlaintext,
        (true, true) => Protocol::SaslSsl,
    };
    set.unwrap_or(follows)
}

/// Returns what contradicts itself for Kafka.
pub(super) fn of_kafka(
    credentials: &Credentials,
    set: Option<Protocol>,
    mechanism: Mechanism,
) -> Vec<Problem> {
    const SERVER: &str = "kafka";
    let mut problems = credentials.contradictions(SERVER);
    let mut refuse = |setting, reason: String| problems.push(problem(SERVER, setting, reason));
    if let Some(protocol) = set {
        let name = protocol.name();
        if credentials.has_tls() && !protocol.has_tls() {
            let reason = format!(
                "{name} does not encrypt: leave out kafka_ca, kafka_cert and kafka_key, or use ssl or sasl_ssl"
            );
            refuse("security_protocol", reason);
        }
        if credentials.user.is_some() && !protocol.has_login() {
            let reason = format!(
                "{name} has no login: leave out kafka_user, or use sasl_ssl or sasl_plaintext"
            );
            refuse("security_protocol", reason);
        }
        if credentials.user.is_none() && protocol.has_login() {
            let reason =
                format!("{name} has a login: set kafka_user and kafka_password_file as well");
            refuse("security_protocol", reason);
        }
    }
    let protocol = protocol(credentials, set);
    let proved = credentials.user.is_some() && mechanism != Mechanism::Plain;
    if cfg!(not(feature = "tls")) && (protocol.has_tls() || proved) {
        let reason = "TLS and SCRAM need OpenSSL, which this program was built without: build it with the feature `tls`";
        refuse("security_protocol", reason.to_owned());
    }
    problems
}
