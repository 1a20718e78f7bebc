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

/// Cells of each tier of the forecast: seconds, minutes, hours of a callback with tasks; some 30 bytes each, 30 MB together.
pub const FORECAST_CELLS_MAX: usize = 300_000;

/// Steps of a forecast: a day by the minute is more than a page shows or an autoscaler asks for.
pub const FORECAST_STEPS_MAX: usize = 1440;

/// Longest step of a forecast.
pub const FORECAST_STEP_MAX: Duration = Duration::from_secs(24 * 3600);

/// Slots of one wheel that a forecast on a cluster reads ahead: five minutes at a tick of 1 s.
pub const FORECAST_SLOTS_MAX: usize = 300;

/// How long a walk through the wheels of a cluster serves the forecasts that are asked for: with 16 wheels, 320 small reads a
/// second at most.
pub const FORECAST_WALK_KEPT: Duration = Duration::from_secs(15);

/// Readers of events at one node: each is a connection with some 100 KB of changes that wait at most.
pub const WATCHES_MAX: usize = 1000;

/// Changes that wait for a reader of events: a second of a busy callback. Beyond them it is told how many it missed.
pub const WATCH_CHANGES_MAX: usize = 256;

/// How often a reader of a task reads its row: another node may write it, and time alone may change its state.
pub const WATCH_STEP: Duration = Duration::from_secs(1);

/// How often a stream without events shows that it lives: well within the idle times of usual load balancers.
pub const WATCH_KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Open tasks that an answer about a task names which waits for them; the others are counted. Each is read.
pub const WHY_OPEN_MAX: usize = 10;

/// Tasks that causes name which are read: the open ones, a parent, a task that has the turn.
pub const WHY_OTHERS_MAX: usize = WHY_OPEN_MAX + 2;

/// Members of a sequence that are read to find the first that counts: those that are over are removed by claims.
pub const WHY_MEMBERS_MAX: usize = 20;
