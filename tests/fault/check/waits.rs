//! The check of I7 for the operating model, and the table of how late its tasks began.
//!
//! The due time of a task that waits for others is the moment when the last of them had ended.

use std::fmt::Write as _;

use super::{
    behind, gates,
    history::{History, Task},
    lateness::{END_MAX_MS, longest_well_ms, permille},
    pieces::Piece,
};

/// Kinds of which each drill has some: a drill without them shows nothing about them.
const KINDS: [&str; 15] = [
    "ordered",
    "marked",
    "named",
    "replacing",
    "gated",
    "root",
    "child",
    "end",
    "added",
    "first",
    "follow-up",
    "dependency",
    "waiter",
    "letter",
    "batch",
];

/// Their begin depends on what a client does meanwhile.
const UNTIMED: [&str; 3] = ["gated", "letter", "batch"];

/// When a task could begin: it is due, registered, and the last of those before it has ended.
fn due(history: &History, piece: &Piece, task: &Task) -> i64 {
    let asked = task.registered.unwrap_or(piece.asked);
    let before = behind::before(history, piece).filter_map(|n| history.settled(n));
    let due = before.chain([task.start, asked]).max().unwrap_or(asked);
    due.max(turn(history, piece, task))
}

/// When the task before it in its sequence had ended.
fn turn(history: &History, piece: &Piece, task: &Task) -> i64 {
    let Some(begin) = task.runs.first().map(|run| run.begin) else {
        return i64::MIN;
    };
    if piece.kind != "ordered" {
        return i64::MIN;
    }
    let others = history.pieces.of_kind(&["ordered"]);
    let others = others.filter(|other| other.group == piece.group && other.n != piece.n);
    let ended = others.filter_map(|other| history.settled(other.n));
    ended.filter(|at| *at <= begin).max().unwrap_or(i64::MIN)
}

/// I7. A task that could begin has ended before it has waited for the bound while nothing was broken.
pub(super) fn too_late(history: &History) -> Vec<String> {
    let mut found = Vec::new();
    let timed = history.pieces.all.values();
    for piece in timed.filter(|piece| !UNTIMED.contains(&piece.kind.as_str())) {
        for task in history.tasks_of(piece) {
            let Some(done) = task.done() else { continue };
            let due = due(history, piece, task).min(done);
            let late = longest_well_ms(history, due, done);
            if late > END_MAX_MS {
                found.push(format!(
                    "{}: a {} waited {late} ms while nothing was broken: {:?}",
                    task.id, piece.kind, task.runs
                ));
            }
        }
    }
    found
}

/// There is work of every kind that succeeded, in a drill with the operating model at all.
pub(super) fn absent(history: &History) -> Vec<String> {
    let pieces = &history.pieces;
    if pieces.schedules.is_empty() {
        return Vec::new();
    }
    let ends = |kind: &&str| {
        let tasks = pieces.of_kind(std::slice::from_ref(kind));
        let mut tasks = tasks.flat_map(|piece| history.tasks_of(piece));
        tasks.any(|task| ["succeeded", "cancelled"].contains(&task.state()))
    };
    let absent = KINDS.iter().filter(|kind| !ends(kind));
    absent
        .map(|kind| format!("no task of the kind {kind} has ended"))
        .collect()
}

/// The count and the lateness of each kind, and how often gates were closed.
pub(super) fn table(history: &History) -> String {
    let mut text = String::from(
        "\n| kind | tasks | acknowledged | late p50 ms | p99 | max |\n|---|---|---|---|---|---|\n",
    );
    for kind in KINDS {
        let pieces: Vec<&Piece> = history
            .pieces
            .all
            .values()
            .filter(|piece| piece.kind == kind)
            .collect();
        let tasks = || {
            let pieces = pieces.iter();
            pieces.flat_map(|piece| history.tasks_of(piece).map(move |task| (*piece, task)))
        };
        let late = tasks().filter_map(|(piece, task)| match kind {
            "gated" => gates::waited_ms(history, task),
            _ => Some((task.runs.first()?.begin - due(history, piece, task)).max(0)),
        });
        let mut late: Vec<i64> = late.collect();
        late.sort_unstable();
        let at = |of: usize| permille(&late, of).map_or(String::new(), |ms| ms.to_string());
        let known = tasks()
            .filter(|(_, task)| task.registered.is_some())
            .count();
        writeln!(
            text,
            "| {kind} | {} | {known} | {} | {} | {} |",
            tasks().count(),
            at(500),
            at(990),
            at(1000),
        )
        .expect("a text grows");
    }
    let runs = history.tasks.iter().filter(|task| {
        let mut runs = task.runs.iter();
        runs.any(|run| run.schedule.is_some())
    });
    let (runs, closed) = (runs.count(), history.pieces.closed.len());
    let jobs = history.pieces.jobs.values();
    let jobs = jobs.filter(|job| {
        job.told
            .as_ref()
            .is_some_and(|(_, told)| told == "completed")
    });
    writeln!(
        text,
        "\n{runs} runs of schedules, {closed} pauses of a gate, {} jobs completed",
        jobs.count()
    )
    .expect("a text grows");
    text
}
