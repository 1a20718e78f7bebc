//! This conversion writes schedules, their times and their runs for clients.

use std::time::Duration;

use jiff::{Timestamp, tz::TimeZone};

use super::{
    chain,
    task_view::{some_text, task_response},
};
use crate::{
    api::{
        schedule::{
            CronText, Missed, Overlap, PauseResponse, PreviewResponse, RunCause, RunResponse,
            RunTime, ScheduleRequest, ScheduleState,
        },
        schedule_response::ScheduleResponse,
        task_response::TaskState,
        text::DurationText,
        worker::View,
    },
    flow::{base::api::VisibleState, stages::schedules::desk::ListedRun},
    limits::NEXT_TIMES,
    model::{
        schedule::{
            hash,
            life::{self, Schedule, ScheduleSpec, State},
            plan::{self, Plan},
            run::Cause,
            words,
        },
        time::{Millis, rfc3339},
    },
};

/// Converts a schedule.
#[must_use]
pub(in crate::http) fn schedule_response(
    name: &str,
    schedule: &Schedule,
    plan: Option<&Plan>,
    version: &str,
    now: Millis,
) -> ScheduleResponse {
    let pause = match &schedule.state {
        State::Paused(pause) => Some(PauseResponse {
            reason: some_text(&pause.reason),
            who: some_text(&pause.who),
            since: pause.since.into(),
        }),
        State::Live | State::Ended | State::Deleted => None,
    };
    let next = plan
        .map(|plan| next_times(schedule, plan, now))
        .unwrap_or_default();
    let zone = plan.map_or(TimeZone::UTC, |plan| plan.zone.clone());
    ScheduleResponse {
        name: name.to_owned(),
        schedule: schedule_request(&schedule.spec),
        state: match &schedule.state {
            State::Paused(_) => ScheduleState::Paused,
            State::Live => ScheduleState::Live,
            // Its last runs are decided on, and not due yet.
            State::Ended if !schedule.has_ended(now) => ScheduleState::Live,
            State::Ended | State::Deleted => ScheduleState::Ended,
        },
        pause,
        description: description(name, &schedule.spec),
        next_run_times: next.into_iter().map(|time| local(time, &zone)).collect(),
        time_zone_version: version.to_owned(),
        generation: schedule.generation,
        create_time: schedule.created.into(),
        update_time: schedule.changed.into(),
        runs: schedule.used,
        runs_missed: schedule.missed,
        runs_skipped: schedule.skipped,
        runs_cancelled: None,
        runs_started: None,
    }
}

/// Returns what sets a schedule as it is: its settings, and whether it is paused. One that has ended would begin anew
/// elsewhere, so it is paused there.
pub(in crate::http) fn settings(schedule: &Schedule) -> ScheduleRequest {
    ScheduleRequest {
        paused: !schedule.is_live(),
        ..schedule_request(&schedule.spec)
    }
}

/// The next times: those of runs that were decided on, then those behind.
fn next_times(schedule: &Schedule, plan: &Plan, now: Millis) -> Vec<Millis> {
    let (_, of_now) = schedule.void_and_valid();
    let ahead = of_now
        .iter()
        .map(|run| run.time)
        .filter(|time| *time >= now);
    let mut times: Vec<Millis> = ahead.collect();
    times.sort_unstable();
    if schedule.is_live() {
        let mut next = schedule.next;
        while let Some(time) = next.filter(|_| times.len() < NEXT_TIMES) {
            times.push(time);
            next = plan.next(time);
        }
    }
    times.truncate(NEXT_TIMES);
    times
}

/// Returns a time in a zone, with its offset.
pub(super) fn local(time: Millis, zone: &TimeZone) -> String {
    let at = Timestamp::from_millisecond(time.0).ok();
    at.map_or_else(
        || rfc3339(time),
        |at| {
            let format = if time.0 % 1000 == 0 {
                "%Y-%m-%dT%H:%M:%S%:z"
            } else {
                "%Y-%m-%dT%H:%M:%S%.3f%:z"
            };
            at.to_zoned(zone.clone()).strftime(format).to_string()
        },
    )
}

