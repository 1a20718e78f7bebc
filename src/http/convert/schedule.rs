//! This conversion reads schedules for the domain, and checks them; `schedule_view` writes them for clients.
//!
//! A schedule that would never run, or whose task could not be registered, is refused when it is set: later there is no client
//! that could be told.

use std::time::Duration;

use super::{
    action, chain,
    new_task::{self, read_duration},
    violations::Violations,
};
use crate::{
    api::{
        problem::FieldError,
        schedule::{BackfillRequest, Missed, Overlap, PauseRequest, ScheduleRequest},
        task_request::TaskRequest,
        time,
    },
    flow::{
        base::zones::Zones,
        stages::schedules::desk::{Desk, Order},
    },
    http::error::{Code, Error},
    limits::{
        BACKFILL_RUNS_MAX, CATCH_UP_WINDOW, CATCH_UP_WINDOW_MAX, CRONS_MAX, JITTER_MAX, LABELS_MAX,
        NOTE_CHARS_MAX, REASON_CHARS_MAX, SCHEDULE_LABELS_MAX, SCHEDULE_TASK_BYTES_MAX,
    },
    model::{
        action::{Check, CheckTime},
        chain::FollowStart,
        draft::TaskDraft,
        job::{Backfill, Job, JobFilter, JobKind},
        schedule::{
            cron::HORIZON_YEARS,
            hash,
            life::{self, Schedule, ScheduleSpec},
            plan::{self, Plan},
        },
        time::Millis,
    },
    schema::template_bytes,
};

/// Converts a schedule of this name.
///
/// # Errors
/// All mistakes of the request; without any, those of its task.
pub(in crate::http) fn schedule(
    name: &str,
    request: &ScheduleRequest,
    desk: &Desk,
    context: &new_task::Context,
) -> Result<ScheduleSpec, Error> {
    let mut violations = Violations::default();
    let wrong = &mut violations;
    let (crons, prefix_zone) = crons(name, request, wrong);
    let every = every(request, wrong);
    let zone = zone(request, prefix_zone, desk.zones(), wrong);
    let bounds = bounds(request, wrong);
    let overlap = overlap(request, wrong);
    let labels = request.labels.clone().unwrap_or_default();
    if labels.len() > SCHEDULE_LABELS_MAX {
        let most = SCHEDULE_LABELS_MAX;
        wrong.add(
            "/labels",
            format!("a schedule has at most {most} labels, a task {LABELS_MAX}"),
        );
    }
    let labels = new_task::labels(labels, wrong).into_iter().collect();
    check_text("/note", request.note.as_deref(), NOTE_CHARS_MAX, wrong);
    violations.finish()?;
    let task = task(request.task.as_ref(), context)?;
    let spec = ScheduleSpec {
        crons,
        every,
        zone,
        start: bounds.start,
        end: bounds.end,
        limit: request.limit,
        jitter: bounds.jitter,
        overlap,
        missed: missed(request.missed),
        window: bounds.window,
        pause_on_failure: request.pause_on_failure,
        note: request.note.clone().unwrap_or_default(),
        labels,
        task,
    };
    check_times(name, &spec, desk, context.now)?;
    Ok(spec)
}

/// Reads the expressions, and the zone that they name.
fn crons(
    name: &str,
    request: &ScheduleRequest,
    wrong: &mut Violations,
) -> (Vec<String>, Option<String>) {
    let texts = request.cron.as_ref().map(|cron| cron.texts());
    match (texts, &request.every) {
        (None, None) => wrong.add("", "give `cron` or `every`: when runs are due"),
        (Some(_), Some(_)) => wrong.exclusive(("cron", true), ("every", true)),
        (Some([]), None) => wrong.add("/cron", "is an empty list: give an expression"),
        (Some(texts), None) if texts.len() > CRONS_MAX => {
            wrong.add("/cron", format!("has more than {CRONS_MAX} expressions"));
            return (Vec::new(), None);
        }
        _ => {}
    }
    let mut zone: Option<String> = None;
    for (index, text) in texts.unwrap_or_default().iter().enumerate() {
        let pointer = match texts {
            Some([_]) => "/cron".to_owned(),
            _ => format!("/cron/{index}"),
        };
        match plan::read(text, hash(&[name.as_bytes()])) {
            Err(mistake) => wrong.add(pointer, mistake.to_string()),
            Ok(read) => match (&zone, read.zone) {
                (Some(one), Some(other)) if *one != other => {
                    wrong.add(
                        pointer,
                        "names another zone than an expression before: a schedule has one",
                    );
                }
                (None, Some(one)) => zone = Some(one),
                _ => {}
            },
        }
    }
    (texts.unwrap_or_default().to_vec(), zone)
}

