//! The checks of I12, I18 and I19 judge tasks that come behind others: ends of trees, children that wait for
//! their parent, follow-ups and waiters.

use super::{
    history::{History, Task},
    pieces::Piece,
};

/// A piece begins only when every piece that it is behind has succeeded.
fn too_soon(history: &History, kinds: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for piece in history.pieces.of_kind(kinds) {
        for task in history.tasks_of(piece) {
            let Some(first) = task.runs.first() else {
                continue;
            };
            let open = before(history, piece).find(|n| {
                let settled = history.settled(*n);
                settled.is_none_or(|at| at > first.begin)
            });
            found.extend(open.map(|n| {
                let of: Vec<&Task> = history
                    .pieces
                    .all
                    .get(&n)
                    .map_or_else(Vec::new, |of| history.tasks_of(of).collect());
                format!(
                    "{}: {piece:?} began before {n} had succeeded: {of:?}",
                    task.id
                )
            }));
        }
    }
    found
}

/// The numbers of the pieces that must have succeeded before this one begins: for the end of a tree also those
/// that were added to it.
pub(super) fn before<'a>(history: &'a History, piece: &'a Piece) -> impl Iterator<Item = u64> + 'a {
    let added = history.pieces.of_kind(&["added"]).filter(|added| {
        let counts = added.was_told("created") || !added.ids.is_empty();
        piece.kind == "end" && added.group == piece.group && counts
    });
    piece
        .behind
        .iter()
        .copied()
        .chain(added.map(|added| added.n))
}

/// Each part of a request whose first piece is known to be there has become one task, which succeeded.
fn missing(history: &History, first: &str, parts: &[&str]) -> Vec<String> {
    let groups = history.pieces.groups(parts);
    let known = history.pieces.of_kind(std::slice::from_ref(&first));
    let known = known.filter(|first| !first.ids.is_empty());
    let parts = known.flat_map(|first| groups.get(first.group.as_str()).into_iter().flatten());
    let wrong = parts.filter(|part| {
        let mut tasks = history.tasks_of(part);
        !(part.ids.len() == 1 && tasks.all(|task| task.state() == "succeeded"))
    });
    wrong
        .map(|part| format!("not exactly one task that succeeded: {part:?}"))
        .collect()
}

/// I12. A tree ends when all of it has ended, and a child that waits for its parent begins behind it.
pub(super) fn tree_too_soon(history: &History) -> Vec<String> {
    too_soon(history, &["end", "child"])
}

/// I12. A tree is there as a whole and ends once.
pub(super) fn tree_ends_once(history: &History) -> Vec<String> {
    let mut found = missing(history, "root", &["child", "end"]);
    for piece in history.pieces.of_kind(&["root"]) {
        let open = history
            .tasks_of(piece)
            .filter(|task| task.last["tree_state"] != "completed");
        found
            .extend(open.map(|task| format!("{}: its tree has not ended: {}", task.id, task.last)));
    }
    let refused = history.pieces.of_kind(&["added"]).filter(|piece| {
        piece.was_told("ended") && !piece.was_told("created") && !piece.ids.is_empty()
    });
    found.extend(refused.map(|piece| format!("a child that was refused runs: {piece:?}")));
    found
}

/// I18. A follow-up begins behind the task that it follows, with its result.
pub(super) fn follow_up_too_soon(history: &History) -> Vec<String> {
    let mut found = too_soon(history, &["follow-up"]);
    for piece in history.pieces.of_kind(&["follow-up"]) {
        for run in history.tasks_of(piece).flat_map(|task| &task.runs) {
            let before = piece.behind.first().and_then(|n| history.pieces.all.get(n));
            let mut tasks = before
                .into_iter()
                .flat_map(|before| history.tasks_of(before));
            let is_right = tasks.any(|task| {
                run.previous["id"] == task.id.as_str()
                    && run.previous["result"] == task.last["result"]
            });
            if !is_right {
                found.push(format!("{piece:?} has another task before it: {run:?}"));
            }
        }
    }
    found
}

/// I18. Each end is followed once by what follows it, and by nothing else.
pub(super) fn followed_once(history: &History) -> Vec<String> {
    let mut found = missing(history, "first", &["follow-up"]);
    let never = history
        .pieces
        .of_kind(&["never"])
        .filter(|piece| !piece.ids.is_empty());
    found.extend(never.map(|piece| format!("follows an end that did not come: {piece:?}")));
    found
}

/// I19. A waiter begins behind all that it waits for.
pub(super) fn waiter_too_soon(history: &History) -> Vec<String> {
    too_soon(history, &["waiter"])
}
