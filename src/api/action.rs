//! The types of actions and checks say for clients what the service does when a task ends, and at times.

use serde::{Deserialize, Serialize};
use serde_json::Value;
#[cfg(feature = "server")]
use utoipa::ToSchema;

use super::{target::HttpTarget, text::InstantText};

/// A thing that the service does when the task ends: exactly one of `http` and `email`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Action {
    /// The ends at which it is done: ends of the own run of the task, or ends of its tree. Absent is all ends of the own run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(min_items = 1))]
    pub states: Option<Vec<EndState>>,
    /// A request over HTTP that tells the end, signed by the secrets of the callback `http:` and its host.
    #[serde(
        default,
        deserialize_with = "super::object::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub http: Option<HttpTarget>,
    /// An e-mail.
    #[serde(
        default,
        deserialize_with = "super::object::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub email: Option<Email>,
    /// JSON that the request sends in place of the message. Its texts are templates, as those of an e-mail are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(value_type = Option<serde_json::Value>))]
    pub payload: Option<Value>,
}

/// An end of a task: of its own run, or of its tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum EndState {
    /// Its own run was done.
    Succeeded,
    /// Its own run failed for good.
    Failed,
    /// It was cancelled: its own run, or, if that had ended otherwise, its tree as a whole. Beside `completed` or `faulted` it is
    /// the tree alone.
    Cancelled,
    /// It was too late to be useful.
    Expired,
    /// It used up its attempts.
    Dead,
    /// Its tree has ended, and nothing of it failed.
    Completed,
    /// Its tree has ended, and something of it failed.
    Faulted,
    /// It was claimed for the first time since it was registered, redriven or reopened. No end, and only for actions and notices.
    Claimed,
}

/// A state that a check asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CheckState {
    /// Its own run was done.
    Succeeded,
    /// Its own run failed for good.
    Failed,
    /// It was cancelled: its own run, or its tree as a whole.
    Cancelled,
    /// It was too late to be useful.
    Expired,
    /// It used up its attempts.
    Dead,
    /// Its tree has ended, and nothing of it failed.
    Completed,
    /// Its tree has ended, and something of it failed.
    Faulted,
    /// It waits for its start time.
    Scheduled,
    /// It was handed to the queue, and is not claimed yet.
    Enqueued,
    /// It is claimed by a worker.
    Claimed,
    /// Its worker has sent a heartbeat.
    Processing,
    /// It failed, and waits for its next attempt.
    Retrying,
    /// It waits for the own run of its parent, or for other tasks.
    Waiting,
    /// Its own run has ended, and a task below it has not.
    WaitingForChildren,
}

/// An e-mail. Subject and body are templates (docs/actions.md): `{{task.id}}`, `{{task.error}}`, `{{task.payload.user.name}}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Email {
    /// Its receivers: 1 to 10 addresses such as `ada@example.org`.
    #[cfg_attr(feature = "server", schema(min_items = 1, max_items = 10))]
    pub to: Vec<String>,
    /// Further receivers, whom all of them see: 10 with those of `to` at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "server", schema(max_items = 9))]
    pub cc: Vec<String>,
    /// The subject, in one line.
    pub subject: String,
    /// The text.
    pub body: String,
}

/// A question that is asked at a time: has the task come to one of these states? At least one of `then` and `else`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// When: a time such as `2030-01-31T09:00:00Z`, or how long after the start with which the task was registered, such as
    /// `30m`.
    pub at: String,
    /// The states that are asked for: ends, which count if they came by then, and states of a task that goes on, as it is
    /// when the question is asked.
    #[serde(rename = "in")]
    #[cfg_attr(feature = "server", schema(min_items = 1))]
    pub states: Vec<CheckState>,
    /// The thing that is done when the task is in one of them.
    #[serde(
        default,
        deserialize_with = "super::object::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub then: Option<Deed>,
    /// The thing that is done when it has not.
    #[serde(
        default,
        rename = "else",
        deserialize_with = "super::object::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub otherwise: Option<Deed>,
}

/// A thing that the service does: exactly one of `http` and `email`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Deed {
    /// A request over HTTP that tells the answer, signed by the secrets of the callback `http:` and its host.
    #[serde(
        default,
        deserialize_with = "super::object::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub http: Option<HttpTarget>,
    /// An e-mail.
    #[serde(
        default,
        deserialize_with = "super::object::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub email: Option<Email>,
    /// JSON that the request sends in place of the message. Its texts are templates, as those of an e-mail are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(value_type = Option<serde_json::Value>))]
    pub payload: Option<Value>,
}

/// The stage of an action or a check whose time has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ActionOutcome {
    /// It will be done.
    Pending,
    /// It failed, and is tried again.
    Retrying,
    /// It is done: its receiver has taken it, or the check had nothing to do.
    Done,
    /// It failed, and is not tried any more.
    GivenUp,
}