fn every(request: &ScheduleRequest, wrong: &mut Violations) -> Option<Duration> {
    let every = read_duration("/every", request.every.as_ref(), Duration::ZERO, wrong)?;
    let checked = plan::check_every(every).map_err(|mistake| mistake.to_string());
    wrong.take("/every", checked).map(|()| every)
}

fn zone(
    request: &ScheduleRequest,
    prefix: Option<String>,
    zones: Zones,
    wrong: &mut Violations,
) -> String {
    let (pointer, name) = match (&request.time_zone, prefix) {
        (Some(name), Some(other)) if *name != other => {
            wrong.add(
                "/time_zone",
                format!("is not the zone {other:?} that an expression names: give one of them"),
            );
            return String::new();
        }
        (Some(name), _) => ("/time_zone", name.clone()),
        (None, Some(name)) => ("/cron", name),
        (None, None) => ("/time_zone", "UTC".to_owned()),
    };
    let found = zones.get(&name).map_err(|unknown| unknown.to_string());
    let found = wrong.take(pointer, found);
    // The name as the database writes it.
    let written = found.and_then(|zone| zone.iana_name().map(str::to_owned));
    written.unwrap_or(name)
}

/// The fields that bound a schedule.
struct Bounds {
    start: Option<Millis>,
    end: Option<Millis>,
    jitter: Duration,
    window: Duration,
}

fn bounds(request: &ScheduleRequest, wrong: &mut Violations) -> Bounds {
    let mut instant = |pointer, text: &Option<_>| {
        let text = text.as_ref();
        text.and_then(|text| wrong.take(pointer, time::instant(text)))
    };
    let start = instant("/start_time", &request.start_time);
    let end = instant("/end_time", &request.end_time);
    if let (Some(start), Some(end)) = (start, end)
        && end < start
    {
        wrong.add("/end_time", "must not be before `start_time`");
    }
    if request.limit == Some(0) {
        wrong.add(
            "/limit",
            "must be at least 1; pause the schedule to let none run",
        );
    }
    let mut span = |pointer, text: &Option<_>, most: Duration, default: Duration| {
        let read = read_duration(pointer, text.as_ref(), Duration::ZERO, wrong);
        if read.is_some_and(|read| read > most) {
            let hours = most.as_secs() / 3600;
            wrong.add(pointer, format!("must be at most {hours} hours"));
        }
        read.unwrap_or(default)
    };
    Bounds {
        start,
        end,
        jitter: span("/jitter", &request.jitter, JITTER_MAX, Duration::ZERO),
        window: span(
            "/catch_up_window",
            &request.catch_up_window,
            CATCH_UP_WINDOW_MAX,
            CATCH_UP_WINDOW,
        ),
    }
}

fn overlap(request: &ScheduleRequest, wrong: &mut Violations) -> life::Overlap {
    let is_record = request
        .task
        .as_ref()
        .is_some_and(|task| task.kafka.is_some());
    if is_record {
        let why = "the end of a `kafka` record is not known";
        if request
            .overlap
            .is_some_and(|overlap| overlap != Overlap::Allow)
        {
            wrong.add("/overlap", format!("must be `allow`: {why}"));
        }
        if request.pause_on_failure {
            wrong.add("/pause_on_failure", format!("cannot be used: {why}"));
        }
        return life::Overlap::Allow;
    }
    let is_ordered = request
        .task
        .as_ref()
        .is_some_and(|task| task.ordering_key.is_some());
    if is_ordered && request.overlap != Some(Overlap::Allow) {
        let why = "the runs of a task with an `ordering_key` wait for each other already";
        wrong.add("/overlap", format!("must be `allow`: {why}"));
    }
    match request.overlap {
        Some(overlap) => overlap.into(),
        None if request.missed == Some(Missed::All) => life::Overlap::OneByOne,
        None => life::Overlap::Skip,
    }
}

