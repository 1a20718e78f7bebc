//! This conversion reads bulk work over a filter for the domain, and writes its progress for clients.
//!
//! A field of a filter that a kind of job cannot honour is refused, with the way to what was probably meant. It is never ignored:
//! the job would work on other tasks than its author believes.

use std::collections::BTreeMap;

use super::{
    json, new_task, own, schedule_view,
    violations::{Violations, callback as callback_name, name},
};
use crate::{
    api::{
        job::{JobFilter, JobKind, JobRequest, JobResponse, JobState},
        problem::FieldError,
        task_response::TaskState,
        time,
    },
    flow::{base::api::VisibleState, stages::jobs::desk::Reach},
    http::error::{Code, Error},
    limits::{JOB_LABELS_MAX, JOB_RATE_MAX, JOB_RATE_MIN, LABEL_CHARS_MAX},
    model::{
        error_class::error_class,
        job::{self, Job},
        time::Millis,
    },
};

/// Converts a request, for a store that finds these tasks.
///
/// # Errors
/// All mistakes of the request; without any, all fields of the filter that cannot be used.
pub(in crate::http) fn job(request: &JobRequest, now: Millis, reach: Reach) -> Result<Job, Error> {
    let mut violations = Violations::default();
    let wrong = &mut violations;
    let mut filter = filter(&request.filter, wrong);
    let start = start(request, now, wrong);
    let rate_milli = rate(request.rate_per_second, wrong);
    violations.finish()?;
    if let Some(callback) = &filter.callback {
        own::refuse_callback("/filter/callback", callback)?;
    }
    if request.kind == JobKind::Backfill {
        let detail = "is begun at its schedule: POST /v1/schedules/{name}/backfill";
        return Err(Error::field(Code::UnusableFilter, "/kind", detail));
    }
    let unusable = unusable(request, &filter, reach);
    if !unusable.is_empty() {
        return Err(Error::fields(Code::UnusableFilter, unusable));
    }
    let by_rows = by_rows(request, &filter, reach);
    if request.kind == JobKind::Reopen {
        filter.state = Some(VisibleState::Succeeded.name().to_owned());
    }
    Ok(Job {
        by_rows,
        start,
        rate_milli,
        dry_run: request.dry_run,
        ..Job::new(request.kind.into(), filter, now)
    })
}

/// Reads a rate, in tasks of a thousand seconds.
pub(super) fn rate(rate: Option<f64>, wrong: &mut Violations) -> Option<u64> {
    let rate = rate?;
    let fits = (JOB_RATE_MIN..=JOB_RATE_MAX).contains(&rate);
    if !fits {
        let detail = format!("must be {JOB_RATE_MIN} to {JOB_RATE_MAX}");
        wrong.add("/rate_per_second", detail);
    }
    fits.then(|| thousandths(rate))
}

fn filter(filter: &JobFilter, wrong: &mut Violations) -> job::JobFilter {
    let mut named = |pointer, text: &Option<String>| {
        let text = text.clone();
        text.and_then(|text| wrong.take(pointer, name(text)))
    };
    let collection = named("/filter/collection", &filter.collection);
    let callback = filter.callback.clone();
    let callback = callback.and_then(|text| wrong.take("/filter/callback", callback_name(text)));
    let labels = filter.labels.clone().unwrap_or_default();
    check_labels(&labels, wrong);
    let mut instant = |pointer, text: &Option<_>| {
        let text = text.as_ref();
        text.and_then(|text| wrong.take(pointer, time::instant(text)))
    };
    let from = instant("/filter/start_time_from", &filter.start_time_from);
    let to = instant("/filter/start_time_to", &filter.start_time_to);
    if let (Some(from), Some(to)) = (from, to)
        && from >= to
    {
        wrong.add(
            "/filter/start_time_to",
            "must be later than `start_time_from`",
        );
    }
    job::JobFilter {
        callback,
        collection,
        state: filter.state.map(|state| state.name().to_owned()),
        labels,
        from,
        to,
        error: filter.error.as_deref().map(error_class),
    }
}

/// Tells whether a task may have this label.
pub(in crate::http) fn is_label(name: &str, value: &str) -> bool {
    let long = |text: &str| text.chars().count() > LABEL_CHARS_MAX;
    !(name.is_empty() || long(name) || long(value))
}

fn check_labels(labels: &BTreeMap<String, String>, wrong: &mut Violations) {
    if labels.len() > JOB_LABELS_MAX {
        wrong.add(
            "/filter/labels",
            format!("more than {JOB_LABELS_MAX} labels"),
        );
    }
    for (label, value) in labels {
        if !is_label(label, value) {
            let pointer = format!("/filter/labels/{}", json::escape(label));
            let detail = format!(
                "no label has a name or a value of over {LABEL_CHARS_MAX} characters, or no name"
            );
            wrong.add(pointer, detail);
        }
    }
}

