//! I17: a key names at most one live task at every moment, and a request that is sent twice is one task. (Exactly
//! one creation: the linearisability of a register that is compared and set.)
//!
//! A task lives for certain from its acknowledgement to the last claim that found it. Two such spans of one key may
//! not overlap: a task that was replaced is not claimed (again) after the answer to the task that replaced it.

use std::collections::{BTreeMap, BTreeSet};

use tickwheel::model::ids::TaskId;

use super::{Ended, Findings, scenes::Task};

pub(super) fn check(ended: &Ended<'_>, findings: &mut Findings) {
    let tasks = ended.scene_tasks();
    let mut keys: BTreeMap<(usize, u8), Vec<&Task<'_>>> = BTreeMap::new();
    for task in &tasks {
        if let Some((key, _)) = task.item.key {
            let named = keys.entry((task.scene.number, key)).or_default();
            named.push(task);
        }
    }
    for named in keys.values() {
        for (place, one) in named.iter().enumerate() {
            for other in named.iter().skip(place + 1) {
                if let (Some(span), Some(beside)) = (lives(one), lives(other))
                    && span.0.max(beside.0) < span.1.min(beside.1)
                {
                    let (one, other) = (one.name(), other.name());
                    findings.add(format!(
                        "{one} lives at {span:?}, and {other} of the same key at {beside:?}"
                    ));
                }
            }
        }
    }
    one_for_a_request(&tasks, findings);
    named_tasks_exist(ended, findings);
}

/// A span in which a task lives for certain.
fn lives(task: &Task<'_>) -> Option<(i64, i64)> {
    let last = task.claims().iter().map(|claim| claim.asked).max()?;
    Some((task.known?, last))
}

/// The requests of a mark are one task.
fn one_for_a_request(tasks: &[Task<'_>], findings: &mut Findings) {
    let mut made: BTreeMap<(usize, usize), BTreeSet<TaskId>> = BTreeMap::new();
    for task in tasks.iter().filter(|task| task.item.marked) {
        let place = (task.scene.number, task.item.number);
        let ids = made.entry(place).or_default();
        ids.insert(task.id);
        let answers = task
            .entered
            .into_iter()
            .flat_map(|entered| &entered.answers);
        ids.extend(answers.map(|(_, id, _)| *id));
    }
    for ((scene, item), ids) in made.iter().filter(|(_, ids)| ids.len() > 1) {
        findings.add(format!(
            "the requests of item {scene}.{item} are tasks {ids:?}"
        ));
    }
}

/// Each task that an answer names has existed.
fn named_tasks_exist(ended: &Ended<'_>, findings: &mut Findings) {
    for scene in &ended.plan.scenes {
        let told = ended.scene_story(scene).into_iter();
        for (item, entered) in told.flat_map(|told| &told.entered) {
            for (entry, id, at) in &entered.answers {
                let refused = *entry == crate::seeded::history::Entry::Refused;
                if !refused && !ended.contents.rows.contains_key(id) {
                    let scene = scene.number;
                    findings.add(format!(
                        "item {scene}.{item} was answered {entry:?} at {at}, and {id} is not there"
                    ));
                }
            }
        }
    }
}
