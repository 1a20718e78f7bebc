//! The service API describes requests and answers in domain terms for the layers above it (HTTP, embedding
//! programs).

use std::{sync::Arc, time::Duration};

use bytes::Bytes;

use crate::model::{
    action::End,
    chain,
    draft::TaskDraft,
    family::{self, TreeEnd},
    history::{Answered, History},
    ids::TaskId,
    join,
    kin::TreeOutcome,
    result::TaskResult,
    row::State,
    state::Outcome,
    task::{Content, Spec},
    time::Millis,
};

/// A task to register. The content must be inside the draft; the service decides where it is kept.
#[derive(Debug, Clone)]
pub struct NewTask {
    /// When it is to start; in the past means now.
    pub start: Millis,
    /// The task, as far as it was given.
    pub draft: TaskDraft,
}

/// The reason why a request could not be done. The requester is not at fault in any of these cases.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Fault {
    /// A part of the service is away. A write of the request may have been made, if the store did not answer in time: it may
    /// be repeated safely, a registration with an id of its client or a mark.
    #[error("{reason}")]
    Unavailable {
        /// Which part, and what it said.
        reason: String,
        /// When trying again makes sense.
        retry_after: Duration,
    },
    /// The store has no room for new tasks; those that it has fire on time. The request had no effect.
    #[error("{reason}")]
    Full {
        /// How full, and what to do.
        reason: String,
        /// When trying again makes sense.
        retry_after: Duration,
    },
    /// Nodes of an earlier version would forget a part of the task. The request had no effect.
    #[error(
        "`{field}` is not known to all nodes yet, because the cluster is being upgraded: try again when every node runs this version"
    )]
    Upgrading {
        /// The field of the registration that they do not know.
        field: &'static str,
    },
    /// A child may not be added to its parent. The request had no effect.
    #[error("{0}")]
    Family(family::Refusal),
    /// A task may not wait for others as it asks. The request had no effect.
    #[error("{0}")]
    Join(join::Refusal),
    /// A task below another one of the same request cannot be registered. The request had no effect.
    #[error("{fault}")]
    Below {
        /// Where it lies in the request, such as `/children/3`.
        at: String,
        /// Why.
        fault: Box<Fault>,
    },
    /// The tasks that follow a task are too large. The request had no effect.
    #[error("{0}")]
    Chain(chain::Refusal),
    /// It is not known whether the request had an effect.
    #[error("it is not known whether the request took effect: {reason}")]
    Unknown {
        /// The cause.
        reason: String,
    },
}

/// Whether a read returns the content, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// Without content.
    Basic,
    /// With content.
    Full,
}

/// The states users see. Some are derived: a row is written at the first claim only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum VisibleState {
    /// Waits for its start time.
    Scheduled,
    /// Handed to the queue, not claimed yet.
    Enqueued,
    /// Claimed by a worker.
    Claimed,
    /// Its worker has sent a heartbeat.
    Processing,
    /// Done.
    Succeeded,
    /// Failed for good, as its callback said.
    Failed,
    /// Failed, and waits for its next attempt.
    Retrying,
    /// Cancelled.
    Cancelled,
    /// Too late to be useful.
    Expired,
    /// Used up its attempts.
    Dead,
    /// A `kafka` target's record was published.
    Published,
    /// Its own run has ended, and a task below it has not.
    WaitingForChildren,
    /// It waits for the own run of its parent, or for other tasks.
    Waiting,
}

impl VisibleState {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Scheduled,
        Self::Enqueued,
        Self::Claimed,
        Self::Processing,
        Self::Succeeded,
        Self::Failed,
        Self::Retrying,
        Self::Cancelled,
        Self::Expired,
        Self::Dead,
        Self::Published,
        Self::WaitingForChildren,
        Self::Waiting,
    ];

    /// Returns the state of a task that was registered and nothing more.
    #[must_use]
    pub(super) fn of_registered(spec: &Spec) -> Self {
        if spec.awaits() {
            Self::Waiting
        } else {
            Self::Scheduled
        }
    }

    /// Returns the name used in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Enqueued => "enqueued",
            Self::Claimed => "claimed",
            Self::Processing => "processing",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Retrying => "retrying",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
            Self::Dead => "dead",
            Self::Published => "published",
            Self::WaitingForChildren => "waiting_for_children",
            Self::Waiting => "waiting",
        }
    }

    /// Tells whether the task's life has ended.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        match self {
            Self::Scheduled
            | Self::Enqueued
            | Self::Claimed
            | Self::Processing
            | Self::WaitingForChildren
            | Self::Waiting
            | Self::Retrying => false,
            Self::Succeeded
            | Self::Failed
            | Self::Cancelled
            | Self::Expired
            | Self::Dead
            | Self::Published => true,
        }
    }
}

