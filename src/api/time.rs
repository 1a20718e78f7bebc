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

/// Reads an instant from 1970 to [`latest`]. Fractions of a millisecond are rounded up, so that no task is early.
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
    if !has_offset(&text.0) {
        let quoted = shorten(&text.0);
        return Err(format!(
            "`{quoted}` has an offset that RFC 3339 does not have: write `Z`, or hours to 23 and minutes such as `+01:00`"
        ));
    }
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

/// Tells whether a text ends with an offset of RFC 3339, section 5.6.
fn has_offset(text: &str) -> bool {
    if text.ends_with(['Z', 'z']) {
        return true;
    }
    let offset = text
        .rsplit_once(['+', '-'])
        .map_or("", |(_, offset)| offset);
    let (hours, minutes) = offset.split_once(':').unwrap_or_default();
    let below = |digits: &str, most: u8| {
        let is_number = digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_number && digits.parse::<u8>().is_ok_and(|number| number < most)
    };
    below(hours, 24) && below(minutes, 60)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Offsets of RFC 3339, section 5.6.
    #[test]
    fn an_offset_is_z_or_hours_and_minutes_of_a_day() {
        let read = |offset: &str| instant(&InstantText(format!("2027-01-15T10:00:00.5{offset}")));
        let ten = read("Z").unwrap();
        for (offset, hours) in [
            ("z", 0),
            ("+00:00", 0),
            ("-00:00", 0),
            ("+23:59", 23),
            ("-05:30", -6),
        ] {
            let earlier = (ten.0 - read(offset).unwrap().0).div_euclid(3_600_000);
            assert_eq!(earlier, hours, "{offset}");
        }
        for wrong in [
            "+24:00",
            "+25:00",
            "-24:30",
            "+0100",
            "+01",
            "+1:00",
            "+01:60",
            "+01:00:00",
            "Z[UTC]",
        ] {
            let refused = read(wrong).unwrap_err();
            assert!(
                refused.contains("RFC 3339") || refused.contains("out of range"),
                "{wrong}: {refused}"
            );
        }
    }
}
