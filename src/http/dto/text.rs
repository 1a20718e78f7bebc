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
pub const DURATION_EXAMPLES: &str = r#"a duration in quotes, such as "90s", "1h 30m" or "PT1M30S""#;

/// What an instant looks like, for messages.
pub const INSTANT_EXAMPLES: &str =
    r#"an RFC 3339 time with its offset in quotes, such as "2030-01-31T09:00:00.25Z""#;

/// A duration as written: `90s`, `1h 30m`, `250ms` or ISO 8601 `PT1M30S`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = String, example = "1m 30s")]
pub struct DurationText(pub String);

impl From<Duration> for DurationText {
    /// Writes a duration, rounded up to whole milliseconds: a wait is never cut short.
    fn from(duration: Duration) -> Self {
        let millis = duration.as_nanos().div_ceil(1_000_000);
        Self(if millis.is_multiple_of(1000) {
            format!("{}s", millis / 1000)
        } else {
            format!("{millis}ms")
        })
    }
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
