//! The class of an error tells operators which failures are one: dead letters are counted by it, and lists and jobs filter by it.
//!
//! A class is the first line of an error without its numbers and ids. The errors of requests over HTTP begin with the host, and
//! with the status if it answered. Both stay, since they say where the fault lies: a missing page of one host and an outage of
//! another are two classes. The texts of these errors are made here, beside the rule that reads them, and the text is all that
//! decides. So whoever knows an error, or its class, gets the same class: a row, a letter, a filter, a program of the user's.

use core::net::{Ipv4Addr, Ipv6Addr};

use uuid::Uuid;

/// Longest class of an error: a line of a log. A host and a status that stay are shorter.
pub const ERROR_CLASS_CHARS_MAX: usize = 200;

/// Longest host that stays, with its port: the longest that a URL of a task may have.
const HOST_BYTES_MAX: usize = 128;

/// Digits of a status of HTTP.
const STATUS_DIGITS: usize = 3;

/// Characters of an id such as `0198c2a4-7c51-8003-a1b2-c3d4e5f60718`.
const UUID_CHARS: usize = 36;

const ANSWERED: &str = " answered ";
const REQUEST_TO: &str = "the request to ";
const FAILED: &str = " failed:";

/// Returns the error of a request that a host answered with a status, and with this beginning of a body.
#[must_use]
pub fn answered(host: &str, status: u16, body: &str) -> String {
    match body.trim() {
        "" => format!("{host}{ANSWERED}{status}"),
        body => format!("{host}{ANSWERED}{status}: {body}"),
    }
}

/// Returns the error of a request to a host that had no answer.
#[must_use]
pub fn unanswered(host: &str, reason: &str) -> String {
    format!("{REQUEST_TO}{host}{FAILED} {reason}")
}

/// Returns the class of an error: its first line, in which a hash sign replaces each number. Words of hexadecimal digits
/// count as numbers if they have a decimal digit or are part of a UUID, so that ids do not divide a class. The host and the
/// status of a request over HTTP stay, as [`answered`] and [`unanswered`] write them. The class of a class is the class itself.
#[must_use]
pub fn error_class(error: &str) -> String {
    let line = first_line(error);
    let (head, rest) = line.split_at(head_bytes(line));
    bounded(&format!("{head}{}", collapsed(rest)))
}

/// Tells whether an error is of a class. A class that an earlier version wrote has no host and no status, and stands for the
/// errors of all.
#[must_use]
pub fn is_of_class(error: &str, class: &str) -> bool {
    error_class(error) == class || bounded(&collapsed(first_line(error))) == class
}

fn first_line(error: &str) -> &str {
    let line = error.trim().lines().next();
    line.unwrap_or_default().trim_end()
}

fn bounded(class: &str) -> String {
    let class = class.trim();
    let cut = class.char_indices().nth(ERROR_CLASS_CHARS_MAX);
    let class = cut.map_or(class, |(end, _)| class.get(..end).unwrap_or_default());
    class.trim_end().to_owned()
}

/// Returns how many bytes of a line name a host, and its status.
fn head_bytes(line: &str) -> usize {
    let head = match line.strip_prefix(REQUEST_TO) {
        Some(rest) => host_before(rest, FAILED).map(|host| REQUEST_TO.len() + host.len()),
        None => host_before(line, ANSWERED).and_then(|host| {
            let before = host.len() + ANSWERED.len();
            let status = first_word(line.get(before..)?);
            let is_status = status.len() == STATUS_DIGITS && status.bytes().all(is_digit);
            is_status.then_some(before + STATUS_DIGITS)
        }),
    };
    head.unwrap_or_default()
}

fn host_before<'a>(text: &'a str, behind: &str) -> Option<&'a str> {
    let (host, _) = text.split_once(behind)?;
    is_host(host).then_some(host)
}

/// Tells whether a text is a name or an address, perhaps with a port. An id is neither.
fn is_host(text: &str) -> bool {
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
        Some(_) | None => (text, None),
    };
    let in_brackets = name
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let is_name = match in_brackets {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => {
            name.parse::<Ipv4Addr>().is_ok() || (is_domain(name) && Uuid::parse_str(name).is_err())
        }
    };
    let is_port = |port: &str| port.bytes().all(is_digit) && port.parse::<u16>().is_ok();
    text.len() <= HOST_BYTES_MAX && is_name && port.is_none_or(is_port)
}

