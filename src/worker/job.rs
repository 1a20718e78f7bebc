//! The job carries a task to its callback, with the payload as a value.

use std::time::SystemTime;

use bytes::Bytes;
use serde::de::DeserializeOwned;

use super::{dependency::Dependency, previous::Previous};
use crate::{
    api::{TaskId, task_request::Priority},
    model::task::Content,
};

/// A claimed task with its payload as a `T`.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Job<T> {
    /// The task.
    pub id: TaskId,
    /// The number of the attempt, from 1. With `id` it is the fencing token.
    pub attempt: u32,
    /// How often the task was rescheduled.
    pub generation: u32,
    /// How often the task may be tried.
    pub max_attempts: u32,
    /// The callback's name.
    pub callback: String,
    /// The subset of the callback's tasks it belongs to; empty means none.
    pub collection: String,
    /// The queue of the callback it came through.
    pub priority: Priority,
    /// When the task was to start, to the millisecond.
    pub start_time: SystemTime,
    /// The key of its sequence: no other task of the callback with this key runs now.
    pub ordering_key: Option<String>,
    /// Its parent, if it is a child of a tree.
    pub parent: Option<TaskId>,
    /// The schedule that the task is a run of.
    pub schedule: Option<String>,
    /// The time of the schedule that the run stands for, before any jitter.
    pub scheduled_time: Option<SystemTime>,
    /// Its labels.
    pub labels: Vec<(String, String)>,
    /// Media type of the payload.
    pub content_type: String,
    /// The task that it follows, if it is a follow-up.
    pub previous: Option<Previous>,
    /// The tasks that it waited for, in the order of their ids.
    pub dependencies: Vec<Dependency>,
    /// W3C trace context of the registration.
    pub trace_parent: Option<String>,
    /// The payload.
    pub payload: T,
}

/// A payload as it is: `Job<Raw>` takes any bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Raw(pub Bytes);

/// The types that a payload can be read as: every deserializable type (from JSON), and [`Raw`].
pub trait Payload: Sized + Send + 'static {
    /// Reads a payload.
    ///
    /// # Errors
    /// A text that says what is wrong with the payload, and where.
    fn read(bytes: &Bytes) -> Result<Self, String>;
}

impl<T: DeserializeOwned + Send + 'static> Payload for T {
    fn read(bytes: &Bytes) -> Result<Self, String> {
        // A task that was registered without payload has an empty one.
        let json: &[u8] = if bytes.is_empty() { b"null" } else { bytes };
        let mut reader = serde_json::Deserializer::from_slice(json);
        let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
            let path = error.path().to_string();
            format!("{} (at {path})", error.inner())
        })?;
        reader.end().map_err(|error| error.to_string())?;
        Ok(value)
    }
}

impl Payload for Raw {
    fn read(bytes: &Bytes) -> Result<Self, String> {
        Ok(Self(bytes.clone()))
    }
}

impl Job<Raw> {
    /// Puts a content into the job.
    pub(super) fn with_content(mut self, content: Content) -> Self {
        self.labels = content.labels;
        self.content_type = content.content_type;
        self.trace_parent = content.trace_parent;
        self.previous = content.previous.map(|previous| Previous::of(*previous));
        self.payload = Raw(content.payload);
        self
    }

    /// Reads the payload as a `T`. On an error, the task fails with this text.
    pub(super) fn read<T: Payload>(self) -> Result<Job<T>, String> {
        let payload = T::read(&self.payload.0).map_err(|error| {
            let (bytes, wanted) = (self.payload.0.len(), std::any::type_name::<T>());
            format!("the payload ({bytes} bytes) is not a {wanted}: {error}")
        })?;
        Ok(Job {
            id: self.id,
            attempt: self.attempt,
            generation: self.generation,
            max_attempts: self.max_attempts,
            callback: self.callback,
            collection: self.collection,
            priority: self.priority,
            start_time: self.start_time,
            ordering_key: self.ordering_key,
            parent: self.parent,
            schedule: self.schedule,
            scheduled_time: self.scheduled_time,
            labels: self.labels,
            content_type: self.content_type,
            previous: self.previous,
            dependencies: self.dependencies,
            trace_parent: self.trace_parent,
            payload,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    struct Reset {
        user: u32,
    }

    #[test]
    fn a_payload_is_read_as_json() {
        assert_eq!(
            Reset::read(&Bytes::from_static(br#"{"user":7}"#)),
            Ok(Reset { user: 7 })
        );
        assert_eq!(<()>::read(&Bytes::new()), Ok(()));
        assert_eq!(Option::<Reset>::read(&Bytes::new()), Ok(None));
    }

    #[test]
    fn a_wrong_payload_says_where() {
        let error = Reset::read(&Bytes::from_static(br#"{"user":"x"}"#)).unwrap_err();
        assert!(
            error.contains("(at user)") && error.contains("u32"),
            "{error}"
        );
        let error = Reset::read(&Bytes::from_static(br#"{"user":1} 2"#)).unwrap_err();
        assert!(error.contains("trailing"), "{error}");
    }

    #[test]
    fn raw_takes_any_bytes() {
        let bytes = Bytes::from_static(b"\xff\x00");
        assert_eq!(Raw::read(&bytes), Ok(Raw(bytes)));
    }
}
