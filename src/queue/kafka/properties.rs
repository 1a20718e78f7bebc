//! The properties that our own topics are created with.

use rdkafka::admin::{NewTopic, TopicReplication};

use super::Settings;
use crate::limits;

/// The settings that our topics are created with, as text.
pub(super) struct Properties {
    bytes_max: String,
    retention: String,
    segment: String,
}

impl Properties {
    pub(super) fn new() -> Self {
        Self {
            bytes_max: limits::RECORD_BYTES_MAX.to_string(),
            retention: limits::TOPIC_RETENTION.as_millis().to_string(),
            segment: limits::TOPIC_SEGMENT.as_millis().to_string(),
        }
    }

    /// Returns the order to create a topic.
    pub(super) fn topic<'a>(&'a self, name: &'a str, settings: &Settings) -> NewTopic<'a> {
        let copies = TopicReplication::Fixed(settings.replication_factor.unwrap_or(-1));
        NewTopic::new(name, settings.partitions, copies)
            .set("max.message.bytes", &self.bytes_max)
            .set("retention.ms", &self.retention)
            .set("segment.ms", &self.segment)
    }
}
