//! The target tells all stages where a due task goes, and what follows from its kind.
//!
//! Stages ask a target for its class, lane or name and do not match on its kind. Only these places know the
//! kinds: this file, `flow/dispatch/record.rs`, which makes the record of a due task, the codec in
//! `schema/spec.rs`, the type of the API in `api/target.rs` with its conversion in `http/convert/target.rs`,
//! the flag in `cli/request.rs`, and the constructors of the client.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// Where a due task goes. Exactly one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Tracked: claimed, executed and settled by a consumer that implements the callback of this name.
    Callback {
        /// The callback's name.
        name: String,
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
    pub const KINDS: [&str; 2] = ["callback", "kafka"];

    /// Returns the name of its kind: one of [`Self::KINDS`].
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Callback { .. } => "callback",
            Self::Kafka { .. } => "kafka",
        }
    }

    /// Returns the class of its kind.
    #[must_use]
    pub const fn class(&self) -> Class {
        match self {
            Self::Callback { .. } => Class::Tracked,
            Self::Kafka { .. } => Class::Record,
        }
    }

    /// Returns the callback's or the topic's name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Callback { name } => name,
            Self::Kafka { topic, .. } => topic,
        }
    }

    /// Returns the name of the callback whose workers claim the task; none when no worker does.
    #[must_use]
    pub fn callback(&self) -> Option<&str> {
        match self {
            Self::Callback { name } => Some(name),
            Self::Kafka { .. } => None,
        }
    }

    /// Returns the number of its lane: the same for targets that take their turns together, in each run.
    #[must_use]
    pub fn lane(&self) -> u64 {
        // The hasher has no key of its own.
        let mut hasher = DefaultHasher::new();
        match self {
            Self::Callback { name } => (0, name).hash(&mut hasher),
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

    #[test]
    fn a_target_answers_by_its_kind() {
        let rows = [
            (callback("a"), "callback", Class::Tracked, Some("a")),
            (kafka("a", None), "kafka", Class::Record, None),
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
