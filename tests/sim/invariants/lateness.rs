//! I7: every task ends within a bound after the last fault, without help. Without faults tasks begin at their
//! time, and moved tasks at their new time. (Jepsen on Chronos: a short network fault could stop it for
//! good.)

use tickwheel::model::state::Outcome;

use super::{Ended, Findings, bound, open};
use crate::seeded::{
    history::{Called, Story, Told},
    plan::Request,
};

/// A next attempt begins when the handler or the backoff asks for it, not when a look finds it.
fn late_retries(story: &Story, findings: &mut Findings) {
    for report in story.reports.iter().filter(|report| report.taken) {
        let wait_ms = match &report.outcome {
            // The clients of this simulation register with a backoff of 700 ms, half as much
            // again each time, at most 5 s.
            Outcome::Retry { .. } | Outcome::RetryNoSooner { .. } => (1..report.attempt)
                .fold(700, |wait, _| wait * 3 / 2)
                .min(5000),
            Outcome::Snoozed { after } => i64::try_from(after.as_millis()).unwrap_or(i64::MAX),
            Outcome::Succeeded { .. } | Outcome::Failed { .. } => continue,
        };
        let next = story
            .runs
            .iter()
            .find(|run| run.attempt == report.attempt + 1);
        // The task may have died of this report. Then it runs again only by a call, which is
        // judged elsewhere.
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

/// The largest lateness in a run without faults: a worker is free, so only the way through the queue is left.
const LATE_MAX_MS: i64 = 1500;

/// Until this time the first owners of the wheels find each other.
const SETTLED_MS: i64 = 12_000;

/// The new start of a moved task, by the answers that its client got; none when a call makes it unsure. A
/// cancel that came too late changes nothing.
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

/// A task runs now when a client was told that it does.
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
