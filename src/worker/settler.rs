//! The settler reports to the service how attempts ended, for all runners of a worker.
//!
//! One call is in flight; reports that arrive meanwhile form the next. A report is repeated until it is
//! answered, or until its lease has run out and the report can have no effect any more. Until then the
//! attempt keeps its heartbeats: work that is done must not be done again because its report was late.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::value::to_raw_value;
use tokio::sync::mpsc;

use super::{
    attempt::Attempt,
    heartbeater::Heartbeater,
    outcome::Outcome,
    retry::{Retry, is_worth_repeating},
    server::Server,
};
use crate::{
    api::worker::{
        SettleItem, SettleOutcome, SettleRequest, SettleResponse, SettleResult, SettleStatus,
    },
    client,
    limits::{BATCH_ITEMS_MAX, BATCH_REQUEST_BYTES_MAX},
    time_source::{Moment, TimeSource},
};

/// The bytes of results that one call carries: with their envelopes and the texts of errors they fit into a request.
const REPORTS_BYTES_MAX: usize = BATCH_REQUEST_BYTES_MAX / 2;

/// How long after its lease a report is still repeated: if the task is still unclaimed, the report counts.
const GRACE: Duration = Duration::from_secs(30);

/// How long a report is repeated at most, even if heartbeats keep its lease alive.
const REPORT_LIMIT: Duration = Duration::from_secs(600);

/// How an attempt ended.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) attempt: Arc<Attempt>,
    pub(super) outcome: Outcome,
    pub(super) ended: Moment,
}

/// Sends the reports of a worker.
pub(super) struct Settler {
    pub(super) reports: mpsc::Receiver<Report>,
    pub(super) worker: String,
    pub(super) server: Arc<dyn Server>,
    pub(super) heart: Arc<Heartbeater>,
    pub(super) time: TimeSource,
}

impl Settler {
    /// Sends reports until there are no more.
    pub(super) async fn run(mut self) {
        let mut waiting = VecDeque::new();
        let mut retry = Retry::default();
        // After a batch was refused its reports are sent one by one, so that the wrong one is found.
        let mut alone = 0_usize;
        while self.collect(&mut waiting).await {
            let most = if alone > 0 { 1 } else { BATCH_ITEMS_MAX };
            let batch = take(&mut waiting, most);
            alone = alone.saturating_sub(1);
            let request = SettleRequest {
                worker: self.worker.clone(),
                tasks: batch.iter().map(item).collect(),
            };
            let answer = self.server.settle(&request).await;
            let (again, asked) = match answer {
                Ok(answer) if answer.results.len() == batch.len() => {
                    (self.read(batch, answer), None)
                }
                Ok(answer) => {
                    tracing::warn!(
                        sent = batch.len(),
                        got = answer.results.len(),
                        "reports were not answered one by one"
                    );
                    (batch, None)
                }
                Err(error) if is_worth_repeating(&error) => {
                    tracing::warn!(%error, reports = batch.len(), "cannot report to the server: trying again");
                    (batch, error.retry_after())
                }
                Err(error) if batch.len() > 1 => {
                    tracing::warn!(%error, "the server refuses a batch of reports: sending them one by one");
                    alone = batch.len();
                    waiting.extend(batch);
                    continue;
                }
                Err(error) => {
                    self.give_up(batch, &error);
                    continue;
                }
            };
            if again.is_empty() {
                retry.succeeded();
            } else {
                waiting.extend(again);
                retry.failed(asked, &self.time);
                retry.wait(&self.time).await;
            }
        }
    }

    /// Gathers new reports and drops those that are too old. Returns false when none is left and none can
    /// arrive.
    async fn collect(&mut self, waiting: &mut VecDeque<Report>) -> bool {
        let now = self.time.moment();
        let heart = &self.heart;
        waiting.retain(|report| {
            let useful = now < report.attempt.deadline().after(GRACE)
                && now.since(report.ended) < REPORT_LIMIT;
            if !useful {
                let key = report.attempt.key;
                tracing::warn!(id = %key.id, attempt = key.attempt, "gave up reporting an outcome");
                heart.remove(key);
            }
            useful
        });
        if waiting.is_empty() {
            let Some(report) = self.reports.recv().await else {
                return false;
            };
            waiting.push_back(report);
        }
        while waiting.len() < BATCH_ITEMS_MAX {
            let Ok(report) = self.reports.try_recv() else {
                break;
            };
            waiting.push_back(report);
        }
        true
    }

    /// Reads the answers; returns the reports to repeat.
    fn read(&self, batch: Vec<Report>, answer: SettleResponse) -> Vec<Report> {
        let mut again = Vec::new();
        for (report, result) in batch.into_iter().zip(answer.results) {
            let key = report.attempt.key;
            match result {
                SettleResult {
                    status: SettleStatus::Error,
                    error: Some(problem),
                    ..
                } if problem.retryable => {
                    again.push(report);
                    continue;
                }
                SettleResult {
                    status: SettleStatus::Error,
                    error,
                    ..
                } => {
                    let detail = error.map_or_else(String::new, |problem| problem.detail);
                    tracing::error!(id = %key.id, attempt = key.attempt, detail, "the server refuses a report");
                }
                SettleResult {
                    status: SettleStatus::Lost,
                    reason,
                    ..
                } => {
                    tracing::warn!(id = %key.id, attempt = key.attempt, reason, "an attempt was lost before its report arrived");
                }
                SettleResult {
                    status: SettleStatus::Ok,
                    ..
                } => {}
            }
            self.heart.remove(key);
        }
        again
    }

