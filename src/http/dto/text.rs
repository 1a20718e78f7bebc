//! Fields that are text with a meaning: instants and durations, as they are written.
//!
//! They are kept as text until the request is converted, so that every wrong one of a request is reported at once. What
//! is not text at all is refused with an example of what is meant.

use std::{borrow::Cow, fmt, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, de};
use utoipa::ToSchema;

use crate::model::time::Millis;
use crate::queue::message::rfc3339;

/// What a duration looks like, for messages.
pub const DURATION_EXAMPLES: &str =
    r#"a duration in quotes, such as "90s", "1h 30m", "14d" or "PT1M30S""#;

/// What an instant looks like, for messages.
pub const INSTANT_EXAMPLES: &str =
    r#"an RFC 3339 time with its offset in quotes, such as "2030-01-31T09:00:00.25Z""#;

/// A duration as written: `90s`, `1h 30m`, `250ms`, `14d`, `2 weeks` or ISO 8601 `PT1M30S`, `P14D`. A day is 24 hours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = String, example = "1m 30s")]
pub struct DurationText(pub String);

/// Units below a day, with their milliseconds.
const UNITS: [(&str, u128); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

const DAY_MS: u128 = 24 * 3_600_000;

impl From<Duration> for DurationText {
    /// Writes a duration for programs, in one unit: `90s`, or `1500ms` when it is not whole seconds. Rounded up to whole
    /// milliseconds: a wait is never cut short.
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
    /// Writes a duration for people, rounded up to whole milliseconds. Whole days from two on are `14d`; everything else is in
    /// hours and less, such as `24h` or `1h 30m`.
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = String, format = DateTime, example = "2030-01-31T09:00:00.250Z")]
pub struct InstantText(pub String);

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

#[cfg(test)]
mod tests {
    use super::*;

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
