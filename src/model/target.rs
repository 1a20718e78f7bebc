//! The target tells all stages where a due task goes, and what follows from its kind.
//!
//! Stages ask a target for its class, lane or name and do not match on its kind. Only these places know the
//! kinds: this file, `flow/life/record.rs`, which makes the record of a due task, the codec in
//! `schema/spec.rs`, the type of the API in `api/target.rs` with its conversion in `http/convert/target.rs`,
//! the flag in `cli/request.rs`, and the constructors of the client.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    time::Duration,
};

use super::http_call::{self, HttpCall};

/// An attempt lives as long at least: [`crate::limits::HEARTBEAT_TIMEOUT_MIN`].
const LEASE_MIN: Duration = Duration::from_secs(3);

/// How long an attempt of a worker lives after a sign of life: three heartbeats of 15 s.
const WORKER_LEASE: Duration = Duration::from_secs(45);

/// Where a due task goes. Exactly one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Tracked: claimed, executed and settled by a consumer that implements the callback of this name.
    Callback {
        /// The callback's name.
        name: String,
    },
    /// Tracked: delivered over HTTP by the service itself, by the rules of a callback.
    Http {
        /// The callback's name.
        callback: String,
        /// The request.
        call: Box<HttpCall>,
    },
    /// Published: a record of the user's own, put into any topic at the start time; at least once, not tracked.
    Kafka {
        /// The topic.
        topic: String,
        /// The partition; the broker client's partitioner chooses when absent.
        partition: Option<i32>,
    },
}

/// The promise that comes with a kind of target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The task is claimed and settled, and therefore looked at until it is terminal.
    Tracked,
    /// The task is published as a record, and has ended then.
    Record,
}

impl Target {
    /// The names of all kinds.
    pub const KINDS: [&str; 3] = ["callback", "kafka", "http"];

    /// Returns the name of its kind: one of [`Self::KINDS`].
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Callback { .. } => "callback",
            Self::Http { .. } => "http",
            Self::Kafka { .. } => "kafka",
        }
    }

    /// Returns the class of its kind.
    #[must_use]
    pub const fn class(&self) -> Class {
        match self {
            Self::Callback { .. } | Self::Http { .. } => Class::Tracked,
            Self::Kafka { .. } => Class::Record,
        }
    }

    /// Returns the callback's or the topic's name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Callback { name } => name,
            Self::Http { callback, .. } => callback,
            Self::Kafka { topic, .. } => topic,
        }
    }

    /// Returns the name of the callback whose rules the task has; none when it is not claimed.
    #[must_use]
    pub fn callback(&self) -> Option<&str> {
        match self {
            Self::Callback { name } => Some(name),
            Self::Http { callback, .. } => Some(callback),
            Self::Kafka { .. } => None,
        }
    }

    /// Returns the name of the queue in which the task travels to those who claim it: that of its callback, or that of the
    /// executors. None when it is not claimed.
    #[must_use]
    pub fn queue(&self) -> Option<&str> {
        match self {
            Self::Callback { name } => Some(name),
            Self::Http { .. } => Some(http_call::QUEUE),
            Self::Kafka { .. } => None,
        }
    }

    /// Has the service deliver a task that names its callback alone, if the callback says where.
    pub fn deliver_by(&mut self, policy: &http_call::HttpPolicy) {
        if let (Self::Callback { name }, Some(url)) = (&*self, &policy.url) {
            *self = Self::Http {
                callback: name.clone(),
                call: Box::new(HttpCall {
                    url: url.clone(),
                    method: http_call::Method::Post,
                    headers: Vec::new(),
                    timeout: None,
                    message_id: None,
                }),
            };
        }
    }

    /// Returns how long an attempt lives after a sign of life where nobody says so. An attempt over HTTP cannot take longer than
    /// its call: once that time has passed, its receiver has given up too, and a dead executor delays the next attempt no longer.
    /// `call_timeout` is the time limit of calls that name none.
    #[must_use]
    pub fn lease(&self, call_timeout: Duration) -> Duration {
        match self {
            Self::Http { call, .. } => {
                let call = call.timeout.unwrap_or(call_timeout);
                (call + http_call::LEASE_BEYOND_CALL).max(LEASE_MIN)
            }
            Self::Callback { .. } | Self::Kafka { .. } => WORKER_LEASE,
        }
    }

    /// Returns the number of its lane: the same for targets that take their turns together, in each run.
    #[must_use]
    pub fn lane(&self) -> u64 {
        // The hasher has no key of its own.
        let mut hasher = DefaultHasher::new();
        match self {
            Self::Callback { name } => (0, name).hash(&mut hasher),
            Self::Http { callback, .. } => (0, callback).hash(&mut hasher),
            Self::Kafka { topic, .. } => (1, topic).hash(&mut hasher),
        }
        hasher.finish()
    }

    /// Tells whether the task is claimed and settled (and therefore looked at until it is terminal).
    #[must_use]
    pub const fn is_tracked(&self) -> bool {
        matches!(self.class(), Class::Tracked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn callback(name: &str) -> Target {
        Target::Callback {
            name: name.to_owned(),
        }
    }

    fn kafka(topic: &str, partition: Option<i32>) -> Target {
        Target::Kafka {
            topic: topic.to_owned(),
            partition,
        }
    }

    fn http(callback: &str) -> Target {
        Target::Http {
            callback: callback.to_owned(),
            call: Box::new(HttpCall {
                url: "https://example.org".to_owned(),
                method: http_call::Method::Post,
                headers: Vec::new(),
                timeout: None,
                message_id: None,
            }),
        }
    }

    #[test]
    fn http_tasks_of_all_callbacks_share_a_queue() {
        assert_eq!(http("a").queue(), http("b").queue());
        assert_eq!(callback("a").queue(), Some("a"));
        assert_eq!(kafka("a", None).queue(), None);
        // They take their turns with the other tasks of their callback.
        assert_eq!(http("a").lane(), callback("a").lane());
    }

    #[test]
    fn a_target_answers_by_its_kind() {
        let rows = [
            (callback("a"), "callback", Class::Tracked, Some("a")),
            (kafka("a", None), "kafka", Class::Record, None),
            (http("a"), "http", Class::Tracked, Some("a")),
        ];
        for (target, kind, class, callback) in &rows {
            let tracked = *class == Class::Tracked;
            assert_eq!((target.kind(), target.class()), (*kind, *class));
            assert_eq!(
                (target.is_tracked(), target.callback()),
                (tracked, *callback)
            );
            assert_eq!(target.name(), "a");
        }
        assert_eq!(rows.map(|(_, kind, ..)| kind), Target::KINDS);
    }

    #[test]
    fn a_lane_is_that_of_one_name_of_one_kind() {
        assert_eq!(callback("a").lane(), callback("a").lane());
        assert_ne!(callback("a").lane(), callback("b").lane());
        assert_ne!(callback("a").lane(), kafka("a", None).lane());
        assert_eq!(kafka("a", None).lane(), kafka("a", Some(3)).lane());
    }
}
