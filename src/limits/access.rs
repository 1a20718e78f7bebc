//! Bounds of keys of the API and of the audit.

use std::time::Duration;

use crate::model::audit;

/// Keys of the API: every node holds them in memory, some 300 bytes each and 15 KB at most. A team for each of a hundred
/// callbacks needs a few hundred.
pub const API_KEYS_MAX: usize = 1000;

/// Callbacks that a key is limited to: more are rather another key, and the record stays small.
pub const API_KEY_CALLBACKS_MAX: usize = 100;

/// How long rows of the audit are kept: a quarter of a year, in which most questions are asked.
pub const AUDIT_KEPT: Duration = audit::KEPT;

/// The span in which refused calls of a kind are one row of the audit. A key that is refused without end makes 1,440 rows a day
/// of some 550 bytes for each operation.
pub const AUDIT_REFUSALS_SPAN: Duration = Duration::from_secs(60);

/// How often a node looks for spans that are over.
pub const AUDIT_REFUSALS_LOOK: Duration = Duration::from_secs(5);

/// Kinds of refused calls that a node counts at a time, some 400 bytes each. A hundred keys that try a hundred operations each
/// have room; calls of further kinds are refused without a row.
pub const AUDIT_REFUSAL_KINDS_MAX: usize = 10_000;

/// Rows of a page of the audit.
pub const AUDIT_PAGE_MAX: usize = 1000;

/// The span of the audit that is shown when no other is asked for.
pub const AUDIT_SPAN_DEFAULT: Duration = Duration::from_secs(24 * 3600);

/// Keys whose rates a node remembers: as many as there are.
pub const KEY_RATES_MAX: usize = API_KEYS_MAX;

/// How often a call that waits looks whether its key still holds. With the age of the copy a revoked key ends its polls within
/// some three seconds; what a poll has claimed by then is released, and nobody is answered.
pub const KEY_LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Reads of tasks in flight when a key that is limited to callbacks names tasks by their ids.
pub const ACCESS_READS_IN_FLIGHT_MAX: usize = 64;

/// Longest password of Cassandra or Kafka: tokens that are used as passwords have up to some kilobytes.
pub const PASSWORD_BYTES_MAX: usize = 16 * 1024;
