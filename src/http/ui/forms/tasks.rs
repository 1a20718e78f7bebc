//! The forms of the list of tasks act on the selected ones, or on all that a query matches, by a job.

use axum::http::Method;
use futures_util::{StreamExt as _, stream};
use serde_json::json;

use super::posted::{Done, Posted, start};
use crate::{
    api::{
        dead_letter::RedriveResponse,
        job::{JobFilter, JobKind, JobRequest, JobResponse},
        task_response::{
            BatchCancelResponse, CancelOutcome, RescheduleOutcome, RescheduleResponse,
        },
        text::InstantText,
    },
    http::ui::{
        gate::Failure,
        pages::act_on_all,
        parts::{
            frame::{part, with},
            query::Query,
            text::{counted, visible},
        },
        visit::Visit,
    },
};

/// Calls for selected tasks that are under way at once.
const CALLS_AT_ONCE: usize = 8;

/// Acts on the selected tasks.
pub(in crate::http::ui) async fn some(visit: &Visit, posted: &Posted) -> Result<Done, Failure> {
    let here = match posted.text("q") {
        Some(query) => with("/tasks", "q", query),
        None => "/tasks".to_owned(),
    };
    let ids = posted.all("id");
    if ids.is_empty() {
        return Ok(Done::bad(here, "No task is selected."));
    }
    let act = posted.text("act").unwrap_or_default();
    let asks = matches!(act, "cancel" | "delete");
    if asks && posted.text("sure").is_none() {
        let asked = act_on_all::sure(visit, act, &ids, posted.text("q"));
        return asked.map(Done::Again);
    }
    let said = match act {
        "run" => run(visit, &ids).await?,
        "cancel" => cancel(visit, &ids).await?,
        "redrive" => redrive(visit, &ids).await?,
        "delete" => delete(visit, &ids).await?,
        other => {
            return Err(Failure::not_found(format!(
                "nothing is done by {}",
                visible(other)
            )));
        }
    };
    let (text, bad) = said;
    Ok(if bad {
        Done::bad(here, text)
    } else {
        Done::good(here, text)
    })
}

/// Says how many calls had which outcome.
fn said(done: u64, what: (&str, &str), late: u64, failed: u64) -> (String, bool) {
    let mut text = counted(done, what.0, what.1);
    if late > 0 {
        text.push_str(&format!("; {late} had gone on or ended before"));
    }
    if failed > 0 {
        text.push_str(&format!("; {failed} failed"));
    }
    text.push('.');
    (text, late + failed > 0)
}

async fn run(visit: &Visit, ids: &[String]) -> Result<(String, bool), Failure> {
    let calls = stream::iter(ids.to_vec()).map(|id| async move {
        let answer = visit.post(&format!("/v1/tasks/{}/run", part(&id))).await?;
        answer.read::<RescheduleResponse>()
    });
    let answers: Vec<_> = calls.buffer_unordered(CALLS_AT_ONCE).collect().await;
    let outcome = |outcome| {
        let same = answers.iter().flatten();
        same.filter(|answer| answer.outcome == outcome).count() as u64
    };
    let failed = answers.iter().filter(|answer| answer.is_err()).count() as u64;
    let started = outcome(RescheduleOutcome::Rescheduled);
    let late = outcome(RescheduleOutcome::TooLate);
    Ok(said(
        started,
        ("task starts now", "tasks start now"),
        late,
        failed,
    ))
}

async fn cancel(visit: &Visit, ids: &[String]) -> Result<(String, bool), Failure> {
    let body = json!({"ids": ids});
    let answer = visit
        .call(Method::POST, "/v1/tasks:batchCancel", Some(&body))
        .await?;
    let results = answer.read::<BatchCancelResponse>()?.results;
    let late = |outcome| outcome == Some(CancelOutcome::TooLate);
    let late = results.iter().filter(|result| late(result.outcome)).count() as u64;
    let failed = results
        .iter()
        .filter(|result| result.error.is_some())
        .count() as u64;
    let done = results.len() as u64 - late - failed;
    Ok(said(
        done,
        ("task is cancelled", "tasks are cancelled"),
        late,
        failed,
    ))
}

async fn redrive(visit: &Visit, ids: &[String]) -> Result<(String, bool), Failure> {
    let body = json!({"ids": ids});
    let answer = visit
        .call(Method::POST, "/v1/dead-letters/redrive", Some(&body))
        .await?;
    let answer: RedriveResponse = answer.read()?;
    let what = ("task runs again", "tasks run again");
    Ok(said(answer.redriven, what, answer.not_dead, answer.failed))
}

