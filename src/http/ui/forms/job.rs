//! The form of a job pauses, resumes and stops it, and does in earnest what a dry run has counted.

use axum::http::Method;

use super::posted::{Done, Posted};
use crate::{
    api::job::{JobKind, JobRequest, JobResponse},
    http::ui::{gate::Failure, parts::text::visible, visit::Visit},
};

/// Does what the form says.
pub(in crate::http::ui) async fn act(visit: &Visit, posted: &Posted) -> Result<Done, Failure> {
    let here = format!("/jobs/{}", visit.part());
    let api = format!("/v1/jobs/{}", visit.part());
    let (verb, said) = match posted.text("act").unwrap_or_default() {
        "pause" => ("pause", "The job is paused."),
        "resume" => ("resume", "The job goes on."),
        "cancel" => ("cancel", "The job is stopped. What it has done stays done."),
        "do" => return in_earnest(visit, posted, &api).await,
        other => {
            return Err(Failure::not_found(format!(
                "nothing is done by {}",
                visible(other)
            )));
        }
    };
    visit.post(&format!("{api}/{verb}")).await?;
    Ok(Done::good(here, said))
}

async fn in_earnest(visit: &Visit, posted: &Posted, api: &str) -> Result<Done, Failure> {
    let dry: JobResponse = visit.get(api).await?;
    let is_all = dry.filter == crate::api::job::JobFilter::default();
    let mut request = JobRequest::new(dry.kind, dry.filter);
    request.all = is_all;
    // A run is to the moment at which it begins.
    request.start_time = dry
        .start_time
        .filter(|_| request.kind == JobKind::Reschedule);
    request.rate_per_second = posted.rate()?.or(dry.rate_per_second);
    // A button that is pressed twice is one job.
    request.idempotency_key = Some(format!("dashboard/{}", dry.id));
    let answer = visit.call(Method::POST, "/v1/jobs", Some(&request)).await?;
    let job: JobResponse = answer.read()?;
    Ok(Done::good(
        format!("/jobs/{}", job.id),
        "The job has begun.",
    ))
}
