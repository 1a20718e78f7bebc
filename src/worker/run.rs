//! The run executes one claimed attempt for its runner, from the callback's first step to its report.

use std::{sync::Arc, time::Duration};

use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_util::sync::CancellationToken;

use super::{
    attempt::Attempt,
    context::Context,
    handler::Handler,
    heartbeater::Heartbeater,
    job::{Job, Raw},
    outcome::Outcome,
    settler::Report,
};
use crate::{model::row::TIMED_OUT, time_source::TimeSource};

/// The parts that every attempt of a callback needs.
pub(super) struct Tools {
    pub(super) handler: Handler,
    pub(super) heart: Arc<Heartbeater>,
    pub(super) reports: mpsc::Sender<Report>,
    pub(super) time: TimeSource,
    /// How long an attempt may take whose task has no limit of its own; none is for ever.
    pub(super) attempt_timeout: Option<Duration>,
    /// Cancelled when the worker no longer waits for callbacks.
    pub(super) drained: CancellationToken,
}

/// How running a callback ended.
enum Ended {
    /// To be reported.
    With(Outcome),
    /// Another worker may run the task by now, so nothing is reported.
    Silently(&'static str),
}

impl Tools {
    /// Runs an attempt; `slot` is free again when its report is on its way.
    pub(super) async fn run(
        self: Arc<Self>,
        attempt: Arc<Attempt>,
        job: Job<Raw>,
        slot: OwnedSemaphorePermit,
    ) {
        let callback = job.callback.clone();
        let running = metrics::gauge!("tickwheel_worker_running", "callback" => callback.clone());
        running.increment(1.0);
        let began = self.time.moment();
        let default_end = self.attempt_timeout.map(|limit| began.after(limit));
        let context = Context::new(Arc::clone(&attempt), self.time.clone());
        // The process may have been suspended since the claim was sent, or the answer took that long. Another
        // worker may run the task by now, so it is not begun.
        let ended = if began >= attempt.deadline() || attempt.has_overrun(began) {
            Ended::Silently("expired")
        } else {
            // A callback that has ended by itself counts even after the deadline, since the attempt is a
            // fence.
            tokio::select! {
                biased;
                outcome = (self.handler)(job, context) => Ended::With(outcome),
                () = attempt.lost.cancelled() => Ended::Silently("lost"),
                () = attempt.expired(&self.time) => Ended::Silently("expired"),
                () = attempt.overran(default_end, &self.time) => {
                    Ended::With(Outcome::Retry(TIMED_OUT.to_owned()))
                }
                () = self.drained.cancelled() => {
                    Ended::With(Outcome::Snooze(Duration::ZERO))
                }
            }
        };
        running.decrement(1.0);
        let label = match &ended {
            Ended::With(outcome) => outcome.label(),
            Ended::Silently(why) => why,
        };
        let seconds = self.time.moment().since(began).as_secs_f64();
        metrics::histogram!(
            "tickwheel_callback_duration_seconds",
            "callback" => callback.clone(), "outcome" => label
        )
        .record(seconds);
        match ended {
            Ended::With(outcome) => self.report(attempt, outcome).await,
            Ended::Silently(why) => {
                let key = attempt.key;
                tracing::warn!(callback, id = %key.id, attempt = key.attempt, why, "aborted an attempt");
                self.heart.remove(key);
            }
        }
        drop(slot);
    }

    /// Lets others run a claimed task at once, without counting an attempt. The attempt needs heartbeats
    /// until it is reported.
    pub(super) async fn give_back(&self, attempt: Arc<Attempt>) {
        let now = Outcome::Snooze(Duration::ZERO);
        self.report(attempt, now).await;
    }

    /// Hands a report to the settler.
    pub(super) async fn report(&self, attempt: Arc<Attempt>, outcome: Outcome) {
        let key = attempt.key;
        let report = Report {
            attempt,
            outcome,
            ended: self.time.moment(),
        };
        if self.reports.send(report).await.is_err() {
            // The worker has given up its reports. The lease runs out, and the service comes back to the
            // task.
            self.heart.remove(key);
        }
    }
}
