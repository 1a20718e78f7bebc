//! The types of API keys say who may do what, and those of the audit who has done what.

use serde::{Deserialize, Serialize};
#[cfg(feature = "server")]
use utoipa::ToSchema;

use super::{callback::RateLimit, text::InstantText};

/// The role of a key: what its holder may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ApiRole {
    /// Reads everything, payloads only with `payloads`.
    Viewer,
    /// Registers, reads, cancels and moves tasks.
    Producer,
    /// Polls, claims, sends heartbeats and settles.
    Worker,
    /// Tasks, gates, schedules, dead letters and jobs.
    Operator,
    /// Everything, keys included.
    Admin,
}

impl ApiRole {
    /// Returns the name used in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Producer => "producer",
            Self::Worker => "worker",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

/// A key to make.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ApiKeyRequest {
    /// A name for people, which logs and the audit show.
    #[cfg_attr(feature = "server", schema(min_length = 1, max_length = 128))]
    pub name: String,
    /// The rights of its holder.
    pub role: ApiRole,
    /// The callbacks that it is limited to, a hundred at most; absent is all. A key of an admin has no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callbacks: Option<Vec<String>>,
    /// From when on it is refused; absent is never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expire_time: Option<InstantText>,
    /// Whether a viewer sees payloads; the other roles do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payloads: Option<bool>,
    /// How many calls it may make at each node; heartbeats and settles do not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateLimit>,
}

impl ApiKeyRequest {
    /// Returns the request for a key without limits.
    #[must_use]
    pub fn new(name: impl Into<String>, role: ApiRole) -> Self {
        Self {
            name: name.into(),
            role,
            callbacks: None,
            expire_time: None,
            payloads: None,
            rate: None,
        }
    }
}

/// A key.
#[derive(Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct ApiKeyResponse {
    /// Its id, by which it is revoked.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The rights of its holder.
    pub role: ApiRole,
    /// The callbacks that it is limited to; absent is all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callbacks: Option<Vec<String>>,
    /// Whether it sees payloads.
    pub payloads: bool,
    /// How many calls it may make at each node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateLimit>,
    /// When it was made.
    pub create_time: InstantText,
    /// From when on it is refused; absent is never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expire_time: Option<InstantText>,
    /// The key itself, in the answer that made it only: it cannot be read again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

impl std::fmt::Debug for ApiKeyResponse {
    // Without the key, which must not get into logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiKeyResponse")
            .field("id", &self.id)
            .field("name", &self.name)
            .field("role", &self.role)
            .finish_non_exhaustive()
    }
}

/// A page of keys.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[cfg_attr(feature = "server", schema(as = ListApiKeysAnswer))]
#[non_exhaustive]
pub struct ListApiKeysResponse {
    /// The keys, by id.
    pub api_keys: Vec<ApiKeyResponse>,
    /// Where the next page begins; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
}

/// The caller, as the service knows it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[cfg_attr(feature = "server", schema(as = WhoAmIAnswer))]
#[non_exhaustive]
pub struct WhoAmIResponse {
    /// Whether callers need keys: false as long as there are none.
    pub keys_required: bool,
    /// The id of the key; absent where none was needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The name of the key; `anonymous` where none was needed.
    pub name: String,
    /// The rights of the caller.
    pub role: ApiRole,
    /// The callbacks that the key is limited to; absent is all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callbacks: Option<Vec<String>>,
    /// Whether the caller sees payloads.
    pub payloads: bool,
    /// How many calls the key may make at each node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateLimit>,
    /// From when on the key is refused; absent is never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expire_time: Option<InstantText>,
}

/// A call that changed the configuration or many tasks, or was refused.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct AuditEntry {
    /// When it came.
    pub time: InstantText,
    /// The name of the key; `anonymous` where none was needed.
    pub who: String,
    /// The id of the key; absent where none was needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_id: Option<String>,
    /// The operation, by its id in the description of the API, such as `setGate`.
    pub action: String,
    /// The path of the call.
    pub target: String,
    /// The address of the caller; absent where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// `ok`, the code of the problem, or `unknown`: its node died, or it is under way.
    pub outcome: String,
    /// The status of the answer; absent where the outcome is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// How many further calls of this key, with this action and outcome, were refused at a node within a minute of this one,
    /// which is the first. Absent where it is the only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub more: Option<u32>,
}

/// A page of the audit.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[cfg_attr(feature = "server", schema(as = ListAuditAnswer))]
#[non_exhaustive]
pub struct ListAuditResponse {
    /// The calls, the oldest first.
    pub entries: Vec<AuditEntry>,
    /// Where the next page begins; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
}