/// Describes the times of a schedule.
fn description(name: &str, spec: &ScheduleSpec) -> String {
    let seed = hash(&[name.as_bytes()]);
    let crons = spec.crons.iter();
    let mut said: Vec<String> = crons
        .map(|text| plan::read(text, seed).map_or_else(|_| text.clone(), |read| read.words))
        .collect();
    said.extend(spec.every.map(words::of_interval));
    said.join("; ")
}

/// Converts the times of a schedule from `from` on.
#[must_use]
pub(in crate::http) fn preview(
    name: &str,
    schedule: &Schedule,
    plan: &Plan,
    version: &str,
    (from, count): (Millis, usize),
) -> PreviewResponse {
    let spec = &schedule.spec;
    let left = spec.limit.map(|limit| limit.saturating_sub(schedule.used));
    let left = left.and_then(|left| usize::try_from(left).ok());
    let count = left.map_or(count, |left| count.min(left));
    let times = plan.times(Millis(from.0 - 1), count).into_iter();
    let run_times: Vec<RunTime> = times
        .map(|time| RunTime {
            local: local(time, &plan.zone),
            utc: time.into(),
        })
        .collect();
    PreviewResponse {
        description: description(name, spec),
        time_zone: spec.zone.clone(),
        time_zone_version: version.to_owned(),
        next_run_times: run_times.iter().map(|time| time.local.clone()).collect(),
        run_times,
    }
}

/// Converts a run.
#[must_use]
pub(in crate::http) fn run_response(run: &ListedRun) -> RunResponse {
    let ListedRun { listed, task } = run;
    let skipped = listed.skipped && task.is_none();
    let state = task.as_ref().map(|task| TaskState::from(task.state));
    RunResponse {
        id: listed.run.id.to_string(),
        scheduled_time: listed.run.time.into(),
        number: listed.run.seq,
        generation: listed.run.generation,
        cause: match listed.cause {
            Cause::Schedule => RunCause::Schedule,
            Cause::Trigger => RunCause::Trigger,
            Cause::Backfill => RunCause::Backfill,
        },
        state: state.or_else(|| skipped.then(|| VisibleState::Cancelled.into())),
        reason: skipped.then(|| "skipped".to_owned()),
        task: task.as_ref().map(|task| task_response(task, View::Basic)),
    }
}

/// Converts what a user has set to a request that sets it again.
#[must_use]
pub(in crate::http) fn schedule_request(spec: &ScheduleSpec) -> ScheduleRequest {
    let cron = match spec.crons.as_slice() {
        [] => None,
        [one] => Some(CronText::One(one.clone())),
        several => Some(CronText::Several(several.to_vec())),
    };
    ScheduleRequest {
        cron,
        every: spec.every.map(DurationText::readable),
        time_zone: Some(spec.zone.clone()),
        start_time: spec.start.map(Into::into),
        end_time: spec.end.map(Into::into),
        limit: spec.limit,
        jitter: (spec.jitter > Duration::ZERO).then(|| DurationText::readable(spec.jitter)),
        overlap: overlap(spec.overlap),
        missed: Some(match spec.missed {
            life::Missed::Latest => Missed::Latest,
            life::Missed::All => Missed::All,
            life::Missed::Skip => Missed::Skip,
        }),
        catch_up_window: Some(DurationText::readable(spec.window)),
        pause_on_failure: spec.pause_on_failure,
        note: some_text(&spec.note),
        labels: (!spec.labels.is_empty()).then(|| spec.labels.clone()),
        paused: false,
        task: Some(chain::request(&spec.task)),
    }
}

impl From<Overlap> for life::Overlap {
    fn from(overlap: Overlap) -> Self {
        match overlap {
            Overlap::Skip => Self::Skip,
            Overlap::Allow => Self::Allow,
            Overlap::BufferOne => Self::BufferOne,
            Overlap::CancelOther => Self::CancelOther,
        }
    }
}

/// Converts the policy of overlaps; none is one that the user has left open.
pub(super) const fn overlap(overlap: life::Overlap) -> Option<Overlap> {
    match overlap {
        life::Overlap::Skip => Some(Overlap::Skip),
        life::Overlap::Allow => Some(Overlap::Allow),
        life::Overlap::BufferOne => Some(Overlap::BufferOne),
        life::Overlap::CancelOther => Some(Overlap::CancelOther),
        life::Overlap::OneByOne => None,
    }
}
