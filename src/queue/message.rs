//! The message carries a tracked task through the queue to its workers. This file also names topics and
//! groups.
//!
//! The value is a protobuf `tickwheel.v1.TaskMessage`; the headers are CloudEvents 1.0 in binary mode, and
//! `traceparent`. A record of a `kafka` target is the user's own: topic, key, headers and value as
//! registered, plus two headers to recognise duplicates by.

use std::borrow::Cow;

use bytes::Bytes;
use prost::Message as _;

use super::{Delivery, Partition, Record};
use crate::{
    model::{
        dispatch::Dispatch,
        ids::TaskId,
        task::{Content, Priority, Spec},
        time::{Millis, rfc3339},
    },
    schema::{self, Malformed, v1},
};

/// Media type of a message's value.
pub const CONTENT_TYPE: &str = "application/protobuf;type=tickwheel.v1.TaskMessage";

/// Header of a tracked task's message: [`CONTENT_TYPE`], or the name of a later format.
const FORMAT_HEADER: &str = "content-type";

/// Header of a `kafka` target's record: the task's id.
pub const TASK_ID_HEADER: &str = "tickwheel-task-id";

/// Header of a `kafka` target's record: the task's start time, RFC 3339.
pub const START_TIME_HEADER: &str = "tickwheel-start-time";

pub use crate::model::topic_names::TOPIC_PREFIX;

/// Header of a tracked task's message: the task, its generation and the attempt that the claim must find.
const EVENT_ID_HEADER: &str = "ce_id";

/// Returns the topic of a callback's tasks of one priority.
#[must_use]
pub fn topic(callback: &str, priority: Priority) -> String {
    topic_of_group(&group(callback), priority)
}

/// Returns the topic, of one priority, that a consumer group of a callback's workers reads.
#[must_use]
pub fn topic_of_group(group: &str, priority: Priority) -> String {
    format!("{group}.{}", priority.name())
}

/// Returns the consumer group that the workers of a callback share.
#[must_use]
pub fn group(callback: &str) -> String {
    format!("{TOPIC_PREFIX}{callback}")
}

/// A tracked task on its way to a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskMessage {
    /// Its way to the worker.
    pub dispatch: Dispatch,
    /// When it was handed to the queue.
    pub published: Millis,
    /// The task, its content inside.
    pub spec: Spec,
}

impl TaskMessage {
    /// Reads a record of a topic between the service and its workers.
    ///
    /// # Errors
    /// [`Malformed`] as [`TaskMessage::decode`] has it, also when the record names another format than [`CONTENT_TYPE`]:
    /// bytes of a later one might be read as something else.
    pub fn read(delivery: &Delivery) -> Result<Self, Malformed> {
        let headers = delivery.headers.iter();
        let named = headers.rev().find(|(name, _)| name == FORMAT_HEADER);
        match named {
            Some((_, format)) if format != CONTENT_TYPE.as_bytes() => {
                let format = format.escape_ascii();
                Err(Malformed::Encoding(format!("its content-type is {format}")))
            }
            _ => Self::decode(delivery.value.clone()),
        }
    }

    /// Reads the value of a record.
    ///
    /// # Errors
    /// [`Malformed`] when it is not such a message. It is to be set aside and must never stop a partition.
    pub fn decode(value: Bytes) -> Result<Self, Malformed> {
        let message = v1::TaskMessage::decode(value)?;
        let uuid = uuid::Uuid::from_slice(&message.id).map_err(|_| Malformed::OutOfRange("id"))?;
        Ok(Self {
            dispatch: Dispatch {
                id: TaskId::from_uuid(uuid).ok_or(Malformed::OutOfRange("id"))?,
                generation: message.generation,
                expected_attempt: message.expected_attempt,
                start: Millis(message.start_time_ms),
            },
            published: Millis(message.publish_time_ms),
            spec: schema::spec_from_message(message.spec.ok_or(Malformed::Missing("spec"))?)?,
        })
    }

    /// Returns the message as it is published, or none when its content is not inside.
    #[must_use]
    pub fn outgoing(&self) -> Option<Outgoing<'_>> {
        Some(Outgoing {
            dispatch: self.dispatch,
            published: self.published,
            spec: &self.spec,
            content: Some(self.spec.content()?),
        })
    }
}

/// A tracked task that is about to be published: a message whose parts are still elsewhere.
#[derive(Debug, Clone, Copy)]
pub struct Outgoing<'a> {
    /// Its way to the worker.
    pub dispatch: Dispatch,
    /// When it is handed to the queue.
    pub published: Millis,
    /// The task.
    pub spec: &'a Spec,
    /// Its content, wherever it was kept; none if it stays in the store, and whoever claims the task reads it there.
    pub content: Option<&'a Content>,
}

