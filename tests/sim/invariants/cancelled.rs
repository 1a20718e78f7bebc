//! I6: a task never begins again after a client got the answer that it is cancelled, and it ends cancelled.
//! (The linearisation point of a cancel.)

use tickwheel::model::state::State;

use super::{Ended, Findings};
use crate::seeded::history::Told;

pub(super) fn check(ended: &Ended<'_>, findings: &mut Findings) {
    for (registered, story, plan) in ended.registered() {
        let (number, id) = (registered.number, registered.id);
        let Some(told) = story.calls.iter().find(|call| call.told == Told::Cancelled) else {
            continue;
        };
        if plan.record {
            let published = ended.records.get(&id).into_iter().flatten();
            for at in published.filter(|at| **at > told.answered) {
                findings.add(format!(
                    "record {number} ({id}) went out at {at}, cancelled at {}",
                    told.answered
                ));
            }
        }
        for run in story.runs.iter().filter(|run| run.began > told.answered) {
            let (attempt, began) = (run.attempt, run.began);
            let at = told.answered;
            findings.add(format!(
                "task {number} ({id}): attempt {attempt} began at {began}, cancelled at {at}"
            ));
        }
        let state = ended.contents.rows.get(&id).map(|row| row.state);
        if state != Some(State::Cancelled) {
            findings.add(format!(
                "task {number} ({id}) was cancelled and is {state:?}"
            ));
        }
    }
}
