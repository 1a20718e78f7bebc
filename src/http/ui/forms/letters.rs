//! The form of dead letters redrives a few of a group at once, and all of it by a job.

use axum::http::Method;
use serde_json::json;

use super::posted::{Done, Posted};
use crate::{
    api::{
        dead_letter::{ListDeadLettersResponse, RedriveResponse},
        job::{JobFilter, JobKind, JobRequest, JobResponse},
    },
    http::ui::{
        gate::Failure,
        parts::{
            frame::with,
            text::{counted, visible},
        },
        visit::Visit,
    },
};

/// Tasks that are a few.
const FEW: usize = 10;

/// Does what the form says.
pub(in crate::http::ui) async fn act(visit: &Visit, posted: &Posted) -> Result<Done, Failure> {
    let narrowed = |path: &str| {
        let named = ["callback", "error"].map(|name| (name, posted.text(name)));
        named
            .iter()
            .fold(path.to_owned(), |path, (name, value)| match value {
                Some(value) => with(&path, name, value),
                None => path,
            })
    };
    let here = narrowed("/dead-letters");
    let kind = match posted.text("act").unwrap_or_default() {
        "few" => {
            let path = narrowed(&format!("/v1/dead-letters?page_size={FEW}"));
            let list: ListDeadLettersResponse = visit.get(&path).await?;
            let ids: Vec<String> = list
                .dead_letters
                .into_iter()
                .map(|letter| letter.id)
                .collect();
            return few(visit, &here, &ids).await;
        }
        "all" => JobKind::Redrive,
        "delete" => JobKind::Delete,
        other => {
            return Err(Failure::not_found(format!(
                "nothing is done by {}",
                visible(other)
            )));
        }
    };
    let filter = JobFilter {
        callback: posted.text("callback").map(str::to_owned),
        error: posted.text("error").map(str::to_owned),
        state: Some(crate::api::task_state::TaskState::Dead),
        ..JobFilter::default()
    };
    let mut request = JobRequest::new(kind, filter);
    request.rate_per_second = posted.rate()?;
    request.dry_run = posted.text("dry").is_some();
    let answer = visit.call(Method::POST, "/v1/jobs", Some(&request)).await?;
    let job: JobResponse = answer.read()?;
    let said = if request.dry_run {
        "The tasks are counted."
    } else {
        "The job has begun."
    };
    Ok(Done::good(format!("/jobs/{}", job.id), said))
}

async fn few(visit: &Visit, here: &str, ids: &[String]) -> Result<Done, Failure> {
    if ids.is_empty() {
        return Ok(Done::bad(here, "None is left with this error."));
    }
    let body = json!({"ids": ids});
    let answer = visit
        .call(Method::POST, "/v1/dead-letters/redrive", Some(&body))
        .await?;
    let answer: RedriveResponse = answer.read()?;
    let again = counted(answer.redriven, "task runs again", "tasks run again");
    Ok(if answer.failed > 0 {
        Done::bad(here, format!("{again}, {} failed.", answer.failed))
    } else {
        Done::good(here, format!("{again}."))
    })
}
