//! I7: everything ends within a bound after the last fault, without anybody's help; and where nothing goes wrong, tasks
//! begin at their time, tasks that were moved at the time they were moved to. (Jepsen on Chronos: a short fault of the
//! network could stop it for good.)

use tickwheel::model::state::Outcome;

use super::{Ended, Findings, bound, open};
use crate::seeded::{
    history::{Called, Story, Told},
    plan::Request,
};

/// A next attempt begins when it was asked for, or backed off to, and not when a look finds it.
fn late_retries(story: &Story, findings: &mut Findings) {
    for report in story.reports.iter().filter(|report| report.taken) {
        let wait_ms = match &report.outcome {
            // As the clients of this simulation register: 700 ms, half as much again each time, at most 5 s.
            Outcome::Retry { .. } => (1..report.attempt)
                .fold(700, |wait, _| wait * 3 / 2)
                .min(5000),
            Outcome::Snoozed { after } => i64::try_from(after.as_millis()).unwrap_or(i64::MAX),
            Outcome::Succeeded { .. } | Outcome::Failed { .. } => continue,
        };
        let next = story
            .runs
            .iter()
            .find(|run| run.attempt == report.attempt + 1);
        // It may have died of this report: then it runs again when somebody says so, which is judged elsewhere.
        let died = |call: &Called| call.request == Request::Run && call.answered > report.answered;
        if story.calls.iter().any(died) {
            continue;
        }
        let latest = report.answered + wait_ms + LATE_MAX_MS;
        if let Some(next) = next.filter(|next| next.began > latest) {
            let (attempt, began) = (next.attempt, next.began);
            let id = story.registered.as_ref().map(|registered| registered.id);
            findings.add(format!(
                "attempt {attempt} of {id:?} began at {began}, at the latest {latest}"
            ));
        }
    }
}

/// How late a task may begin in a run without faults: a worker is free, so what is left is the way through the queue.
const LATE_MAX_MS: i64 = 1500;

/// The service's first owners find each other until then.
const SETTLED_MS: i64 = 12_000;

/// When a task is due that was moved, by what its client was told; none when a call makes that unsure. A cancel that came
/// too late changes nothing.
fn moved_to(story: &Story) -> Option<i64> {
    let mut due = None;
    for call in &story.calls {
        match call.told {
            Told::Rescheduled(to) => due = Some(to.max(call.answered)),
            Told::TooLate => {}
            Told::Cancelled | Told::CancelRequested | Told::NotFound | Told::Unknown => {
                return None;
            }
        }
    }
    due
}

/// What a client was told runs now does so.
fn late_runs(story: &Story, findings: &mut Findings) {
    for call in story
        .calls
        .iter()
        .filter(|call| call.request == Request::Run)
    {
        let Told::Rescheduled(to) = call.told else {
            continue;
        };
        let withdrawn = |other: &Called| other.asked >= call.asked && other.told != Told::TooLate;
        if story.calls.iter().filter(|other| withdrawn(other)).count() > 1 {
            continue;
        }
        let latest = to.max(call.answered) + LATE_MAX_MS;
        let runs = |from: i64| {
            story
                .runs
                .iter()
                .any(|run| from <= run.began && run.began <= latest)
        };
        if to > SETTLED_MS && !runs(call.asked) {
            let id = story.registered.as_ref().map(|registered| registered.id);
            findings.add(format!(
                "{id:?} was told at {to} to run, and did not by {latest}"
            ));
        }
    }
}

pub(super) fn check(ended: &Ended<'_>, findings: &mut Findings) {
    if !ended.finished {
        let left = open(&ended.contents, ended.history);
        let within = bound(ended.plan);
        findings.add(format!(
            "not all has ended within {within} ms: {left:?} by {}",
            ended.ended_at
        ));
    }
    if !ended.plan.is_calm() || ended.plan.buffers < 1000 || ended.plan.skew_ms > 100 {
        return;
    }
    for (registered, story, plan) in ended.registered() {
        let begin = story.runs.iter().map(|run| run.began).min();
        let published = ended
            .records
            .get(&registered.id)
            .and_then(|at| at.iter().min().copied());
        let Some(begin) = begin.or(published) else {
            continue;
        };
        late_retries(story, findings);
        if plan.expire_after.is_none() {
            late_runs(story, findings);
        }
        let due = if plan.calls.is_empty() {
            Some(registered.start.max(registered.answered))
        } else {
            moved_to(story)
        };
        let late = due.filter(|due| *due > SETTLED_MS && begin > due + LATE_MAX_MS);
        if let Some(due) = late {
            let (number, id) = (registered.number, registered.id);
            findings.add(format!(
                "task {number} ({id}) began at {begin}, start {due}, and nothing went wrong"
            ));
        }
    }
}