const fn missed(missed: Option<Missed>) -> life::Missed {
    match missed {
        None | Some(Missed::Latest) => life::Missed::Latest,
        Some(Missed::All) => life::Missed::All,
        Some(Missed::Skip) => life::Missed::Skip,
    }
}

/// Reads the task of the runs as if it were registered.
fn task(request: Option<&TaskRequest>, context: &new_task::Context) -> Result<TaskDraft, Error> {
    let Some(request) = request else {
        let detail = "is missing: give the task of each run";
        return Err(Error::field(Code::InvalidRequest, "/task", detail));
    };
    let own = [
        ("start_time", request.start_time.is_some()),
        ("delay", request.delay.is_some()),
        ("id", request.id.is_some()),
        ("idempotency_key", request.idempotency_key.is_some()),
        ("key", request.key.is_some()),
        ("on_conflict", request.on_conflict.is_some()),
        ("parent", request.parent.is_some()),
        ("children", request.children.is_some()),
        ("after_parent", request.after_parent),
        ("children_within", request.children_within.is_some()),
        ("children_complete", request.children_complete),
    ];
    let mut violations = Violations::default();
    if request.after.is_some() {
        let detail = "cannot be set for the runs of a schedule: the tasks that it names end once, so all later runs would wait for nothing; let the run register a task that waits, or let it be followed by `then`";
        violations.add("/task/after", detail);
    }
    for (field, _) in own.into_iter().filter(|(_, given)| *given) {
        let detail = "cannot be set for the runs of a schedule: leave it out";
        violations.add(format!("/task/{field}"), detail);
    }
    violations.finish()?;
    let task = chain::chained(request.clone(), context).map_err(of_task)?;
    action::check_kin(&task.draft).map_err(of_task)?;
    chain::check_kin(&task.draft, false).map_err(of_task)?;
    check_relative(&task.draft, "/task")?;
    let bytes = template_bytes(&task.draft);
    if bytes > SCHEDULE_TASK_BYTES_MAX {
        let detail = format!(
            "has {bytes} bytes as encoded; the task of a schedule has at most {SCHEDULE_TASK_BYTES_MAX}: keep large data elsewhere"
        );
        return Err(Error::field(Code::TooLarge, "/task/payload", detail));
    }
    // Equal requests are equal schedules, whenever they come.
    Ok(TaskDraft {
        create_time: Millis::EPOCH,
        ..task.draft
    })
}

/// Refuses a check, and a follow-up, at one time: each run has times of its own.
fn check_relative(task: &TaskDraft, at: &str) -> Result<(), Error> {
    let checks = task.actions.iter().flat_map(|actions| &actions.checks);
    let at_one_time = |check: &Check| matches!(check.at, CheckTime::At(_));
    if let Some((place, _)) = checks.enumerate().find(|(_, check)| at_one_time(check)) {
        let pointer = format!("{at}/checks/{place}/at");
        let detail = "must be a duration, such as 30m: it counts from the start of each run";
        return Err(Error::field(Code::InvalidRequest, &pointer, detail));
    }
    for (place, follow) in task.then.iter().enumerate() {
        let at = format!("{at}/then/{place}/task");
        if matches!(follow.start, FollowStart::At(_)) {
            let pointer = format!("{at}/start_time");
            let detail = "cannot be set for the runs of a schedule: give a `delay`, which counts from the end of each run";
            return Err(Error::field(Code::InvalidRequest, &pointer, detail));
        }
        // Each level is one call deep, and there are a few.
        check_relative(&follow.task, &at)?;
    }
    Ok(())
}

/// The pointers of a task's mistakes begin in the schedule.
fn of_task(error: Error) -> Error {
    let errors = error.errors.into_iter().map(|field| FieldError {
        pointer: format!("/task{}", field.pointer),
        detail: field.detail,
    });
    Error {
        errors: errors.collect(),
        ..error
    }
}

/// Refuses a schedule without any time to come.
fn check_times(name: &str, spec: &ScheduleSpec, desk: &Desk, now: Millis) -> Result<(), Error> {
    let draft = desk.draft(spec.clone());
    let plan = desk.plan(name, &draft)?;
    if plan.next(Millis(now.0 - 1)).is_some() {
        return Ok(());
    }
    let (pointer, detail) = if spec.end.is_some() {
        (
            "/end_time",
            "no time of the schedule is between now, or `start_time`, and `end_time`".to_owned(),
        )
    } else {
        (
            "/cron",
            format!("is never due within {HORIZON_YEARS} years: no such day comes"),
        )
    };
    Err(Error::field(Code::InvalidRequest, pointer, detail))
}

