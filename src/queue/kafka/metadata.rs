//! The metadata look-up tells callers which topics the brokers have. It blocks, so callers use threads that
//! may.

use std::collections::BTreeMap;

use rdkafka::{
    client::{Client, ClientContext},
    error::{KafkaError, RDKafkaErrorCode},
    metadata::MetadataTopic,
};

use super::Limit;
use crate::limits;

/// A broker's answer about a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// It exists.
    Exists {
        /// How many partitions it has.
        partitions: i32,
    },
    /// It does not exist.
    Missing,
    /// We may not use the topic, whether it exists or not.
    Refused(String),
    /// No answer, or none yet.
    Silent(String),
}

/// Asks for topics, one by one: each takes about a millisecond. Many are looked up in the list of all topics.
pub(super) fn look_up<C: ClientContext>(
    client: &Client<C>,
    topics: &[String],
    limit: &Limit,
) -> BTreeMap<String, Answer> {
    if topics.len() > limits::TOPICS_ASKED_SINGLY_MAX {
        return look_up_all(client, topics, limit);
    }
    let ask = |topic: &String| (topic.clone(), look_up_one(client, topic, limit));
    topics.iter().map(ask).collect()
}

/// Asks for the list of all topics. A topic that this client may not see reads as missing here; creating it
/// gives the real reason.
fn look_up_all<C: ClientContext>(
    client: &Client<C>,
    topics: &[String],
    limit: &Limit,
) -> BTreeMap<String, Answer> {
    let metadata = match client.fetch_metadata(None, limit.left()) {
        Ok(metadata) => metadata,
        Err(error) => {
            let silent = |topic: &String| (topic.clone(), Answer::Silent(error.to_string()));
            return topics.iter().map(silent).collect();
        }
    };
    let found: BTreeMap<&str, &MetadataTopic> = metadata
        .topics()
        .iter()
        .map(|topic| (topic.name(), topic))
        .collect();
    let answer = |topic: &String| {
        let found = found.get(topic.as_str());
        (
            topic.clone(),
            found.map_or(Answer::Missing, |one| read(one)),
        )
    };
    topics.iter().map(answer).collect()
}

fn look_up_one<C: ClientContext>(client: &Client<C>, topic: &str, limit: &Limit) -> Answer {
    match client.fetch_metadata(Some(topic), limit.left()) {
        Ok(metadata) => metadata.topics().first().map_or_else(
            || Answer::Silent("the answer names no topic".to_owned()),
            read,
        ),
        Err(error @ KafkaError::Nul(_)) => Answer::Refused(error.to_string()),
        Err(error) => Answer::Silent(error.to_string()),
    }
}

fn read(found: &MetadataTopic) -> Answer {
    match found.error().map(RDKafkaErrorCode::from) {
        None | Some(RDKafkaErrorCode::NoError) => {}
        Some(RDKafkaErrorCode::UnknownTopicOrPartition) => return Answer::Missing,
        Some(code) if is_refusal(code) => return Answer::Refused(code.to_string()),
        Some(code) => return Answer::Silent(code.to_string()),
    }
    match i32::try_from(found.partitions().len()) {
        Ok(partitions @ 1..) => Answer::Exists { partitions },
        _ => Answer::Silent("the topic has no partitions yet".to_owned()),
    }
}

pub(super) const fn is_refusal(code: RDKafkaErrorCode) -> bool {
    matches!(
        code,
        RDKafkaErrorCode::TopicAuthorizationFailed
            | RDKafkaErrorCode::ClusterAuthorizationFailed
            | RDKafkaErrorCode::InvalidTopic
            | RDKafkaErrorCode::PolicyViolation
            | RDKafkaErrorCode::InvalidReplicationFactor
            | RDKafkaErrorCode::InvalidPartitions
            | RDKafkaErrorCode::InvalidConfig
    )
}
