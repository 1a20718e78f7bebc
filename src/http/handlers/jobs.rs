//! The job handlers register bulk work over a filter at `/v1/jobs` for clients, show its progress, and pause, resume and end it.

use axum::{
    extract::{Path, Query, Request, State, rejection::PathRejection},
    http::{StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_128;

use super::list::page_size;
use crate::{
    api::{
        job::{JobRequest, JobResponse, ListJobsResponse},
        problem::Problem,
        text::shorten,
        worker::View,
    },
    flow::stages::jobs::desk::{Changed, Order, Registered},
    http::{
        Api,
        access::Caller,
        answer, body,
        convert::{
            Violations,
            asked::mark,
            job::{job, job_response},
            json,
            schedule::times_of_span,
            task_view::task_response,
            unknown,
        },
        error::{Code, Error},
        headers,
    },
    limits::{
        DRY_RUN_SAMPLE, JOBS_FULL_RETRY_AFTER, JOBS_KEPT_MAX, JOBS_OPEN_MAX, LIST_TASKS_DEFAULT,
        REQUEST_BYTES_MAX,
    },
    model::job::Job,
};

/// Registers bulk work over a filter: the tasks of the filter are cancelled, redriven, moved or deleted, page by page.
///
/// The job goes on whatever node dies. With `dry_run` it changes nothing, counts the tasks, and shows the first 20.
#[utoipa::path(post, path = "/v1/jobs", tag = "jobs", operation_id = "createJob",
    params(("idempotency-key" = Option<String>, Header,
        description = "Repetitions of the request with this key are one job, as long as the job can be read")),
    request_body = JobRequest,
    responses(
        (status = 202, description = "Registered", body = JobResponse, headers(("location" = String))),
        (status = 200, description = "The same request had registered it before", body = JobResponse),
        (status = 422, description = "`unusable_filter`: the kind of job cannot honour a field, or every task is meant without `all`. `idempotency_key_reused`", body = Problem, content_type = "application/problem+json"),
        (status = 429, description = "As many jobs are open or kept as may be", body = Problem, content_type = "application/problem+json"),
        (status = "default", description = "Not registered", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn create(
    State(api): State<Api>,
    request: Request,
) -> Result<Response, Error> {
    headers::refuse_if_match(request.headers())?;
    let header = headers::idempotency_key(request.headers())?;
    let caller = Caller::of(&request);
    let text = body::read_text(&api, request, REQUEST_BYTES_MAX).await?;
    let mut asked: JobRequest = json::read(&text)?;
    caller.allows_filter(asked.filter.callback.as_deref())?;
    let key = caller.in_space(mark(asked.idempotency_key.take(), header)?);
    register(&api, &asked, (key, &text)).await
}

/// Registers a job, and answers so. The text is the whole request: the same one with the same key is the same job.
pub(super) async fn register(
    api: &Api,
    asked: &JobRequest,
    (key, text): (Option<String>, &str),
) -> Result<Response, Error> {
    let desk = api.service.jobs();
    let filter = &asked.filter;
    let labels = filter
        .labels
        .iter()
        .flat_map(std::collections::BTreeMap::keys);
    let reach = desk.reach(filter.callback.as_deref(), labels).await?;
    let job = job(asked, api.options.time.now(), reach)?;
    let job = Job {
        request: key.is_some().then(|| xxh3_128(text.as_bytes())),
        ..job
    };
    let key = key.map(|key| xxh3_128(key.as_bytes()));
    registered(desk.register(key, job).await?)
}

/// Answers a registration.
pub(super) fn registered(registered: Registered) -> Result<Response, Error> {
    match registered {
        Registered::Created(id, job) => {
            let answer = answer::json(&job_response(id, &job));
            let location = [(header::LOCATION, format!("/v1/jobs/{id}"))];
            Ok((StatusCode::ACCEPTED, location, answer).into_response())
        }
        Registered::Again(id, job) => Ok(answer::json(&job_response(id, &job))),
        Registered::OtherRequest => Err(Error::new(
            Code::IdempotencyKeyReused,
            "the key was used for a job with another body",
        )),
        Registered::TooManyOpen(open) => Err(full(format!(
            "{open} jobs have not ended; at most {JOBS_OPEN_MAX} may be open: wait for one, or cancel it"
        ))),
        Registered::TooManyKept(kept) => Err(full(format!(
            "{kept} jobs are kept; at most {JOBS_KEPT_MAX} are, each for three days from its end"
        ))),
    }
}

fn full(detail: String) -> Error {
    Error {
        retry_after: Some(JOBS_FULL_RETRY_AFTER),
        ..Error::new(Code::TooManyRequests, detail)
    }
}

/// Lists jobs, the newest first. A job can be read for three days from its end.
#[utoipa::path(get, path = "/v1/jobs", tag = "jobs", operation_id = "listJobs",
    params(
        ("page_size" = Option<usize>, Query, minimum = 1,
            description = "At most so many; 100 by default; more than 1000 is 1000"),
        ("page_token" = Option<String>, Query, description = "`next_page_token` of the page before")),
    responses(
        (status = 200, description = "A page", body = ListJobsResponse),
        (status = "default", description = "Not listed", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn list(State(api): State<Api>, uri: Uri) -> Result<Response, Error> {
    let (size, behind) = page(&uri)?;
    let jobs = api.service.jobs().list().await?.into_iter();
    let mut jobs = jobs.filter(|(id, job)| {
        behind.is_none_or(|(created, behind)| (job.created.0, *id) < (created, behind))
    });
    let shown: Vec<(Uuid, Job)> = jobs.by_ref().take(size).collect();
    let next = jobs.next().and_then(|_| shown.last());
    Ok(answer::json(&ListJobsResponse {
        next_page_token: next.map(|(id, job)| format!("{}.{id}", job.created.0)),
        jobs: shown
            .iter()
            .map(|(id, job)| job_response(*id, job))
            .collect(),
    }))
}

/// The size of a page, and the job behind which it begins.
fn page(uri: &Uri) -> Result<(usize, Option<(i64, Uuid)>), Error> {
    let pairs = Query::<Vec<(String, String)>>::try_from_uri(uri)
        .map_err(|error| Error::new(Code::InvalidRequest, error.body_text()))?;
    let (mut size, mut behind) = (LIST_TASKS_DEFAULT, None);
    let mut violations = Violations::default();
    for (name, value) in pairs.0 {
        let pointer = format!("?{}", shorten(&name));
        match name.as_str() {
            "page_size" => size = violations.take(&pointer, page_size(&value)).unwrap_or(size),
            "page_token" if value.is_empty() => behind = None,
            "page_token" => behind = violations.take(&pointer, token(&value)),
            _ => {
                let known = ["page_size", "page_token"];
                violations.add(pointer, unknown("query parameter", &name, &known));
            }
        }
    }
    violations.finish()?;
    Ok((size, behind))
}

fn token(text: &str) -> Result<(i64, Uuid), String> {
    let parts = text.split_once('.');
    let read = parts.and_then(|(created, id)| Some((created.parse().ok()?, id.parse().ok()?)));
    read.ok_or_else(|| {
        "is not a token of this service: send `next_page_token` as it was".to_owned()
    })
}

/// Reads a job: its state, its progress, and the first tasks of a dry run.
#[utoipa::path(get, path = "/v1/jobs/{id}", tag = "jobs", operation_id = "getJob",
    params(("id" = String, Path, description = "The job's id")),
    responses(
        (status = 200, description = "The job", body = JobResponse),
        (status = 404, description = "`job_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = "default", description = "Not read", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn read(
    State(api): State<Api>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Response, Error> {
    let id = job_id(id)?;
    let desk = api.service.jobs();
    let job = desk.get(id).await?.ok_or_else(not_found)?;
    let mut response = job_response(id, &job);
    if job.dry_run {
        let sample = desk.sample(&job).await?;
        let sample = sample.iter().map(|task| task_response(task, View::Basic));
        response.sample = Some(sample.collect());
        if let Some(of) = &job.backfill {
            response.sample = None;
            let span = (of.anchor, of.from, of.to);
            let desk = api.service.schedules();
            let times = times_of_span(&of.schedule, &of.spec, desk, span, DRY_RUN_SAMPLE)?;
            response.sample_times = Some(times.into_iter().map(Into::into).collect());
        }
    }
    Ok(answer::json(&response))
}

/// Pauses a job. The page of tasks that is being worked on, a second's work, is finished.
#[utoipa::path(post, path = "/v1/jobs/{id}/pause", tag = "jobs", operation_id = "pauseJob",
    params(("id" = String, Path, description = "The job's id")),
    responses(
        (status = 200, description = "It is paused", body = JobResponse),
        (status = 409, description = "`job_ended`", body = Problem, content_type = "application/problem+json"),
        (status = "default", description = "Not paused", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn pause(
    State(api): State<Api>,
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, Error> {
    order(&api, id, request, Order::Pause).await
}

/// Lets a paused job go on where it was.
#[utoipa::path(post, path = "/v1/jobs/{id}/resume", tag = "jobs", operation_id = "resumeJob",
    params(("id" = String, Path, description = "The job's id")),
    responses(
        (status = 200, description = "It goes on", body = JobResponse),
        (status = 409, description = "`job_ended`", body = Problem, content_type = "application/problem+json"),
        (status = "default", description = "It does not go on", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn resume(
    State(api): State<Api>,
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, Error> {
    order(&api, id, request, Order::Resume).await
}

/// Ends a job. The page of tasks that is being worked on is finished; what was done stays done.
#[utoipa::path(post, path = "/v1/jobs/{id}/cancel", tag = "jobs", operation_id = "cancelJob",
    params(("id" = String, Path, description = "The job's id")),
    responses(
        (status = 200, description = "It has ended", body = JobResponse),
        (status = 409, description = "`job_ended`: it had ended before, in another way", body = Problem, content_type = "application/problem+json"),
        (status = "default", description = "Not ended", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn cancel(
    State(api): State<Api>,
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, Error> {
    order(&api, id, request, Order::Cancel).await
}

async fn order(
    api: &Api,
    id: Result<Path<String>, PathRejection>,
    request: Request,
    order: Order,
) -> Result<Response, Error> {
    let id = job_id(id)?;
    headers::refuse_if_match(request.headers())?;
    body::read_nothing(api, request, REQUEST_BYTES_MAX).await?;
    match api.service.jobs().order(id, order).await? {
        Changed::Now(job) => Ok(answer::json(&job_response(id, &job))),
        Changed::Absent => Err(not_found()),
        Changed::Ended(job) => {
            let detail = format!("the job has ended: it is {}", job.state.name());
            Err(Error::new(Code::JobEnded, detail))
        }
    }
}

/// A text that is no id is the id of no job.
fn job_id(id: Result<Path<String>, PathRejection>) -> Result<Uuid, Error> {
    let text = id.map_or_else(|_| String::new(), |Path(text)| text);
    text.parse().map_err(|_| not_found())
}

fn not_found() -> Error {
    Error::new(
        Code::JobNotFound,
        "there is no job of this id, or it ended more than three days ago",
    )
}
