//! The batch sender registers one batch of lines for `task import`.
//!
//! Lines that the service cannot register now are sent again; lines that it refuses are reported.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::lines::{Batch, Line};
use crate::{
    api::task_request::TaskRequest,
    client::{Client, Error, Problem, Task},
    time_source::TimeSource,
};

/// Times that a batch is sent while the service cannot take it: some two minutes.
const TRIES_MAX: u32 = 30;

/// Longest wait between two of them, when the service names none.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// A line that was not registered, or may not have been.
#[derive(Debug)]
pub(super) struct Rejected {
    /// Its number.
    pub(super) line: u64,
    /// Why.
    pub(super) reason: String,
    /// As it was read.
    pub(super) text: String,
}

/// The result of a batch.
#[derive(Debug, Default)]
pub(super) struct Sent {
    /// Lines whose task is durable.
    pub(super) registered: u64,
    /// The others.
    pub(super) rejected: Vec<Rejected>,
    /// Bytes of the input up to the end of the batch.
    pub(super) bytes_read: u64,
}

/// A line on its way.
type Open = (u64, String, TaskRequest);

/// Sends a batch until every line of it is settled. Without a client it only tells which lines can be read.
pub(super) async fn send(
    client: Option<Client>,
    batch: Batch,
    stop: &CancellationToken,
    time: &TimeSource,
) -> Sent {
    let mut sent = Sent {
        bytes_read: batch.bytes_read,
        ..Sent::default()
    };
    let mut open: Vec<Open> = Vec::new();
    for Line { number, text, task } in batch.lines {
        match task {
            Ok(task) => open.push((number, text, task)),
            Err(reason) => sent.reject(number, text, reason),
        }
    }
    let Some(client) = client else {
        sent.registered = open.len() as u64;
        return sent;
    };
    // Made once, so that a batch whose answer was lost can be sent again and is still registered once.
    let mut tasks: Vec<TaskRequest> = open.iter().map(|(_, _, task)| task.clone()).collect();
    let repeatable = client.fix(&mut tasks).await;
    for ((_, _, task), fixed) in open.iter_mut().zip(tasks) {
        *task = fixed;
    }
    let mut wait = Duration::from_millis(200);
    for attempt in 1..=TRIES_MAX {
        if open.is_empty() {
            return sent;
        }
        let tasks = open.iter().map(|(_, _, task)| Task::from(task.clone()));
        let answer = client.register_batch(tasks.collect()).await;
        let last = attempt == TRIES_MAX || stop.is_cancelled();
        let asked = sent.settle(&mut open, answer, repeatable, last);
        if open.is_empty() {
            return sent;
        }
        // An interrupt while waiting sends once more, at once.
        tokio::select! {
            () = time.sleep(asked.unwrap_or(wait)) => {}
            () = stop.cancelled() => {}
        }
        wait = (wait * 2).min(WAIT_MAX);
    }
    sent
}

impl Sent {
    fn reject(&mut self, line: u64, text: String, reason: String) {
        self.rejected.push(Rejected { line, reason, text });
    }

    /// Takes an answer; lines that may be sent again stay open. Returns the wait that the service asks for.
    fn settle(
        &mut self,
        open: &mut Vec<Open>,
        answer: Result<Vec<Result<crate::client::Registered, Problem>>, Error>,
        repeatable: bool,
        last: bool,
    ) -> Option<Duration> {
        let lines = std::mem::take(open);
        let results = match answer {
            Ok(results) => results,
            Err(error) if is_harmless(&error, repeatable) && !last => {
                *open = lines;
                return error.retry_after();
            }
            Err(error) => {
                for (line, text, _) in lines {
                    self.reject(line, text, error.to_string());
                }
                return None;
            }
        };
        for ((line, text, task), result) in lines.into_iter().zip(results) {
            match result {
                Ok(_) => self.registered += 1,
                Err(problem) if problem.retryable && !last => open.push((line, text, task)),
                Err(problem) => self.reject(line, text, problem.detail),
            }
        }
        None
    }
}

/// Tells whether trying again makes sense, and registers nothing twice.
const fn is_harmless(error: &Error, repeatable: bool) -> bool {
    match error {
        Error::Unavailable { problem, .. } => problem.retryable,
        Error::Transport { sent, .. } => repeatable || !*sent,
        Error::Refused { .. }
        | Error::NotFound { .. }
        | Error::Unexpected { .. }
        | Error::Invalid(_) => false,
    }
}