fn start(request: &JobRequest, now: Millis, wrong: &mut Violations) -> Option<Millis> {
    let (start_time, delay) = (request.start_time.as_ref(), request.delay.as_ref());
    let is_given = start_time.is_some() || delay.is_some();
    if request.kind == JobKind::Reschedule {
        if !is_given {
            wrong.add(
                "",
                "give `start_time` or `delay`: the new start of every task",
            );
        }
        return new_task::start_of(start_time, delay, now, wrong);
    }
    if is_given {
        let pointer = if start_time.is_some() {
            "/start_time"
        } else {
            "/delay"
        };
        wrong.add(
            pointer,
            "is for the kind `reschedule`; tasks are found by `filter.start_time_from` and `filter.start_time_to`",
        );
    }
    // Those that are due then already are passed over, so a page that is repeated starts no task twice.
    (request.kind == JobKind::Run).then_some(now)
}

/// Tells whether the tasks of a job are found by rows: those that have ended in whatever way, and those that wait of a store that
/// finds no others without an end of their starts.
fn by_rows(request: &JobRequest, filter: &job::JobFilter, reach: Reach) -> bool {
    match request.kind {
        JobKind::Delete => request.filter.state != Some(TaskState::Dead),
        JobKind::Reopen => true,
        JobKind::Cancel | JobKind::Reschedule | JobKind::Run => {
            matches!(reach, Reach::Some { labelled: true, .. }) && filter.to.is_none()
        }
        JobKind::Redrive | JobKind::Backfill => false,
    }
}

/// Returns the fields of a filter that its job cannot honour.
fn unusable(request: &JobRequest, filter: &job::JobFilter, reach: Reach) -> Vec<FieldError> {
    let mut found = Vec::new();
    let mut add = |pointer: &str, detail: &str| {
        found.push(FieldError {
            pointer: pointer.to_owned(),
            detail: detail.to_owned(),
        });
    };
    let is_of_ended = job::JobKind::from(request.kind).is_of_ended();
    if filter.is_empty() && !request.all {
        add(
            "/filter",
            "leaves out no task: narrow it down, or say `\"all\": true` if every task is meant",
        );
    }
    if filter.error.is_some() && request.kind == JobKind::Reopen {
        add(
            "/filter/error",
            "a task that has succeeded has none: leave it out",
        );
    } else if filter.error.is_some() && !is_of_ended {
        add(
            "/filter/error",
            "is for tasks that have ended: use the kind `redrive` or `delete`, or leave it out",
        );
    }
    if let Some(detail) = unusable_state(request.kind, request.filter.state) {
        add("/filter/state", detail);
    }
    let Reach::Some {
        labelled,
        succeeded,
    } = reach
    else {
        return found;
    };
    if !is_of_ended && filter.to.is_none() && !labelled {
        add(
            "/filter/start_time_to",
            "is needed with this store, which has no list of all tasks: give the end of the starts that are meant; the wheel is \
             read up to there. It is not needed with a label that the callback names in `indexed_labels`",
        );
    }
    if by_rows(request, filter, reach)
        && is_of_ended
        && let Some((pointer, detail)) = unusable_rows(request, filter, succeeded)
    {
        add(pointer, detail);
    }
    found
}

/// Tells what is missing of a filter for tasks that have ended, which a cluster finds by the rows of their callback.
fn unusable_rows(
    request: &JobRequest,
    filter: &job::JobFilter,
    succeeded: bool,
) -> Option<(&'static str, &'static str)> {
    if filter.callback.is_none() {
        let detail = if request.kind == JobKind::Reopen {
            "is needed with this store, which finds tasks that have ended by their callback"
        } else {
            "is needed with this store, which finds tasks that have ended by their callback; only those in state `dead` are \
             found without one"
        };
        return Some(("/filter/callback", detail));
    }
    if succeeded || filter.error.is_some() {
        return None;
    }
    let detail = match (request.kind, request.filter.state) {
        (JobKind::Reopen, _) => {
            "tasks that have succeeded are found where their callback says `list_succeeded`: set that first"
        }
        (_, None) => {
            "is needed with this store: tasks that succeed are found where their callback says `list_succeeded`"
        }
        (_, Some(TaskState::Succeeded)) => {
            "is found where its callback says `list_succeeded`: set that, or say another state"
        }
        (_, Some(_)) => return None,
    };
    Some(("/filter/state", detail))
}

