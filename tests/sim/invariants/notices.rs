//! I28: the end of a task is told at least once, to its topic and by its e-mail, as it asks; in the state that it has, not before
//! it has ended, and of no task that does not ask. Copies are allowed, and not judged.

use tickwheel::model::state::State;

use super::{Ended, Findings, scenes::Task};

pub(super) fn check(ended: &Ended<'_>, findings: &mut Findings) {
    for task in ended.scene_tasks() {
        let Some(state) = task.state().filter(|state| state.is_terminal()) else {
            continue;
        };
        let id = task.id.to_string();
        let told = ended.told.get(&id).map_or(&[][..], Vec::as_slice);
        let told: Vec<&str> = told.iter().map(|(_, state)| state.as_str()).collect();
        compare(&task, state, "told", (task.item.told, &told), findings);
        let mailed = ended
            .letters
            .iter()
            .filter(|(_, email)| email.subject == id);
        let mailed: Vec<&str> = mailed.map(|(_, email)| email.body.as_str()).collect();
        compare(
            &task,
            state,
            "mailed",
            (task.item.mailed, &mailed),
            findings,
        );
        early(ended, &task, &id, findings);
    }
}

/// Compares a task with the ends that were said of it: each is its own, and there is one if it asks for that.
fn compare(
    task: &Task<'_>,
    state: State,
    what: &str,
    (wanted, said): (bool, &[&str]),
    findings: &mut Findings,
) {
    let right = said.iter().all(|said| *said == name(state));
    if wanted == said.is_empty() || !right {
        let name = task.name();
        findings.add(format!(
            "{name} is {state:?}, and was {what} as {said:?}, wanted: {wanted}"
        ));
    }
}

/// Nothing is told of a run that goes on.
fn early(ended: &Ended<'_>, task: &Task<'_>, id: &str, findings: &mut Findings) {
    let first = ended
        .told
        .get(id)
        .and_then(|told| told.iter().map(|(at, _)| *at).min());
    let began = task.claims().iter().map(|claim| claim.asked).max();
    if let (Some(first), Some(began)) = (first, began)
        && first < began
    {
        findings.add(format!(
            "{} was told at {first}, and claimed at {began}",
            task.name()
        ));
    }
}

/// The name of an end, as messages and templates have it.
const fn name(state: State) -> &'static str {
    match state {
        State::Succeeded => "succeeded",
        State::Failed => "failed",
        State::Dead => "dead",
        State::Cancelled => "cancelled",
        State::Expired => "expired",
        State::New | State::Claimed | State::Retrying => "open",
    }
}
