//! What a callback can ask about its attempt while it runs.

use std::{sync::Arc, time::Duration};

use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::{attempt::Attempt, outcome::Failure};
use crate::{
    limits::PROGRESS_BYTES_MAX,
    model::ids::TaskId,
    time_source::{Moment, TimeSource},
};

/// A running attempt, as its callback sees it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Context {
    attempt: Arc<Attempt>,
    time: TimeSource,
}

impl Context {
    pub(super) const fn new(attempt: Arc<Attempt>, time: TimeSource) -> Self {
        Self { attempt, time }
    }

    /// Returns the task's id.
    #[must_use]
    pub fn id(&self) -> TaskId {
        self.attempt.key.id
    }

    /// Returns the number of the attempt, from 1. With [`Context::id`] it is the fencing token: hand both to whatever
    /// the callback changes, and let that refuse an attempt lower than the last it has seen.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt.key.attempt
    }

    /// Returns when the callback will be dropped unless a heartbeat moves the deadline further; heartbeats are sent by
    /// the worker, so this matters only while the server cannot be reached.
    #[must_use]
    pub fn deadline(&self) -> Moment {
        self.attempt.deadline()
    }

    /// Returns how long it still is until [`Context::deadline`].
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.deadline().since(self.time.moment())
    }

    /// Returns the token that is cancelled when somebody cancels the task while it runs: stop soon and return; no
    /// further attempt follows, whatever is returned.
    #[must_use]
    pub fn cancelled(&self) -> &CancellationToken {
        &self.attempt.cancelled
    }

    /// Notes how far the callback is; sent with the next heartbeat and shown with the task.
    ///
    /// # Errors
    /// The note cannot be written as JSON, or is larger than [`PROGRESS_BYTES_MAX`].
    pub fn progress(&self, note: &impl Serialize) -> Result<(), Failure> {
        let note = serde_json::to_value(note)?;
        let bytes = note.to_string().len();
        if bytes > PROGRESS_BYTES_MAX {
            let limit = format!("a progress note of {bytes} bytes exceeds {PROGRESS_BYTES_MAX}");
            return Err(limit.into());
        }
        self.attempt.set_progress(note);
        Ok(())
    }

    /// Returns the worker's clocks.
    #[must_use]
    pub const fn time(&self) -> &TimeSource {
        &self.time
    }
}
