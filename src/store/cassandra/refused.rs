//! The reading of a failed connection tells an operator what to do: to mend the settings, or to wait for the servers.

use std::{io, time::Duration};

use scylla::errors::{
    BrokenConnectionError, BrokenConnectionErrorKind, ConnectionError, ConnectionPoolError,
    ConnectionSetupRequestErrorKind, DbError, ExecutionError, FrameHeaderParseError, MetadataError,
    NewSessionError, RequestAttemptError,
};
use tokio_rustls::rustls;

use super::Settings;
use crate::store::Error;

/// Words of a server that knows user and password to be wrong (Cassandra and Scylla). With all others it may not have been
/// able to ask its own tables.
const WRONG_USER: [&str; 2] = ["incorrect", "not permitted to log in"];

/// Returns the meaning of an error of a session that could not be made.
pub(super) fn unconnected(settings: &Settings, error: &NewSessionError) -> Error {
    let at = settings.contact_points.join(", ");
    match connection(error).and_then(refusal) {
        Some(Refusal::Settings(reason)) => Error::Unsuitable {
            reason: format!("{at}: {reason}"),
        },
        Some(Refusal::Perhaps(reason)) => Error::Unavailable {
            operation: "connect",
            reason: format!("{at}: {reason}"),
        },
        None => Error::Unavailable {
            operation: "connect",
            reason: format!("{at}: {}{}", in_one_line(error), advice(settings, error)),
        },
    }
}

/// Texts of the driver may have several lines, and a full stop.
fn in_one_line(error: &NewSessionError) -> String {
    let text = error.to_string();
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").trim_end_matches('.').to_owned()
}

/// Returns the error of servers that did not answer in this time.
pub(super) fn silent(settings: &Settings, limit: Duration) -> Error {
    Error::Unavailable {
        operation: "connect",
        reason: format!(
            "{}: no answer within {limit:?}",
            settings.contact_points.join(", ")
        ),
    }
}

/// Returns the error of the last connection.
const fn connection(error: &NewSessionError) -> Option<&ConnectionError> {
    match error {
        NewSessionError::MetadataError(MetadataError::ConnectionPoolError(
            ConnectionPoolError::Broken {
                last_connection_error,
            },
        )) => Some(last_connection_error),
        _ => None,
    }
}

/// A refusal by a server, or of a server.
enum Refusal {
    /// It stays until a person changes something.
    Settings(String),
    /// It may pass.
    Perhaps(String),
}

fn refusal(error: &ConnectionError) -> Option<Refusal> {
    if let Some(cause) = tls_error(error) {
        return of_tls(cause);
    }
    match error {
        ConnectionError::ConnectionSetupRequestError(setup) => match setup.get_error() {
            ConnectionSetupRequestErrorKind::MissingAuthentication => Some(Refusal::Settings(
                "the server asks for a user and a password: set cassandra_user and cassandra_password_file".to_owned(),
            )),
            ConnectionSetupRequestErrorKind::DbError(DbError::AuthenticationError, said) => {
                Some(unknown_user(said))
            }
            _ => None,
        },
        _ => None,
    }
}

/// Returns the error of TLS that ended a connection: at once, or at the first answer, when the server has looked at a
/// certificate.
fn tls_error(error: &ConnectionError) -> Option<&rustls::Error> {
    let io: &io::Error = match error {
        ConnectionError::IoError(error) => error,
        ConnectionError::BrokenConnection(broken) => of_broken(broken)?,
        ConnectionError::ConnectionSetupRequestError(setup) => match setup.get_error() {
            ConnectionSetupRequestErrorKind::BrokenConnection(broken) => of_broken(broken)?,
            _ => return None,
        },
        _ => return None,
    };
    io.get_ref()?.downcast_ref()
}

fn of_broken(broken: &BrokenConnectionError) -> Option<&io::Error> {
    match broken.downcast_ref()? {
        BrokenConnectionErrorKind::FrameHeaderParseError(FrameHeaderParseError::HeaderIoError(
            error,
        ))
        | BrokenConnectionErrorKind::WriteError(error) => Some(error),
        _ => None,
    }
}

fn unknown_user(said: &str) -> Refusal {
    if !WRONG_USER.iter().any(|words| said.contains(words)) {
        return Refusal::Perhaps(format!("the server cannot check the password now: {said}"));
    }
    Refusal::Settings(format!(
        "the server refuses the user or the password: {said}; check cassandra_user and cassandra_password_file"
    ))
}