/// A task as it reads.
#[derive(Debug, Clone)]
pub struct TaskView {
    /// Its id.
    pub id: TaskId,
    /// The task as it was registered, with its content inside, or apart when it was not asked for.
    pub spec: Arc<Spec>,
    /// The content; none when it was not asked for.
    pub content: Option<Content>,
    /// Where it stands.
    pub state: VisibleState,
    /// The start time: as registered, or as last rescheduled.
    pub start: Millis,
    /// When it will really start, or was to start: later than `start` while it waits for a retry.
    pub effective_start: Millis,
    /// When it was handed to the queue, as far as it is known.
    pub fire_time: Option<Millis>,
    /// When it was claimed last.
    pub claim_time: Option<Millis>,
    /// When it became terminal.
    pub end_time: Option<Millis>,
    /// Claims so far.
    pub attempt: u32,
    /// Reschedules and redrives so far.
    pub generation: u32,
    /// The generation in which its own run began: smaller once its tree was opened again.
    pub run_generation: u32,
    /// The worker that claimed it last; empty if none did.
    pub worker: String,
    /// The progress that the callback reported last.
    pub progress: Option<Bytes>,
    /// The result that the callback returned; a large one is here after a read by id only.
    pub result: Option<TaskResult>,
    /// The last failure.
    pub error: Option<String>,
    /// Someone asked to cancel while it was running.
    pub cancel_requested: bool,
    /// Its attempts.
    pub history: History,
    /// How its own run ended, once it has.
    pub run_state: Option<State>,
    /// The first claim of its own run, with the number of that attempt.
    pub first_claim: Option<(u32, End)>,
    /// How its tree ended, once it has.
    pub tree: Option<TreeEnd>,
    /// Its tree ended since the time for further children had passed.
    pub children_time_passed: bool,
    /// Another task of its key has taken its place.
    pub replaced: bool,
    /// The tasks that it waits for, or waited for; here after a read by id only.
    pub waits: Option<Waits>,
}

/// The tasks that a task waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waits {
    /// Each of them.
    pub ids: Vec<TaskId>,
    /// Those that have not ended, as far as is known; none right after the registration.
    pub open: Option<Vec<TaskId>>,
}

impl Waits {
    /// Returns those of a task that was just registered.
    #[must_use]
    pub(in crate::flow) const fn new(ids: Vec<TaskId>) -> Self {
        Self { ids, open: None }
    }
}

/// The result of the race between a cancel and the firing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelOutcome {
    /// It will not run.
    Cancelled,
    /// It had been cancelled before.
    AlreadyCancelled,
    /// An attempt is running; its worker is told, and no further attempt follows.
    CancelRequested,
    /// It had ended, or was published.
    TooLate,
}

/// The result of the race between a reschedule and the firing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RescheduleOutcome {
    /// It starts at the new time.
    Rescheduled,
    /// It is running, has ended (dead tasks can be told to run), or was published.
    TooLate,
    /// It is dead, and its end counts in its tree, of which the failed part can run again.
    InTree,
    /// The precondition (`If-Match`) does not hold.
    Mismatch,
}

/// A message that a worker wants to run.
#[derive(Debug, Clone)]
pub struct ClaimRequest {
    /// The task.
    pub id: TaskId,
    /// Generation of the message.
    pub generation: u32,
    /// Attempt that the message expects.
    pub expected_attempt: u32,
    /// The task, when the worker has the message at hand: saves a read.
    pub spec: Option<Arc<Spec>>,
    /// When the message was handed to the queue, when the worker has it at hand.
    pub published: Option<Millis>,
    /// Return the content, too.
    pub with_content: bool,
    /// It is known that the limits of its callback allow it.
    pub admitted: bool,
}

