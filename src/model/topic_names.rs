//! Topic names begin topics and groups differently for each service, so that several services can share the brokers of Kafka.
//!
//! The service and its workers call topics `tickwheel.<callback>.<priority>` and groups `tickwheel.<callback>`. With another
//! prefix the brokers know them by that prefix in place of `tickwheel`. Only the adapter of Kafka knows the difference. Two
//! services with one prefix on one Kafka would read each other's messages and lose them until the next look of each task.

use std::borrow::Cow;

/// The usual prefix of the topics between the service and its workers.
pub const TOPIC_PREFIX: &str = "tickwheel.";

/// Longest prefix, in bytes. With it, the longest name of a callback and a priority fit into Kafka's 249.
pub const PREFIX_BYTES_MAX: usize = 32;

/// The prefix by which the brokers know topics and groups; the usual one if it is not set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TopicNames {
    /// With its dot; none is the usual one.
    prefix: Option<String>,
}

impl TopicNames {
    /// Returns the names with a prefix, without its last dot: 1 to [`PREFIX_BYTES_MAX`] letters, digits, `_`, `-` and dots.
    ///
    /// # Errors
    /// A text about what is wrong with it.
    pub fn new(prefix: &str) -> Result<Self, String> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if !(1..=PREFIX_BYTES_MAX).contains(&prefix.len()) || !prefix.chars().all(allowed) {
            return Err(format!(
                "{prefix:?} is not a prefix of topics: use 1 to {PREFIX_BYTES_MAX} letters, digits, `_`, `-` and dots"
            ));
        }
        if prefix.split('.').any(str::is_empty) {
            return Err(format!(
                "{prefix:?} begins or ends with a dot, or has two in a row: leave it out, it is added"
            ));
        }
        let prefix = format!("{prefix}.");
        if prefix == TOPIC_PREFIX {
            return Ok(Self::default());
        }
        if prefix.starts_with(TOPIC_PREFIX) {
            return Err(format!(
                "{prefix:?} begins with `{TOPIC_PREFIX}`, as topics of a service without a prefix of its own do: use another"
            ));
        }
        Ok(Self {
            prefix: Some(prefix),
        })
    }

    /// Returns the brokers' name of a topic or a group. Names that are not the service's own stay as they are.
    #[must_use]
    pub fn outer<'a>(&self, name: &'a str) -> Cow<'a, str> {
        match (&self.prefix, name.strip_prefix(TOPIC_PREFIX)) {
            (Some(prefix), Some(rest)) => Cow::Owned(format!("{prefix}{rest}")),
            _ => Cow::Borrowed(name),
        }
    }

    /// Tells whether the brokers know one of the service's own topics by this name.
    #[must_use]
    pub fn is_own(&self, outer: &str) -> bool {
        let prefix = self.prefix.as_deref();
        outer.starts_with(prefix.unwrap_or(TOPIC_PREFIX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::task::Priority;

    fn topic(callback: &str, priority: Priority) -> String {
        format!("{TOPIC_PREFIX}{callback}.{}", priority.name())
    }

    #[test]
    fn own_names_begin_with_the_prefix_and_others_stay() {
        let names = TopicNames::new("team-7.staging").unwrap();
        let topic = topic("mail", Priority::High);
        assert_eq!(names.outer(&topic), "team-7.staging.mail.high");
        assert_eq!(names.outer("tickwheel.mail"), "team-7.staging.mail");
        assert_eq!(names.outer("orders"), "orders");
        // A worker asks for what the service told it.
        assert_eq!(names.outer("team-7.staging.mail"), "team-7.staging.mail");
        assert!(names.is_own("team-7.staging.mail.high"));
        assert!(!names.is_own("team-7.stagingmail") && !names.is_own(&topic));
    }

    #[test]
    fn the_usual_prefix_changes_nothing() {
        for names in [TopicNames::default(), TopicNames::new("tickwheel").unwrap()] {
            let topic = topic("mail", Priority::Low);
            assert_eq!(names.outer(&topic), topic);
            assert!(names.is_own(&topic) && !names.is_own("tickwheels"));
        }
    }

    #[test]
    fn prefixes_have_bounds() {
        assert!(TopicNames::new(&"x".repeat(PREFIX_BYTES_MAX)).is_ok());
        for wrong in [
            "",
            "a b",
            "é",
            ".a",
            "a.",
            "a..b",
            "tickwheel.eu",
            &"x".repeat(PREFIX_BYTES_MAX + 1),
        ] {
            assert!(TopicNames::new(wrong).is_err(), "{wrong}");
        }
        assert!(TopicNames::new("tickwheels").is_ok());
    }

    #[test]
    fn the_longest_name_fits_into_what_kafka_takes() {
        let callback = "c".repeat(crate::limits::NAME_CHARS_MAX);
        let names = TopicNames::new(&"x".repeat(PREFIX_BYTES_MAX)).unwrap();
        let longest = Priority::ALL.map(|priority| names.outer(&topic(&callback, priority)).len());
        assert!(longest.into_iter().all(|bytes| bytes <= 249), "{longest:?}");
    }
}
