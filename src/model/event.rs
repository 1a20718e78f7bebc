//! Events name for [`super::state::next`] all that can happen to a task, and refusals why an event may not apply.

use std::{sync::Arc, time::Duration};

use super::{
    history::Answered,
    holder::Holder,
    kin::{Again, TreeOutcome},
    result::TaskResult,
    row::State,
    time::Millis,
};

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Done, perhaps with a result.
    Succeeded {
        /// The result that the callback returned.
        result: Option<TaskResult>,
    },
    /// Failed; try again after the task's backoff, or after the given wait.
    Retry {
        /// The error message.
        error: String,
        /// The wait that the callback wants.
        after: Option<Duration>,
    },
    /// Failed; try again after the task's backoff, and no sooner than after this wait.
    RetryNoSooner {
        /// The error message.
        error: String,
        /// The least wait.
        least: Duration,
    },
    /// Failed; trying again is of no use.
    Failed {
        /// The error message.
        error: String,
    },
    /// Not now: run again after this; does not count against `max_attempts`.
    Snoozed {
        /// The wait.
        after: Duration,
    },
}

impl Outcome {
    /// Returns its name, as reports and metrics have it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Succeeded { .. } => "succeeded",
            Self::Retry { .. } | Self::RetryNoSooner { .. } => "retry",
            Self::Failed { .. } => "failed",
            Self::Snoozed { .. } => "snoozed",
        }
    }
}

/// An event in the life of a task.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A worker that got the message of (`generation`, `expected_attempt`) wants to run it.
    Claim {
        /// Generation of the message.
        generation: u32,
        /// Attempt that the message expects.
        expected_attempt: u32,
        /// The worker's name.
        worker: String,
        /// Last sign of life of the attempt before, if there is one.
        heartbeat: Option<Millis>,
        /// When the message was handed to the queue, if it says so.
        published: Option<Millis>,
    },
    /// The worker of `attempt` reports how it ended.
    Settle {
        /// The fence.
        attempt: u32,
        /// How it ended.
        outcome: Outcome,
        /// The answer over HTTP that the outcome comes from, if it does.
        answered: Option<Answered>,
        /// Spreads the retry; uniform over all of `u64`.
        chance: u64,
    },
    /// Someone cancels.
    Cancel,
    /// The gate of its callback drops it instead of letting it go out.
    Dropped {
        /// A text for people.
        reason: String,
    },
    /// Someone cancelled a task that nobody claims, and came too late: it is published whatever happens.
    Kept,
    /// Another task takes its place.
    Replace {
        /// The other task.
        next: Arc<Holder>,
    },
    /// Someone moves the start.
    Reschedule {
        /// The new start.
        start: Millis,
    },
    /// Someone makes a dead task run again.
    Redrive {
        /// The new start.
        start: Millis,
    },
    /// Someone deletes a task that has ended.
    Erase,
    /// It may have children from now on.
    Adopt,
    /// It is registered, and waits for the own run of its parent, or for other tasks.
    Await,
    /// Its wait has come to its end: it starts now or later.
    Release {
        /// The start.
        start: Millis,
    },
    /// The own run of its parent has ended otherwise.
    ParentFailed,
    /// A wait for other tasks ends otherwise than by a start.
    WaitOver {
        /// It fails. Else it is cancelled.
        fails: bool,
        /// The error.
        error: String,
    },
    /// All tasks below it have ended, as well as its own run.
    TreeEnded {
        /// How.
        outcome: TreeOutcome,
        /// It was held open for children to come, and their time has passed.
        time_passed: bool,
        /// The round that has ended.
        round: u32,
    },
    /// It goes on with its tree, which was opened again.
    Again {
        /// The round that it begins.
        round: u32,
        /// The part of it that goes on.
        what: Again,
    },
    /// Too late to be useful, found by a look or a claim.
    Expire,
    /// The lease of `attempt` has ended, found by a look: it is cancelled if that was requested, dead if it was the last.
    Abandoned {
        /// The attempt that the look has read.
        attempt: u32,
        /// Its last sign of life, if there was one.
        heartbeat: Option<Millis>,
    },
}

/// Why an event does not apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The message or the attempt is of the past.
    Stale,
    /// Another attempt is alive.
    Held {
        /// Until when, as far as is known.
        until: Millis,
    },
    /// It is not time yet.
    Early {
        /// When it is.
        not_before: Millis,
    },
    /// An attempt of it may be running.
    Running,
    /// It may have children, which would go on without it.
    HasTree,
    /// Its life has ended.
    Ended {
        /// How.
        state: State,
    },
}
