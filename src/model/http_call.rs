//! The HTTP call tells the executor the request that an `http` task is, and what its callback says of all of them.

use std::{fmt, time::Duration};

use super::credential;

/// Before the host in the name of the callback of a task that names none.
pub const CALLBACK_PREFIX: &str = "http:";

/// The name of the queue in which all `http` tasks travel to the executors.
pub const QUEUE: &str = "tickwheel.http";

/// The time limit of a call that names none.
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(15);

/// How much longer than its call an attempt lives: the answer is read and settled meanwhile.
pub const LEASE_BEYOND_CALL: Duration = Duration::from_secs(2);

/// The method of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Method {
    /// The default.
    #[default]
    Post,
    /// Replaces what is there.
    Put,
    /// Changes what is there.
    Patch,
    /// Removes what is there.
    Delete,
    /// Reads, and sends no payload.
    Get,
}

impl Method {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Post, Self::Put, Self::Patch, Self::Delete, Self::Get];

    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
            Self::Get => "GET",
        }
    }

    /// Reads its name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.name() == name)
    }
}

/// A request to make. The payload of its task is the body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpCall {
    /// Where; `http` or `https`, without a user.
    pub url: String,
    /// How.
    pub method: Method,
    /// Headers beside those of the service, in the order of their names.
    pub headers: Vec<(String, String)>,
    /// How long it may take in all, from the resolution of the name to the end of the answer; none is the default.
    pub timeout: Option<Duration>,
    /// The id under which its receiver knows the message; none is the id of the task. A copy of a task has that of the first one.
    pub message_id: Option<String>,
}

/// The rules of a callback for the calls of its tasks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HttpPolicy {
    /// Where tasks that name the callback alone are delivered; none leaves them to workers.
    pub url: Option<String>,
    /// Headers of every call; one of the task's own wins.
    pub headers: Vec<(String, String)>,
    /// The time limit of a call that names none.
    pub timeout: Option<Duration>,
    /// The keys that sign a call, the newest first. While one is replaced there are two.
    pub secrets: Vec<Secret>,
    /// Whether an answer 4xx is tried again; absent is yes.
    pub retry_4xx: Option<bool>,
    /// Requests that a node makes to a host at once at most; absent, as many as the answers of the host have shown that it takes
    /// ([`host_share`](super::host_share)).
    pub max_in_flight: Option<u32>,
}

impl HttpPolicy {
    /// Tells whether calls carry what proves that they are the service's: signatures, or headers that hold credentials.
    #[must_use]
    pub fn has_credentials(&self) -> bool {
        !self.secrets.is_empty() || self.has_credential_headers()
    }

    /// Tells whether a header of it holds a credential.
    #[must_use]
    pub fn has_credential_headers(&self) -> bool {
        let mut names = self.headers.iter().map(|(name, _)| name);
        names.any(|name| credential::is_name(name))
    }
}

/// A key that signs calls: `whsec_` and base64.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes a text that was checked.
    #[must_use]
    pub const fn new(text: String) -> Self {
        Self(text)
    }

    /// Returns the text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Returns what may be shown of it: its last four characters.
    #[must_use]
    pub fn shown(&self) -> String {
        let last: Vec<char> = self.0.chars().rev().take(4).collect();
        last.into_iter().rev().collect()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_does_not_show_itself() {
        let secret = Secret::new("whsec_plJ3nmyCDGBKInavdOK15jsl".to_owned());
        assert_eq!(
            (format!("{secret:?}"), secret.shown()),
            ("Secret".to_owned(), "5jsl".to_owned())
        );
    }

    #[test]
    fn a_method_is_found_by_its_name() {
        for method in Method::ALL {
            assert_eq!(Method::named(method.name()), Some(method));
        }
        assert_eq!(Method::named("post"), None);
    }
}
