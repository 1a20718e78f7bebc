//! The conversion turns records into those of librdkafka for the publisher, and counts its answers.

use std::{borrow::Cow, time::Duration};

use rdkafka::{
    error::KafkaError,
    message::{Header, OwnedHeaders},
    producer::BaseRecord,
};

use super::{
    Settings,
    delivery::{Failure, Place, failure},
    signature,
};
use crate::queue::{Partition, PublishError, Record};

/// The partition of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    /// This one.
    Of(i32),
    /// Any partition that is well.
    Any,
    /// The operator has set how librdkafka chooses.
    Operators,
}

/// Chooses the partition.
pub(super) fn choose(
    record: &Record,
    count: i32,
    settings: &Settings,
) -> Result<Choice, PublishError> {
    match record.partition {
        Partition::OfWheel(wheel) => Ok(Choice::Of(wheel.partition(count))),
        Partition::Fixed(partition) if (0..count).contains(&partition) => Ok(Choice::Of(partition)),
        Partition::Fixed(partition) => Err(PublishError::NoSuchTopic(format!(
            "{} has {count} partitions, not number {partition}",
            record.topic
        ))),
        Partition::ByKey if settings.properties.contains_key("partitioner") => {
            Ok(Choice::Operators)
        }
        Partition::ByKey => Ok(record.key.as_ref().map_or(Choice::Any, |key| {
            let positive = i32::try_from(murmur2(key) & 0x7fff_ffff).unwrap_or(0);
            Choice::Of(positive.checked_rem(count).unwrap_or(0))
        })),
    }
}

/// The hash by which Kafka's Java clients choose the partition of a key: MurmurHash2 with their seed. A
/// record goes where the user's own producers send it.
fn murmur2(key: &[u8]) -> u32 {
    const FACTOR: u32 = 0x5bd1_e995;
    let (words, rest) = key.as_chunks::<4>();
    let mut hash = 0x9747_b28c ^ u32::try_from(key.len()).unwrap_or(u32::MAX);
    for word in words {
        let mut word = u32::from_le_bytes(*word).wrapping_mul(FACTOR);
        word ^= word >> 24;
        hash = hash.wrapping_mul(FACTOR) ^ word.wrapping_mul(FACTOR);
    }
    if !rest.is_empty() {
        let shifted = rest.iter().zip([0, 8, 16]);
        hash ^= shifted.fold(0, |tail, (byte, shift)| tail | u32::from(*byte) << shift);
        hash = hash.wrapping_mul(FACTOR);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(FACTOR);
    hash ^ hash >> 15
}

/// Gives a record the brokers' name of its topic, if that is the service's own, and a signature, if there is a key.
pub(super) fn address(settings: &Settings, record: &mut Record) {
    if record.create_topic
        && let Cow::Owned(name) = settings.names.outer(&record.topic)
    {
        record.topic = name;
    }
    signature::sign(&settings.signing, record);
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

/// Returns the failure of a record that the producer did not even buffer: only that record was at fault.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The values of Kafka's own test of it.
    #[test]
    fn keys_hash_as_in_java() {
        for (key, hash) in [
            ("21", -973_932_308_i32),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            (
                "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8",
                -58_897_971,
            ),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(key.as_bytes()), hash.cast_unsigned(), "{key}");
        }
    }
}
