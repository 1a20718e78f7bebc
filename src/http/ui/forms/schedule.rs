//! The form of a schedule pauses, resumes, triggers, backfills and deletes it.

use axum::http::Method;

use super::posted::{Done, Posted};
use crate::{
    api::{
        job::JobResponse,
        schedule::{BackfillRequest, DeleteScheduleResponse, PauseRequest},
        task_response::TaskResponse,
        text::InstantText,
    },
    http::ui::{
        gate::Failure,
        parts::text::{counted, visible},
        visit::Visit,
    },
};

/// Does what the form says.
pub(in crate::http::ui) async fn act(visit: &Visit, posted: &Posted) -> Result<Done, Failure> {
    let here = format!("/schedules/{}", visit.part());
    let api = format!("/v1/schedules/{}", visit.part());
    match posted.text("act").unwrap_or_default() {
        "trigger" => {
            let answer = visit.post(&format!("{api}/trigger")).await?;
            let task: TaskResponse = answer.read()?;
            Ok(Done::good(
                format!("/tasks/{}", task.id),
                "This run starts now.",
            ))
        }
        "pause" => {
            let wish = PauseRequest {
                reason: posted.text("reason").map(str::to_owned),
                who: Some(visit.who.name.clone()),
            };
            visit
                .call(Method::POST, &format!("{api}/pause"), Some(&wish))
                .await?;
            Ok(Done::good(here, "No run starts until it is resumed."))
        }
        "resume" => {
            visit.post(&format!("{api}/resume")).await?;
            Ok(Done::good(here, "It goes on."))
        }
        "backfill" => backfill(visit, posted, &api, here).await,
        "delete" => {
            let answer = visit.call(Method::DELETE, &api, None::<&()>).await?;
            let gone: DeleteScheduleResponse = answer.read()?;
            let withdrawn = counted(gone.runs_cancelled, "run was", "runs were");
            Ok(Done::good(
                "/schedules",
                format!("The schedule is deleted; {withdrawn} withdrawn."),
            ))
        }
        other => Err(Failure::not_found(format!(
            "nothing is done by {}",
            visible(other)
        ))),
    }
}

async fn backfill(
    visit: &Visit,
    posted: &Posted,
    api: &str,
    here: String,
) -> Result<Done, Failure> {
    let time = |name| InstantText(posted.or_empty(name));
    let mut wish = BackfillRequest::new(time("from"), time("to"));
    let overlap = posted.text("overlap");
    wish.overlap = overlap.and_then(|name| serde_json::from_value(serde_json::json!(name)).ok());
    wish.rate_per_second = posted.rate()?;
    wish.dry_run = posted.text("dry").is_some();
    match visit
        .call(Method::POST, &format!("{api}/backfill"), Some(&wish))
        .await
    {
        Ok(answer) => {
            let job: JobResponse = answer.read()?;
            let said = if wish.dry_run {
                "The runs are counted."
            } else {
                "The job has begun."
            };
            Ok(Done::good(format!("/jobs/{}", job.id), said))
        }
        Err(failure) if !failure.errors.is_empty() => {
            let wrong = failure
                .errors
                .iter()
                .map(|error| format!("{} {}", error.pointer.trim_start_matches('/'), error.detail));
            let wrong: Vec<String> = wrong.collect();
            Ok(Done::bad(here, visible(&wrong.join("; "))))
        }
        Err(failure) => Err(failure),
    }
}
