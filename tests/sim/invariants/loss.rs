//! I1: an acknowledged task that was not cancelled comes to its end, and the end has a cause. (Jepsen's
//! checker for Chronos: every promised run is matched with one that happened.)

use tickwheel::model::state::{Outcome, State, TaskRow};

use super::{Ended, Findings};
use crate::seeded::{
    history::{Registered, Story, Told},
    plan::{Request, TaskPlan},
};

pub(super) fn check(ended: &Ended<'_>, findings: &mut Findings) {
    for (registered, story, plan) in ended.registered() {
        let found = if plan.record {
            record(ended, registered, story)
        } else {
            match ended.contents.rows.get(&registered.id) {
                None => Some("was never run".to_owned()),
                Some(row) => end(row, story, plan),
            }
        };
        if let Some(what) = found {
            let (number, id, start) = (registered.number, registered.id, registered.start);
            findings.add(format!("task {number} ({id}, start {start}) {what}"));
        }
    }
}

fn record(ended: &Ended<'_>, registered: &Registered, story: &Story) -> Option<String> {
    let withdrawn = story.calls.iter().any(|call| {
        call.request == Request::Cancel && matches!(call.told, Told::Cancelled | Told::Unknown)
    });
    let published = ended.records.contains_key(&registered.id);
    (!published && !withdrawn).then(|| "was never published".to_owned())
}

/// The error in the end of a task, if there is one.
fn end(row: &TaskRow, story: &Story, plan: &TaskPlan) -> Option<String> {
    let reported = |wanted: fn(&Outcome) -> bool| {
        story
            .runs
            .iter()
            .any(|run| run.attempt == row.attempt && run.outcome.as_ref().is_some_and(wanted))
    };
    let founded = match row.state {
        State::New | State::Claimed | State::Retrying => {
            return Some(format!(
                "has not ended: {:?} since attempt {}",
                row.state, row.attempt
            ));
        }
        State::Succeeded => reported(|outcome| matches!(outcome, Outcome::Succeeded { .. })),
        State::Failed => reported(|outcome| matches!(outcome, Outcome::Failed { .. })),
        State::Cancelled => story
            .calls
            .iter()
            .any(|call| call.request == Request::Cancel),
        State::Expired => plan.expire_after.is_some(),
        State::Dead => row.tries >= plan.max_attempts && row.attempt >= row.tries,
    };
    (!founded).then(|| format!("is {:?}, and nothing led to that", row.state))
}
