//! The mailer sends e-mails for the executor. Tests have one of their own.

use std::time::Duration;

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
    /// Sends by a server, from an address.
    ///
    /// # Errors
    /// When the address is none, or the server needs TLS, which this program was built without.
    pub fn new(server: &SmtpServer, from: &str, time: TimeSource) -> Result<Self, String> {
        let from = from
            .parse()
            .map_err(|error| format!("smtp_from: {error}"))?;
        let mut transport = builder(server)?
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
        message
            .body(email.body.clone())
            .map_err(|error| wrong(&error))
    }
}

#[cfg(feature = "tls")]
fn builder(server: &SmtpServer) -> Result<smtp::AsyncSmtpTransportBuilder, String> {
    type Transport = AsyncSmtpTransport<Tokio1Executor>;
    let made = match server.security {
        Security::None => Ok(Transport::builder_dangerous(&server.host)),
        Security::StartTls => Transport::starttls_relay(&server.host),
        Security::Tls => Transport::relay(&server.host),
    };
    made.map_err(|error| format!("smtp_url: {error}"))
}

#[cfg(not(feature = "tls"))]
fn builder(server: &SmtpServer) -> Result<smtp::AsyncSmtpTransportBuilder, String> {
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
        let mut reason = format!("{}: {error}", self.host);
        let mut cause = std::error::Error::source(error);
        while let Some(next) = cause {
            reason = format!("{reason}: {next}");
            cause = next.source();
        }
        let code = error.status().map(u16::from);
        let of_login = code.is_some_and(|code| LOGIN_REFUSED.contains(&code));
        if error.is_permanent() && !of_login {
            Mailed::Refused(reason)
        } else {
            Mailed::Later(reason)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixtures;

    #[test]
    fn a_message_has_its_headers_once_whatever_the_e_mail_says() {
        let server = SmtpServer::read("smtp://localhost").unwrap();
        let smtp = Smtp::new(&server, "tickwheel@example.org", TimeSource::real()).unwrap();
        let email = Email {
            to: vec!["ada@example.org".to_owned(), "bob@example.org".to_owned()],
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
        assert_eq!(envelope, email.to);
        let text = String::from_utf8(message.formatted()).unwrap();
        let (headers, _) = text.split_once("\r\n\r\n").unwrap();
        assert!(
            !headers.lines().any(|line| line.starts_with("Bcc")),
            "{headers}"
        );
        assert!(
            headers.contains("Auto-Submitted: auto-generated"),
            "{headers}"
        );
        let name = format!("Message-ID: <{}@tickwheel>", fixtures::id());
        assert!(headers.contains(&name), "{headers}");
        let wrong = Email {
            to: vec!["ada@example.org\r\nRCPT TO:<eve@example.org>".to_owned()],
            ..email
        };
        assert!(smtp.message(fixtures::id(), &wrong).is_err());
        assert!(Smtp::new(&server, "no address", TimeSource::real()).is_err());
    }
}
