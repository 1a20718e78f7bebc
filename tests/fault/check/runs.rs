//! The checks of I2 to I6 judge the runs of each task.

use super::history::{History, Run, Task};

/// A fault makes a task run again this often at most: once for its message, once for its claim.
const AGAIN_PER_FAULT: usize = 2;

/// Without a fault one task in this many may run again.
const AGAIN_ONE_IN: usize = 1000;

fn of_runs(history: &History, wrong: impl Fn(&Task, &Run) -> Option<String>) -> Vec<String> {
    let found = history.tasks.iter().flat_map(|task| {
        let wrong = &wrong;
        task.runs.iter().filter_map(move |run| {
            let what = wrong(task, run)?;
            Some(format!("{}: {what}: {run:?}", task.id))
        })
    });
    found.collect()
}

fn of_pairs(history: &History, wrong: impl Fn(&Run, &Run) -> Option<&'static str>) -> Vec<String> {
    let found = history.tasks.iter().flat_map(|task| {
        let wrong = &wrong;
        task.runs.windows(2).filter_map(move |pair| {
            let what = wrong(&pair[0], &pair[1])?;
            Some(format!("{}: {what}: {pair:?}", task.id))
        })
    });
    found.collect()
}

/// I2. A run never begins before the start that was acknowledged last, less the lead of a clock
/// that was set ahead.
pub(super) fn early(history: &History) -> Vec<String> {
    of_runs(history, |task, run| {
        let start = allowed(task, run);
        let early = start - run.begin;
        (early > history.ahead_ms(run.begin))
            .then(|| format!("began {early} ms early, its start is {start}"))
    })
}

/// The earliest start that a run may have: a move without an answer may have been made, or not.
fn allowed(task: &Task, run: &Run) -> i64 {
    let Some(moved) = task.moves.first() else {
        return task.start;
    };
    match Task::told(&task.moves, &["rescheduled"]) {
        Some(told) if told < run.begin => moved.start,
        _ => moved.start.min(task.start),
    }
}

/// I3. Runs beyond the first are bounded by the faults; without a fault there are none, but for one task in a thousand.
pub(super) fn too_many(history: &History) -> Vec<String> {
    let mut found = Vec::new();
    let (mut calm, mut again) = (0, Vec::new());
    for task in &history.tasks {
        let faults = task.faults(history, task.last_seen()).count();
        let after_warm_up = history.calm.is_some_and(|calm| task.start >= calm);
        if faults > 0 && task.extra() > faults * AGAIN_PER_FAULT {
            let extra = task.extra();
            found.push(format!(
                "{}: ran {extra} times more than it was to, with {faults} faults: {:?}",
                task.id, task.runs
            ));
        } else if faults == 0 && after_warm_up {
            calm += 1;
            if task.extra() > 0 {
                again.push(task.id.as_str());
            }
        }
    }
    if again.len() > (calm / AGAIN_ONE_IN).max(1) {
        found.push(format!(
            "without any fault {} of {calm} tasks ran again: {again:?}",
            again.len()
        ));
    }
    found
}

/// I3. No attempt is beyond the one that the terminal state names.
pub(super) fn after_the_end(history: &History) -> Vec<String> {
    of_runs(history, |task, run| {
        let last = task.last["attempt"].as_u64()?;
        let ended = ["succeeded", "cancelled"].contains(&task.state());
        (ended && run.attempt > last).then(|| format!("ran after it had ended with attempt {last}"))
    })
}

/// I4. Two runs of a task are never alive at once: each ends, is killed or is stopped before the next begins.
/// A run that goes on after the stop is over a moment later. A clock that is ahead ends leases early: a worker is told so, and
/// drops its run.
pub(super) fn at_once(history: &History) -> Vec<String> {
    let mut found = of_pairs(history, |one, next| {
        let dropped = one.end.as_ref().is_some_and(|(_, how)| how == "dropped");
        let by_clock = dropped && history.ahead_ms(next.begin) > 0;
        (one.alive_until() > next.begin && !by_clock).then_some("two live runs")
    });
    found.extend(of_runs(history, |task, run| {
        let (from, until) = run.went_on()?;
        let mut others = task
            .runs
            .iter()
            .filter(|other| other.attempt != run.attempt);
        let beside = others.find(|other| other.begin < until && other.alive_until() > from)?;
        Some(format!(
            "went on after its worker was stopped, beside {beside:?}"
        ))
    }));
    found
}

/// I4. A change by a run is refused once a later attempt has begun, wherever its worker was
/// stopped meanwhile.
pub(super) fn unfenced(history: &History) -> Vec<String> {
    of_runs(history, |task, run| {
        // Two runs that were never stopped are two live runs.
        run.resumed?;
        let (at, how) = run.end.as_ref()?;
        let later = task.runs.iter().filter(|other| other.attempt > run.attempt);
        let begun = later.map(|other| other.begin).min()?;
        (how == "done" && begun < *at)
            .then(|| format!("changed something although a later attempt had begun at {begun}"))
    })
}

/// I5. Attempts go up in the order in which they begin. A missing number is a claim whose answer was lost,
/// which takes a fault.
pub(super) fn attempts(history: &History) -> Vec<String> {
    let mut found = of_pairs(history, |one, next| {
        (one.attempt >= next.attempt).then_some("attempts do not go up")
    });
    for task in &history.tasks {
        let is_calm = task.faults(history, task.last_seen()).next().is_none();
        let warm = history.calm.is_some_and(|calm| task.start >= calm);
        if is_calm && warm && lost_claims(task) > 0 {
            found.push(format!(
                "{}: without a fault a claim was lost: {:?}",
                task.id, task.runs
            ));
        }
    }
    found
}

/// Attempts that no worker has seen, below the last one that a worker has seen.
pub(super) fn lost_claims(task: &Task) -> u64 {
    let last = task.runs.iter().map(|run| run.attempt).max().unwrap_or(0);
    last.saturating_sub(u64::try_from(task.runs.len()).unwrap_or(0))
}

/// I6. No run begins after a cancel was acknowledged.
pub(super) fn after_cancel(history: &History) -> Vec<String> {
    of_runs(history, |task, run| {
        let told = Task::told(&task.cancels, &["cancelled", "already_cancelled"])?;
        (run.begin > told).then(|| format!("began after its cancel was acknowledged at {told}"))
    })
}
