//! The task builder makes a registration request for the client, with one method per field.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Serialize;
use serde_json::value::to_raw_value;

use super::error::Error;
use crate::api::{
    TaskId,
    action::{Action, Check},
    join::After,
    notify::{Notify, NotifyKafka},
    target::{CallbackTarget, HttpTarget, KafkaHeader, KafkaHeaders, KafkaTarget},
    task_request::{FollowUp, OnConflict, Priority, RetryPolicy, TaskRequest},
    text::InstantText,
};

/// When a task is to start.
///
/// Made from a [`SystemTime`], or from a text such as `2030-01-31T09:00:00+01:00` (RFC 3339), which the
/// service checks. Libraries of time convert to one of the two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartTime(pub(crate) InstantText);

impl From<SystemTime> for StartTime {
    /// Rounds up to the millisecond, so that a task never starts early. A time before 1970 becomes 1970.
    fn from(at: SystemTime) -> Self {
        Self(at.into())
    }
}

impl From<InstantText> for StartTime {
    fn from(text: InstantText) -> Self {
        Self(text)
    }
}

impl From<&str> for StartTime {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<String> for StartTime {
    fn from(text: String) -> Self {
        Self(InstantText(text))
    }
}

/// A task to register. Fields that are not set have the service's defaults.
#[derive(Debug, Clone)]
#[must_use = "a task does nothing until it is registered"]
pub struct Task {
    pub(super) request: TaskRequest,
}

impl Task {
    /// Makes a task that the workers of a callback execute.
    pub fn callback(name: impl Into<String>) -> Self {
        let callback = Some(CallbackTarget::Name(name.into()));
        Self {
            request: TaskRequest {
                callback,
                ..TaskRequest::default()
            },
        }
    }

    /// Makes a task whose payload the service sends to a URL itself. See docs/http.md.
    pub fn http(url: impl Into<String>) -> Self {
        let http = Some(HttpTarget {
            url: url.into(),
            ..HttpTarget::default()
        });
        Self {
            request: TaskRequest {
                http,
                ..TaskRequest::default()
            },
        }
    }

    /// Makes a record that is published to a Kafka topic at the start time; its value is the payload.
    pub fn kafka(topic: impl Into<String>) -> Self {
        let kafka = Some(KafkaTarget {
            topic: topic.into(),
            ..KafkaTarget::default()
        });
        Self {
            request: TaskRequest {
                kafka,
                ..TaskRequest::default()
            },
        }
    }

    /// Starts the task this long from now; replaces [`Task::start_at`].
    pub fn delay(mut self, delay: Duration) -> Self {
        self.request.delay = Some(delay.into());
        self.request.start_time = None;
        self
    }

    /// Starts the task at this time; in the past means now. Replaces [`Task::delay`].
    pub fn start_at(mut self, at: impl Into<StartTime>) -> Self {
        self.request.start_time = Some(at.into().0);
        self.request.delay = None;
        self
    }

    /// Sets the payload to a value as JSON.
    ///
    /// # Errors
    /// When the value cannot be written as JSON.
    pub fn json(mut self, payload: &impl Serialize) -> Result<Self, Error> {
        let raw = to_raw_value(payload).map_err(|error| {
            Error::Invalid(format!("the payload cannot be written as JSON: {error}"))
        })?;
        self.request.payload = Some(raw);
        self.request.payload_base64 = None;
        Ok(self)
    }

    /// Sets the payload to any bytes.
    pub fn bytes(mut self, payload: impl AsRef<[u8]>) -> Self {
        self.request.payload_base64 = Some(STANDARD.encode(payload));
        self.request.payload = None;
        self
    }

    /// Sets the media type of the payload.
    pub fn content_type(mut self, media_type: impl Into<String>) -> Self {
        self.request.content_type = Some(media_type.into());
        self
    }

    /// Puts the task into a subset of the callback's tasks.
    pub fn collection(mut self, name: impl Into<String>) -> Self {
        self.request.collection = Some(name.into());
        self
    }

    /// Chooses the queue of the callback in which the task travels.
    pub const fn priority(mut self, priority: Priority) -> Self {
        self.request.priority = Some(priority);
        self
    }

    /// Adds a label.
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let labels = self.request.labels.get_or_insert_with(BTreeMap::new);
        labels.insert(name.into(), value.into());
        self
    }

