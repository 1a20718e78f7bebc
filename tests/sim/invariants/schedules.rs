//! I20: each time of a schedule is at most one task, and exactly one while it is live. No run begins between the
//! answer to a pause and the request to go on, and none after the answer to a deletion. (Jepsen's checker for
//! Chronos, for runs of a schedule.)

use std::collections::{BTreeMap, BTreeSet};

use tickwheel::model::{schedule::life::Overlap, state::State};

use super::{Ended, Findings, scenes::Task};
use crate::seeded::{
    history::Ordered,
    scene::{ScenePlan, SchedulePlan, Step},
};

/// Times so near to a change may lie on both sides of it, beside the errors of clocks: decisions are made ahead.
const NEAR_MS: i64 = 2000;

pub(super) fn check(ended: &Ended<'_>, findings: &mut Findings) {
    let tasks = ended.scene_tasks();
    for scene in &ended.plan.scenes {
        let orders = ended.orders(scene);
        let put = orders.iter().find_map(|order| match order.step {
            Step::Put(schedule) => Some((order, schedule)),
            _ => None,
        });
        let Some((put, schedule)) = put else { continue };
        let triggered: BTreeSet<_> = orders.iter().flat_map(|order| &order.tasks).collect();
        let unsure = orders
            .iter()
            .any(|order| order.step == Step::Trigger && order.tasks.is_empty());
        let (mut runs, mut withdrawn) = (BTreeMap::<i64, Vec<&Task<'_>>>::new(), BTreeSet::new());
        let of_scene = tasks
            .iter()
            .filter(|task| task.scene.number == scene.number);
        for task in of_scene.filter(|task| !triggered.contains(&task.id)) {
            let Some(time) = task.scheduled() else {
                continue;
            };
            // A run that nobody had begun goes with a pause or a deletion. Its time may come again behind a pause.
            if task.state() == Some(State::Cancelled) && task.claims().is_empty() {
                withdrawn.insert(time);
            } else {
                runs.entry(time).or_default().push(task);
            }
        }
        for (time, tasks) in runs.iter().filter(|(_, tasks)| tasks.len() > 1) {
            let names: Vec<String> = tasks.iter().map(|task| task.name()).collect();
            findings.add(format!("the time {time} is {names:?}"));
        }
        let Some(anchor) = put.anchor.filter(|_| !unsure) else {
            continue;
        };
        let every = schedule.every.cast_signed();
        for time in runs.keys().filter(|time| (**time - anchor) % every != 0) {
            findings.add(format!("{time} is no time of scene {}", scene.number));
        }
        let seen: BTreeSet<i64> = runs.keys().copied().collect();
        lost(
            ended,
            (scene, schedule, anchor),
            (&seen, &withdrawn),
            findings,
        );
        for tasks in runs.values() {
            for task in tasks {
                behind_a_change(ended, task, findings);
            }
        }
    }
}

/// Tells whether all times must run: none may be skipped for another run, and none is missed.
fn runs_all(ended: &Ended<'_>, schedule: SchedulePlan) -> bool {
    schedule.overlap == Overlap::Allow && (schedule.all_missed || ended.plan.is_calm())
}

fn lost(
    ended: &Ended<'_>,
    (scene, schedule, anchor): (&ScenePlan, SchedulePlan, i64),
    (seen, withdrawn): (&BTreeSet<i64>, &BTreeSet<i64>),
    findings: &mut Findings,
) {
    if seen.len() as u64 > schedule.limit {
        let (number, limit) = (scene.number, schedule.limit);
        findings.add(format!("scene {number} has runs {seen:?}, at most {limit}"));
    }
    if !runs_all(ended, schedule) {
        return;
    }
    let near = NEAR_MS + ended.plan.clock_error_max().cast_signed();
    let orders = ended.orders(scene);
    // From the first change on only the times before it are certain. Those that are missed go with a deletion that comes before
    // the service has made up for them.
    let stops = |order: &&Ordered| matches!(order.step, Step::Pause | Step::Delete);
    let changed = orders.iter().find(stops).map(|order| order.asked);
    let until = changed.map(|asked| {
        let faults = ended.plan.faults.iter();
        let lasted = faults.filter(|fault| fault.ends().cast_signed() + near > asked);
        let began = lasted.map(|fault| fault.at.cast_signed());
        began.min().unwrap_or(asked).min(asked) - near
    });
    let limit = i64::try_from(schedule.limit).unwrap_or(0);
    let times = (1..=limit).map(|number| anchor + number * schedule.every.cast_signed());
    for time in times.filter(|time| until.is_none_or(|until| *time < until)) {
        if !seen.contains(&time) && !withdrawn.contains(&time) {
            findings.add(format!(
                "the time {time} of scene {} was lost",
                scene.number
            ));
        }
    }
    let deleted = orders.iter().any(|order| order.step == Step::Delete);
    let resumed = orders
        .iter()
        .all(|order| order.step != Step::Resume || order.done);
    if !deleted && resumed && (seen.len() as u64) < schedule.limit {
        let (number, limit) = (scene.number, schedule.limit);
        findings.add(format!("scene {number} has runs {seen:?}, must be {limit}"));
    }
}

fn behind_a_change(ended: &Ended<'_>, task: &Task<'_>, findings: &mut Findings) {
    let orders = ended.orders(task.scene);
    for (place, order) in orders.iter().enumerate() {
        if !matches!(order.step, Step::Pause | Step::Delete) || !order.done {
            continue;
        }
        let mut later = orders.iter().skip(place + 1);
        let resumed = later.find(|order| order.step == Step::Resume);
        let until = resumed.map_or(i64::MAX, |order| order.asked);
        let first = task.claims().iter().find(|claim| claim.attempt == 1);
        if let Some(claim) =
            first.filter(|claim| claim.asked > order.answered && claim.answered < until)
        {
            let (name, at) = (task.name(), claim.answered);
            findings.add(format!(
                "{name} began at {at}, and the schedule was stopped at {} until {until}",
                order.answered
            ));
        }
    }
}
