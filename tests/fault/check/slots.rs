//! The check of I13 counts the entries in the slots for each task.

use super::history::{Count, History};

/// An entry that is due and a look, and one more for a retry that both its settle and its look have written.
const ENTRIES_MAX: u64 = 3;

/// I13. A task has few live entries, more only because of faults, and at the end there is none.
pub(super) fn too_many(history: &History) -> Vec<String> {
    let mut found = Vec::new();
    for count in &history.counts {
        found.extend(multiplied(history, count));
    }
    match history.counts.last() {
        Some(last) if last.entries == 0 => {}
        Some(last) => found.push(format!("{} live entries are left", last.entries)),
        None => found.push("nobody has looked at the slots".to_owned()),
    }
    found
}

fn multiplied<'a>(history: &'a History, count: &'a Count) -> impl Iterator<Item = String> + 'a {
    count.many.iter().filter_map(|(id, entries)| {
        let task = history.tasks.iter().find(|task| task.id == *id)?;
        let faults = task.faults(history, count.at).count();
        let faults = u64::try_from(faults).unwrap_or(u64::MAX);
        let moves = u64::from(!task.moves.is_empty());
        (*entries > ENTRIES_MAX + faults + moves)
            .then(|| format!("{id}: {entries} live entries after {faults} faults"))
    })
}
