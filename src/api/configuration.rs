//! The types of the configuration carry callbacks with their gates, and API keys, from one service to another.

use serde::{Deserialize, Serialize};
#[cfg(feature = "server")]
use utoipa::ToSchema;

use super::{
    api_key::ApiRole,
    callback::{CallbackRequest, GateState, RateLimit},
    problem::Problem,
    schedule::ImportOutcome,
    text::InstantText,
};

/// A thing that is configured: an object with one member, which says what it is.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ConfigurationItem {
    /// A callback, with its secrets.
    #[cfg_attr(feature = "server", schema(title = "CallbackItem"))]
    Callback(Box<NamedCallback>),
    /// An API key, without its text.
    #[cfg_attr(feature = "server", schema(title = "ApiKeyItem"))]
    ApiKey(NamedApiKey),
}

/// A callback with its name, as it was set.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NamedCallback {
    /// Its name.
    pub name: String,
    /// Its configuration, secrets included; absent leaves what is set.
    #[serde(
        default,
        deserialize_with = "super::object::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub configuration: Option<CallbackRequest>,
    /// The gates that are not open: all others are opened. Absent leaves what is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(max_items = 16))]
    pub gates: Option<Vec<GateSetting>>,
}

/// A gate as it was set.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct GateSetting {
    /// The collection whose tasks it concerns; absent is all tasks of the callback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collection: Option<String>,
    /// Its state.
    pub gate: GateState,
    /// The reason that was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(max_length = 256))]
    pub reason: Option<String>,
    /// When it opens by itself; absent when it does not. A gate whose time has passed is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<InstantText>,
    /// The name of the API key with which it was set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(max_length = 128))]
    pub who: Option<String>,
}

/// An API key with its id, as it was made. Its text is not kept anywhere; whoever has it goes on using it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NamedApiKey {
    /// Its id.
    pub id: String,
    /// A name for people.
    #[cfg_attr(feature = "server", schema(min_length = 1, max_length = 128))]
    pub name: String,
    /// The rights of its holder.
    pub role: ApiRole,
    /// The callbacks that it is limited to; absent is all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callbacks: Option<Vec<String>>,
    /// Whether a viewer sees payloads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payloads: Option<bool>,
    /// How many calls it may make at each node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateLimit>,
    /// When it was made.
    pub create_time: InstantText,
    /// From when on it is refused; absent is never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expire_time: Option<InstantText>,
    /// The SHA-256 of its secret, in base64. The secret is 256 random bits, which no one finds from it.
    pub secret_sha256: String,
}

/// The page of the configuration that is asked for.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ExportConfigurationRequest {
    /// `next_page_token` of the page before; absent for the first page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_token: Option<String>,
}

/// A page of the configuration.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[cfg_attr(feature = "server", schema(as = ExportConfigurationAnswer))]
#[non_exhaustive]
pub struct ExportConfigurationResponse {
    /// Callbacks by name, then API keys by id; at most a hundred.
    pub items: Vec<ConfigurationItem>,
    /// Send this as `page_token` to get the next page. Absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
}

/// Things to configure together; a bad one fails only itself.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
pub struct ImportConfigurationRequest {
    /// The things; at most 1000.
    #[cfg_attr(feature = "server", schema(max_items = 1000))]
    pub items: Vec<ConfigurationItem>,
}

/// The results of an import, in the order of the request.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[cfg_attr(feature = "server", schema(as = ImportConfigurationAnswer))]
#[non_exhaustive]
pub struct ImportConfigurationResponse {
    /// The results.
    pub results: Vec<ImportConfigurationResult>,
}

/// The result for one thing: either the outcome or the error.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct ImportConfigurationResult {
    /// The outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<ImportOutcome>,
    /// Why it was not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Problem>,
}
