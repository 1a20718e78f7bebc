//! What a tracked task looks like in the queue, and what topics and groups are called.
//!
//! The value is a protobuf `tickwheel.v1.TaskMessage`; the headers are CloudEvents 1.0 in binary mode, and `traceparent`.
//! A record of a `kafka` target is the user's own: topic, key, headers and value as registered, plus two headers to
//! recognise duplicates by.

use bytes::Bytes;
use prost::Message as _;

use super::{Partition, Record};
use crate::{
    model::{
        ids::TaskId,
        task::{Body, Content, Priority, Spec, Target},
        time::Millis,
    },
    schema::{self, Malformed, v1},
};

/// Media type of a message's value.
pub const CONTENT_TYPE: &str = "application/protobuf;type=tickwheel.v1.TaskMessage";

/// Header of a `kafka` target's record: the task's id.
pub const TASK_ID_HEADER: &str = "tickwheel-task-id";

/// Header of a `kafka` target's record: the task's start time, RFC 3339.
pub const START_TIME_HEADER: &str = "tickwheel-start-time";

/// Returns the topic of a callback's tasks of one priority.
#[must_use]
pub fn topic(callback: &str, priority: Priority) -> String {
    format!("tickwheel.{callback}.{}", priority.name())
}

/// Returns the consumer group that the workers of a callback share.
#[must_use]
pub fn group(callback: &str) -> String {
    format!("tickwheel.{callback}")
}

/// A tracked task on its way to a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskMessage {
    /// The task.
    pub id: TaskId,
    /// Generation that the claim must find.
    pub generation: u32,
    /// Attempt that the claim must find.
    pub expected_attempt: u32,
    /// Not to be claimed before this.
    pub start: Millis,
    /// When it was handed to the queue.
    pub published: Millis,
    /// The task, its content inside.
    pub spec: Spec,
}

impl TaskMessage {
    /// Encodes the value of the record.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        v1::TaskMessage {
            id: Bytes::copy_from_slice(self.id.uuid().as_bytes()),
            generation: self.generation,
            expected_attempt: self.expected_attempt,
            start_time_ms: self.start.0,
            publish_time_ms: self.published.0,
            spec: Some(schema::spec_to_message(&self.spec)),
        }
        .encode_to_vec()
        .into()
    }

    /// Reads the value of a record.
    ///
    /// # Errors
    /// [`Malformed`] when it is not such a message; it is to be set aside, never to stop a partition.
    pub fn decode(value: Bytes) -> Result<Self, Malformed> {
        let message = v1::TaskMessage::decode(value)?;
        let uuid = uuid::Uuid::from_slice(&message.id).map_err(|_| Malformed::OutOfRange("id"))?;
        Ok(Self {
            id: TaskId::from_uuid(uuid).ok_or(Malformed::OutOfRange("id"))?,
            generation: message.generation,
            expected_attempt: message.expected_attempt,
            start: Millis(message.start_time_ms),
            published: Millis(message.publish_time_ms),
            spec: schema::spec_from_message(message.spec.ok_or(Malformed::Missing("spec"))?)?,
        })
    }

    /// Returns the record that carries the message to the callback `callback`.
    #[must_use]
    pub fn to_record(&self, callback: &str) -> Record {
        let id = self.id.to_string();
        let mut headers = vec![
            header("ce_specversion", "1.0"),
            header(
                "ce_id",
                &format!("{id}/{}/{}", self.generation, self.expected_attempt),
            ),
            header("ce_source", "/tickwheel"),
            header("ce_type", "tickwheel.task.due"),
            header("ce_subject", callback),
            header("ce_time", &rfc3339(self.start)),
            header("ce_partitionkey", &id),
            header("content-type", CONTENT_TYPE),
        ];
        if let Some(parent) = self
            .spec
            .content()
            .and_then(|content| content.trace_parent.as_deref())
        {
            headers.push(header("traceparent", parent));
        }
        Record {
            topic: topic(callback, self.spec.priority),
            create_topic: true,
            partition: Partition::OfWheel(self.id.wheel()),
            key: Some(id.into()),
            value: self.encode(),
            headers,
        }
    }
}

/// Returns the record of a due `kafka` target; none when the task has another target.
#[must_use]
pub fn user_record(id: TaskId, start: Millis, spec: &Spec, content: &Content) -> Option<Record> {
    let Target::Kafka { topic, partition } = &spec.target else {
        return None;
    };
    let mut headers = content.record_headers.clone();
    headers.push(header(TASK_ID_HEADER, &id.to_string()));
    headers.push(header(START_TIME_HEADER, &rfc3339(start)));
    Some(Record {
        topic: topic.clone(),
        create_topic: false,
        partition: partition.map_or(Partition::ByKey, Partition::Fixed),
        key: content.record_key.clone(),
        value: content.payload.clone(),
        headers,
    })
}

/// Returns the spec with its content inside.
#[must_use]
pub fn with_content(spec: &Spec, content: &Content) -> Spec {
    Spec {
        body: Body::Inline(content.clone()),
        ..spec.clone()
    }
}

/// Writes an instant as RFC 3339 in UTC, to the millisecond.
#[must_use]
pub fn rfc3339(at: Millis) -> String {
    jiff::Timestamp::from_millisecond(at.0)
        .map_or_else(|_| at.0.to_string(), |time| format!("{time:.3}"))
}

fn header(name: &str, value: &str) -> (String, Bytes) {
    (name.to_owned(), Bytes::copy_from_slice(value.as_bytes()))
}
