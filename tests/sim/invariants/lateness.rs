//! I7: everything ends within a bound after the last fault, without anybody's help; and where nothing goes wrong, tasks begin
//! at their time. (Jepsen on Chronos: a short fault of the network could stop it for good.)

use super::{Ended, Findings, bound, open};

/// How late a task may begin in a run without faults: a worker is free, so what is left is the way through the queue.
const LATE_MAX_MS: i64 = 1500;

/// The service's first owners find each other until then.
const SETTLED_MS: i64 = 12_000;

pub(super) fn check(ended: &Ended<'_>, findings: &mut Findings) {
    if !ended.finished {
        let left = open(&ended.contents, ended.history);
        let within = bound(ended.plan);
        findings.add(format!("not all has ended within {within} ms: {left:?} by {}", ended.ended_at));
    }
    if !ended.plan.is_calm() || ended.plan.buffers < 1000 || ended.plan.skew_ms > 100 {
        return;
    }
    for (registered, story, plan) in ended.registered() {
        let begin = story.runs.iter().map(|run| run.began).min();
        let published = ended.records.get(&registered.id).and_then(|at| at.iter().min().copied());
        let Some(begin) = begin.or(published) else { continue };
        let due = registered.start.max(registered.answered);
        if plan.calls.is_empty() && due > SETTLED_MS && begin > due + LATE_MAX_MS {
            let (number, id) = (registered.number, registered.id);
            findings.add(format!("task {number} ({id}) began at {begin}, start {due}, and nothing went wrong"));
        }
    }
}
