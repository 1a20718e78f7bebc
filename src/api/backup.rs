//! The type of a backup carries the wishes of an operator to the service.

use serde::{Deserialize, Serialize};
#[cfg(feature = "server")]
use utoipa::ToSchema;

/// A copy of the store of one machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct BackupRequest {
    /// It is sent at up to so many bytes a second, at least 65536. By default the copy takes a quarter of the time of one core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(minimum = 65_536))]
    pub bytes_per_second: Option<u64>,
}
