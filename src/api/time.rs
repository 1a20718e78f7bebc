//! The readers of time turn the instants and durations of requests into bounded values for the domain.
//!
//! Their written form is in [`super::text`]. The bounds are those of the service.

use std::{
    sync::LazyLock,
    time::{Duration, SystemTime},
};

use jiff::{SignedDuration, Span, SpanRelativeTo, Timestamp};

use super::text::{
    DURATION_EXAMPLES, DurationText, INSTANT_EXAMPLES, InstantText, shorten, system_time,
};
use crate::{
    limits::DURATION_MAX,
    model::time::{Millis, rfc3339, whole_millis},
};

impl DurationText {
    /// Returns the duration, rounded up to whole milliseconds. Returns none when the text is not a duration,
    /// or one that is negative or longer than any that the service takes.
    #[must_use]
    pub fn duration(&self) -> Option<Duration> {
        duration(self, Duration::ZERO).ok()
    }
}

impl InstantText {
    /// Returns the instant, rounded up to whole milliseconds. Returns none when the text is not one between
    /// 1970 and 9999.
    #[must_use]
    pub fn system_time(&self) -> Option<SystemTime> {
        instant(self).ok().map(system_time)
    }
}

/// Latest start time: the last second that the time library can write.
static LATEST: LazyLock<Millis> = LazyLock::new(|| Millis(Timestamp::MAX.as_second() * 1000));

/// Returns the latest start time that can be written, for a range without end.
#[must_use]
pub fn latest() -> Millis {
    *LATEST
}

/// Reads an instant between 1970 and 9999. Fractions of a millisecond are rounded up, so that no task is
/// early.
///
/// # Errors
/// A text about the mistake.
pub fn instant(text: &InstantText) -> Result<Millis, String> {
    let earliest = rfc3339(Millis::EPOCH);
    let latest = *LATEST;
    let range = || format!("must be from {earliest} to {}", rfc3339(latest));
    let time = text.0.parse::<Timestamp>().map_err(|_| {
        let quoted = shorten(&text.0);
        // The parser gives the same error for a text that it cannot read and for a time that it cannot hold.
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

/// Tells whether a text has the form of RFC 3339, whatever its numbers are.
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
/// A text about the mistake.
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

/// Reads days and weeks as those of a clock, not of a calendar: 24 hours, and seven times 24 hours.
fn parsed(text: &str) -> Option<SignedDuration> {
    let of_hours = text.parse::<SignedDuration>().ok();
    of_hours.or_else(|| {
        let span = text.parse::<Span>().ok()?;
        span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()
    })
}

fn words(duration: Duration) -> String {
    DurationText::readable(duration).0
}
