//! I25: in any ten seconds no more attempts of a callback begin than 1.1 times its rate and its burst, and no more
//! run at once than its `max_in_flight`. An attempt begins between the request and the answer of its claim.
//!
//! The places of attempts are counted by clocks of nodes, so runs beside a fault of a clock are not judged.

use super::{Ended, Findings, scenes::Task};
use crate::seeded::scene::ScenePlan;

const SPAN_MS: i64 = 10_000;

pub(super) fn check(ended: &Ended<'_>, findings: &mut Findings) {
    if ended
        .plan
        .faults
        .iter()
        .any(|fault| fault.what.is_of_clocks())
    {
        return;
    }
    let tasks = ended.scene_tasks();
    for scene in &ended.plan.scenes {
        let of_scene: Vec<&Task<'_>> = tasks
            .iter()
            .filter(|task| task.scene.number == scene.number)
            .collect();
        rate(scene, &of_scene, findings);
        in_flight(ended, scene, &of_scene, findings);
    }
}

fn rate(scene: &ScenePlan, tasks: &[&Task<'_>], findings: &mut Findings) {
    let Some((tokens, burst)) = scene.rate else {
        return;
    };
    let most = f64::from(tokens) * 1.1 + f64::from(burst);
    let claims = || tasks.iter().flat_map(|task| task.claims());
    for first in claims() {
        let within = claims()
            .filter(|claim| claim.asked >= first.asked && claim.answered <= first.asked + SPAN_MS);
        let count = within.count();
        if count as f64 > most {
            let (number, from) = (scene.number, first.asked);
            findings.add(format!(
                "{count} attempts of scene {number} began within 10 s from {from}, at most {most}"
            ));
            return;
        }
    }
}

fn in_flight(ended: &Ended<'_>, scene: &ScenePlan, tasks: &[&Task<'_>], findings: &mut Findings) {
    let Some(most) = scene.in_flight else { return };
    let runs = || tasks.iter().flat_map(|task| task.runs());
    for run in runs() {
        let beside = runs().filter(|other| {
            other.began <= run.began && other.ended.unwrap_or(ended.now) > run.began
        });
        let count = beside.count();
        if count > most as usize {
            let (number, at) = (scene.number, run.began);
            findings.add(format!(
                "{count} attempts of scene {number} run at {at}, at most {most}"
            ));
            return;
        }
    }
}
