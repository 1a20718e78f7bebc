//! The checker finds broken promises after any number of kills, and measures waits and duplicates
//! beside them.

use std::{collections::HashMap, time::Duration};

use serde_json::Value;
use tickwheel::time_source::Moment;

use super::history::{Execution, History, Registered};

/// The longest wait of a due task while one life of the server lasts. Without a recovery it would wait for a
/// look or a lease, which are five seconds and more. A life that ends before it has handed all tasks out
/// leaves them to the next. Only first executions count, not those after a claim whose answer was lost.
const WAIT_UP_MAX: Duration = Duration::from_millis(4500);

/// Returns every broken promise in words; `ends` has the last read of each task.
pub(super) fn broken(history: &History, ends: &HashMap<String, Value>) -> Vec<String> {
    let mut found = Vec::new();
    for (id, task) in &history.registered {
        let none = Vec::new();
        let executions = history.executions.get(id).unwrap_or(&none);
        let end = ends.get(id).unwrap_or(&Value::Null);
        found.extend(wrong_end(task, executions, end).map(|what| format!("{id}: {what}")));
        found.extend(moved_early(task, executions).map(|what| format!("{id}: {what}")));
    }
    for (id, executions) in &history.executions {
        found.extend(wrong_run(executions).map(|what| format!("{id}: {what}")));
    }
    for (id, wait) in waits_up(history) {
        if wait > WAIT_UP_MAX {
            found.push(format!(
                "{id} was due and waited {wait:?} while the server was up"
            ));
        }
    }
    found.sort();
    found
}

/// Every acknowledged task ends as its acknowledged settle or cancel says.
fn wrong_end(task: &Registered, executions: &[Execution], end: &Value) -> Option<String> {
    let state = end["state"].as_str().unwrap_or("unknown");
    let is_cancelled = |text: &str| text == "cancelled" || text == "already_cancelled";
    if let Some((outcome, at)) = &task.cancel
        && is_cancelled(outcome)
    {
        // The first answer may have been lost; then the task was cancelled before this answer.
        let late = executions.iter().find(|run| run.began > *at);
        return match late {
            Some(run) => Some(format!("ran after it was cancelled: {run:?}")),
            None if state == "cancelled" => None,
            None => Some(format!("its cancel was acknowledged, and it is {state}")),
        };
    }
    let done = executions
        .iter()
        .find(|run| matches!(run.settled, Some(("succeeded", _))));
    let asked = task.cancel.as_ref().map(|(outcome, _)| outcome.as_str());
    match (state, done) {
        ("succeeded", Some(run)) if end["result"]["attempt"] != run.attempt => Some(format!(
            "the settle of attempt {} was acknowledged, and its result is {}",
            run.attempt, end["result"]
        )),
        ("succeeded", _) => None,
        ("cancelled", None) if asked == Some("cancel_requested") => None,
        // The client got no answer to this cancel.
        ("cancelled", None) if asked.is_none() => None,
        (_, Some(run)) => Some(format!(
            "a settle was acknowledged, and it is {state}: {run:?}"
        )),
        (_, None) => Some(format!("it is {state}: {task:?} {executions:?}")),
    }
}

/// A run never begins before its start, two never run at once, attempts go up, and no run follows
/// an acknowledged end.
fn wrong_run(executions: &[Execution]) -> Option<String> {
    let mut sorted: Vec<&Execution> = executions.iter().collect();
    sorted.sort_by_key(|run| run.began);
    if let Some(early) = sorted.iter().find(|run| run.began_wall < run.start) {
        return Some(format!("began early: {early:?}"));
    }
    sorted.windows(2).find_map(|pair| {
        let (one, next) = (pair[0], pair[1]);
        if one.attempt >= next.attempt {
            Some(format!("attempts out of order, or twice: {pair:?}"))
        } else if one.ended.is_none_or(|ended| ended > next.began) {
            Some(format!("two live executions: {pair:?}"))
        } else if matches!(one.settled, Some(("succeeded", _))) {
            Some(format!("ran after its end was acknowledged: {pair:?}"))
        } else {
            None
        }
    })
}

/// A run never begins before the start that a reschedule was acknowledged with.
fn moved_early(task: &Registered, executions: &[Execution]) -> Option<String> {
    let allowed = |run: &Execution| match task.moved {
        None => task.start,
        Some((start, Some(done))) if run.began > done => start,
        Some((start, _)) => start.min(task.start),
    };
    let early = executions
        .iter()
        .find(|run| run.began_wall < allowed(run))?;
    Some(format!(
        "began before its acknowledged start: {task:?} {early:?}"
    ))
}

/// For each task whose first claim reached a worker: the longest time that it was due within one
/// life until then.
fn waits_up(history: &History) -> impl Iterator<Item = (&String, Duration)> {
    history.executions.iter().filter_map(|(id, executions)| {
        let first = executions.iter().find(|run| run.attempt == 1)?;
        let task = history.registered.get(id)?;
        let late = first.began_wall.since(first.start);
        let due = first.began.before(late).max(task.at);
        Some((id, longest_up(history, due, first.began)))
    })
}

fn longest_up(history: &History, from: Moment, to: Moment) -> Duration {
    let within = history.lives.iter().filter_map(|life| {
        let ready = life.ready?;
        let end = life.killed.map_or(to, |killed| killed.min(to));
        Some(end.since(ready.max(from)))
    });
    within.max().unwrap_or_default()
}

/// For each task that became due while no server ran: the time from the start of the next life to
/// its handout.
pub(super) fn waits_after_restart(history: &History) -> Vec<Duration> {
    let mut waits = Vec::new();
    for pair in history.lives.windows(2) {
        let (Some(killed), Some(ready), Some(down_wall)) =
            (pair[0].killed, pair[1].ready, pair[0].killed_wall)
        else {
            continue;
        };
        let up_wall = down_wall.after(ready.since(killed));
        for (id, executions) in &history.executions {
            let Some(first) = executions.iter().find(|run| run.attempt == 1) else {
                continue;
            };
            let fell_due = first.start > down_wall && first.start < up_wall;
            let in_this_life = pair[1].killed.is_none_or(|killed| first.began < killed);
            if fell_due && in_this_life && history.registered.contains_key(id) {
                waits.push(first.began.since(ready));
            }
        }
    }
    waits.sort_unstable();
    waits
}

/// How long each start took.
pub(super) fn starts(history: &History) -> Vec<Duration> {
    let took = history
        .lives
        .iter()
        .filter_map(|life| Some(life.ready?.since(life.started)));
    let mut took: Vec<Duration> = took.collect();
    took.sort_unstable();
    took
}

/// Executions beyond the one that a task needs and the retries that it asked for.
pub(super) fn duplicates(history: &History) -> usize {
    let of_task = |runs: &Vec<Execution>| {
        let retried = runs
            .iter()
            .filter(|run| matches!(run.settled, Some(("retry", _))))
            .count();
        runs.len() - 1 - retried.min(runs.len() - 1)
    };
    history.executions.values().map(of_task).sum()
}

/// Tasks whose first claim reached no worker: its answer was lost with the process.
pub(super) fn lost_claims(history: &History) -> usize {
    let is_lost = |runs: &&Vec<Execution>| runs.iter().all(|run| run.attempt > 1);
    history.executions.values().filter(is_lost).count()
}
