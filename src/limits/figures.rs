//! Limits of figures and metrics for people.

use std::time::Duration;

/// Tasks that are handed over later than this count as late in metrics. The service is built for milliseconds, but a node that
/// joins or stops may take a second.
pub const LATE_FIRING: Duration = Duration::from_secs(1);

/// Callbacks that are distinguished in figures and metrics: nobody looks at more.
pub const CALLBACKS_TOLD_MAX: usize = 100;

/// Callbacks of which a node tells the others its share at one time: each is a small write. Those whose turn is longest ago come
/// first, so with more of them each is told less often.
pub const SHARES_TOLD_MAX: usize = 64;

/// How often a node looks at which shares it tells.
pub const SHARES_TOLD_EVERY: Duration = Duration::from_secs(1);

/// How often a share is told again that has not changed: well within [`SHARES_KEPT`].
pub const SHARES_TOLD_AGAIN: Duration = Duration::from_secs(10);

/// How long the share of a node counts that does not tell it again: the node may be dead.
pub const SHARES_KEPT: Duration = Duration::from_secs(30);

/// Shares of a callback that are read: those of the nodes of a cluster, and of some that are gone.
pub const SHARES_READ_MAX: usize = 200;

/// How often held and dead tasks are counted for metrics at most: they change by what people do.
pub const STOCK_COUNTED_EVERY: Duration = Duration::from_secs(60);

/// Letters of dead tasks that are counted for metrics: a few hundred milliseconds of reads. Beyond it the count is a lower bound.
pub const DEAD_LETTERS_STOCK_MAX: usize = 100_000;