fn is_domain(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    name.bytes().all(fits) && name.bytes().any(|byte| byte.is_ascii_alphabetic())
}

const fn is_digit(byte: u8) -> bool {
    byte.is_ascii_digit()
}

fn first_word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric());
    text.get(..end.unwrap_or(text.len())).unwrap_or_default()
}

/// Replaces the numbers of a line.
fn collapsed(line: &str) -> String {
    let mut class = String::with_capacity(line.len().min(ERROR_CLASS_CHARS_MAX));
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let begins_a_part = !class.ends_with(':');
        let address = address_bytes(rest).filter(|_| begins_a_part);
        let bytes = if !first.is_ascii_alphanumeric() {
            // A character that moves a cursor has no place in a list.
            class.push(if first.is_control() { ' ' } else { first });
            first.len_utf8()
        } else if has_uuid(rest) {
            class.push_str("#-#-#-#-#");
            UUID_CHARS
        } else if let Some(bytes) = address {
            class.push('#');
            bytes
        } else {
            let word = first_word(rest);
            add_word(&mut class, word);
            word.len()
        };
        rest = rest.get(bytes..).unwrap_or_default();
    }
    class
}

/// Tells whether a text begins with a UUID.
fn has_uuid(text: &str) -> bool {
    let id = text.get(..UUID_CHARS);
    id.is_some_and(|id| Uuid::parse_str(id).is_ok()) && ends_at(text, UUID_CHARS)
}

/// Returns how many bytes of a text are an address of version 6. One of version 4 is four numbers.
fn address_bytes(text: &str) -> Option<usize> {
    let end = text.find(|c: char| !c.is_ascii_hexdigit() && !matches!(c, ':' | '.'));
    let run = text.get(..end.unwrap_or(text.len()))?;
    // A colon or a full stop behind it belongs to the sentence.
    let address = run.trim_end_matches(['.', ':']);
    let is_one = address.bytes().any(is_digit) && address.parse::<Ipv6Addr>().is_ok();
    (is_one && ends_at(text, address.len())).then_some(address.len())
}

fn ends_at(text: &str, end: usize) -> bool {
    let behind = text.get(end..).unwrap_or_default();
    !behind.starts_with(|c: char| c.is_ascii_alphanumeric())
}

