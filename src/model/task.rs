//! A spec tells all stages what a client registered: where a due task goes, with which content, by which rules.
//!
//! A [`Spec`] does not change while the task lives. The changing part of a task is its row ([`super::state`]).

use std::time::Duration;

use bytes::Bytes;

use super::{
    action::Actions,
    after::After,
    backoff::Backoff,
    chain::{FollowUp, Previous},
    ids::TaskId,
    kin::Kin,
    notify::{EndStates, Notify},
    target::Target,
    time::Millis,
};

/// Which of a callback's queues a task travels in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Priority {
    /// Its own queue, before the others.
    High,
    /// The default.
    #[default]
    Normal,
    /// Its own queue, behind the others.
    Low,
}

impl Priority {
    /// All of them, the most urgent first.
    pub const ALL: [Self; 3] = [Self::High, Self::Normal, Self::Low];

    /// Returns its share of what is handed out while others want some too.
    #[must_use]
    pub const fn share(self) -> usize {
        match self {
            Self::High => 16,
            Self::Normal => 4,
            Self::Low => 1,
        }
    }

    /// Returns the name used in requests and in topic names.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Normal => "normal",
            Self::Low => "low",
        }
    }
}

/// The part of a task that can be large: kept apart from its entries when it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Content {
    /// The payload, opaque bytes.
    pub payload: Bytes,
    /// Media type of the payload.
    pub content_type: String,
    /// The record's key (`kafka` target); none is a record without key.
    pub record_key: Option<Bytes>,
    /// The record's headers in order (`kafka` target).
    pub record_headers: Vec<(String, Bytes)>,
    /// Labels, for people and for search.
    pub labels: Vec<(String, String)>,
    /// W3C trace context of the registration, if the client sent one.
    pub trace_parent: Option<String>,
    /// The task that it follows, if it is a follow-up.
    pub previous: Option<Box<Previous>>,
}

/// The write time, in microseconds, of a content that is kept apart. Its key, the id of its task, is new, so
/// no earlier write can exist. Therefore every later write or deletion is the newer, even from a node whose
/// clock is behind that of the node which registered the task.
pub const CONTENT_WRITTEN: i64 = 1;

/// Where the content of a task is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// With the spec, in every entry.
    Inline(Content),
    /// In the body table, under the task's id; this many encoded bytes.
    Apart {
        /// Encoded length.
        bytes: u64,
    },
}

/// The time of a schedule that a task stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scheduled {
    /// The name of the schedule.
    pub schedule: String,
    /// The time. The task starts at it, or later by the schedule's jitter.
    pub time: Millis,
}

/// A registered task, without its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// Where it goes.
    pub target: Target,
    /// Label for a subset of a callback's tasks; empty is none.
    pub collection: String,
    /// Which queue of the callback.
    pub priority: Priority,
    /// How often a tracked task may be tried before it is dead; at least 1.
    pub max_attempts: u32,
    /// Waits between attempts.
    pub backoff: Backoff,
    /// How long a published task may stay unclaimed before it is published again; also the step of its looks.
    pub claim_timeout: Duration,
    /// How long an attempt lives after its claim or its last heartbeat.
    pub heartbeat_timeout: Duration,
    /// How long an attempt may take in all; none is for ever.
    pub attempt_timeout: Option<Duration>,
    /// How long after its start time the task is still useful; none is for ever.
    pub expire_after: Option<Duration>,
    /// How long a terminal task can be read.
    pub retention: Duration,
    /// How long the task can be read and redriven once it is dead, if that is longer than its retention.
    pub dead_retention: Option<Duration>,
    /// When the registration was received.
    pub create_time: Millis,
    /// The start that was requested at registration, if that had passed and the task started at once; else none.
    pub asked_start: Option<Millis>,
    /// The time of a schedule that the task stands for, if it is a run of one.
    pub scheduled: Option<Box<Scheduled>>,
    /// The name of the task that its client chose, of which at most one task of the callback is live.
    pub key: Option<String>,
    /// Those of its labels by which it is found: their rows of the index live as long as it can be read.
    pub indexed: Vec<(String, String)>,
    /// The key of its sequence: tasks of one callback and one such key run one at a time, in the order of their starts.
    pub ordering_key: Option<String>,
    /// Where its end is told; none is nowhere. Only a tracked task has it.
    pub notify: Option<Notify>,
    /// Things that the service does when it ends, and at times; none is nothing. Only a tracked task has it.
    pub actions: Option<Box<Actions>>,
    /// Its place in a tree; none for a task that has no parent and may have no children.
    pub kin: Option<Box<Kin>>,
    /// The wait for other tasks, whose ids are in rows of the index; none is no wait. Only a tracked task has it.
    pub after: Option<Box<After>>,
    /// Tasks that are registered when it ends. Only a tracked task has some.
    pub then: Vec<FollowUp<Self>>,
    /// The content, or where it is.
    pub body: Body,
}

