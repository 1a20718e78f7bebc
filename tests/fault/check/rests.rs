//! The checks of I14 and I20 judge tasks that rest until somebody asks for them: dead letters, and tasks that a
//! job has cancelled.

use super::{
    history::{History, Task},
    keys::ON_ITS_WAY_MS,
};

fn begins(task: &Task, after: i64, before: i64) -> bool {
    let late = |begin: i64| begin > after.saturating_add(ON_ITS_WAY_MS) && begin < before;
    task.runs
        .iter()
        .any(|run| late(run.begin) && !run.was_held_up())
}

/// I14. A dead task does not run before somebody asks for its redrive.
pub(super) fn dead(history: &History) -> Vec<String> {
    let letters = &history.pieces.letters;
    let read = letters.iter().filter(|step| step.what == "read");
    let wrong = read.filter_map(|step| {
        let asked = letters
            .iter()
            .filter(|other| other.n == step.n && other.what == "ask" && other.at >= step.at);
        let asked = asked.map(|other| other.at).min().unwrap_or(i64::MAX);
        let piece = history.pieces.all.get(&step.n)?;
        let task = history
            .tasks_of(piece)
            .find(|task| begins(task, step.at, asked))?;
        Some(format!(
            "{}: ran after it was read as dead at {}: {:?}",
            task.id, step.at, task.runs
        ))
    });
    wrong.collect()
}

/// I20. A job that has completed has cancelled every task that was there before it, and none of them begins.
pub(super) fn cancelled_by_job(history: &History) -> Vec<String> {
    let groups = history.pieces.groups(&["batch"]);
    let mut found = Vec::new();
    for (group, job) in &history.pieces.jobs {
        let Some((told, state)) = &job.told else {
            continue;
        };
        if ["failed", "cancelled"].contains(&state.as_str()) {
            found.push(format!("{group}: its job is {state}"));
        }
        let pieces = groups.get(group.as_str()).into_iter().flatten();
        let tasks = pieces.flat_map(|piece| history.tasks_of(piece));
        let in_time = tasks.filter(|task| task.registered.is_some_and(|at| at < job.asked));
        // By a clock that is ahead a task had begun before the job, which leaves it to its look then.
        let ahead = history.ahead_ms(*told);
        let waited = |task: &&Task| ahead == 0 || task.start > told + ahead;
        for task in in_time.filter(|_| state == "completed").filter(waited) {
            let has_ended = task.state() == "cancelled" || !task.runs.is_empty();
            if !has_ended || begins(task, *told, i64::MAX) {
                found.push(format!(
                    "{group}: {} is {} behind its job of {told}: {:?}",
                    task.id,
                    task.state(),
                    task.runs
                ));
            }
        }
    }
    found
}
