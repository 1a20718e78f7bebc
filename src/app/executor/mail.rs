//! The mailer sends e-mails for the executor. Tests have one of their own.

use std::{path::PathBuf, time::Duration};

use async_trait::async_trait;
use lettre::{
    AsyncSmtpTransport, AsyncTransport as _, Message, Tokio1Executor,
    message::{
        Mailbox,
        header::{ContentType, HeaderName, HeaderValue},
    },
    transport::smtp::{self, authentication::Credentials},
};
use tokio::sync::Semaphore;

use crate::{
    limits::{EMAIL_TIMEOUT, EMAILS_AT_ONCE_MAX},
    model::{
        email::Email,
        ids::TaskId,
        smtp::{Security, SmtpServer},
    },
    time_source::TimeSource,
};

/// When an e-mail comes again that found all connections in use: from this on, and up to twice as long.
const BUSY: Duration = Duration::from_secs(1);

/// How a server answers a login that it refuses, or misses. The settings are wrong then, and not the e-mail.
const LOGIN_REFUSED: std::ops::RangeInclusive<u16> = 530..=538;

/// A sender of e-mails.
#[async_trait]
pub trait Mailer: std::fmt::Debug + Send + Sync {
    /// Sends an e-mail, under a name that is the same at each attempt.
    async fn send(&self, name: TaskId, email: &Email) -> Mailed;
}

/// How the sending of an e-mail went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mailed {
    /// The server has taken it.
    Taken,
    /// Nothing was tried: it is to come again after this.
    Busy(Duration),
    /// It is to be sent again.
    Later(String),
    /// It is not to be sent again.
    Refused(String),
}

/// The settings of a sender over SMTP.
#[derive(Debug, Clone)]
pub struct SmtpOptions {
    /// The server.
    pub server: SmtpServer,
    /// The address that e-mails come from.
    pub from: String,
    /// A file with authorities in PEM form, one of which signed the certificate of the server; none means those of the machine.
    pub ca: Option<PathBuf>,
}

/// A sender over SMTP.
#[derive(Debug)]
pub struct Smtp {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    /// The server, for errors.
    host: String,
    from: Mailbox,
    time: TimeSource,
    places: Semaphore,
}

impl Smtp {
    /// Sends as these settings say. It reads the file of authorities, and connects to nobody yet.
    ///
    /// # Errors
    /// When the address is none, the file of authorities has none, or the server needs TLS, which this program was built without.
    pub fn new(options: &SmtpOptions, time: TimeSource) -> Result<Self, String> {
        let SmtpOptions { server, from, .. } = options;
        let from = from
            .parse()
            .map_err(|error| format!("smtp_from: {error}"))?;
        let mut transport = builder(options)?
            .port(server.port)
            .timeout(Some(EMAIL_TIMEOUT));
        if let Some(login) = &server.login {
            let (user, password) = (login.user.clone(), login.password.clone());
            transport = transport.credentials(Credentials::new(user, password));
        }
        Ok(Self {
            transport: transport.build(),
            host: server.host.clone(),
            from,
            time,
            places: Semaphore::new(EMAILS_AT_ONCE_MAX),
        })
    }

    fn message(&self, name: TaskId, email: &Email) -> Result<Message, String> {
        let wrong = |error: &dyn std::fmt::Display| format!("the e-mail cannot be made: {error}");
        let automatic = HeaderName::new_from_ascii_str("Auto-Submitted");
        let mut message = Message::builder()
            .from(self.from.clone())
            .subject(&email.subject)
            // Receivers that get it twice see one message.
            .message_id(Some(format!("<{name}@tickwheel>")))
            // So that no automatic answer comes back.
            .raw_header(HeaderValue::new(automatic, "auto-generated".to_owned()))
            .header(ContentType::TEXT_PLAIN);
        for address in &email.to {
            message = message.to(address.parse().map_err(|error| wrong(&error))?);
        }
        for address in &email.cc {
            message = message.cc(address.parse().map_err(|error| wrong(&error))?);
        }
        message
            .body(email.body.clone())
            .map_err(|error| wrong(&error))
    }
}