impl Spec {
    /// Returns the callback's name, for a tracked task.
    #[must_use]
    pub fn callback(&self) -> Option<&str> {
        self.target.callback()
    }

    /// Returns the name of the queue in which the task travels to those who claim it, for a tracked task.
    #[must_use]
    pub fn queue(&self) -> Option<&str> {
        self.target.queue()
    }

    /// Returns the parent of a child.
    #[must_use]
    pub fn parent(&self) -> Option<TaskId> {
        self.kin.as_ref()?.parent
    }

    /// Tells whether the task may have children.
    #[must_use]
    pub fn is_parent(&self) -> bool {
        self.kin.as_ref().is_some_and(|kin| kin.is_parent)
    }

    /// Tells whether the task is to start when the own run of its parent has succeeded.
    #[must_use]
    pub fn is_after_parent(&self) -> bool {
        self.kin.as_ref().is_some_and(|kin| kin.after_parent)
    }

    /// Tells whether a cancel of the tree of the task passes over it.
    #[must_use]
    pub fn undoes(&self) -> bool {
        self.kin.as_ref().is_some_and(|kin| kin.undoes)
    }

    /// Tells whether the task waits for something when it is registered: for the run of its parent, or for other tasks.
    #[must_use]
    pub fn awaits(&self) -> bool {
        self.is_after_parent() || self.after.is_some()
    }

    /// Returns the content when it travels with the spec.
    #[must_use]
    pub const fn content(&self) -> Option<&Content> {
        match &self.body {
            Body::Inline(content) => Some(content),
            Body::Apart { .. } => None,
        }
    }

    /// Returns how many bytes the content has that must be read before the task can go out; none when it is at hand.
    #[must_use]
    pub const fn bytes_apart(&self) -> Option<u64> {
        match &self.body {
            Body::Inline(_) => None,
            Body::Apart { bytes } => Some(*bytes),
        }
    }

    /// Tells whether something follows its end: somebody is told, an action is done, or a task is registered.
    #[must_use]
    pub fn end_is_awaited(&self) -> bool {
        let acts = |actions: &Actions| !actions.at_ends.is_empty();
        self.notify.is_some() || self.actions.as_deref().is_some_and(acts) || !self.then.is_empty()
    }

    /// Tells whether its first claim is told, or has an action.
    #[must_use]
    pub fn claim_is_awaited(&self) -> bool {
        let told = |notify: &Notify| notify.states.is_some_and(EndStates::has_claim);
        let acts = |actions: &Actions| actions.at_ends.iter().any(|action| action.when.has_claim());
        self.notify.as_ref().is_some_and(told) || self.actions.as_deref().is_some_and(acts)
    }

    /// Tells whether a task that should have started at `start` is too late to be useful at `now`.
    #[must_use]
    pub fn is_expired(&self, start: Millis, now: Millis) -> bool {
        self.expire_after
            .is_some_and(|after| now > start.after(after))
    }
}