/// Converts a backfill of a schedule.
///
/// # Errors
/// All mistakes of the request.
pub(in crate::http) fn backfill(
    name: &str,
    request: &BackfillRequest,
    schedule: &Schedule,
    desk: &Desk,
    (now, seed): (Millis, u128),
) -> Result<Job, Error> {
    let mut violations = Violations::default();
    let wrong = &mut violations;
    let from = wrong.take("/from", time::instant(&request.from));
    let to = wrong.take("/to", time::instant(&request.to));
    let rate_milli = super::job::rate(request.rate_per_second, wrong);
    if let (Some(from), Some(to)) = (from, to) {
        if to < from {
            wrong.add("/to", "must not be before `from`");
        } else if to > now {
            wrong.add("/to", "has not passed: later runs start by themselves");
        }
    }
    let overlap = request.overlap.unwrap_or(Overlap::Allow);
    if overlap != Overlap::Allow && !schedule.spec.task.target.is_tracked() {
        let detail = "must be `allow`: the end of a record in a topic of Kafka is not known";
        wrong.add("/overlap", detail);
    }
    violations.finish()?;
    let (from, to) = (from.unwrap_or(now), to.unwrap_or(now));
    let backfill = Backfill {
        schedule: name.to_owned(),
        incarnation: schedule.incarnation,
        generation: schedule.generation,
        step: schedule.step,
        anchor: schedule.anchor(),
        spec: schedule.spec.clone(),
        seed,
        from,
        to,
        overlap: overlap.into(),
        last: None,
    };
    let count = check_span(name, schedule, desk, (from, to))?;
    Ok(Job {
        estimate: Some(count),
        rate_milli,
        dry_run: request.dry_run,
        backfill: Some(Box::new(backfill)),
        ..Job::new(JobKind::Backfill, JobFilter::default(), now)
    })
}

/// Returns the first times of a span, at most so many.
pub(in crate::http) fn times_of_span(
    name: &str,
    spec: &ScheduleSpec,
    desk: &Desk,
    (anchor, from, to): (Millis, Millis, Millis),
    most: usize,
) -> Result<Vec<Millis>, Error> {
    let plan = Plan {
        start: None,
        end: None,
        ..desk.plan_of(name, spec, anchor)?
    };
    let first = plan.next(Millis(from.0.saturating_sub(1)));
    let times = std::iter::successors(first, |time| plan.next(*time));
    Ok(times.take_while(|time| *time <= to).take(most).collect())
}

fn check_span(
    name: &str,
    schedule: &Schedule,
    desk: &Desk,
    (from, to): (Millis, Millis),
) -> Result<u64, Error> {
    let span = (schedule.anchor(), from, to);
    let most = BACKFILL_RUNS_MAX + 1;
    let count = times_of_span(name, &schedule.spec, desk, span, most)?.len();
    let detail = match count {
        0 => "the schedule has no time from `from` to `to`".to_owned(),
        count if count > BACKFILL_RUNS_MAX => {
            format!(
                "there are more than {BACKFILL_RUNS_MAX} times from `from` to `to`: make it several backfills"
            )
        }
        count => return Ok(count as u64),
    };
    Err(Error::field(Code::InvalidRequest, "/to", detail))
}

/// Converts a pause.
///
/// # Errors
/// All mistakes of the request.
pub(in crate::http) fn pause(request: PauseRequest) -> Result<Order, Error> {
    let mut violations = Violations::default();
    for (pointer, text) in [("/reason", &request.reason), ("/who", &request.who)] {
        check_text(pointer, text.as_deref(), REASON_CHARS_MAX, &mut violations);
    }
    violations.finish()?;
    Ok(Order::Pause {
        reason: request.reason.unwrap_or_default(),
        who: request.who.unwrap_or_default(),
    })
}

fn check_text(pointer: &str, text: Option<&str>, chars_max: usize, wrong: &mut Violations) {
    let chars = text.map_or(0, |text| text.chars().count());
    if chars > chars_max {
        wrong.add(
            pointer,
            format!("has {chars} characters; at most {chars_max} are kept"),
        );
    }
}