async fn delete(visit: &Visit, ids: &[String]) -> Result<(String, bool), Failure> {
    let calls = stream::iter(ids.to_vec()).map(|id| async move {
        let path = format!("/v1/dead-letters/{}", part(&id));
        visit.call(Method::DELETE, &path, None::<&()>).await
    });
    let answers: Vec<_> = calls.buffer_unordered(CALLS_AT_ONCE).collect().await;
    let done = answers.iter().flatten().count() as u64;
    let failed = answers.len() as u64 - done;
    Ok(said(
        done,
        ("dead task is deleted", "dead tasks are deleted"),
        0,
        failed,
    ))
}

/// Asks what is to be done to all tasks of a query, or registers the job that does it.
pub(in crate::http::ui) async fn all(visit: &Visit, posted: &Posted) -> Result<Done, Failure> {
    let text = posted.or_empty("q");
    let Some(kind) = posted.text("kind") else {
        return act_on_all::page(visit, &text, None).map(Done::Again);
    };
    let request = match request(&text, kind, posted) {
        Ok(request) => request,
        Err(wrong) => return act_on_all::page(visit, &text, Some(wrong)).map(Done::Again),
    };
    match visit.call(Method::POST, "/v1/jobs", Some(&request)).await {
        Ok(answer) => {
            let job: JobResponse = answer.read()?;
            let said = if request.dry_run {
                "The tasks are counted."
            } else {
                "The job has begun."
            };
            Ok(Done::good(format!("/jobs/{}", job.id), said))
        }
        Err(failure) if failure.status.is_client_error() && !failure.is_of_key() => {
            act_on_all::page(visit, &text, Some(visible(&failure.detail))).map(Done::Again)
        }
        Err(failure) => Err(failure),
    }
}

fn request(text: &str, kind: &str, posted: &Posted) -> Result<JobRequest, String> {
    let query = Query::read(text);
    if let Some(wrong) = query.wrong.first() {
        return Err(visible(wrong));
    }
    let fits = |name: &str| {
        matches!(
            name,
            "callback" | "collection" | "state" | "error" | "start_time_from" | "start_time_to"
        ) || name.starts_with("label.")
    };
    let other = query.parameters.iter().find(|(name, _)| !fits(name));
    if let Some((name, _)) = other {
        return Err(format!(
            "A job does not go by {name}: leave it out of the search."
        ));
    }
    if query.bare.is_some() {
        return Err("A job does not go by an id or a key: leave it out of the search.".to_owned());
    }
    let kind = serde_json::from_value::<JobKind>(json!(kind));
    let kind = kind.map_err(|_| "Choose what is to be done.".to_owned())?;
    let state = query.of("state");
    let state = state.map(|state| {
        serde_json::from_value(json!(state)).map_err(|_| format!("{state} is no state"))
    });
    let labels: std::collections::BTreeMap<String, String> = query
        .labels()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let time = |name| query.of(name).map(|text| InstantText(text.to_owned()));
    let filter = JobFilter {
        callback: query.of("callback").map(str::to_owned),
        collection: query.of("collection").map(str::to_owned),
        state: state.transpose()?,
        labels: (!labels.is_empty()).then_some(labels),
        start_time_from: time("start_time_from"),
        start_time_to: time("start_time_to"),
        error: query.of("error").map(str::to_owned),
    };
    let mut request = JobRequest::new(kind, filter);
    request.all = query.parameters.is_empty();
    request.rate_per_second = posted.rate().map_err(|failure| failure.detail)?;
    request.dry_run = posted.text("dry").is_some();
    if kind == JobKind::Reschedule {
        let to = posted
            .text("to")
            .ok_or_else(|| "Say when the tasks are to start.".to_owned())?;
        (request.start_time, request.delay) = start(to);
    }
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_is_the_filter_of_a_job() {
        let posted = Posted::default();
        let read = |text: &str, kind: &str| request(text, kind, &posted);
        let job = read(
            "callback:mail state:dead label:a=b error:\"x y\"",
            "redrive",
        )
        .unwrap();
        assert_eq!(job.filter.callback.as_deref(), Some("mail"));
        assert_eq!(job.filter.error.as_deref(), Some("x y"));
        assert!(!job.all && !job.dry_run);
        assert!(read("", "cancel").unwrap().all);
        for (text, kind) in [
            ("schedule:nightly", "cancel"),
            ("state:odd", "cancel"),
            ("x-17", "cancel"),
            ("callback:mail", "paint"),
            ("callback:mail", "reschedule"),
        ] {
            assert!(read(text, kind).is_err(), "{text} {kind}");
        }
    }
}