    fn give_up(&self, batch: Vec<Report>, error: &client::Error) {
        for report in batch {
            let key = report.attempt.key;
            tracing::error!(id = %key.id, attempt = key.attempt, %error, "the server refuses a report");
            self.heart.remove(key);
        }
    }
}

/// Takes the oldest reports, at least one, as far as they fit into a request.
fn take(waiting: &mut VecDeque<Report>, most: usize) -> Vec<Report> {
    let mut batch = Vec::new();
    let mut bytes = 0;
    while batch.len() < most
        && let Some(next) = waiting.pop_front()
    {
        bytes += result_bytes(&next.outcome);
        if bytes > REPORTS_BYTES_MAX && !batch.is_empty() {
            waiting.push_front(next);
            break;
        }
        batch.push(next);
    }
    batch
}

/// Returns how many bytes a result takes in a request.
fn result_bytes(outcome: &Outcome) -> usize {
    match outcome {
        Outcome::DoneWith(result) => result.to_string().len(),
        Outcome::DoneWithBytes { bytes, .. } => bytes.len().div_ceil(3) * 4,
        Outcome::Done
        | Outcome::Retry(_)
        | Outcome::RetryAfter(..)
        | Outcome::Fail(_)
        | Outcome::Snooze(_) => 0,
    }
}

fn item(report: &Report) -> SettleItem {
    let mut item = SettleItem {
        id: report.attempt.key.id.to_string(),
        attempt: report.attempt.key.attempt,
        outcome: SettleOutcome::Succeeded,
        result: None,
        result_base64: None,
        result_content_type: None,
        error: None,
        delay: None,
        children_complete: false,
    };
    match &report.outcome {
        Outcome::Done => {}
        Outcome::DoneWith(result) => item.result = to_raw_value(result).ok(),
        Outcome::DoneWithBytes {
            bytes,
            content_type,
        } => {
            item.result_base64 = Some(STANDARD.encode(bytes));
            item.result_content_type = Some(content_type.clone());
        }
        Outcome::Retry(error) => {
            (item.outcome, item.error) = (SettleOutcome::Retry, Some(error.clone()));
        }
        Outcome::RetryAfter(wait, error) => {
            (item.outcome, item.error) = (SettleOutcome::Retry, Some(error.clone()));
            item.delay = Some((*wait).into());
        }
        Outcome::Fail(error) => {
            (item.outcome, item.error) = (SettleOutcome::Failed, Some(error.clone()));
        }
        Outcome::Snooze(wait) => {
            item.outcome = SettleOutcome::Snoozed;
            item.delay = Some((*wait).into());
        }
    }
    let ends_run = matches!(
        item.outcome,
        SettleOutcome::Succeeded | SettleOutcome::Failed
    );
    item.children_complete = ends_run && report.attempt.are_children_complete();
    item
}

#[cfg(test)]
mod tests {
    use super::{super::attempt::Key, *};
    use crate::model::{ids::TaskId, time::Millis, wheel::WheelNumber};

    fn report(outcome: Outcome) -> Report {
        let id = TaskId::new(Millis(0), WheelNumber::from_low_bits(0), 1);
        let now = TimeSource::real().moment();
        let attempt = Attempt::new(Key { id, attempt: 1 }, Duration::from_secs(30), now);
        Report {
            attempt: Arc::new(attempt),
            outcome,
            ended: now,
        }
    }

    #[test]
    fn large_results_are_sent_in_several_calls_in_their_order() {
        let large = |number: u8| Outcome::done_with_bytes(vec![number; 1024 * 1024], "a/b");
        let mut waiting: VecDeque<Report> = (0..10).map(|number| report(large(number))).collect();
        waiting.extend([report(Outcome::Done)]);
        let mut sizes = Vec::new();
        let mut outcomes = Vec::new();
        while !waiting.is_empty() {
            let batch = take(&mut waiting, BATCH_ITEMS_MAX);
            sizes.push(batch.len());
            outcomes.extend(batch.into_iter().map(|report| report.outcome));
        }
        assert_eq!(sizes, [5, 6]);
        let expected = (0..10).map(large).chain([Outcome::Done]);
        assert_eq!(outcomes, expected.collect::<Vec<_>>());
    }

    #[test]
    fn bytes_are_reported_as_base64_with_their_media_type() {
        let item = item(&report(Outcome::done_with_bytes(b"hello", "text/plain")));
        assert_eq!(item.outcome, SettleOutcome::Succeeded);
        assert_eq!(item.result_base64.as_deref(), Some("aGVsbG8="));
        assert_eq!(item.result_content_type.as_deref(), Some("text/plain"));
        assert!(item.result.is_none());
    }
}
