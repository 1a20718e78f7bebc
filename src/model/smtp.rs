//! The SMTP server tells the executor where e-mails go out, as the settings name it.

use super::server_access::Login;

/// Port of a server that begins with TLS (RFC 8314).
const PORT_TLS: u16 = 465;
/// Port of a server that changes to TLS (RFC 6409).
const PORT_START_TLS: u16 = 587;
/// Port of a server without TLS.
const PORT_PLAIN: u16 = 25;

/// A server that takes e-mails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SmtpServer {
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The user and the password, if it asks for them.
    pub login: Option<Login>,
    /// How the connection is protected.
    pub security: Security,
}

/// How a connection is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Security {
    /// Not at all.
    None,
    /// It changes to TLS before anything is said, or is not used.
    StartTls,
    /// It begins with TLS.
    Tls,
}

impl SmtpServer {
    /// Reads `smtps://USER:PASSWORD@HOST:PORT`, or `smtp://`, with `?tls=required` for STARTTLS. User and password are
    /// percent-encoded.
    ///
    /// # Errors
    /// A text about the mistake, without the password.
    pub fn read(text: &str) -> Result<Self, String> {
        let form = || {
            "must be smtps://USER:PASSWORD@HOST:PORT, or smtp://HOST:PORT?tls=required".to_owned()
        };
        let (scheme, rest) = text.trim().split_once("://").ok_or_else(form)?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let security = match (scheme, query) {
            ("smtps", "") => Security::Tls,
            ("smtp", "tls=required") => Security::StartTls,
            ("smtp", "") => Security::None,
            _ => return Err(form()),
        };
        let (login, place) = match rest.rsplit_once('@') {
            None => (None, rest),
            Some((login, place)) => (Some(read_login(login)?), place),
        };
        let (host, port) = read_place(place.trim_end_matches('/')).ok_or_else(form)?;
        let port = port.unwrap_or(match security {
            Security::Tls => PORT_TLS,
            Security::StartTls => PORT_START_TLS,
            Security::None => PORT_PLAIN,
        });
        let here = ["localhost", "127.0.0.1", "::1"].contains(&host);
        if login.is_some() && security == Security::None && !here {
            return Err(
                "would send its password in the clear: use smtps://, or add ?tls=required"
                    .to_owned(),
            );
        }
        Ok(Self {
            host: host.to_owned(),
            port,
            login,
            security,
        })
    }
}

fn read_login(text: &str) -> Result<Login, String> {
    let (user, password) = text.split_once(':').unwrap_or((text, ""));
    match (decoded(user), decoded(password)) {
        (Some(user), Some(password)) if !user.is_empty() => Ok(Login { user, password }),
        _ => Err(
            "has a user or a password that is not percent-encoded: write @ as %40, : as %3A, / as %2F and % as %25"
                .to_owned(),
        ),
    }
}

/// Reads a host and a port, if there is one. An address of version 6 stands in brackets.
fn read_place(text: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']')?;
        let port = match rest {
            "" => None,
            rest => Some(rest.strip_prefix(':')?),
        };
        let fits = |c: char| c.is_ascii_hexdigit() || matches!(c, ':' | '.');
        if !host.contains(':') || !host.chars().all(fits) {
            return None;
        }
        (host, port)
    } else {
        let (host, port) = match text.split_once(':') {
            None => (text, None),
            Some((host, port)) => (host, Some(port)),
        };
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if host.is_empty() || !host.chars().all(fits) {
            return None;
        }
        (host, port)
    };
    match port.map(str::parse::<u16>) {
        None => Some((host, None)),
        Some(Ok(port @ 1..)) => Some((host, Some(port))),
        Some(_) => None,
    }
}

/// Decodes percent-encoded bytes. Characters that would end the part of a URL must be encoded.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                let digits = std::str::from_utf8(&digits).ok()?;
                u8::from_str_radix(digits, 16).ok()?
            }
            b'@' | b':' | b'/' | b' ' => return None,
            other => other,
        });
    }
    let text = String::from_utf8(bytes).ok()?;
    (!text.chars().any(char::is_control)).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_read_from_its_url() {
        let read = |text: &str| SmtpServer::read(text).unwrap();
        let full = read("smtps://ada%40example.org:p%3Aw@mail.example.org:2465");
        let login = full.login.clone().unwrap();
        assert_eq!(
            (&*full.host, full.port, full.security),
            ("mail.example.org", 2465, Security::Tls)
        );
        assert_eq!((&*login.user, &*login.password), ("ada@example.org", "p:w"));
        assert!(!format!("{full:?}").contains("p:w"));
        for (text, host, port, security) in [
            ("smtps://a", "a", 465, Security::Tls),
            ("smtp://a?tls=required", "a", 587, Security::StartTls),
            ("smtp://a/", "a", 25, Security::None),
            ("smtp://u:p@[::1]:2525", "::1", 2525, Security::None),
            ("smtp://u:p@127.0.0.1", "127.0.0.1", 25, Security::None),
        ] {
            let found = read(text);
            assert_eq!(
                (&*found.host, found.port, found.security),
                (host, port, security),
                "{text}"
            );
        }
    }

    #[test]
    fn a_mistake_is_told_without_the_password() {
        for text in [
            "",
            "mail.example.org",
            "http://a",
            "smtps://",
            "smtps://a:0",
            "smtps://a:x",
            "smtps://a?tls=no",
            "smtps://u:secret@",
            "smtps://u:secret@a b",
            "smtps://:secret@a",
            "smtps://u:sec@ret@a",
            "smtps://u:secret%0a@a",
            "smtps://u:secret%zz@a",
            "smtp://u:secret@mail.example.org",
            "smtps://[::1",
        ] {
            let refused = SmtpServer::read(text).unwrap_err();
            assert!(!refused.contains("secret"), "{text}: {refused}");
        }
        let clear = SmtpServer::read("smtp://u:p@mail.example.org").unwrap_err();
        assert!(clear.contains("in the clear"), "{clear}");
    }
}