#[cfg(feature = "tls")]
fn builder(options: &SmtpOptions) -> Result<smtp::AsyncSmtpTransportBuilder, String> {
    use smtp::client::{Tls, TlsParameters};

    type Transport = AsyncSmtpTransport<Tokio1Executor>;
    let server = &options.server;
    let parameters = || -> Result<TlsParameters, String> {
        let parameters = TlsParameters::builder(server.host.clone());
        let parameters = match &options.ca {
            None => parameters,
            Some(path) => believing(parameters, path)?,
        };
        let made = parameters.build();
        // Without a file the authorities of the machine are read, which may fail, too.
        made.map_err(|error| format!("smtp_ca: {}", with_causes(&error)))
    };
    let tls = match server.security {
        Security::None => Tls::None,
        Security::StartTls => Tls::Required(parameters()?),
        Security::Tls => Tls::Wrapper(parameters()?),
    };
    Ok(Transport::builder_dangerous(&server.host).tls(tls))
}

/// Believes the authorities of a file, and no others.
#[cfg(feature = "tls")]
fn believing(
    parameters: smtp::client::TlsParametersBuilder,
    path: &std::path::Path,
) -> Result<smtp::client::TlsParametersBuilder, String> {
    use smtp::client::{Certificate, CertificateStore};
    use tokio_rustls::rustls::pki_types::{CertificateDer, pem::PemObject as _};

    let wrong = |reason: &str| format!("smtp_ca: {} {reason}", path.display());
    let pem = std::fs::read(path).map_err(|error| wrong(&format!("cannot be read: {error}")))?;
    let found: Result<Vec<CertificateDer<'_>>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let found = found.unwrap_or_default();
    if found.is_empty() {
        return Err(wrong(
            "has no certificate that can be read: expected `-----BEGIN CERTIFICATE-----`",
        ));
    }
    let mut parameters = parameters.certificate_store(CertificateStore::None);
    for certificate in found {
        let certificate = Certificate::from_der(certificate.to_vec());
        let certificate = certificate.map_err(|error| wrong(&with_causes(&error)))?;
        parameters = parameters.add_root_certificate(certificate);
    }
    Ok(parameters)
}

#[cfg(not(feature = "tls"))]
fn builder(options: &SmtpOptions) -> Result<smtp::AsyncSmtpTransportBuilder, String> {
    let server = &options.server;
    match server.security {
        Security::None => Ok(AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(&server.host)),
        Security::StartTls | Security::Tls => Err(
            "smtp_url: needs TLS, which this program was built without: build it with the feature `tls`"
                .to_owned(),
        ),
    }
}

#[async_trait]
impl Mailer for Smtp {
    async fn send(&self, name: TaskId, email: &Email) -> Mailed {
        let Ok(_place) = self.places.try_acquire() else {
            let spread = self.time.random() % 1000;
            return Mailed::Busy(BUSY + Duration::from_millis(spread));
        };
        let message = match self.message(name, email) {
            Ok(message) => message,
            Err(reason) => return Mailed::Refused(reason),
        };
        let sent = self.transport.send(message);
        match self.time.within(EMAIL_TIMEOUT, sent).await {
            None => Mailed::Later(format!("{}: no answer in time", self.host)),
            Some(Ok(_)) => Mailed::Taken,
            Some(Err(error)) => self.judged(&error),
        }
    }
}

impl Smtp {
    /// Tells what a failure means: a server that refuses an e-mail for good refuses it again.
    fn judged(&self, error: &smtp::Error) -> Mailed {
        let reason = with_causes(error);
        let reason = format!("{}: {reason}{}", self.host, advice(&reason));
        let code = error.status().map(u16::from);
        let of_login = code.is_some_and(|code| LOGIN_REFUSED.contains(&code));
        if error.is_permanent() && !of_login {
            Mailed::Refused(reason)
        } else {
            Mailed::Later(reason)
        }
    }
}

