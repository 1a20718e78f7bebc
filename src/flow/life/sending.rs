//! The sending is a task that a stage gives to the sender, and why it was not handed over.

use std::{fmt, sync::Arc};

use crate::{
    model::{dispatch::Dispatch, task::Spec, time::Millis, undelivered::Reason},
    queue::PublishError,
};

/// A task to hand over.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Sending {
    /// Its way to the target.
    pub dispatch: Dispatch,
    /// The task.
    pub spec: Arc<Spec>,
    /// It goes out for the first time since it was registered or moved. Figures of firing count only such
    /// tasks.
    pub first: bool,
    /// When the gate opened that has held it, if one has: it could not go out before.
    pub opened: Option<Millis>,
}

impl Sending {
    /// A task that no gate has held.
    pub(in crate::flow) const fn new(dispatch: Dispatch, spec: Arc<Spec>, first: bool) -> Self {
        Self {
            dispatch,
            spec,
            first,
            opened: None,
        }
    }

    /// Returns when it was to go out: at its start, or when its gate opened.
    pub(super) fn due(&self) -> Millis {
        let start = self.dispatch.start;
        self.opened.map_or(start, |opened| opened.max(start))
    }
}

/// Why a task was not handed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::flow) enum Unsent {
    /// It is not due by this node's clock.
    Early,
    /// The gate of this collection is not open; empty is the gate of the whole callback.
    Gated(String),
    /// This node cannot tell whether a gate is open.
    GateUnknown,
    /// It is a run of a schedule that would be late, and it is not known yet whether it still runs.
    Undecided,
    /// It was such a run, and does not run any more.
    Withdrawn,
    /// Its content, kept apart, is gone.
    NoContent,
    /// Its content, kept apart, cannot be understood.
    DamagedContent(String),
    /// Its content could not be read now.
    StoreAway(String),
    /// The queue did not take it.
    Queue(PublishError),
}

impl fmt::Display for Unsent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Early => f.write_str("it is not due yet"),
            Self::Gated(_) => f.write_str("a gate of its callback is not open"),
            Self::GateUnknown => f.write_str("the configuration could not be read lately"),
            Self::Undecided => f.write_str("its schedule has not decided on it again yet"),
            Self::Withdrawn => f.write_str("its schedule has withdrawn it, as its time was missed"),
            Self::NoContent => f.write_str("its content is gone"),
            Self::DamagedContent(reason) => write!(f, "its content is damaged: {reason}"),
            Self::StoreAway(reason) => write!(f, "its content cannot be read now: {reason}"),
            Self::Queue(PublishError::Refused(reason)) => {
                write!(f, "the queue refuses it: {reason}")
            }
            Self::Queue(error) => error.fmt(f),
        }
    }
}

impl Unsent {
    /// Returns the reason, for the policy.
    #[must_use]
    pub(in crate::flow) const fn reason(&self) -> Reason {
        match self {
            Self::Early => Reason::Early,
            Self::Gated(_) => Reason::Gated,
            Self::GateUnknown => Reason::GateUnknown,
            Self::Undecided => Reason::Undecided,
            Self::Withdrawn => Reason::Withdrawn,
            Self::NoContent | Self::DamagedContent(_) => Reason::ContentGone,
            Self::StoreAway(_) => Reason::ContentAway,
            Self::Queue(PublishError::Refused(_)) => Reason::Refused,
            Self::Queue(PublishError::NoSuchTopic(_)) => Reason::NoSuchTopic,
            Self::Queue(PublishError::Unconfirmed(_)) => Reason::Unconfirmed,
        }
    }
}
