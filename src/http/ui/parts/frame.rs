//! The frame around a page of the dashboard has the ways to other pages, the reader, and the outcome of the last action.

use std::fmt::Write as _;

/// The rights of the reader, as far as pages depend on them. The API decides on each call by itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::http::ui) struct Rights {
    /// Reads tasks and callbacks.
    pub(in crate::http::ui) read: bool,
    /// Reads figures, jobs, schedules and dead letters.
    pub(in crate::http::ui) look: bool,
    /// Changes tasks.
    pub(in crate::http::ui) produce: bool,
    /// Changes what concerns many tasks.
    pub(in crate::http::ui) operate: bool,
    /// Manages keys.
    pub(in crate::http::ui) administer: bool,
    /// Sees payloads.
    pub(in crate::http::ui) payloads: bool,
    /// Sees all callbacks.
    pub(in crate::http::ui) whole: bool,
}

/// A way to another page.
#[derive(Debug, Clone)]
pub(in crate::http::ui) struct Way {
    pub(in crate::http::ui) path: &'static str,
    pub(in crate::http::ui) name: &'static str,
    /// The page that is shown is there.
    pub(in crate::http::ui) here: bool,
}

/// The outcome of an action, shown once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::http::ui) struct Said {
    pub(in crate::http::ui) text: String,
    pub(in crate::http::ui) bad: bool,
}

/// The frame of a page.
#[derive(Debug, Clone)]
pub(in crate::http::ui) struct Frame {
    /// The prefix of every link; empty at the root of a host.
    pub(in crate::http::ui) base: String,
    pub(in crate::http::ui) assets: &'static str,
    pub(in crate::http::ui) ways: Vec<Way>,
    /// The name of the reader's key.
    pub(in crate::http::ui) who: String,
    pub(in crate::http::ui) role: &'static str,
    /// There are keys, so there is something to sign out of.
    pub(in crate::http::ui) has_keys: bool,
    pub(in crate::http::ui) read_only: bool,
    pub(in crate::http::ui) has_docs: bool,
    pub(in crate::http::ui) rights: Rights,
    pub(in crate::http::ui) said: Option<Said>,
    /// The address of the service, for commands in a terminal.
    pub(in crate::http::ui) server: String,
    /// The text of the search box.
    pub(in crate::http::ui) query: String,
    pub(in crate::http::ui) version: &'static str,
}

/// A path, its name, and whether rights suffice for it.
type Place = (&'static str, &'static str, fn(Rights) -> bool);

/// The ways, with the rights that they need.
const WAYS: [Place; 9] = [
    ("/", "Overview", |_| true),
    ("/tasks", "Tasks", |rights| rights.read),
    ("/callbacks", "Callbacks", |rights| rights.read),
    ("/dead-letters", "Dead letters", |rights| rights.look),
    ("/schedules", "Schedules", |rights| {
        rights.look && rights.whole
    }),
    ("/jobs", "Jobs", |rights| rights.look && rights.whole),
    ("/cluster", "Cluster", |rights| rights.look && rights.whole),
    ("/keys", "Keys", |rights| rights.administer),
    ("/audit", "Audit", |rights| rights.administer),
];

/// Returns the ways that a reader may go, from a page with this path.
pub(in crate::http::ui) fn ways(rights: Rights, path: &str) -> Vec<Way> {
    // The page that makes something new is below that of the others of its kind.
    let path = path.strip_prefix("/new").unwrap_or(path);
    let section = |way: &str| match way {
        "/" => path == "/",
        way => path
            .strip_prefix(way)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
    };
    let allowed = WAYS.iter().filter(|(_, _, may)| may(rights));
    allowed
        .map(|(path, name, _)| Way {
            path,
            name,
            here: section(path),
        })
        .collect()
}

/// Adds a parameter to a path.
pub(in crate::http::ui) fn with(path: &str, name: &str, value: &str) -> String {
    let mut pair = url::form_urlencoded::Serializer::new(String::new());
    pair.append_pair(name, value);
    let mark = if path.contains('?') { '&' } else { '?' };
    let mut path = path.to_owned();
    // Writing to a String cannot fail.
    write!(path, "{mark}{}", pair.finish()).unwrap_or_default();
    path
}

/// Writes a text as one part of a path.
pub(in crate::http::ui) fn part(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            written.push(char::from(byte));
        } else {
            write!(written, "%{byte:02X}").unwrap_or_default();
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_sees_the_ways_of_its_rights() {
        let names = |rights: Rights| {
            let ways = ways(rights, "/tasks/7");
            let here: Vec<&str> = ways
                .iter()
                .filter(|way| way.here)
                .map(|way| way.name)
                .collect();
            (ways.len(), here.join(" "))
        };
        let worker = Rights::default();
        assert_eq!(names(worker), (1, String::new()));
        let looks = Rights {
            look: true,
            whole: true,
            ..worker
        };
        let here = ways(looks, "/new/schedules")
            .into_iter()
            .find(|way| way.here);
        assert_eq!(here.map(|way| way.name), Some("Schedules"));
        let producer = Rights {
            read: true,
            produce: true,
            whole: true,
            ..worker
        };
        assert_eq!(names(producer), (3, "Tasks".to_owned()));
        let limited = Rights {
            look: true,
            whole: false,
            ..producer
        };
        assert_eq!(names(limited), (4, "Tasks".to_owned()));
    }

    #[test]
    fn parts_and_parameters_are_escaped() {
        assert_eq!(part("a b/c?ü"), "a%20b%2Fc%3F%C3%BC");
        assert_eq!(with("/a", "q", "x&y=z"), "/a?q=x%26y%3Dz");
        assert_eq!(with("/a?b=c", "q", "1"), "/a?b=c&q=1");
    }
}
