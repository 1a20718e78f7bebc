//! I9: the stored end is that of the attempt that reported it, an acknowledged report is stored, and a worker
//! gets the task as it was registered. (Fencing: a zombie must not overwrite a newer attempt.)

use tickwheel::model::state::{Outcome, State};

use super::{Ended, Findings};

pub(super) fn check(ended: &Ended<'_>, findings: &mut Findings) {
    for (registered, story, plan) in ended.registered() {
        for claim in story
            .claims
            .iter()
            .filter(|claim| claim.body != Some(plan.body_bytes))
        {
            let (number, id, body) = (registered.number, registered.id, claim.body);
            findings.add(format!(
                "task {number} ({id}) came with a content of {body:?} bytes, registered {}",
                plan.body_bytes
            ));
        }
    }
    for (id, story) in &ended.history.stories {
        let Some(row) = ended.contents.rows.get(id) else {
            continue;
        };
        if row.state == State::Succeeded && row.detail.spec.target.is_tracked() {
            let stored = &row.detail.result;
            let run = story.runs.iter().find(|run| run.attempt == row.attempt);
            let made = run.and_then(|run| run.outcome.clone());
            let its_own = matches!(&made, Some(Outcome::Succeeded { result }) if result == stored);
            if !its_own {
                let attempt = row.attempt;
                findings.add(format!(
                    "task {id} holds {stored:?}; attempt {attempt} made {made:?}"
                ));
            }
        }
        let terminal = story.reports.iter().filter(|report| {
            let ends = matches!(
                report.outcome,
                Outcome::Succeeded { .. } | Outcome::Failed { .. }
            );
            report.taken && ends
        });
        for report in terminal {
            let state = match report.outcome {
                Outcome::Succeeded { .. } => State::Succeeded,
                _ => State::Failed,
            };
            if row.state != state || row.attempt != report.attempt {
                let (is, attempt) = (row.state, row.attempt);
                findings.add(format!(
                    "task {id} is {is:?} by attempt {attempt}; acknowledged was {report:?}"
                ));
            }
        }
    }
}
