//! Limits of figures and metrics for people.

use std::time::Duration;

/// Tasks that are handed over later than this count as late in metrics. The service is built for milliseconds, but a node that
/// joins or stops may take a second.
pub const LATE_FIRING: Duration = Duration::from_secs(1);

/// Callbacks that are distinguished in figures and metrics: nobody looks at more.
pub const CALLBACKS_TOLD_MAX: usize = 100;
