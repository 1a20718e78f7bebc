//! The context gives a callback access to its attempt while it runs.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde::Serialize;

use super::{attempt::Attempt, outcome::Failure};
use crate::{api::TaskId, limits::PROGRESS_BYTES_MAX, time_source::TimeSource};

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

    /// Returns the number of the attempt, from 1. With [`Context::id`] it is the fencing token: pass both to
    /// every system that the callback changes, and let that system refuse an attempt lower than the last it
    /// has seen.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt.key.attempt
    }

    /// Returns when the callback will be dropped unless a heartbeat moves the deadline. The worker sends
    /// heartbeats, so this matters only while the server cannot be reached.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.attempt.deadline().instant()
    }

    /// Returns the time left until [`Context::deadline`].
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.attempt.deadline().since(self.time.moment())
    }

    /// Tells whether somebody has cancelled the task while it runs. Stop soon then and return: no further
    /// attempt follows, whichever outcome is returned.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.attempt.cancelled.is_cancelled()
    }

    /// Waits until somebody cancels the task: see [`Context::is_cancelled`]. Waits for ever if nobody does.
    /// Cancel-safe.
    pub async fn cancelled(&self) {
        self.attempt.cancelled.cancelled().await;
    }

    /// Notes the progress of the callback. It is sent with the next heartbeat and shown with the task.
    ///
    /// # Errors
    /// When the note cannot be written as JSON, or is larger than 4096 bytes.
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

    /// Says with the end of the attempt that all children of the task were added: its tree, which `children_within` holds open
    /// for them, ends as others do. An attempt that is to be retried says nothing.
    pub fn children_complete(&self) {
        self.attempt.complete_children();
    }

    /// Returns the worker's clocks, for tests and simulations.
    #[doc(hidden)]
    #[must_use]
    pub const fn time(&self) -> &TimeSource {
        &self.time
    }
}