/// Writes an error with its causes.
fn with_causes(error: &smtp::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    text
}

/// Returns what may help against a failure of TLS.
fn advice(reason: &str) -> &'static str {
    if reason.contains("UnknownIssuer") {
        "; the authority of the mail server is not known here: name its file by --smtp-ca"
    } else if reason.contains("InvalidContentType") || reason.contains("corrupt message") {
        "; the mail server does not begin with TLS at this port: use smtp://HOST:PORT?tls=required for STARTTLS"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixtures;

    fn options(url: &str, from: &str) -> SmtpOptions {
        SmtpOptions {
            server: SmtpServer::read(url).unwrap(),
            from: from.to_owned(),
            ca: None,
        }
    }

    #[test]
    fn a_message_has_its_headers_once_whatever_the_e_mail_says() {
        let server = options("smtp://localhost", "tickwheel@example.org");
        let smtp = Smtp::new(&server, TimeSource::real()).unwrap();
        let email = Email {
            to: vec!["ada@example.org".to_owned(), "bob@example.org".to_owned()],
            cc: vec!["cleo@example.org".to_owned()],
            subject: "Grüße\r\nBcc: eve@example.org".to_owned(),
            body: "line\n.\nBcc: eve@example.org\n".to_owned(),
        };
        let message = smtp.message(fixtures::id(), &email).unwrap();
        let envelope: Vec<String> = message
            .envelope()
            .to()
            .iter()
            .map(ToString::to_string)
            .collect();
        assert!(envelope.iter().eq(email.receivers()), "{envelope:?}");
        let text = String::from_utf8(message.formatted()).unwrap();
        let (headers, _) = text.split_once("\r\n\r\n").unwrap();
        assert!(
            !headers.lines().any(|line| line.starts_with("Bcc")),
            "{headers}"
        );
        assert!(headers.contains("Cc: cleo@example.org"), "{headers}");
        assert!(
            headers.contains("Auto-Submitted: auto-generated"),
            "{headers}"
        );
        let name = format!("Message-ID: <{}@tickwheel>", fixtures::id());
        assert!(headers.contains(&name), "{headers}");
        let wrong = vec!["ada@example.org\r\nRCPT TO:<eve@example.org>".to_owned()];
        let (to, cc) = (email.to.clone(), Vec::new());
        for (to, cc) in [(wrong.clone(), cc), (to, wrong)] {
            let wrong = Email {
                to,
                cc,
                ..email.clone()
            };
            assert!(smtp.message(fixtures::id(), &wrong).is_err());
        }
        let nobody = options("smtp://localhost", "no address");
        assert!(Smtp::new(&nobody, TimeSource::real()).is_err());
    }

    #[test]
    #[cfg(feature = "tls")]
    fn a_file_without_authorities_is_refused_by_its_name() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path();
        let (no_certificate, damaged) = (
            "-----BEGIN PRIVATE KEY-----\nMC4=\n-----END PRIVATE KEY-----\n",
            "-----BEGIN CERTIFICATE-----\nMC4=\n-----END CERTIFICATE-----\n",
        );
        for text in ["", "text", no_certificate, damaged] {
            std::fs::write(path, text).unwrap();
            for url in ["smtps://localhost", "smtp://localhost?tls=required"] {
                let options = SmtpOptions {
                    ca: Some(path.to_owned()),
                    ..options(url, "tickwheel@example.org")
                };
                let refused = Smtp::new(&options, TimeSource::real()).unwrap_err();
                assert!(refused.starts_with("smtp_ca: "), "{text}: {refused}");
            }
        }
        let missing = SmtpOptions {
            ca: Some("/no/ca.pem".into()),
            ..options("smtps://localhost", "tickwheel@example.org")
        };
        let refused = Smtp::new(&missing, TimeSource::real()).unwrap_err();
        assert!(
            refused.starts_with("smtp_ca: /no/ca.pem cannot be read"),
            "{refused}"
        );
    }
}
