//! I21: a tree ends once, and behind all of its tasks. Once a reader has seen its end, none of its tasks is claimed
//! and none is added, unless its failed part was told to run again. A child that waits for the run of its parent
//! runs behind it, if that has succeeded, and else not at all.

use std::collections::BTreeMap;

use tickwheel::model::{
    family::{self, TreeOutcome},
    ids::TaskId,
    state::{Outcome, State},
};

use super::{Ended, Findings, scenes::Task};
use crate::seeded::scene::Step;

pub(super) fn check(ended: &Ended<'_>, findings: &mut Findings) {
    let tasks = ended.scene_tasks();
    let by_id: BTreeMap<TaskId, &Task<'_>> = tasks.iter().map(|task| (task.id, task)).collect();
    for task in &tasks {
        let mut above = parent(task, &by_id);
        if let Some(parent) = above.filter(|_| task.item.after_parent) {
            waits(task, parent, findings);
        }
        while let Some(ancestor) = above {
            below(ended, task, ancestor, findings);
            above = parent(ancestor, &by_id);
        }
        faulted(&tasks, task, findings);
    }
}

/// The task that a task is a child of, as its row says.
fn parent<'a>(task: &Task<'_>, by_id: &BTreeMap<TaskId, &'a Task<'a>>) -> Option<&'a Task<'a>> {
    let kin = task.row?.detail.spec.kin.as_ref()?;
    by_id.get(&kin.parent?).copied()
}

/// Nothing of a tree happens behind its end.
fn below(ended: &Ended<'_>, task: &Task<'_>, ancestor: &Task<'_>, findings: &mut Findings) {
    let told = ended.scene_story(task.scene);
    let Some((_, seen)) = told.and_then(|told| told.trees.get(&ancestor.id)) else {
        return;
    };
    let (name, root) = (task.name(), ancestor.name());
    let retried = ended.orders(task.scene).iter();
    let retried = retried.filter(|order| order.step == Step::Retry);
    let until = retried.map(|order| order.asked).min().unwrap_or(i64::MAX);
    let behind = |asked: i64, answered: i64| asked > *seen && answered < until;
    let claim = task
        .claims()
        .iter()
        .find(|claim| behind(claim.asked, claim.answered));
    if let Some(claim) = claim {
        let at = claim.answered;
        findings.add(format!(
            "{name} was claimed at {at}, behind {root}, at its end by {seen}"
        ));
    }
    if let (Some(entered), Some(known)) = (task.entered, task.known)
        && behind(entered.asked, known)
    {
        let at = entered.asked;
        findings.add(format!(
            "{name} was added from {at} to {known}, behind {root}, at its end by {seen}"
        ));
    }
}

/// A child that waits for the run of its parent.
fn waits(task: &Task<'_>, parent: &Task<'_>, findings: &mut Findings) {
    let succeeded = parent.state() == Some(State::Succeeded);
    let ended = parent
        .runs()
        .iter()
        .find(|run| run.whole && matches!(run.outcome, Some(Outcome::Succeeded { .. })));
    let end = ended.and_then(|run| run.ended);
    let early = task
        .runs()
        .iter()
        .find(|run| end.is_none_or(|end| run.began < end));
    if let Some(run) = early {
        let (name, began, parent) = (task.name(), run.began, parent.name());
        findings.add(format!(
            "{name} began at {began}, before the end {end:?} of {parent}"
        ));
    }
    if !succeeded && !matches!(task.state(), Some(State::Cancelled) | None) {
        let (name, state) = (task.name(), task.state());
        findings.add(format!(
            "{name} is {state:?}, and its parent has not succeeded"
        ));
    }
}

/// A tree is faulted if its own run or a child is.
fn faulted(tasks: &[Task<'_>], task: &Task<'_>, findings: &mut Findings) {
    let Some((row, tree)) = task.row.and_then(|row| Some((row, row.detail.tree?))) else {
        return;
    };
    let is_child = |other: &&Task<'_>| {
        let kin = other.row.and_then(|row| row.detail.spec.kin.as_ref());
        kin.is_some_and(|kin| kin.parent == Some(task.id))
    };
    let child = |other: &Task<'_>| {
        let own = other.state().is_some_and(family::faults);
        let below = other.row.and_then(|row| row.detail.tree);
        own || below.is_some_and(|tree| tree.outcome == TreeOutcome::Faulted)
    };
    let faulted = family::faults(row.state) || tasks.iter().filter(is_child).any(child);
    // No tree is cancelled as a whole here.
    let expected = if faulted {
        TreeOutcome::Faulted
    } else {
        TreeOutcome::Completed
    };
    if tree.outcome != expected {
        let name = task.name();
        findings.add(format!(
            "the tree of {name} is {tree:?}, and must be {expected:?}"
        ));
    }
}