/// Tells why a kind of job cannot work on tasks in a state.
fn unusable_state(kind: JobKind, state: Option<TaskState>) -> Option<&'static str> {
    let state = state?;
    Some(match (kind, state) {
        (JobKind::Redrive | JobKind::Delete, TaskState::Dead) => return None,
        (JobKind::Redrive, _) => "this kind works on dead tasks only: say `dead`, or leave it out",
        (JobKind::Delete, TaskState::Published) => {
            "a record has no row that could be deleted: say another state, or leave it out"
        }
        (JobKind::Reopen, TaskState::Succeeded) => return None,
        (JobKind::Reopen, _) => {
            "this kind works on tasks that have succeeded: say `succeeded`, or leave it out"
        }
        (JobKind::Delete, state) if has_ended(state) => return None,
        (JobKind::Delete, _) => {
            "this kind works on tasks that have ended: say a state that has, or leave it out"
        }
        (_, TaskState::Dead) => "dead tasks have ended: use the kind `redrive` or `delete`",
        (_, state) if has_ended(state) => {
            "tasks in this state have ended: say one that has not, or leave it out"
        }
        (JobKind::Reschedule | JobKind::Run, TaskState::Claimed | TaskState::Processing) => {
            "a task that runs cannot be moved: say `scheduled`, `enqueued` or `retrying`, or leave it out"
        }
        (_, _) => return None,
    })
}

fn has_ended(state: TaskState) -> bool {
    let mut states = VisibleState::ALL.into_iter();
    states.any(|known| known.is_terminal() && known.name() == state.name())
}

/// Rounds up to thousandths; the bounds have been checked.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float saturates, and the value is positive"
)]
fn thousandths(rate: f64) -> u64 {
    ((rate * 1000.0).round() as u64).max(1)
}

/// Converts a job, without its sample.
pub(in crate::http) fn job_response(id: uuid::Uuid, job: &Job) -> JobResponse {
    #[expect(
        clippy::cast_precision_loss,
        reason = "the greatest rate is far below the bound"
    )]
    let rate = |milli: u64| milli as f64 / 1000.0;
    JobResponse {
        id: id.to_string(),
        kind: job.kind.into(),
        filter: filter_response(&job.filter),
        schedule: job
            .backfill
            .as_ref()
            .map(|backfill| backfill.schedule.clone()),
        overlap: job
            .backfill
            .as_ref()
            .and_then(|of| schedule_view::overlap(of.overlap)),
        start_time: job.start.map(Into::into),
        rate_per_second: job.rate_milli.map(rate),
        dry_run: job.dry_run,
        state: job.state.into(),
        create_time: job.created.into(),
        end_time: job.ended.map(Into::into),
        done: job.counts.done,
        failed: job.counts.failed,
        skipped: job.counts.skipped,
        total_estimate: job.total(),
        sample: None,
        sample_times: None,
        error: job.error.clone(),
    }
}

fn filter_response(filter: &job::JobFilter) -> JobFilter {
    let state = filter.state.as_deref().and_then(|name| {
        let mut states = VisibleState::ALL.into_iter();
        states.find(|state| state.name() == name)
    });
    JobFilter {
        callback: filter.callback.clone(),
        collection: filter.collection.clone(),
        state: state.map(Into::into),
        labels: Some(filter.labels.clone()).filter(|labels| !labels.is_empty()),
        start_time_from: filter.from.map(Into::into),
        start_time_to: filter.to.map(Into::into),
        error: filter.error.clone(),
    }
}

impl From<JobKind> for job::JobKind {
    fn from(kind: JobKind) -> Self {
        match kind {
            JobKind::Cancel => Self::Cancel,
            JobKind::Redrive => Self::Redrive,
            JobKind::Reschedule => Self::Reschedule,
            JobKind::Delete => Self::Delete,
            JobKind::Backfill => Self::Backfill,
            JobKind::Run => Self::Run,
            JobKind::Reopen => Self::Reopen,
        }
    }
}

impl From<job::JobKind> for JobKind {
    fn from(kind: job::JobKind) -> Self {
        match kind {
            job::JobKind::Cancel => Self::Cancel,
            job::JobKind::Redrive => Self::Redrive,
            job::JobKind::Reschedule => Self::Reschedule,
            job::JobKind::Delete => Self::Delete,
            job::JobKind::Backfill => Self::Backfill,
            job::JobKind::Run => Self::Run,
            job::JobKind::Reopen => Self::Reopen,
        }
    }
}

impl From<job::JobState> for JobState {
    fn from(state: job::JobState) -> Self {
        match state {
            job::JobState::Pending => Self::Pending,
            job::JobState::Running => Self::Running,
            job::JobState::Paused => Self::Paused,
            job::JobState::Completed => Self::Completed,
            job::JobState::Cancelled => Self::Cancelled,
            job::JobState::Failed => Self::Failed,
        }
    }
}
