//! Reads instants and durations of requests. What they mean is bounded here; what they look like is in [`super::text`].

use std::{sync::LazyLock, time::Duration};

use jiff::{SignedDuration, Span, SpanRelativeTo, Timestamp};

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

/// Returns the latest start time that can be written, for a range without end.
#[must_use]
pub fn latest() -> Millis {
    *LATEST
}

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
        if has_shape(&text.0) {
            format!(
                "`{quoted}` names a day or hour that does not exist, or is out of range: it {}",
                range()
            )
        } else {
            format!("`{quoted}` is not {INSTANT_EXAMPLES}; it {}", range())
        }
    })?;
    let millis = -(-time.as_nanosecond()).div_euclid(1_000_000);
    match i64::try_from(millis) {
        Ok(millis) if (Millis::EPOCH.0..=latest.0).contains(&millis) => Ok(Millis(millis)),
        _ => Err(range()),
    }
}

/// Tells whether a text is written as RFC 3339 says, whatever its numbers are.
fn has_shape(text: &str) -> bool {
    const SHAPE: &[u8] = b"dddd-dd-ddTdd:dd:dd";
    let fits = |(found, wanted): (u8, &u8)| match wanted {
        b'd' => found.is_ascii_digit(),
        b'T' => matches!(found, b'T' | b't' | b' '),
        _ => found == *wanted,
    };
    let has_offset = text.ends_with(['Z', 'z'])
        || text
            .get(SHAPE.len()..)
            .is_some_and(|rest| rest.contains(['+', '-']));
    text.len() > SHAPE.len() && text.bytes().zip(SHAPE).all(fits) && has_offset
}

/// Reads a duration of `least` to [`DURATION_MAX`].
///
/// # Errors
/// What is wrong with it.
pub fn duration(text: &DurationText, least: Duration) -> Result<Duration, String> {
    let quoted = || shorten(&text.0);
    let duration = parsed(&text.0).ok_or_else(|| {
        format!(
            "`{}` is not {DURATION_EXAMPLES}; months and years are written in days, such as \"365d\"",
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

/// Days and weeks are those of a clock, not of a calendar: 24 hours, seven times 24 hours.
fn parsed(text: &str) -> Option<SignedDuration> {
    let of_hours = text.parse::<SignedDuration>().ok();
    of_hours.or_else(|| {
        let span = text.parse::<Span>().ok()?;
        span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()
    })
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
    DurationText::readable(duration).0
}
