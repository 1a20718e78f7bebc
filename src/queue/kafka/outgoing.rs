//! From a record to what librdkafka sends, and from its answer to what is counted.

use std::time::Duration;

use rdkafka::{
    error::KafkaError,
    message::{Header, OwnedHeaders},
    producer::BaseRecord,
};

use super::delivery::{Answer, Failure, Place, failure};
use crate::queue::{Partition, PublishError, Record};

/// Chooses the partition; none leaves it to the hash of the key.
pub(super) fn choose(record: &Record, count: i32) -> Result<Option<i32>, PublishError> {
    match record.partition {
        Partition::OfWheel(wheel) => Ok(Some(wheel.partition(count))),
        Partition::Fixed(partition) if (0..count).contains(&partition) => Ok(Some(partition)),
        Partition::Fixed(partition) => Err(PublishError::NoSuchTopic(format!(
            "{} has {count} partitions, not number {partition}",
            record.topic
        ))),
        Partition::ByKey => Ok(None),
    }
}

pub(super) fn to_kafka(
    record: &Record,
    partition: Option<i32>,
    place: Place,
) -> BaseRecord<'_, [u8], [u8], Place> {
    let mut headers = OwnedHeaders::new_with_capacity(record.headers.len());
    for (name, value) in &record.headers {
        headers = headers.insert(Header {
            key: name.as_ref(),
            value: Some(value.as_ref()),
        });
    }
    BaseRecord {
        topic: &record.topic,
        partition,
        payload: Some(record.value.as_ref()),
        key: record.key.as_deref(),
        timestamp: None,
        headers: Some(headers),
        delivery_opaque: place,
    }
}

pub(super) const fn is_unconfirmed(answer: &Answer) -> bool {
    matches!(answer, Err(Failure::Final(PublishError::Unconfirmed(_))))
}

/// What the producer did not even buffer was alone at fault.
pub(super) fn not_accepted(error: &KafkaError) -> Failure {
    match failure(error) {
        Failure::Alone(reason) => Failure::Final(PublishError::Refused(reason)),
        failure @ Failure::Final(_) => failure,
    }
}

pub(super) fn measure(took: Duration, answers: &[Result<(), PublishError>]) {
    metrics::histogram!("tickwheel_queue_publish_duration_seconds").record(took.as_secs_f64());
    for answer in answers {
        let kind = match answer {
            Ok(()) => continue,
            Err(PublishError::Refused(_)) => "refused",
            Err(PublishError::NoSuchTopic(_)) => "no_such_topic",
            Err(PublishError::Unconfirmed(_)) => "unconfirmed",
        };
        metrics::counter!("tickwheel_queue_publish_errors_total", "kind" => kind).increment(1);
    }
}