fn add_word(class: &mut String, word: &str) {
    let is_digit = |c: char| c.is_ascii_digit();
    if word.contains(is_digit) && word.chars().all(|c| c.is_ascii_hexdigit()) {
        class.push('#');
        return;
    }
    let mut in_number = false;
    for c in word.chars() {
        if !is_digit(c) {
            class.push(c);
        } else if !in_number {
            class.push('#');
        }
        in_number = is_digit(c);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn errors_that_differ_in_numbers_and_ids_have_one_class() {
        for (error, class) in [
            ("timeout after 500 ms", "timeout after # ms"),
            ("timeout after 1500ms\nat line 3", "timeout after #ms"),
            ("user 0198c2a4-7c51-8003 is gone", "user #-#-# is gone"),
            (
                "user 0198c2a4-abcd-8fff-bead-ffffffffffff is gone",
                "user #-#-#-#-# is gone",
            ),
            (
                "0198c2a4-7c51-8003-a1b2-c3d4e5f60718: gone",
                "#-#-#-#-#: gone",
            ),
            ("code 0xDEAD1", "code #xDEAD#"),
            ("  padded  ", "padded"),
            ("exit\u{1b}[2Jcode", "exit [#Jcode"),
            ("\u{1b}late\u{1b}", "late"),
            ("Überlauf bei 3,14", "Überlauf bei #,#"),
            ("peer 10.0.0.7:5432 is away", "peer #.#.#.#:# is away"),
            ("peer [2001:db8::7]:5432 is away", "peer [#]:# is away"),
            (
                "peer fe80::abcd:ef1: away at 12:30:45",
                "peer #: away at #:#:#",
            ),
            ("in core::f64::add", "in core::#::add"),
            ("", ""),
            ("\n\n", ""),
        ] {
            assert_eq!(error_class(error), class, "{error}");
            assert_eq!(error_class(class), class, "the class of a class");
            assert!(is_of_class(error, class));
        }
        let long = error_class(&format!("{}é", "word ".repeat(100)));
        assert!(long.chars().count() <= ERROR_CLASS_CHARS_MAX);
        assert_eq!(error_class(&long), long);
    }

    /// The forms in which a URL may name a host.
    const HOSTS: [&str; 9] = [
        "api",
        "db2",
        "api-7.example.com",
        "api-8.example.com",
        "10.0.0.7",
        "10.0.0.7:8080",
        "127.0.0.1:27510",
        "[2001:db8::1]",
        "[2001:db8::1]:8443",
    ];

    #[test]
    fn host_and_status_stay_and_the_rest_has_no_numbers() {
        let mut classes = BTreeSet::new();
        for host in HOSTS {
            for status in [302, 401, 404, 410, 429, 500, 503] {
                for body in ["", "db down", "no user 17 at 10.0.0.9:5432"] {
                    let class = error_class(&answered(host, status, body));
                    let wanted = answered(host, status, &body.replace("17", "#"));
                    assert_eq!(class, wanted.replace("10.0.0.9:5432", "#.#.#.#:#"));
                    assert_eq!(error_class(&class), class);
                    classes.insert(class);
                }
                let other = answered(host, status, "no user 18 at 10.0.0.1:5433");
                assert!(classes.contains(&error_class(&other)), "{other}");
            }
            let class = error_class(&unanswered(host, "no answer in 15 s"));
            assert_eq!(class, unanswered(host, "no answer in # s"));
            assert_eq!(error_class(&class), class);
            classes.insert(class);
        }
        assert_eq!(classes.len(), HOSTS.len() * (7 * 3 + 1));
    }

    #[test]
    fn what_is_no_host_or_no_status_collapses() {
        for (error, class) in [
            ("17 answered 404", "# answered #"),
            (
                "0198c2a4-7c51-8003-a1b2-c3d4e5f60718 answered 404",
                "#-#-#-#-# answered #",
            ),
            ("worker 17 answered 404", "worker # answered #"),
            ("api2:70000 answered 404", "api#:# answered #"),
            ("[2001:db8::x] answered 404", "[#:#::x] answered #"),
            ("api2 answered 40", "api# answered #"),
            ("api2 answered 4040", "api# answered #"),
            ("api2 answered 404s", "api# answered #s"),
            ("main.rs:17: gone", "main.rs:#: gone"),
            (
                "the request to user 17 failed: 5",
                "the request to user # failed: #",
            ),
        ] {
            assert_eq!(error_class(error), class, "{error}");
            assert_eq!(error_class(class), class, "the class of a class");
        }
    }

    #[test]
    fn the_longest_host_leaves_its_status() {
        for (length, stays) in [(HOST_BYTES_MAX, true), (HOST_BYTES_MAX + 1, false)] {
            let host = format!("7{}", "h".repeat(length - 1));
            for error in [
                answered(&host, 503, &"é".repeat(500)),
                unanswered(&host, &"word ".repeat(100)),
            ] {
                let class = error_class(&error);
                assert!(class.chars().count() <= ERROR_CLASS_CHARS_MAX);
                assert_eq!(class.contains(&host), stays, "{class}");
                assert_eq!(class.contains("503"), stays && error.contains("503"));
                assert_eq!(error_class(&class), class);
            }
        }
    }

    #[test]
    fn a_class_of_an_earlier_version_stands_for_all_hosts_and_statuses() {
        let error = "127.0.0.1:27510 answered 500: db 7 down";
        assert!(is_of_class(error, "#.#.#.#:# answered #: db # down"));
        assert!(is_of_class(
            error,
            "127.0.0.1:27510 answered 500: db # down"
        ));
        assert!(!is_of_class(
            error,
            "127.0.0.1:27510 answered 404: db # down"
        ));
        assert!(!is_of_class(error, "#.#.#.#:# answered 500: db # down"));
    }

    /// Any line of such pieces has a class that is its own class.
    #[test]
    fn a_class_is_its_own_class_whatever_it_is_made_of() {
        let pieces = [
            "db2",
            "10.0.0.7:80",
            "[::1]",
            "0198c2a4-7c51-8003-a1b2-c3d4e5f60718",
            " answered ",
            " answered 503",
            "the request to ",
            " failed:",
            "404",
            ":",
            "\u{1b}",
            " ",
            "é",
            "fe80::1",
        ];
        for first in pieces {
            for second in pieces {
                for third in pieces {
                    for fourth in pieces {
                        let class = error_class(&format!("{first}{second}{third}{fourth}"));
                        assert_eq!(error_class(&class), class, "{first}{second}{third}{fourth}");
                    }
                }
            }
        }
    }
}
