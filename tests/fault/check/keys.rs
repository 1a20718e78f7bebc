//! The checks of I16 judge registrations that come twice, and the tasks of a key.

use super::{
    history::{History, Run, Task},
    pieces::Piece,
};

/// A run whose claim came just before may begin so much later, on two busy cores.
pub(super) const ON_ITS_WAY_MS: i64 = 1_000;

/// I16. One task at most becomes of a piece, however often its registration comes, and it is created once.
pub(super) fn one_task(history: &History) -> Vec<String> {
    let wrong = history.pieces.all.values().filter_map(|piece| {
        let new = |told: &str| told == "created" || told == "replaced";
        let created = piece.answers.iter().filter(|answer| new(&answer.told));
        let what = match (piece.ids.len(), created.count()) {
            (2.., _) => "more than one task",
            (_, 2..) => "created more than once",
            _ if tells_of_others(piece) => "its repetition is answered with another task",
            _ => return None,
        };
        Some(format!("{what}: {piece:?}"))
    });
    wrong.collect()
}

/// A key answers with the task that has it; all other repetitions are answered with the first task.
fn tells_of_others(piece: &Piece) -> bool {
    let existing = piece
        .answers
        .iter()
        .filter(|answer| answer.told == "existing");
    piece.kind != "named"
        && existing
            .into_iter()
            .any(|answer| !piece.ids.contains(&answer.id))
}

/// I16. A key names a task of its own, none is created while another one is live, and one that was replaced
/// does not begin.
pub(super) fn one_live(history: &History) -> Vec<String> {
    let mut found = Vec::new();
    for (key, pieces) in history.pieces.groups(&["named", "replacing"]) {
        for piece in &pieces {
            found.extend(strangers(history, key, piece));
            let others = pieces.iter().filter(|other| other.n != piece.n);
            for other in others.flat_map(|other| history.tasks_of(other)) {
                if let Some(what) = wrong_beside(piece, other) {
                    found.push(format!(
                        "{key}: {what}: {} {:?}, {piece:?}",
                        other.id, other.runs
                    ));
                }
            }
        }
    }
    found
}

/// Answers that name a task of another key.
fn strangers(history: &History, key: &str, piece: &Piece) -> Vec<String> {
    let named = piece.answers.iter().filter(|answer| !answer.id.is_empty());
    let tasks = named.filter_map(|answer| history.task(&answer.id));
    let strange = tasks.filter(|task| task.last.is_object() && task.last["key"] != key);
    strange
        .map(|task| {
            format!(
                "{key}: an answer names a task of another key: {}",
                task.last
            )
        })
        .collect()
}

/// Tells whether a run was claimed before a moment, as its task tells: the answer to its claim came late.
fn was_claimed_by(task: &Task, run: &Run, moment: i64) -> bool {
    let attempts = task.last["attempts"].as_array();
    let of_run = attempts
        .into_iter()
        .flatten()
        .find(|attempt| attempt["attempt"] == run.attempt);
    let claimed = of_run.and_then(|attempt| attempt["claim_time"].as_str());
    let claimed = claimed.and_then(|text| text.parse::<jiff::Timestamp>().ok());
    claimed.is_some_and(|claimed| claimed.as_millisecond() <= moment)
}

/// Judges another task of the same key by the answers to this piece.
fn wrong_beside(piece: &Piece, other: &Task) -> Option<&'static str> {
    let (registered, ended) = (other.registered?, other.settled().unwrap_or(i64::MIN));
    let mut created = piece
        .answers
        .iter()
        .filter(|answer| answer.told == "created");
    // Created at some moment in between, while the other one was there and had not ended.
    if created.any(|answer| registered < answer.asked && answer.at < ended) {
        return Some("a task is created while another one is live");
    }
    let (replaced, _) = piece.registered().filter(|_| piece.kind == "replacing")?;
    let is_before = registered < piece.asked;
    let late = |begin: i64| begin > replaced + ON_ITS_WAY_MS;
    let begins = other
        .runs
        .iter()
        .any(|run| late(run.begin) && !run.was_held_up() && !was_claimed_by(other, run, replaced));
    (is_before && begins).then_some("a task begins after it was replaced")
}