impl Outgoing<'_> {
    /// Encodes the value of the record.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        v1::TaskMessage {
            id: Bytes::copy_from_slice(self.dispatch.id.uuid().as_bytes()),
            generation: self.dispatch.generation,
            expected_attempt: self.dispatch.expected_attempt,
            start_time_ms: self.dispatch.start.0,
            publish_time_ms: self.published.0,
            spec: Some(self.content.map_or_else(
                || schema::spec_to_message(self.spec),
                |content| schema::spec_to_message_with(self.spec, content),
            )),
        }
        .encode_to_vec()
        .into()
    }

    /// Returns the record that carries the message to the callback `callback`.
    #[must_use]
    pub fn to_record(&self, callback: &str, times: &mut TimeTexts) -> Record {
        let id = self.dispatch.id.to_string();
        let event = format!(
            "{id}/{}/{}",
            self.dispatch.generation, self.dispatch.expected_attempt
        );
        let id = Bytes::from(id);
        let mut headers = Vec::with_capacity(9);
        headers.extend([
            fixed("ce_specversion", "1.0"),
            header(EVENT_ID_HEADER, event.into()),
            fixed("ce_source", "/tickwheel"),
            fixed("ce_type", "tickwheel.task.due"),
            header("ce_subject", Bytes::copy_from_slice(callback.as_bytes())),
            header("ce_time", times.rfc3339(self.dispatch.start)),
            header("ce_partitionkey", id.clone()),
            fixed(FORMAT_HEADER, CONTENT_TYPE),
        ]);
        let content = self
            .content
            .and_then(|content| content.trace_parent.as_ref());
        if let Some(parent) = content {
            headers.push(header(
                "traceparent",
                Bytes::copy_from_slice(parent.as_bytes()),
            ));
        }
        Record {
            topic: topic(callback, self.spec.priority),
            create_topic: true,
            partition: Partition::OfWheel(self.dispatch.id.wheel()),
            key: Some(id),
            value: self.encode(),
            headers,
        }
    }
}

/// Writes instants as text and remembers the last one, because tasks that are due together share it.
#[derive(Debug, Default)]
pub struct TimeTexts {
    last: Option<(Millis, Bytes)>,
}

impl TimeTexts {
    /// Writes an instant as [`rfc3339`] does.
    pub fn rfc3339(&mut self, at: Millis) -> Bytes {
        match &self.last {
            Some((last, text)) if *last == at => text.clone(),
            _ => {
                let text = Bytes::from(rfc3339(at));
                self.last = Some((at, text.clone()));
                text
            }
        }
    }
}

/// Returns the record of a due `kafka` target.
#[must_use]
pub(crate) fn user_record(
    id: TaskId,
    start: Millis,
    (topic, partition): (&str, Option<i32>),
    content: &Content,
    times: &mut TimeTexts,
) -> Record {
    let mut headers = Vec::with_capacity(content.record_headers.len() + 2);
    let own = content.record_headers.iter();
    headers.extend(own.map(|(name, value)| (Cow::Owned(name.clone()), value.clone())));
    headers.push(header(TASK_ID_HEADER, id.to_string().into()));
    headers.push(header(START_TIME_HEADER, times.rfc3339(start)));
    Record {
        topic: topic.to_owned(),
        create_topic: false,
        partition: partition.map_or(Partition::ByKey, Partition::Fixed),
        key: content.record_key.clone(),
        value: content.payload.clone(),
        headers,
    }
}

/// Names the hand-over that a record of ours stands for: the same name for each repetition, and for nothing
/// else. None for a record that is not ours.
#[must_use]
pub fn identity(record: &Record) -> Option<String> {
    let header = |name: &str| {
        let found = record.headers.iter().rfind(|(found, _)| found == name);
        found.and_then(|(_, value)| std::str::from_utf8(value).ok())
    };
    if record.create_topic {
        return header(EVENT_ID_HEADER).map(str::to_owned);
    }
    let (id, start) = (header(TASK_ID_HEADER)?, header(START_TIME_HEADER)?);
    Some(format!("{id}@{start}"))
}

const fn header(name: &'static str, value: Bytes) -> (Cow<'static, str>, Bytes) {
    (Cow::Borrowed(name), value)
}

const fn fixed(name: &'static str, value: &'static str) -> (Cow<'static, str>, Bytes) {
    header(name, Bytes::from_static(value.as_bytes()))
}

#[cfg(test)]
#[path = "message_golden.rs"]
mod golden;
