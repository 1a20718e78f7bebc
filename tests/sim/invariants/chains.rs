//! I22: a task is followed by each of its follow-ups exactly once, if it has ended as that asks, and else not at all.

use tickwheel::model::state::State;

use super::{Ended, Findings, scenes::Task};

pub(super) fn check(ended: &Ended<'_>, findings: &mut Findings) {
    let tasks = ended.scene_tasks();
    for task in tasks.iter().filter(|task| task.row.is_some()) {
        for follow in &task.item.then {
            let wanted = match task.state() {
                Some(State::Succeeded) => follow.success,
                Some(State::Failed | State::Dead | State::Cancelled | State::Expired) => {
                    !follow.success
                }
                Some(State::New | State::Claimed | State::Retrying) | None => continue,
            };
            let is_it = |other: &&Task<'_>| {
                let here = other.scene.number == task.scene.number;
                here && other.item.number == follow.item && follows(other) == Some(task.id)
            };
            let found: Vec<String> = tasks.iter().filter(is_it).map(Task::name).collect();
            if found.len() != usize::from(wanted) {
                let (name, state, of) = (task.name(), task.state(), follow.item);
                findings.add(format!(
                    "{name} is {state:?}, and is followed as {of} by {found:?}, wanted: {wanted}"
                ));
            }
        }
    }
}

/// The task that one follows.
fn follows(task: &Task<'_>) -> Option<tickwheel::model::ids::TaskId> {
    let of_row = task.content().and_then(|content| content.previous.as_ref());
    let of_run = || task.story().and_then(|story| story.previous);
    of_row.map(|previous| previous.task).or_else(of_run)
}
