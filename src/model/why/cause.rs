//! The cause says what keeps a task from running, since when, and until when.

use crate::model::{
    gate::Gate,
    ids::{NodeId, TaskId},
    local_quota::Bound,
    row::{State, TaskRow},
    state::DROPPED,
    time::Millis,
};

/// A cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// The thing that keeps the task.
    pub what: What,
    /// Since when.
    pub since: Option<Millis>,
    /// Until when, as far as that is known.
    pub until: Option<Millis>,
    /// It is known. Otherwise only the memory of another node knows it.
    pub certain: bool,
}

/// The thing that keeps a task from running.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// Its start is ahead.
    NotDue,
    /// A gate of its callback is not open.
    Gate(Gate),
    /// A limit of its callback is used up.
    Limit(Bound),
    /// Another task of its sequence comes first.
    Turn(TaskId),
    /// The own run of its parent has not ended.
    Parent(Option<TaskId>),
    /// Tasks that it waits for have not ended.
    Tasks(Open),
    /// Its own run has ended, and a task below it has not.
    Children,
    /// No worker polls.
    NoWorker {
        /// When one last did.
        last: Option<Millis>,
        /// The name of a callback that is polled and nearly the same.
        nearest: Option<String>,
    },
    /// Its workers run other tasks.
    Busy {
        /// So many.
        running: u64,
    },
    /// It is in the queue, on its way to a worker.
    Queued {
        /// Workers that poll; none when the service itself runs it.
        polling: Option<u64>,
    },
    /// A worker runs it.
    Running {
        /// The worker.
        worker: String,
        /// The attempt.
        attempt: u32,
        /// Its last sign of life.
        heartbeat: Option<Millis>,
        /// It was told to stop.
        cancel_requested: bool,
    },
    /// Its worker has stopped sending heartbeats.
    WorkerLost {
        /// The worker.
        worker: String,
        /// The attempt.
        attempt: u32,
    },
    /// It waits for its next attempt.
    Retry {
        /// The attempt that has ended.
        attempt: u32,
        /// Its error; none when the task was given back.
        error: Option<String>,
    },
    /// The node that owned its wheel is gone, and another takes the wheel over.
    TakeOver(Option<NodeId>),
    /// The wheel is behind, and its owner catches up.
    CatchingUp {
        /// The owner.
        owner: Option<NodeId>,
        /// How far it has come.
        place: Millis,
        /// Tasks before this one, where they are counted.
        before: Option<u64>,
    },
    /// Its topic does not take it.
    Topic,
    /// The queue does not answer.
    QueueAway(String),
    /// It has ended.
    Ended {
        /// How.
        end: End,
        /// The last error.
        error: Option<String>,
    },
}

impl What {
    /// Returns the name that users see.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotDue => "not_due",
            Self::Gate(_) => "gate",
            Self::Limit(_) => "limit",
            Self::Turn(_) => "turn",
            Self::Parent(_) => "parent",
            Self::Tasks(_) => "tasks",
            Self::Children => "children",
            Self::NoWorker { .. } => "no_worker",
            Self::Busy { .. } => "busy",
            Self::Queued { .. } => "queued",
            Self::Running { .. } => "running",
            Self::WorkerLost { .. } => "worker_lost",
            Self::Retry { .. } => "retry",
            Self::TakeOver(_) => "take_over",
            Self::CatchingUp { .. } => "catching_up",
            Self::Topic => "topic",
            Self::QueueAway(_) => "queue_away",
            Self::Ended { end, .. } => match end {
                End::Succeeded => "succeeded",
                End::Published => "published",
                End::Failed => "failed",
                End::Cancelled => "cancelled",
                End::Dropped => "dropped",
                End::Expired => "expired",
                End::Dead => "dead",
            },
        }
    }

    pub(super) const fn between(self, since: Option<Millis>, until: Option<Millis>) -> Cause {
        Cause {
            what: self,
            since,
            until,
            certain: true,
        }
    }
}

/// The end of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It is done.
    Succeeded,
    /// Its record was published.
    Published,
    /// It failed for good.
    Failed,
    /// It was cancelled.
    Cancelled,
    /// A gate of its callback has dropped it.
    Dropped,
    /// It was too late to be useful.
    Expired,
    /// It has used up its attempts.
    Dead,
}

impl End {
    /// Returns the end of a row; none while the task goes on.
    #[must_use]
    pub fn of(row: &TaskRow) -> Option<Self> {
        let error = row.detail.error.as_deref().unwrap_or_default();
        Some(match row.state {
            State::New | State::Claimed | State::Retrying => return None,
            State::Succeeded => Self::Succeeded,
            State::Failed => Self::Failed,
            State::Cancelled if error.starts_with(DROPPED) => Self::Dropped,
            State::Cancelled => Self::Cancelled,
            State::Expired => Self::Expired,
            State::Dead => Self::Dead,
        })
    }
}

/// The open ones of the tasks that a task waits for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Open {
    /// The first of them.
    pub first: Vec<TaskId>,
    /// How many there are.
    pub tasks: u64,
}
