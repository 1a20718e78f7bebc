//! The readers of times parse durations and times of flags for all commands in the same way.
//!
//! A flag is refused by its own name, before anything is sent. The service checks the limits of a task (the
//! least claim timeout and the like); its answer is translated into the names of the flags
//! ([`super::fields`]).

use std::time::Duration;

use jiff::SignedDuration;

use crate::{
    api::{
        text::{DurationText, InstantText},
        time,
    },
    client::{NewStart, StartTime},
};

/// The form of a duration on a command line.
const DURATION_EXAMPLES: &str = "expected a duration such as 90s, 250ms, \"1h 30m\" or PT1M30S";

/// The form of a time on a command line.
const TIME_EXAMPLES: &str =
    "expected a time with its offset such as 2030-01-31T09:00:00Z, or one from now such as 2h";

/// Reads a duration that is sent as it was written.
pub(super) fn duration_text(text: &str) -> Result<DurationText, String> {
    let written = DurationText(text.to_owned());
    match time::duration(&written, Duration::ZERO) {
        Ok(_) => Ok(written),
        // A duration that is out of range: its reason names the range.
        Err(reason) if text.parse::<SignedDuration>().is_ok() => Err(reason),
        Err(_) => Err(without_unit(text).unwrap_or_else(|| DURATION_EXAMPLES.to_owned())),
    }
}

/// Says what to write for a number alone.
fn without_unit(text: &str) -> Option<String> {
    let is_number = text.parse::<u64>().is_ok();
    is_number.then(|| format!("it has no unit: write {text}s for seconds, {text}m for minutes"))
}

/// Reads a time of a query.
pub(super) fn instant(text: &str) -> Result<InstantText, String> {
    let read = InstantText(text.to_owned());
    time::instant(&read).map(|_| read)
}

/// Reads a duration that this program uses itself; a number alone means seconds.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.parse::<u32>() {
        return Ok(Duration::from_secs(seconds.into()));
    }
    let written = duration_text(text)?;
    time::duration(&written, Duration::ZERO)
}

/// Reads a start: a time, or a duration from now, which the service adds to its own clock.
pub(super) fn start(text: &str) -> Result<NewStart, String> {
    if let Ok(after) = duration_text(text) {
        return Ok(NewStart::In(after));
    }
    match time::instant(&InstantText(text.to_owned())) {
        Ok(_) => Ok(NewStart::At(StartTime::from(text))),
        Err(reason) if text.parse::<jiff::Timestamp>().is_ok() => Err(reason),
        Err(_) => Err(without_unit(text).unwrap_or_else(|| TIME_EXAMPLES.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_read_wherever_one_is_meant_and_a_number_is_seconds() {
        for (text, millis) in [
            ("2s", 2000),
            ("250ms", 250),
            ("PT1M", 60_000),
            ("30", 30_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "soon", "2 fortnights", "-3"] {
            assert_eq!(duration(text), Err(DURATION_EXAMPLES.to_owned()), "{text}");
        }
        let told = "it has no unit: write 5s for seconds, 5m for minutes";
        assert_eq!(duration_text("5"), Err(told.to_owned()));
        assert_eq!(start("5"), Err(told.to_owned()));
        let reason = duration_text("-5s").unwrap_err();
        assert!(reason.contains("negative"), "{reason}");
    }

    #[test]
    fn a_start_is_a_time_or_counts_from_now() {
        let two_hours = NewStart::In(DurationText("2h".to_owned()));
        assert_eq!(start("2h"), Ok(two_hours));
        let text = "2030-01-31T09:00:00+01:00";
        assert_eq!(start(text), Ok(NewStart::At(StartTime::from(text))));
        for text in ["", "tomorrow", "2030-01-31", "2030-01-31T09:00:00"] {
            assert_eq!(start(text), Err(TIME_EXAMPLES.to_owned()), "{text}");
        }
    }
}