fn of_tls(cause: &rustls::Error) -> Option<Refusal> {
    let what = match cause {
        rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer) => {
            "the certificate of the server is of an authority that is not in cassandra_ca"
                .to_owned()
        }
        rustls::Error::InvalidCertificate(
            why @ (rustls::CertificateError::NotValidYet
            | rustls::CertificateError::NotValidYetContext { .. }
            | rustls::CertificateError::Expired
            | rustls::CertificateError::ExpiredContext { .. }),
        ) => {
            // The clock of this machine may not be set yet.
            return Some(Refusal::Perhaps(format!(
                "the certificate of the server is not valid now: {why}; check it, and the clock of this machine"
            )));
        }
        rustls::Error::InvalidCertificate(why) => {
            format!(
                "the certificate of the server does not count: {why}; it must name the address of the server or a host of \
                 cassandra"
            )
        }
        rustls::Error::InvalidMessage(_) => {
            "the server does not speak TLS: leave out cassandra_ca, or have its client_encryption_options say enabled"
                .to_owned()
        }
        rustls::Error::AlertReceived(why) if !is_about_certificates(*why) => {
            // A server that starts, or reads its keys again.
            return Some(Refusal::Perhaps(format!(
                "the server ended TLS ({why:?}): if it asks for a certificate, set cassandra_cert and cassandra_key"
            )));
        }
        rustls::Error::AlertReceived(why) => format!(
            "the server refuses the certificate of this node ({why:?}): check cassandra_cert and cassandra_key"
        ),
        _ => return None,
    };
    Some(Refusal::Settings(what))
}

/// Tells whether a server cannot ask its own tables for users and rights now (Cassandra 4 and 5).
pub(super) fn is_passing(error: &ExecutionError) -> bool {
    const WORDS: &str = "Unable to perform";
    let ExecutionError::LastAttemptError(RequestAttemptError::DbError(kind, said)) = error else {
        return false;
    };
    let asks = matches!(kind, DbError::Unauthorized | DbError::AuthenticationError);
    asks && said.contains(WORDS)
}

/// Tells whether a server ends TLS because of the certificate of this node.
const fn is_about_certificates(alert: rustls::AlertDescription) -> bool {
    use rustls::AlertDescription as Alert;
    matches!(
        alert,
        Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::UnknownCA
            | Alert::AccessDenied
            | Alert::CertificateRequired
            | Alert::NoCertificate
    )
}

/// Returns what may help when a server ends a connection without a word.
fn advice(settings: &Settings, error: &NewSessionError) -> &'static str {
    match connection(error) {
        Some(ConnectionError::IoError(error))
            if error.kind() == io::ErrorKind::ConnectionRefused =>
        {
            ""
        }
        Some(
            ConnectionError::ConnectTimeout
            | ConnectionError::IoError(_)
            | ConnectionError::BrokenConnection(_)
            | ConnectionError::ConnectionSetupRequestError(_),
        ) if settings.access.tls.is_none() => "; if the server wants TLS, set cassandra_ca",
        Some(
            ConnectionError::ConnectTimeout
            | ConnectionError::IoError(_)
            | ConnectionError::BrokenConnection(_)
            | ConnectionError::ConnectionSetupRequestError(_),
        ) if settings
            .access
            .tls
            .as_ref()
            .is_some_and(|tls| tls.identity.is_none()) =>
        {
            "; if the server wants a certificate of its clients, set cassandra_cert and cassandra_key"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_wrong_only_when_the_server_knows_it() {
        let is_final = |said: &str| matches!(unknown_user(said), Refusal::Settings(_));
        for said in [
            "Provided username ada and/or password are incorrect",
            "Username and/or password are incorrect",
            "ada is not permitted to log in",
        ] {
            assert!(is_final(said), "{said}");
        }
        for said in [
            "Unable to perform authentication: Cannot achieve consistency level QUORUM",
            "Could not verify password",
            "authentication failed",
        ] {
            assert!(!is_final(said), "{said}");
        }
    }

    #[test]
    fn a_clock_and_a_server_that_starts_are_waited_for() {
        use rustls::{AlertDescription, CertificateError, Error};
        let is_final = |error: Error| matches!(of_tls(&error), Some(Refusal::Settings(_)));
        for error in [
            Error::InvalidCertificate(CertificateError::UnknownIssuer),
            Error::InvalidCertificate(CertificateError::NotValidForName),
            Error::AlertReceived(AlertDescription::CertificateRequired),
            Error::AlertReceived(AlertDescription::UnknownCA),
        ] {
            assert!(is_final(error.clone()), "{error}");
        }
        for error in [
            Error::InvalidCertificate(CertificateError::NotValidYet),
            Error::InvalidCertificate(CertificateError::Expired),
            Error::AlertReceived(AlertDescription::InternalError),
            Error::AlertReceived(AlertDescription::HandshakeFailure),
        ] {
            assert!(!is_final(error.clone()), "{error}");
        }
    }
}
