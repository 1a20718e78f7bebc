//! Reads instants and durations of requests. What they mean is bounded here; what they look like is in [`super::text`].

use std::{sync::LazyLock, time::Duration};

use jiff::{SignedDuration, Timestamp};

use super::{
    text::{DURATION_EXAMPLES, DurationText, INSTANT_EXAMPLES, InstantText},
    violations::{Violations, shorten},
};
use crate::{
    limits::DURATION_MAX,
    model::time::{Millis, whole_millis},
    queue::message::rfc3339,
};

/// Latest start time: the last second that the time library can write.
static LATEST: LazyLock<Millis> = LazyLock::new(|| Millis(Timestamp::MAX.as_second() * 1000));

/// Reads an instant between 1970 and 9999; what is finer than a millisecond is rounded up, so that nothing is early.
///
/// # Errors
/// What is wrong with it.
pub fn instant(text: &InstantText) -> Result<Millis, String> {
    let earliest = rfc3339(Millis::EPOCH);
    let latest = *LATEST;
    let range = || format!("must be from {earliest} to {}", rfc3339(latest));
    let time = text.0.parse::<Timestamp>().map_err(|_| {
        let quoted = shorten(&text.0);
        // The parser does not tell a text it cannot read from a time it cannot hold.
        format!("`{quoted}` is not {INSTANT_EXAMPLES}; it {}", range())
    })?;
    let millis = -(-time.as_nanosecond()).div_euclid(1_000_000);
    match i64::try_from(millis) {
        Ok(millis) if (Millis::EPOCH.0..=latest.0).contains(&millis) => Ok(Millis(millis)),
        _ => Err(range()),
    }
}

/// Reads a duration of `least` to [`DURATION_MAX`].
///
/// # Errors
/// What is wrong with it.
pub fn duration(text: &DurationText, least: Duration) -> Result<Duration, String> {
    let quoted = || shorten(&text.0);
    let duration = text.0.parse::<SignedDuration>().map_err(|_| {
        format!(
            "`{}` is not {DURATION_EXAMPLES}; days and weeks are written in hours, such as \"168h\"",
            quoted()
        )
    })?;
    let duration = Duration::try_from(duration).map_err(|_| {
        format!(
            "`{}` is negative; must be at least {}",
            quoted(),
            words(least)
        )
    })?;
    let duration = Duration::from_millis(whole_millis(duration).unsigned_abs());
    if (least..=DURATION_MAX).contains(&duration) {
        Ok(duration)
    } else {
        Err(format!(
            "`{}` is out of range; must be {} to {}",
            quoted(),
            words(least),
            words(DURATION_MAX)
        ))
    }
}

/// Reads when a task is to start: at most one of the two; neither is none.
pub(in crate::http) fn start(
    start_time: Option<&InstantText>,
    delay: Option<&DurationText>,
    now: Millis,
    violations: &mut Violations,
) -> Option<Millis> {
    violations.exclusive(
        ("start_time", start_time.is_some()),
        ("delay", delay.is_some()),
    );
    let at = start_time.and_then(|text| violations.take("/start_time", instant(text)));
    let after = delay.and_then(|text| violations.take("/delay", duration(text, Duration::ZERO)));
    at.map(|at| at.max(now))
        .or_else(|| after.map(|after| now.after(after)))
}

fn words(duration: Duration) -> String {
    DurationText::from(duration).0
}