    /// Sets how often the task may be tried before it is dead; at least 1.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.request.max_attempts = Some(attempts);
        self
    }

    /// Sets the waits between attempts, for example with [`RetryPolicy::exponential`].
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.request.retry = Some(policy);
        self
    }

    /// Sets how long the task may stay unclaimed before it is published again.
    pub fn claim_timeout(mut self, timeout: Duration) -> Self {
        self.request.claim_timeout = Some(timeout.into());
        self
    }

    /// Sets how long an attempt lives after its claim or its last heartbeat.
    pub fn heartbeat_timeout(mut self, timeout: Duration) -> Self {
        self.request.heartbeat_timeout = Some(timeout.into());
        self
    }

    /// Sets how long an attempt may take in all, however alive its worker is.
    pub fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.request.attempt_timeout = Some(timeout.into());
        self
    }

    /// Sets how long after its start time the task is still useful.
    pub fn expire_after(mut self, after: Duration) -> Self {
        self.request.expire_after = Some(after.into());
        self
    }

    /// Sets how long the task can be read once it has ended.
    pub fn retention(mut self, retention: Duration) -> Self {
        self.request.retention = Some(retention.into());
        self
    }

    /// Sets how long the task can be read and redriven once it is dead.
    pub fn dead_retention(mut self, retention: Duration) -> Self {
        self.request.dead_retention = Some(retention.into());
        self
    }

    /// Has the end of the task told by a record in a topic of Kafka, which must exist. See docs/notify.md.
    pub fn notify_topic(self, topic: impl Into<String>) -> Self {
        let kafka = NotifyKafka {
            topic: topic.into(),
        };
        self.notify(Notify {
            kafka: Some(kafka),
            ..Notify::default()
        })
    }

    /// Has the end of the task told by a request to a URL. See docs/notify.md.
    pub fn notify_http(self, url: impl Into<String>) -> Self {
        let http = HttpTarget {
            url: url.into(),
            ..HttpTarget::default()
        };
        self.notify(Notify {
            http: Some(http),
            ..Notify::default()
        })
    }

    /// Sets where the end of the task is told, and which ends are.
    pub fn notify(mut self, notify: Notify) -> Self {
        self.request.notify = Some(notify);
        self
    }

    /// Adds a thing that the service does when the task ends. Only for tasks of a callback. See docs/actions.md.
    pub fn action(mut self, action: Action) -> Self {
        self.request.actions.get_or_insert_default().push(action);
        self
    }

    /// Adds a question that is asked at a time, and what is done by its answer. Only for tasks of a callback. See
    /// docs/actions.md.
    pub fn check(mut self, check: Check) -> Self {
        self.request.checks.get_or_insert_default().push(check);
        self
    }

    /// Registers another task when this one ends: a [`Task`] when it has succeeded, or a [`FollowUp`] that says more. Only for
    /// tasks of a callback. See docs/chains.md.
    pub fn then(mut self, next: impl Into<FollowUp>) -> Self {
        self.request.then.get_or_insert_default().push(next.into());
        self
    }

    /// Names the task: of one key and callback at most one task is live. Only for tasks of a callback.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.request.key = Some(key.into());
        self
    }

    /// Makes it a child of a task that has not ended, with its tree if it has one. It has no key then. See docs/trees.md.
    pub fn parent(mut self, parent: TaskId) -> Self {
        self.request.parent = Some(parent.to_string());
        self
    }

    /// Starts the task, which is a child, when the own run of its parent has succeeded, and not before. It is cancelled if that
    /// run ends otherwise.
    pub const fn after_parent(mut self) -> Self {
        self.request.after_parent = true;
        self
    }

    /// Starts the task when others have ended as it wants, and not before. See docs/joins.md.
    pub fn after(mut self, after: After) -> Self {
        self.request.after = Some(after);
        self
    }

    /// Says that children are to be added to the task later, by [`Task::parent`]. Its tree ends when all of them have ended.
    pub fn may_have_children(mut self) -> Self {
        self.request.children.get_or_insert_default();
        self
    }

    /// Holds the tree of the task open for children to come, for so long behind the end of its own run: 30 days at most.
    /// [`Client::complete_children`](super::Client::complete_children) ends that, or a child with [`Task::children_complete`].
    pub fn children_within(mut self, within: Duration) -> Self {
        self.request.children.get_or_insert_default();
        self.request.children_within = Some(within.into());
        self
    }

    /// Says that the task is the last child: the tree of its parent is held open no longer.
    pub const fn children_complete(mut self) -> Self {
        self.request.children_complete = true;
        self
    }

    /// Adds a child that is registered with the task: up to 1000 tasks and 40 levels in all. By default it starts with the
    /// root, and its delay counts from the start of the root.
    pub fn child(mut self, child: Self) -> Self {
        let children = self.request.children.get_or_insert_default();
        children.push(child.request);
        self
    }

    /// Puts the task into a sequence: tasks of its callback with the same ordering key run one at a time, in the order of their
    /// starts. Only for tasks of a callback.
    pub fn ordering_key(mut self, key: impl Into<String>) -> Self {
        self.request.ordering_key = Some(key.into());
        self
    }

    /// Sets what happens when the key names a live task; by default the registration is refused.
    pub const fn on_conflict(mut self, wish: OnConflict) -> Self {
        self.request.on_conflict = Some(wish);
        self
    }

    /// Marks the registration: for a day, the same key with the same task is one task, whoever sends it.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.request.idempotency_key = Some(key.into());
        self
    }

    /// Sets the record's key; only for a Kafka task, without effect on others.
    pub fn record_key(mut self, key: impl AsRef<[u8]>) -> Self {
        if let Some(kafka) = &mut self.request.kafka {
            kafka.key_base64 = Some(STANDARD.encode(key));
        }
        self
    }

    /// Adds a header to the record; only for a Kafka task, without effect on others.
    pub fn header(mut self, name: impl Into<String>, value: impl AsRef<[u8]>) -> Self {
        if let Some(kafka) = &mut self.request.kafka {
            let header = KafkaHeader {
                name: name.into(),
                value: None,
                value_base64: Some(STANDARD.encode(value)),
            };
            match &mut kafka.headers {
                Some(KafkaHeaders::List(headers)) => headers.push(header),
                other => *other = Some(KafkaHeaders::List(vec![header])),
            }
        }
        self
    }

    /// Sets the record's partition; only for a Kafka task, without effect on others.
    pub fn partition(mut self, partition: i32) -> Self {
        if let Some(kafka) = &mut self.request.kafka {
            kafka.partition = Some(partition);
        }
        self
    }

    /// Returns the request as it is sent.
    #[must_use]
    pub const fn request(&self) -> &TaskRequest {
        &self.request
    }
}

