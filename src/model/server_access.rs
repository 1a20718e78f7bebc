//! The server access tells the store and the queue, as the settings name it, whom they believe and how they prove
//! who they are.
//!
//! It holds names of files, or what a program of one's own has read. Opening them is left to those who connect.

use std::{fmt, path::PathBuf};

/// A user and the password. It does not show itself.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// The user.
    pub user: String,
    /// The password.
    pub password: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Login")
    }
}

/// Certificates or a private key in PEM form. A text does not show itself.
#[derive(Clone, PartialEq, Eq)]
pub enum Pem {
    /// In a file.
    File(PathBuf),
    /// As a text.
    Text(String),
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Text(_) => f.write_str("Pem"),
        }
    }
}

/// A certificate that a client shows, and its private key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The certificate, with those between it and its authority.
    pub certificate: Pem,
    /// Its private key.
    pub key: Pem,
}

/// The terms of encrypted connections.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tls {
    /// The authorities of the servers; none means those of the machine.
    pub authorities: Option<Pem>,
    /// The certificate for servers that ask for one.
    pub identity: Option<Identity>,
}

/// How a program reaches servers that do not talk to everybody.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServerAccess {
    /// The user and the password, for servers that ask for them.
    pub login: Option<Login>,
    /// The terms of encryption; none means that connections are not encrypted.
    pub tls: Option<Tls>,
}

/// How a broker of Kafka learns the password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mechanism {
    /// It is sent as it is.
    Plain,
    /// Its knowledge is proved, with SHA-256.
    ScramSha256,
    /// Its knowledge is proved, with SHA-512.
    #[default]
    ScramSha512,
}

impl Mechanism {
    /// Every mechanism.
    pub const ALL: [Self; 3] = [Self::Plain, Self::ScramSha256, Self::ScramSha512];

    /// Returns its name in the protocol.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha512 => "SCRAM-SHA-512",
        }
    }
}

/// How a connection to a broker of Kafka begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// Neither encrypted nor with a login.
    Plaintext,
    /// Encrypted.
    Ssl,
    /// With a login.
    SaslPlaintext,
    /// Encrypted, and with a login.
    SaslSsl,
}

impl Protocol {
    /// Every protocol.
    pub const ALL: [Self; 4] = [
        Self::Plaintext,
        Self::Ssl,
        Self::SaslPlaintext,
        Self::SaslSsl,
    ];

    /// Returns the protocol of an access.
    #[must_use]
    pub const fn of(access: &ServerAccess) -> Self {
        match (&access.login, &access.tls) {
            (None, None) => Self::Plaintext,
            (None, Some(_)) => Self::Ssl,
            (Some(_), None) => Self::SaslPlaintext,
            (Some(_), Some(_)) => Self::SaslSsl,
        }
    }

    /// Returns its name in the settings of Kafka, in lower case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plaintext => "plaintext",
            Self::Ssl => "ssl",
            Self::SaslPlaintext => "sasl_plaintext",
            Self::SaslSsl => "sasl_ssl",
        }
    }

    /// Tells whether it encrypts.
    #[must_use]
    pub const fn has_tls(self) -> bool {
        matches!(self, Self::Ssl | Self::SaslSsl)
    }

    /// Tells whether it has a login.
    #[must_use]
    pub const fn has_login(self) -> bool {
        matches!(self, Self::SaslPlaintext | Self::SaslSsl)
    }
}

/// Tells whether all hosts, as `host:port`, are this machine: nobody listens to what is sent to them.
#[must_use]
pub fn are_here(hosts: &[String]) -> bool {
    hosts.iter().all(|host| {
        let name = host.rsplit_once(':').map_or(&**host, |(name, _)| name);
        name == "localhost" || name == "[::1]" || name.starts_with("127.")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_secret_is_shown() {
        let secret = || "s3cr3t".to_owned();
        let access = ServerAccess {
            login: Some(Login {
                user: "ada".to_owned(),
                password: secret(),
            }),
            tls: Some(Tls {
                authorities: Some(Pem::File("ca.pem".into())),
                identity: Some(Identity {
                    certificate: Pem::Text(secret()),
                    key: Pem::Text(secret()),
                }),
            }),
        };
        let shown = format!("{access:?}");
        assert!(
            shown.contains("ca.pem") && !shown.contains("s3cr3t"),
            "{shown}"
        );
    }

    #[test]
    fn the_protocol_follows_from_what_there_is() {
        for protocol in Protocol::ALL {
            let login = || Login {
                user: String::new(),
                password: String::new(),
            };
            let access = ServerAccess {
                login: protocol.has_login().then(login),
                tls: protocol.has_tls().then(Tls::default),
            };
            assert_eq!(Protocol::of(&access), protocol);
        }
    }

    #[test]
    fn a_host_is_here_by_its_name_or_its_address() {
        let here = |text: &str| are_here(&[text.to_owned(), "localhost:1".to_owned()]);
        assert!(here("127.0.0.1:9042") && here("[::1]:9042"));
        assert!(!here("10.0.0.1:9042") && !here("localhost.example.org:9042"));
    }
}
