//! The checks of I7 measure how late tasks began, and how soon all tasks were in time again.

use super::history::{AHEAD_MS, Fault, History, Task};

/// All overdue tasks end within this time after the last repair. It covers a lease (5 s) and its grace (3 s),
/// the looks of tasks whose claim or message was lost (5 s each, on a grid of 5 s, and once more for a
/// retry), sessions of brokers and drivers (10 s), and the backlog, on two cores.
pub(super) const END_MAX_MS: i64 = 90_000;

/// Without a fault all but one in a hundred tasks begin within this time. On a machine of its own they begin
/// within two ticks; with other load on the same two cores it is a multiple. The figures that count are those
/// of the published contract: `bench/RESULTS.md`.
const CALM_P99_MAX_MS: i64 = 5_000;

/// A task of the operating model may wait for others. A moved or cancelled task has no single start to be
/// late for. A registration without an answer may have been made late, when a stopped node went on.
fn is_plain(task: &&Task) -> bool {
    let is_steady = task.moves.is_empty() && task.cancels.is_empty();
    task.registered.is_some() && task.piece.is_none() && is_steady
}

/// A moved task that no fault has touched begins within this time. Its message is handed over at its new
/// start. If a wheel or a look has to do that, the task is later by a claim timeout (5 s) and its step at
/// most, on two busy cores.
const MOVED_MAX_MS: i64 = 20_000;

/// The new start of a task that was moved once, with an answer; none for others, which have no
/// single start to be late for.
fn moved_to(task: &Task) -> Option<i64> {
    let [change] = task.moves.as_slice() else {
        return None;
    };
    let (told, outcome) = change.told.as_ref()?;
    let is_moved = outcome == "rescheduled" && task.cancels.is_empty() && task.registered.is_some();
    is_moved.then(|| change.start.max(*told))
}

/// I7 for moved tasks: they begin at their new start, or soon after it when nothing is broken.
pub(super) fn moved_too_late(history: &History) -> Vec<String> {
    let mut found = Vec::new();
    for task in &history.tasks {
        let Some((due, first)) = moved_to(task).zip(task.runs.first()) else {
            continue;
        };
        let touched = history.faults_within(due - AHEAD_MS, first.begin).next();
        let bound = if touched.is_some() {
            END_MAX_MS
        } else {
            MOVED_MAX_MS
        };
        let late = longest_well_ms(history, due, first.begin.max(due));
        let warm = history.calm.is_some_and(|calm| due >= calm);
        if late > bound && warm {
            found.push(format!(
                "{}: moved to {due}, it waited {late} ms while nothing was broken: {:?}",
                task.id, task.runs
            ));
        }
    }
    found
}

/// From start to the first begin, in order.
pub(super) fn lateness(history: &History, from: i64, to: i64) -> Vec<i64> {
    let due = |task: &&Task| (from..to).contains(&task.start);
    let plain = history.tasks.iter().filter(is_plain).filter(due);
    let late = plain.filter_map(|task| Some(late_by(task, task.runs.first()?.begin)));
    let mut late: Vec<i64> = late.collect();
    late.sort_unstable();
    late
}

/// A task that was registered after its start is late from then on.
fn late_by(task: &Task, begin: i64) -> i64 {
    begin
        - task
            .start
            .max(task.registered.unwrap_or(task.start).min(begin))
}

/// The value that this many of a thousand do not exceed.
pub(super) fn permille(sorted: &[i64], permille: usize) -> Option<i64> {
    sorted
        .get(sorted.len().saturating_sub(1) * permille / 1000)
        .copied()
}

/// When the calm before the first fault ends.
pub(super) fn calm(history: &History) -> (i64, i64) {
    let to = history
        .faults
        .first()
        .map_or(history.over, |fault| fault.from);
    // The fault may hit tasks that are due in the last moments.
    (history.calm.unwrap_or(to), to - 2_000)
}

/// How long after the last repair the last task that was due before it succeeded.
pub(super) fn recovered_ms(history: &History, fault: &Fault) -> i64 {
    let overdue = history.tasks.iter().filter(is_plain);
    let overdue =
        overdue.filter(|task| task.start < fault.healed && task.last_seen() >= fault.from);
    let last = overdue.filter_map(Task::done).max().unwrap_or(fault.healed);
    (last - fault.healed).max(0)
}

/// The longest time between two moments in which nothing was broken.
pub(super) fn longest_well_ms(history: &History, from: i64, to: i64) -> i64 {
    let (mut longest, mut well_since) = (0, from);
    for fault in &history.faults {
        longest = longest.max(fault.from.min(to) - well_since);
        well_since = well_since.max(fault.healed);
    }
    longest.max(to - well_since)
}

/// Every task ends before it has waited for the bound while nothing was broken.
pub(super) fn too_late(history: &History) -> Vec<String> {
    let mut found = Vec::new();
    for task in history.tasks.iter().filter(is_plain) {
        let Some(done) = task.done() else { continue };
        let could = task
            .start
            .max(task.registered.unwrap_or(task.start).min(done));
        let late = longest_well_ms(history, could, done);
        if late > END_MAX_MS {
            found.push(format!(
                "{}: waited {late} ms while nothing was broken: {:?}",
                task.id, task.runs
            ));
        }
    }
    let (from, to) = calm(history);
    let calm = lateness(history, from, to);
    match permille(&calm, 990) {
        Some(late) if late <= CALM_P99_MAX_MS => {}
        Some(late) => found.push(format!(
            "without a fault one task in a hundred was {late} ms late"
        )),
        None => found.push("no task was due before the first fault".to_owned()),
    }
    found
}