/// The answer to a claim.
#[derive(Debug, Clone)]
pub enum ClaimAnswer {
    /// Run it.
    Claimed(Box<ClaimedTask>),
    /// The message is of the past: forget it.
    Stale,
    /// Another attempt is alive: forget the message, a look will come back to the task.
    Held,
    /// A gate of its callback is not open: forget the message, the task is held until it is.
    Gated,
    /// Another task of its sequence has the turn: forget the message, the task comes when it is its turn.
    Behind,
    /// It is not time yet: hold the message until then.
    Early {
        /// When.
        not_before: Millis,
    },
    /// A limit of its callback is reached: hold the message until then.
    Limited {
        /// When.
        not_before: Millis,
    },
    /// It is not known: forget the message, a look will come back to the task.
    Fault(Fault),
}

/// A task that another one waited for, as it is at the claim of that one.
#[derive(Debug, Clone)]
pub struct Dependency {
    /// The task.
    pub id: TaskId,
    /// Its state; none where nothing tells it any more.
    pub state: Option<VisibleState>,
    /// How its tree ended, if it has one.
    pub tree: Option<TreeOutcome>,
    /// Its result, within bounds ([`Bounded`](crate::model::result::Bounded)).
    pub result: Option<TaskResult>,
    /// Its row is gone, or was deleted.
    pub gone: bool,
}

/// A task to run.
#[derive(Debug, Clone)]
pub struct ClaimedTask {
    /// The task.
    pub id: TaskId,
    /// The fencing token.
    pub attempt: u32,
    /// Its generation.
    pub generation: u32,
    /// The task as it was registered.
    pub spec: Arc<Spec>,
    /// The content, when it was asked for.
    pub content: Option<Content>,
    /// The tasks that it waited for, in the order of their ids.
    pub dependencies: Arc<[Dependency]>,
    /// Its start time.
    pub start: Millis,
    /// When the claim ends unless a heartbeat extends it.
    pub expires: Millis,
}

/// Why an attempt is not the live one of its task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LostReason {
    /// No task of this id was ever claimed, or its retention has passed.
    #[error("no task of this id was claimed, or its retention has passed")]
    Unknown,
    /// Another attempt lives, or came last.
    #[error("attempt {0} is the task's last")]
    Attempt(u32),
    /// The attempt took longer than its time limit.
    #[error("the attempt took longer than its attempt_timeout")]
    TimedOut,
    /// The attempt was taken back, by its own worker or because its lease had ended.
    #[error("the attempt has ended: the task waits for its next one")]
    Waits,
    /// The task has ended.
    #[error("the task has ended: it is {}", .0.name())]
    Ended(VisibleState),
}

/// A sign of life from a worker.
#[derive(Debug, Clone)]
pub struct HeartbeatRequest {
    /// The task.
    pub id: TaskId,
    /// The attempt.
    pub attempt: u32,
    /// How far it is.
    pub progress: Option<Bytes>,
}

/// The answer to a heartbeat.
#[derive(Debug, Clone)]
pub enum HeartbeatAnswer {
    /// Go on.
    Ok,
    /// The attempt is not the live one any more: stop.
    Lost(LostReason),
    /// Someone asked to cancel: stop, and settle.
    CancelRequested,
    /// Not recorded: try again.
    Fault(Fault),
}

/// The report of how an attempt ended.
#[derive(Debug, Clone)]
pub struct SettleRequest {
    /// The task.
    pub id: TaskId,
    /// The attempt.
    pub attempt: u32,
    /// How it ended.
    pub outcome: Outcome,
    /// The answer over HTTP that the outcome comes from, if it does.
    pub answered: Option<Answered>,
}

/// The answer to a report.
#[derive(Debug, Clone)]
pub enum SettleAnswer {
    /// Recorded (or had been recorded by an earlier report of the same).
    Ok,
    /// The attempt is not the live one any more: the report counts for nothing.
    Lost(LostReason),
    /// Not known: report again.
    Fault(Fault),
}

/// One condition of readiness.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// `store`, `queue`, `draining`, `clock`.
    pub name: &'static str,
    /// None when the condition holds, else a text that says what is wrong.
    pub problem: Option<String>,
}
