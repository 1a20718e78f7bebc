//! I3: without faults a task runs exactly as often as its handler makes necessary, and a record goes out
//! once. With faults there is a bound, and no task runs again once its end was acknowledged.

use tickwheel::{limits::CLOSING_MARGIN, model::state::Outcome};

use super::{Ended, Findings};
use crate::seeded::plan::{EndPlan, Fault, Request, TaskPlan};

/// Further copies that one fault may cause.
const COPIES_PER_FAULT: usize = 2;

/// A worker ends its attempt so long before its lease ends, in milliseconds.
const HEARTBEAT_MARGIN: u64 = 1000;

pub(super) fn check(ended: &Ended<'_>, findings: &mut Findings) {
    let calm = ended.plan.is_calm();
    // A clock that is ahead by more than the margin may close a slot in the instant in which a
    // record is written into it.
    let apart = u128::from(ended.plan.skew_ms) * 2 > CLOSING_MARGIN.as_millis();
    let faults = ended.plan.faults.len() + ended.plan.nodes.len();
    // This is one fault, but each of these records makes the node publish once more.
    let unheard = ended.plan.faults.iter().map(|fault| match fault.what {
        Fault::AcknowledgementsLost { records } => records,
        _ => 0,
    });
    let unheard: usize = unheard.sum();
    // This is one fault, too. An attempt whose claims and heartbeats take so long loses its lease, each time.
    let slow = |lease: u64| {
        let lost = ended.plan.faults.iter().map(|fault| match fault.what {
            Fault::StoreSlow { by, .. } if 2 * by >= lease => fault.lasts / lease,
            _ => 0,
        });
        usize::try_from(lost.sum::<u64>()).unwrap_or(0)
    };
    for (registered, story, plan) in ended.registered() {
        let (number, id) = (registered.number, registered.id);
        let (count, expected) = if plan.record {
            (ended.records.get(&id).map_or(0, Vec::len), 1)
        } else {
            (story.runs.len(), expected(plan) + lives(plan))
        };
        let allowed = if calm {
            expected + usize::from(plan.record && apart)
        } else {
            let further = if plan.record {
                unheard
            } else {
                slow(plan.heartbeat_timeout - HEARTBEAT_MARGIN)
            };
            expected + COPIES_PER_FAULT * faults + further
        };
        if count > allowed && (plan.calls.is_empty() || !calm) {
            findings.add(format!(
                "task {number} ({id}): {count} times, at most {allowed}"
            ));
        }
        if calm && plan.calls.is_empty() && plan.expire_after.is_none() && count < expected {
            findings.add(format!(
                "task {number} ({id}): {count} times, must be {expected}"
            ));
        }
        let last = story.reports.iter().find(|report| {
            let terminal = matches!(
                report.outcome,
                Outcome::Succeeded { .. } | Outcome::Failed { .. }
            );
            report.taken && terminal
        });
        let Some(last) = last else { continue };
        for run in story.runs.iter().filter(|run| run.began > last.answered) {
            let (attempt, began) = (run.attempt, run.began);
            findings.add(format!(
                "task {number} ({id}): attempt {attempt} began at {began}, its end was acknowledged at {}",
                last.answered
            ));
        }
    }
}

/// The number of further attempts that a redriven task may need, however often it dies.
fn lives(plan: &TaskPlan) -> usize {
    let runs = plan.calls.iter().filter(|call| call.what == Request::Run);
    runs.count() * usize::try_from(plan.max_attempts).unwrap_or(0)
}

/// How many attempts a task needs when nothing goes wrong.
fn expected(plan: &TaskPlan) -> usize {
    let mut tries = 0;
    for place in 0.. {
        let attempt = plan.attempts[place.min(plan.attempts.len() - 1)];
        match attempt.ends {
            EndPlan::Succeeds | EndPlan::Fails => return place + 1,
            EndPlan::Snoozes(_) => {}
            EndPlan::Retries | EndPlan::Vanishes => {
                tries += 1;
                if tries >= plan.max_attempts {
                    return place + 1;
                }
            }
        }
    }
    0
}
