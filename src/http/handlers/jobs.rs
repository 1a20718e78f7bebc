//! The job handlers register bulk work over a filter at `/v1/jobs` for clients, show its progress, and pause, resume and end it.

use axum::{
    extract::State,
    http::{StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_128;

use crate::{
    api::{
        job::{JobRequest, JobResponse, ListJobsResponse},
        problem::Problem,
        worker::View,
    },
    flow::stages::jobs::desk::{Changed, Order, Registered},
    http::{
        Api,
        access::Caller,
        answer,
        convert::{
            asked::mark,
            job::{job, job_response},
            schedule::times_of_span,
            task_view::task_response,
        },
        error::{Code, Error},
        extract::{
            FOREIGN_TOKEN, FromQuery, IdempotencyKey, JobPath, Named, NoBody, NoIfMatch, OfClient,
            Params, Text, each, page_size, put,
        },
    },
    limits::{
        DRY_RUN_SAMPLE, JOBS_FULL_RETRY_AFTER, JOBS_KEPT_MAX, JOBS_OPEN_MAX, LIST_TASKS_DEFAULT,
        LIST_TASKS_MAX,
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
    _: NoIfMatch,
    IdempotencyKey(header): IdempotencyKey,
    caller: Caller,
    text: Text<OfClient>,
) -> Result<Response, Error> {
    let mut asked: JobRequest = text.read()?;
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
pub(in crate::http) async fn list(
    State(api): State<Api>,
    Params(page): Params<JobsQuery>,
) -> Result<Response, Error> {
    let jobs = api.service.jobs().list().await?.into_iter();
    let mut jobs = jobs.filter(|(id, job)| {
        page.behind
            .is_none_or(|(created, behind)| (job.created.0, *id) < (created, behind))
    });
    let shown: Vec<(Uuid, Job)> = jobs.by_ref().take(page.size).collect();
    let next = jobs.next().and_then(|_| shown.last());
    Ok(answer::json(&ListJobsResponse {
        next_page_token: next.map(|(id, job)| format!("{}.{id}", job.created.0)),
        jobs: shown
            .iter()
            .map(|(id, job)| job_response(*id, job))
            .collect(),
    }))
}

/// The query of a list.
#[derive(Debug)]
pub(in crate::http) struct JobsQuery {
    size: usize,
    /// The job behind which the page begins.
    behind: Option<(i64, Uuid)>,
}

impl FromQuery for JobsQuery {
    fn read(uri: &Uri, _: &Api) -> Result<Self, Error> {
        let (mut size, mut behind): (usize, Option<(i64, Uuid)>) = (LIST_TASKS_DEFAULT, None);
        let violations = each(uri, &["page_size", "page_token"], |name, value| {
            Some(match name {
                "page_size" => put(&mut size, page_size(&value, LIST_TASKS_MAX)),
                "page_token" => put(&mut behind, token(&value)),
                _ => return None,
            })
        })?;
        violations.finish().map(|()| Self { size, behind })
    }
}

/// Reads a token; an empty one asks for the first page.
fn token(text: &str) -> Result<Option<(i64, Uuid)>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let parts = text.split_once('.');
    let read = parts.and_then(|(created, id)| Some((created.parse().ok()?, id.parse().ok()?)));
    read.map(Some).ok_or_else(|| FOREIGN_TOKEN.to_owned())
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
    Named(id): Named<JobPath>,
) -> Result<Response, Error> {
    let desk = api.service.jobs();
    let job = desk.get(id).await?.ok_or_else(Error::job_not_found)?;
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
    Named(id): Named<JobPath>,
    _: NoIfMatch,
    _: NoBody,
) -> Result<Response, Error> {
    order(&api, id, Order::Pause).await
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
    Named(id): Named<JobPath>,
    _: NoIfMatch,
    _: NoBody,
) -> Result<Response, Error> {
    order(&api, id, Order::Resume).await
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
    Named(id): Named<JobPath>,
    _: NoIfMatch,
    _: NoBody,
) -> Result<Response, Error> {
    order(&api, id, Order::Cancel).await
}

async fn order(api: &Api, id: Uuid, order: Order) -> Result<Response, Error> {
    match api.service.jobs().order(id, order).await? {
        Changed::Now(job) => Ok(answer::json(&job_response(id, &job))),
        Changed::Absent => Err(Error::job_not_found()),
        Changed::Ended(job) => {
            let detail = format!("the job has ended: it is {}", job.state.name());
            Err(Error::new(Code::JobEnded, detail))
        }
    }
}