/// An action as it reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct ActionResponse {
    /// The ends at which it is done; absent is all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub states: Option<Vec<EndState>>,
    /// The request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpTarget>,
    /// The e-mail, as it was registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub email: Option<Email>,
    /// The payload of the request, as it was registered; absent in a view without payloads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(value_type = Option<serde_json::Value>))]
    pub payload: Option<Value>,
    /// Where it stands. Absent when the task has not ended so, and in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<ActionOutcome>,
    /// Attempts so far.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempt: u32,
    /// The last failure, until it is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A check as it reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct CheckResponse {
    /// When, as it was given.
    pub at: String,
    /// When.
    pub time: InstantText,
    /// The states that are asked for.
    #[serde(rename = "in")]
    pub states: Vec<CheckState>,
    /// The thing that is done when the task is in one of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<Deed>,
    /// The thing that is done when it has not.
    #[serde(default, rename = "else", skip_serializing_if = "Option::is_none")]
    pub otherwise: Option<Deed>,
    /// The answer, once the check is done: `then` or `else`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// Where it stands. Absent before its time, and in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<ActionOutcome>,
    /// Attempts so far.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempt: u32,
    /// The last failure, until it is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Action {
    /// Sends an e-mail at all ends.
    #[must_use]
    pub fn email(email: Email) -> Self {
        Self {
            email: Some(email),
            ..Self::default()
        }
    }

    /// Sends a request to a URL at all ends.
    #[must_use]
    pub fn http(url: impl Into<String>) -> Self {
        Self {
            http: Deed::http(url).http,
            ..Self::default()
        }
    }

    /// Sets what the request sends in place of the message.
    #[must_use]
    pub fn payload(mut self, payload: Value) -> Self {
        self.payload = Some(payload);
        self
    }

    /// Sets the ends at which it is done.
    #[must_use]
    pub fn at(mut self, states: impl IntoIterator<Item = EndState>) -> Self {
        self.states = Some(states.into_iter().collect());
        self
    }
}

impl Email {
    /// Makes an e-mail to one receiver.
    #[must_use]
    pub fn new(to: impl Into<String>, subject: impl Into<String>, body: impl Into<String>) -> Self {
        Self {
            to: vec![to.into()],
            cc: Vec::new(),
            subject: subject.into(),
            body: body.into(),
        }
    }

    /// Adds a receiver whom all of them see.
    #[must_use]
    pub fn cc(mut self, address: impl Into<String>) -> Self {
        self.cc.push(address.into());
        self
    }
}

impl Check {
    /// Asks at a time, or so long after the start, whether the task has succeeded.
    #[must_use]
    pub fn succeeded(at: impl Into<String>) -> Self {
        Self {
            at: at.into(),
            states: vec![CheckState::Succeeded],
            ..Self::default()
        }
    }

    /// Sets the states that are asked for.
    #[must_use]
    pub fn is(mut self, states: impl IntoIterator<Item = CheckState>) -> Self {
        self.states = states.into_iter().collect();
        self
    }

    /// Sets what is done when it has.
    #[must_use]
    pub fn then(mut self, deed: Deed) -> Self {
        self.then = Some(deed);
        self
    }

    /// Sets what is done when it has not.
    #[must_use]
    pub fn otherwise(mut self, deed: Deed) -> Self {
        self.otherwise = Some(deed);
        self
    }
}

impl Deed {
    /// Sends an e-mail.
    #[must_use]
    pub fn email(email: Email) -> Self {
        Self {
            email: Some(email),
            ..Self::default()
        }
    }

    /// Sends a request to a URL.
    #[must_use]
    pub fn http(url: impl Into<String>) -> Self {
        let http = HttpTarget {
            url: url.into(),
            ..HttpTarget::default()
        };
        Self {
            http: Some(http),
            ..Self::default()
        }
    }

    /// Sets what the request sends in place of the message.
    #[must_use]
    pub fn payload(mut self, payload: Value) -> Self {
        self.payload = Some(payload);
        self
    }
}

impl ActionResponse {
    /// Makes an action whose time has not come.
    #[doc(hidden)]
    #[must_use]
    pub fn new(action: Action) -> Self {
        let Action {
            states,
            http,
            email,
            payload,
        } = action;
        Self {
            states,
            http,
            email,
            payload,
            outcome: None,
            attempt: 0,
            error: None,
        }
    }
}

impl CheckResponse {
    /// Makes a check whose time has not come.
    #[doc(hidden)]
    #[must_use]
    pub fn new(check: Check, time: InstantText) -> Self {
        let Check {
            at,
            states,
            then,
            otherwise,
        } = check;
        Self {
            at,
            time,
            states,
            then,
            otherwise,
            answer: None,
            outcome: None,
            attempt: 0,
            error: None,
        }
    }
}

/// The action that would be registered again as it is.
impl From<ActionResponse> for Action {
    fn from(action: ActionResponse) -> Self {
        Self {
            states: action.states,
            http: action.http,
            email: action.email,
            payload: action.payload,
        }
    }
}

/// The check that would be registered again as it is.
impl From<CheckResponse> for Check {
    fn from(check: CheckResponse) -> Self {
        Self {
            at: check.at,
            states: check.states,
            then: check.then,
            otherwise: check.otherwise,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes it so")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}
