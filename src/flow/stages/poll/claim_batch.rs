//! A handout carries claimed tasks to a worker, and releases them at once when the way breaks off.

use std::{mem, sync::Arc, time::Duration};

use super::Poller;
use crate::{
    flow::base::{
        api::{ClaimedTask, SettleAnswer, SettleRequest},
        budget::Portion,
    },
    limits,
    model::{state::Outcome, time::Millis},
};

/// Times a release is tried; then the task's look comes back to it.
const RELEASES_MAX: usize = 5;

/// Tasks that a poll has claimed. If it is dropped before [`ClaimBatch::accept`], others can run them at once:
/// the connection of the worker was lost, and a task must not wait for its claim to run out.
#[derive(Debug)]
pub struct ClaimBatch {
    poller: Arc<Poller>,
    /// Each with the time it was due.
    tasks: Vec<(ClaimedTask, Millis)>,
    waited: Duration,
    /// The bytes of contents that were read for it, in the budget of the node, until the answer is made.
    _room: Option<Portion>,
}

impl ClaimBatch {
    pub(super) const fn new(
        poller: Arc<Poller>,
        tasks: Vec<(ClaimedTask, Millis)>,
        waited: Duration,
        room: Option<Portion>,
    ) -> Self {
        Self {
            poller,
            tasks,
            waited,
            _room: room,
        }
    }

    /// Tells whether there is no task.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Returns the tasks.
    pub fn tasks(&self) -> impl Iterator<Item = &ClaimedTask> {
        self.tasks.iter().map(|(task, _)| task)
    }

    /// Returns how long the poll had waited when the claim was sent: no lease began earlier.
    #[must_use]
    pub const fn waited(&self) -> Duration {
        self.waited
    }

    /// Notes that the worker has them: returns the tasks, which are not released any more.
    pub fn accept(mut self) -> Vec<ClaimedTask> {
        let now = self.poller.ctx.now();
        let tasks = mem::take(&mut self.tasks);
        for (_, due) in &tasks {
            metrics::histogram!("tickwheel_poll_lag_seconds").record(now.since(*due).as_secs_f64());
        }
        tasks.into_iter().map(|(task, _)| task).collect()
    }
}

impl Drop for ClaimBatch {
    fn drop(&mut self) {
        let tasks = mem::take(&mut self.tasks);
        // Without a runtime the process is at its end, and the looks come back to the tasks.
        if tasks.is_empty() || tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        let poller = Arc::clone(&self.poller);
        let attempts = tasks.iter().map(|(task, _)| SettleRequest {
            id: task.id,
            attempt: task.attempt,
            outcome: Outcome::Snoozed {
                after: Duration::ZERO,
            },
            answered: None,
        });
        let attempts = attempts.collect();
        self.poller
            .tasks
            .spawn(async move { release(&poller, attempts).await });
    }
}

/// Gives tasks back without counting an attempt.
async fn release(poller: &Poller, mut attempts: Vec<SettleRequest>) {
    let count = attempts.len();
    for _ in 0..RELEASES_MAX {
        let answers = poller.settler.settle(attempts.clone()).await;
        let failed = attempts.into_iter().zip(answers);
        attempts = failed
            .filter(|(_, answer)| matches!(answer, SettleAnswer::Fault(_)))
            .map(|(attempt, _)| attempt)
            .collect();
        if attempts.is_empty() {
            break;
        }
        poller.ctx.time.sleep(limits::POLL_PAUSE).await;
    }
    let released = count - attempts.len();
    metrics::counter!("tickwheel_poll_released_total").increment(released as u64);
    tracing::info!(
        released,
        left = attempts.len(),
        "a poll's worker was gone: released its tasks"
    );
}
