//! The text types hold instants and durations of requests and answers as they are written.
//!
//! They are kept as text until the request is converted, so that all wrong ones of a request are reported at
//! once. A value that is not text is refused with an example of a correct one.

use std::{
    borrow::Cow,
    fmt,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Deserializer, Serialize, de};
#[cfg(feature = "server")]
use utoipa::ToSchema;

use crate::{
    limits::QUOTED_CHARS_MAX,
    model::time::{Millis, rfc3339},
};

/// Examples of durations, for messages.
pub const DURATION_EXAMPLES: &str =
    r#"a duration in quotes, such as "90s", "1h 30m", "14d" or "PT1M30S""#;

/// Examples of instants, for messages.
pub const INSTANT_EXAMPLES: &str =
    r#"an RFC 3339 time with its offset in quotes, such as "2030-01-31T09:00:00.25Z""#;

/// A duration as written: `90s`, `1h 30m`, `250ms`, `14d`, `2 weeks` or ISO 8601 `PT1M30S`, `P14D`. A day is 24 hours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(transparent)]
#[cfg_attr(feature = "server", schema(value_type = String, example = "1m 30s"))]
pub struct DurationText(pub String);

/// Units below a day, with their milliseconds.
const UNITS: [(&str, u128); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

const DAY_MS: u128 = 24 * 3_600_000;

impl From<Duration> for DurationText {
    /// Writes a duration for programs, in one unit: `90s`, or `1500ms` when it is not in whole seconds. It is
    /// rounded up to whole milliseconds, so that a wait is never cut short.
    fn from(duration: Duration) -> Self {
        let millis = rounded_up(duration);
        Self(if millis.is_multiple_of(1000) {
            format!("{}s", millis / 1000)
        } else {
            format!("{millis}ms")
        })
    }
}

impl DurationText {
    /// Writes a duration for people, rounded up to whole milliseconds. Whole days from two on are written
    /// like `14d`, everything else in hours and less, like `24h` or `1h 30m`.
    #[must_use]
    pub fn readable(duration: Duration) -> Self {
        let millis = rounded_up(duration);
        if millis >= 2 * DAY_MS && millis.is_multiple_of(DAY_MS) {
            return Self(format!("{}d", millis / DAY_MS));
        }
        let mut left = millis;
        let mut parts = Vec::new();
        for (unit, length) in UNITS {
            if left >= length {
                parts.push(format!("{}{unit}", left / length));
                left %= length;
            }
        }
        if parts.is_empty() {
            parts.push("0s".to_owned());
        }
        Self(parts.join(" "))
    }
}

const fn rounded_up(duration: Duration) -> u128 {
    duration.as_nanos().div_ceil(1_000_000)
}

/// An instant as written: RFC 3339 with an offset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(transparent)]
#[cfg_attr(feature = "server", schema(value_type = String, format = DateTime, example = "2030-01-31T09:00:00.250Z"))]
pub struct InstantText(pub String);

/// Returns an instant of the domain as the standard library has it; one before 1970 becomes 1970.
pub(crate) fn system_time(at: Millis) -> SystemTime {
    UNIX_EPOCH + Millis::EPOCH.until(at)
}

impl From<SystemTime> for InstantText {
    /// Writes an instant in UTC, rounded up to the millisecond, so that a task never starts early. An instant
    /// before 1970 becomes 1970.
    fn from(at: SystemTime) -> Self {
        let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
        Millis::EPOCH.after(since).into()
    }
}

impl From<&str> for InstantText {
    /// Takes a text as it is; the service checks it.
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

#[doc(hidden)]
impl From<Millis> for InstantText {
    /// Writes an instant in UTC, to the millisecond.
    fn from(at: Millis) -> Self {
        Self(rfc3339(at))
    }
}

impl<'de> Deserialize<'de> for DurationText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer
            .deserialize_str(Text(DURATION_EXAMPLES))
            .map(|text| Self(text.into_owned()))
    }
}

impl<'de> Deserialize<'de> for InstantText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer
            .deserialize_str(Text(INSTANT_EXAMPLES))
            .map(|text| Self(text.into_owned()))
    }
}

struct Text(&'static str);

impl<'de> de::Visitor<'de> for Text {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }

    fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }
}

/// Shortens a text of a request for a message.
pub(crate) fn shorten(text: &str) -> String {
    match text.char_indices().nth(QUOTED_CHARS_MAX) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_as_the_standard_library_has_time() {
        let at = UNIX_EPOCH + Duration::from_millis(1_500);
        let text = InstantText::from(UNIX_EPOCH + Duration::from_micros(1_499_001));
        assert_eq!(text.0, "1970-01-01T00:00:01.500Z");
        assert_eq!(text.system_time(), Some(at));
        assert_eq!(
            InstantText::from(at - Duration::from_secs(9)).system_time(),
            Some(UNIX_EPOCH)
        );
        assert_eq!(InstantText::from("yesterday").system_time(), None);
        let read = |text: &str| DurationText(text.to_owned()).duration();
        assert_eq!(read("1m 30s"), Some(Duration::from_secs(90)));
        assert_eq!(read("-1s"), None);
        assert_eq!(read("soon"), None);
    }

    #[test]
    fn durations_are_written_as_people_write_them() {
        for (millis, text) in [
            (0, "0s"),
            (250, "250ms"),
            (90_000, "1m 30s"),
            (3_600_000, "1h"),
            (5_400_000, "1h 30m"),
            (86_400_000, "24h"),
            (14 * 86_400_000, "14d"),
            (49 * 3_600_000, "49h"),
            (8_001, "8s 1ms"),
        ] {
            let duration = Duration::from_millis(millis);
            assert_eq!(DurationText::readable(duration).0, text);
        }
        let in_seconds = DurationText::from(Duration::from_micros(90_000_001));
        assert_eq!(in_seconds.0, "90001ms");
        assert_eq!(DurationText::from(Duration::from_secs(90)).0, "90s");
    }
}