/// The task follows when the other one has succeeded.
impl From<Task> for FollowUp {
    fn from(task: Task) -> Self {
        Self::task(task.request)
    }
}

impl From<TaskRequest> for Task {
    fn from(request: TaskRequest) -> Self {
        Self { request }
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use serde_json::json;

    use super::*;
    use crate::api::action::EndState;

    #[derive(Serialize)]
    struct Reset {
        user: u32,
    }

    fn written(task: &Task) -> serde_json::Value {
        serde_json::to_value(task.request()).unwrap()
    }

    #[test]
    fn a_callback_task_is_written_as_the_api_reads_it() {
        let task = Task::callback("send_email")
            .delay(Duration::from_millis(90_500))
            .json(&Reset { user: 7 })
            .unwrap()
            .priority(Priority::High)
            .label("tenant", "acme")
            .max_attempts(3)
            .retry(RetryPolicy::exponential(
                Duration::from_secs(1),
                2.0,
                Duration::from_secs(600),
            ));
        assert_eq!(
            written(&task),
            json!({
                "callback": "send_email", "delay": "90500ms", "payload": {"user": 7},
                "priority": "high", "labels": {"tenant": "acme"}, "max_attempts": 3,
                "retry": {"initial": "1s", "factor": 2.0, "max": "600s", "jitter": "full"},
            })
        );
    }

    #[test]
    fn a_chain_is_written_task_by_task() {
        let last = Task::callback("report").delay(Duration::from_secs(60));
        let undo = FollowUp::from(Task::callback("undo")).at([EndState::Dead, EndState::Failed]);
        let next = FollowUp::from(Task::callback("load").then(last)).with_result();
        let task = Task::callback("fetch").then(next).then(undo.in_tree());
        let load = json!({
            "callback": "load",
            "then": [{"task": {"callback": "report", "delay": "60s"}}],
        });
        assert_eq!(
            written(&task),
            json!({"callback": "fetch", "then": [
                {"task": load, "with_result": true},
                {"states": ["dead", "failed"], "task": {"callback": "undo"}, "in_tree": true},
            ]})
        );
    }

    #[test]
    fn a_kafka_task_carries_bytes() {
        let task = Task::kafka("orders")
            .start_at(UNIX_EPOCH + Duration::from_micros(1_500_001))
            .bytes([0xff])
            .record_key([0x00])
            .header("a", [0xfe])
            .partition(2);
        assert_eq!(
            written(&task),
            json!({
                "kafka": {"topic": "orders", "key_base64": "AA==", "partition": 2,
                          "headers": [{"name": "a", "value_base64": "/g=="}]},
                "start_time": "1970-01-01T00:00:01.501Z", "payload_base64": "/w==",
            })
        );
    }

    #[test]
    fn the_last_start_and_the_last_payload_count() {
        let task = Task::callback("c")
            .start_at("2030-01-01T00:00:00Z")
            .delay(Duration::from_secs(1))
            .json(&1)
            .unwrap()
            .bytes("x");
        assert_eq!(
            written(&task),
            json!({"callback": "c", "delay": "1s", "payload_base64": "eA=="})
        );
    }
}
