//! The causes of a time tell people why a schedule did not start a run at it, or what became of the run.
//!
//! They are computed from the record of the schedule, its times, and the rows of its runs. The record says what is set now: of a
//! time before the last change only rows tell, and the answer says so.

use std::time::Duration;

use jiff::{Timestamp, tz::TimeZone};

use super::{
    life::{Line, Missed, Overlap, Pause, Schedule, State},
    plan::{Plan, Rule},
    run::Listed,
};
use crate::model::{ids::TaskId, time::Millis};

/// The cause that a time has no run, or the run that it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// The time is ahead.
    NotDue,
    /// It has a run, whose task is this one where it is known.
    Started(Option<TaskId>),
    /// Its run waits for the end of another.
    Waits(Overlap),
    /// It was skipped, since another run had not ended.
    Skipped(Overlap),
    /// It was missed, and not made up for.
    Missed(Missed),
    /// The schedule is paused.
    Paused(Pause),
    /// Its limit or its times are used up.
    Ended,
    /// The schedule counts only from this time on.
    BeforeStart(Millis),
    /// The schedule counts only up to this time.
    BehindEnd(Millis),
    /// The clocks of its zone were put forward over the time on the wall, at this moment.
    ZoneGap(Millis),
    /// It is none of its times.
    NotATime,
    /// The schedule was created or changed after it, at this time: it was paused then, or had other times.
    Changed(Millis),
    /// The service has not come to it yet.
    Undecided,
    /// It lies further back than runs are listed.
    Forgotten,
}

impl What {
    /// Tells whether it is known. Of a time before the last change nothing tells what was set then.
    #[must_use]
    pub const fn is_certain(&self) -> bool {
        !matches!(self, Self::Changed(_) | Self::Forgotten)
    }
}

/// The things that a time is judged by.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// The schedule.
    pub schedule: &'a Schedule,
    /// Its times.
    pub plan: &'a Plan,
    /// The runs that are listed at the time.
    pub listed: &'a [Listed],
    /// How long runs are listed.
    pub kept: Duration,
    /// The present time.
    pub now: Millis,
}

/// Returns why a time has no run, or the run that it has.
#[must_use]
pub fn cause(time: Millis, seen: &Seen<'_>) -> What {
    let Seen { schedule, plan, .. } = *seen;
    if let Some(what) = run_at(time, seen) {
        return what;
    }
    if let Some(start) = plan.start.filter(|start| time < *start) {
        return What::BeforeStart(start);
    }
    if let Some(end) = plan.end.filter(|end| time > *end) {
        return What::BehindEnd(end);
    }
    let created = (time < schedule.created).then_some(schedule.created);
    if let Some(created) = created {
        return What::Changed(created);
    }
    if !is_time_of(plan, time) {
        return gap(plan, time).map_or(What::NotATime, What::ZoneGap);
    }
    if time <= seen.now {
        if seen.now.since(time) > seen.kept {
            return What::Forgotten;
        }
        if time < schedule.changed {
            return What::Changed(schedule.changed);
        }
    }
    match &schedule.state {
        State::Paused(pause) => What::Paused(pause.clone()),
        State::Ended | State::Deleted => What::Ended,
        State::Live if time > seen.now => What::NotDue,
        State::Live if schedule.next.is_some_and(|next| next <= time) => What::Undecided,
        State::Live => What::Missed(schedule.spec.missed),
    }
}

/// The run of a time, as rows and the record have it.
fn run_at(time: Millis, seen: &Seen<'_>) -> Option<What> {
    let Seen { schedule, .. } = *seen;
    let overlap = schedule.spec.overlap;
    let at = |listed: &&Listed| listed.run.time == time;
    let started = seen.listed.iter().filter(at).find(|one| !one.skipped);
    let (_, valid) = schedule.void_and_valid();
    let ahead = valid.iter().find(|run| run.time == time);
    let id = started
        .map(|one| one.run.id)
        .or_else(|| ahead.map(|run| run.id));
    let is_in_line = |line: Line| line.next <= time && time <= line.last;
    let waits = schedule.waiting.is_some_and(|run| run.time == time)
        || schedule.line.is_some_and(is_in_line);
    if waits {
        return Some(What::Waits(overlap));
    }
    if id.is_some_and(|id| id.first_start() > seen.now) {
        return Some(What::NotDue);
    }
    if id.is_some() || schedule.begun.contains(&time) {
        return Some(What::Started(id));
    }
    let skipped = seen.listed.iter().any(|one| at(&one) && one.skipped);
    skipped.then_some(What::Skipped(overlap))
}

fn is_time_of(plan: &Plan, time: Millis) -> bool {
    plan.next(Millis(time.0.saturating_sub(1))) == Some(time)
}

/// Returns when the clocks of the zone were put forward, if the time on the wall that a plan asks for was left out so.
fn gap(plan: &Plan, time: Millis) -> Option<Millis> {
    let at = Timestamp::from_millisecond(time.0).ok()?;
    let behind = at.checked_add(Duration::from_millis(1)).ok()?;
    let change = plan.zone.preceding(behind).next()?;
    let moment = change.timestamp();
    let before = moment.checked_sub(Duration::from_secs(1)).ok()?;
    let old = plan.zone.to_offset(before);
    let left_out = i64::from(change.offset().seconds()) - i64::from(old.seconds());
    if at.as_second() - moment.as_second() >= left_out {
        return None;
    }
    let crons = plan.rules.iter();
    let crons = crons.filter(|rule| matches!(rule, Rule::Cron(_))).cloned();
    let as_before = Plan {
        rules: crons.collect(),
        zone: TimeZone::fixed(old),
        ..plan.clone()
    };
    let asked_for = is_time_of(&as_before, time);
    asked_for.then(|| Millis(moment.as_millisecond()))
}

#[cfg(test)]
#[path = "why_tests.rs"]
mod tests;
