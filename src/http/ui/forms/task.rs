//! The form of a task runs, moves, cancels, reopens, redelivers or deletes it, and says who has won: the form or the firing.

use axum::http::Method;
use serde_json::json;

use super::posted::{Done, Posted, start};
use crate::{
    api::{
        task_request::RescheduleRequest,
        task_response::{CancelOutcome, CancelResponse, RescheduleOutcome, RescheduleResponse},
        tree::{ReopenRequest, RetryFailedResponse},
    },
    http::ui::{
        gate::Failure,
        parts::text::{counted, visible},
        visit::Visit,
    },
};

/// Does what the form says.
pub(in crate::http::ui) async fn act(visit: &Visit, posted: &Posted) -> Result<Done, Failure> {
    let here = format!("/tasks/{}", visit.part());
    let api = format!("/v1/tasks/{}", visit.part());
    match posted.text("act").unwrap_or_default() {
        "run" => {
            let answer = visit.post(&format!("{api}/run")).await?;
            Ok(moved(&here, &answer.read()?, "It starts now."))
        }
        "move" => {
            let (start_time, delay) = start(&posted.or_empty("to"));
            let wish = RescheduleRequest { start_time, delay };
            let path = format!("{api}/reschedule");
            let answer = visit.call(Method::POST, &path, Some(&wish)).await?;
            Ok(moved(&here, &answer.read()?, "It is moved."))
        }
        "cancel" => cancel(visit, posted, &here, &api).await,
        "redeliver" => {
            let answer = visit.post(&format!("{api}/redeliver")).await?;
            let task: crate::api::task_response::TaskResponse = answer.read()?;
            let path = format!("/tasks/{}", task.id);
            Ok(Done::good(
                path,
                "This task delivers the same message again.",
            ))
        }
        "retry" => {
            let answer = visit.post(&format!("{api}/retry-failed")).await?;
            let done: RetryFailedResponse = answer.read()?;
            let again = counted(done.retried, "task runs", "tasks run");
            let more = if done.complete {
                ""
            } else {
                " More is left: do it once more."
            };
            Ok(Done::good(here, format!("{again} again.{more}")))
        }
        "reopen" => {
            // By its attempt: a button that is pressed twice begins one round.
            let attempt = posted.text("attempt");
            let wish = ReopenRequest {
                attempt: attempt.and_then(|text| text.parse().ok()),
            };
            let path = format!("{api}/reopen");
            visit.call(Method::POST, &path, Some(&wish)).await?;
            Ok(Done::good(here, "It runs again, and its tree goes on."))
        }
        "delete" => {
            let path = format!("/v1/dead-letters/{}", visit.part());
            visit.call(Method::DELETE, &path, None::<&()>).await?;
            Ok(Done::good("/dead-letters", "The dead task is deleted."))
        }
        other => Err(Failure::not_found(format!(
            "nothing is done by {}",
            visible(other)
        ))),
    }
}

fn moved(here: &str, answer: &RescheduleResponse, done: &str) -> Done {
    match (answer.outcome, &answer.reason) {
        (RescheduleOutcome::Rescheduled, _) => Done::good(here, done),
        (RescheduleOutcome::TooLate, Some(reason)) => {
            Done::bad(here, format!("Too late: {}", visible(reason)))
        }
        (RescheduleOutcome::TooLate, None) => Done::bad(here, "Too late: the task was faster."),
    }
}

async fn cancel(visit: &Visit, posted: &Posted, here: &str, api: &str) -> Result<Done, Failure> {
    let tree = posted.text("tree").is_some();
    let body = tree.then(|| json!({"tree": true}));
    let path = format!("{api}/cancel");
    let answer = visit.call(Method::POST, &path, body.as_ref()).await?;
    let answer: CancelResponse = answer.read()?;
    let reason = answer.reason.as_deref().map(visible);
    Ok(match answer.outcome {
        CancelOutcome::Cancelled => {
            Done::good(here, "It is cancelled: no attempt begins any more.")
        }
        CancelOutcome::AlreadyCancelled => Done::good(here, "It was cancelled before."),
        CancelOutcome::CancelRequested => Done::good(
            here,
            "The running attempt is told to stop, and none follows it.",
        ),
        CancelOutcome::TooLate => {
            let reason = reason.unwrap_or_else(|| "the task was faster.".to_owned());
            Done::bad(here, format!("Too late: {reason}"))
        }
    })
}
