//! The e-mail tells the executor what an action sends, and to whom.
//!
//! Addresses are of a plain form: ASCII, without quotes, comments and names. So none can hold a line feed or a second address.

use super::template::{Fact, Template, one_line};

/// Longest address: what SMTP allows for a path (RFC 5321, section 4.5.3.1).
const ADDRESS_BYTES_MAX: usize = 254;
/// Longest part before the `@`.
const LOCAL_BYTES_MAX: usize = 64;
/// Longest part of a domain between dots.
const PART_BYTES_MAX: usize = 63;

/// Longest subject with its values, in characters.
const SUBJECT_CHARS_MAX: usize = 250;
/// Longest body with its values, in characters.
const BODY_CHARS_MAX: usize = 8000;

/// An e-mail: as a client wrote it, or with the values of its templates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Email {
    /// Its receivers, at least one.
    pub to: Vec<String>,
    /// Further receivers, whom all of them see.
    pub cc: Vec<String>,
    /// The subject, in one line.
    pub subject: String,
    /// The text.
    pub body: String,
}

impl Email {
    /// Returns all receivers.
    pub fn receivers(&self) -> impl Iterator<Item = &String> {
        self.to.iter().chain(&self.cc)
    }

    /// Returns the facts that its templates name.
    ///
    /// # Errors
    /// The field, and a text about the first mistake in it.
    pub fn facts(&self) -> Result<Vec<Fact>, (&'static str, String)> {
        let subject = Template::read(&self.subject).map_err(|reason| ("subject", reason))?;
        let body = Template::read(&self.body).map_err(|reason| ("body", reason))?;
        Ok(subject.facts().chain(body.facts()).cloned().collect())
    }

    /// Returns it with the values of its templates. A template that cannot be read, which was checked at the registration, is
    /// written as it is.
    #[must_use]
    pub fn filled(&self, value: impl Fn(&Fact) -> Option<String>) -> Self {
        let fill = |text: &str, chars_max: usize| {
            let template = Template::read(text).ok();
            template.map_or_else(
                || text.to_owned(),
                |template| template.write(&value, chars_max),
            )
        };
        Self {
            to: self.to.clone(),
            cc: self.cc.clone(),
            subject: one_line(&fill(&self.subject, SUBJECT_CHARS_MAX)),
            body: fill(&self.body, BODY_CHARS_MAX),
        }
    }
}

/// Checks an address.
///
/// # Errors
/// A text about the mistake in it.
pub fn check_address(text: &str) -> Result<(), String> {
    let wrong = || {
        "must be an address such as ada@example.org: ASCII, without a name, quotes or spaces"
            .to_owned()
    };
    if text.len() > ADDRESS_BYTES_MAX {
        return Err(format!("has more than {ADDRESS_BYTES_MAX} characters"));
    }
    let (local, domain) = text.rsplit_once('@').ok_or_else(wrong)?;
    let is_local = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c);
    let local_fits = local.len() <= LOCAL_BYTES_MAX
        && local
            .split('.')
            .all(|part| !part.is_empty() && part.chars().all(is_local));
    let is_domain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let domain_fits = domain.split('.').all(|part| {
        (1..=PART_BYTES_MAX).contains(&part.len())
            && part.chars().all(is_domain)
            && !part.starts_with('-')
            && !part.ends_with('-')
    });
    if local_fits && domain_fits {
        Ok(())
    } else {
        Err(wrong())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn addresses_have_a_plain_form() {
        for good in [
            "ada@example.org",
            "a.b+c_d@x",
            "o'neil@a-b.example",
            "7@localhost",
        ] {
            assert_eq!(check_address(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "ada",
            "@example.org",
            "ada@",
            "ada@@example.org",
            "ada@b@example.org",
            "Ada <ada@example.org>",
            "\"a b\"@example.org",
            "ada@example.org, bob@example.org",
            "ada@example.org\r\nRCPT TO:<bob@example.org>",
            "ada@example.org\n",
            "ada\0@example.org",
            "a..b@example.org",
            ".a@example.org",
            "ada@example..org",
            "ada@-example.org",
            "ada@[127.0.0.1]",
            "ädä@example.org",
            "ada@exämple.org",
        ] {
            assert!(check_address(bad).is_err(), "{bad:?}");
        }
        let long = format!("{}@example.org", "x".repeat(65));
        assert!(check_address(&long).is_err());
        let long = format!("a@{}example.org", "x.".repeat(200));
        assert!(check_address(&long).is_err_and(|reason| reason.contains("254")));
    }

    #[test]
    fn a_filled_subject_is_one_line() {
        let email = Email {
            to: vec!["ada@example.org".to_owned()],
            cc: Vec::new(),
            subject: "{{task.error}}".to_owned(),
            body: "{{task.error}}\n{{task.labels.a}}".to_owned(),
        };
        let filled = email.filled(|_| Some("no\r\nBcc: x@example.org".to_owned()));
        assert_eq!(filled.subject, "no Bcc: x@example.org");
        assert_eq!(
            filled.body,
            "no\nBcc: x@example.org\nno\nBcc: x@example.org"
        );
        assert_eq!(email.facts().unwrap().len(), 3);
        let wrong = Email {
            body: "{{task.none}}".to_owned(),
            ..email
        };
        assert!(wrong.facts().is_err_and(|(field, _)| field == "body"));
    }

    proptest! {
        #[test]
        fn no_address_has_a_space_or_a_control(text in "[a-z@\\.<> \\r\\n\\p{Cc}]{1,20}") {
            if check_address(&text).is_ok() {
                prop_assert!(text.chars().all(|c| c.is_ascii_graphic() && !"<>,\"".contains(c)));
                prop_assert_eq!(text.matches('@').count(), 1);
            }
        }
    }
}
