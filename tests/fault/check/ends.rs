//! The checks of I1 and I9 compare the state of each task at the end with the answers that clients got.

use super::history::{History, Task};

/// I1. Every acknowledged task has succeeded, unless a client cancelled it; a cancel that was acknowledged holds.
pub(super) fn lost(history: &History) -> Vec<String> {
    let wrong = history.tasks.iter().filter_map(|task| {
        let what = wrong_end(history, task)?;
        Some(format!(
            "{}: {what}; due {}, runs {:?}",
            task.id, task.start, task.runs
        ))
    });
    wrong.collect()
}

fn wrong_end(history: &History, task: &Task) -> Option<String> {
    let state = task.state();
    let cancelled = Task::told(&task.cancels, &["cancelled", "already_cancelled"]);
    if cancelled.is_some() {
        return (state != "cancelled")
            .then(|| format!("its cancel was acknowledged, and it is {state}"));
    }
    // The end of a task is not known when its client got no answer and it never ran.
    let counts = task.registered.is_some() || !task.runs.is_empty();
    match state {
        "succeeded" => None,
        // The cancel was asked for; the client got no answer to it, or the answer that the
        // attempt was asked to stop.
        "cancelled" if !task.cancels.is_empty() || task.may_be_cancelled => None,
        // A client that was not told its id cannot ask for it: such a task uses up its attempts, and rests.
        "dead" if task.registered.is_none() && is_letter(history, task) => None,
        other if counts => Some(format!("it was acknowledged, and it is {other}")),
        _ => None,
    }
}

fn is_letter(history: &History, task: &Task) -> bool {
    let piece = task.piece.and_then(|n| history.pieces.all.get(&n));
    piece.is_some_and(|piece| piece.kind == "letter")
}

/// I9. The result names a run that took place, of this task, at this worker, and it is the last attempt's.
pub(super) fn false_results(history: &History) -> Vec<String> {
    let succeeded = history
        .tasks
        .iter()
        .filter(|task| task.state() == "succeeded");
    let wrong = succeeded.filter(|task| {
        let (result, attempt) = (&task.last["result"], &task.last["attempt"]);
        let real = task.runs.iter().any(|run| {
            let is_done = run.end.as_ref().is_some_and(|(_, how)| how == "done");
            let is_it = result["w"] == run.worker && result["n"] == run.n;
            is_done
                && is_it
                && result["attempt"] == run.attempt
                && task.last["worker"] == run.worker
        });
        !real || result["attempt"] != *attempt
    });
    let text = |task: &Task| format!("{}: reads {}; runs {:?}", task.id, task.last, task.runs);
    wrong.map(text).collect()
}
