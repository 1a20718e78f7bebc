//! The checks of I15 judge the runs of tasks with the same ordering key.

use super::{
    history::{History, Run, Task},
    pieces::Piece,
};

const KINDS: [&str; 1] = ["ordered"];

/// A task of a sequence, with its piece.
type Member<'a> = (&'a Piece, &'a Task);

fn sequences(history: &History) -> impl Iterator<Item = (&str, Vec<Member<'_>>)> {
    let groups = history.pieces.groups(&KINDS).into_iter();
    groups.map(move |(key, pieces)| {
        let members = pieces.into_iter();
        let members =
            members.flat_map(|piece| history.tasks_of(piece).map(move |task| (piece, task)));
        (key, members.collect())
    })
}

/// I15. Two tasks of a sequence never run at once. A run that goes on after a stop of its worker is over soon.
pub(super) fn at_once(history: &History) -> Vec<String> {
    let mut found = Vec::new();
    for (key, members) in sequences(history) {
        let mut runs: Vec<(&str, &Run)> = Vec::new();
        for (_, task) in &members {
            runs.extend(task.runs.iter().map(|run| (task.id.as_str(), run)));
        }
        runs.sort_by_key(|(_, run)| run.begin);
        for (index, (id, run)) in runs.iter().enumerate() {
            let others = runs
                .iter()
                .enumerate()
                .filter(|(_, (other, _))| other != id);
            for (at, (other, beside)) in others {
                let overlaps = at > index && run.alive_until() > beside.begin;
                let goes_on = run.went_on().is_some_and(|(from, until)| {
                    beside.begin < until && beside.alive_until() > from
                });
                if overlaps || goes_on {
                    found.push(format!(
                        "{key}: {id} runs beside {other}: {run:?}, {beside:?}"
                    ));
                }
            }
        }
    }
    found
}

/// I15. A task that was acknowledged before a later one came to its turn, and that starts earlier, runs before it.
pub(super) fn in_order(history: &History) -> Vec<String> {
    let mut found = Vec::new();
    for (key, members) in sequences(history) {
        for (later, task) in &members {
            let Some(run) = task.runs.first() else {
                continue;
            };
            let turn = turn_at_least(history, task, run, &members);
            let overtaken = members.iter().filter(|(piece, other)| {
                let in_time = other.registered.is_some_and(|at| at < turn);
                let runs_later = other.runs.iter().any(|run_of| run_of.begin > run.begin);
                in_time && starts(piece, other) < starts(later, task) && runs_later
            });
            found.extend(overtaken.map(|(_, other)| {
                format!(
                    "{key}: {} began at {}, before {} which starts earlier: {:?}",
                    task.id, run.begin, other.id, other.runs
                )
            }));
        }
    }
    found
}

/// The start by which the service orders a task, as it told its client or a worker.
fn starts(piece: &Piece, task: &Task) -> i64 {
    let told = task.runs.first().map(|run| run.due);
    told.unwrap_or_else(|| piece.starts())
}

/// No turn is given before the start of its task, by any clock, nor before the one that had it has ended.
fn turn_at_least(history: &History, task: &Task, run: &Run, members: &[Member<'_>]) -> i64 {
    let due = run.due - history.led_ms(run.begin);
    let others = members.iter().filter(|(_, other)| other.id != task.id);
    let ended = others.filter_map(|(_, other)| other.settled());
    let ended = ended.filter(|at| *at <= run.begin).max();
    due.max(ended.unwrap_or(i64::MIN))
}
