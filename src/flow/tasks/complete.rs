//! The completion fills for registration what the callbacks of a task, and of the tasks that follow it, say of it.
//!
//! A follow-up is complete when the task before it is registered. So the end steps of that task write the same follow-up each
//! time, and a refusal meets the client that can correct it.

use crate::{
    flow::{api::Fault, records::callbacks::Known},
    limits::{LABELS_MAX, THEN_BYTES_MAX, THEN_IN_TREE_BYTES_MAX},
    model::{
        callback::Callback,
        chain::{FollowUp, Refusal},
        draft::{Defaults, TaskDraft},
        task::{Body, Spec},
    },
    schema::{follow_ups_bytes, in_tree_bytes},
};

/// Returns the names of the callbacks of tasks, and of those that follow them.
pub(super) fn callbacks<'a>(
    drafts: impl Iterator<Item = &'a TaskDraft>,
) -> impl Iterator<Item = &'a str> {
    let mut names = Vec::new();
    for draft in drafts {
        note(draft, &mut names);
    }
    names.into_iter()
}

fn note<'a>(draft: &'a TaskDraft, names: &mut Vec<&'a str>) {
    names.extend(draft.target.callback());
    // Each level is one call deep, and there are a few.
    for follow in &draft.then {
        note(&follow.task, names);
    }
}

/// Completes a task, with those that follow it.
///
/// # Errors
/// The rules of a callback cannot be told now, or the follow-ups are too large.
pub(super) fn complete(draft: TaskDraft, known: &Known) -> Result<Spec, Fault> {
    let spec = one(draft, known)?;
    if spec.then.is_empty() {
        return Ok(spec);
    }
    let (bytes, most) = (follow_ups_bytes(&spec.then), THEN_BYTES_MAX);
    if bytes > most {
        return Err(Fault::Chain(Refusal::TooLarge { bytes, most }));
    }
    check_in_tree(&spec.then)?;
    Ok(spec)
}

fn check_in_tree(then: &[FollowUp<Spec>]) -> Result<(), Fault> {
    for FollowUp { in_tree, task, .. } in then {
        let (bytes, most) = (in_tree_bytes(task), THEN_IN_TREE_BYTES_MAX);
        if *in_tree && bytes > most {
            return Err(Fault::Chain(Refusal::TooLargeForTree { bytes, most }));
        }
        check_in_tree(&task.then)?;
    }
    Ok(())
}

fn one(mut draft: TaskDraft, known: &Known) -> Result<Spec, Fault> {
    let then = std::mem::take(&mut draft.then);
    let callback = draft.target.callback().map(|name| known.get(name));
    let callback = callback.transpose()?.flatten();
    let defaults = callback.map_or(Defaults::SERVICE, Callback::defaults);
    let mut spec = draft.complete(&defaults);
    let policy = callback.and_then(|callback| callback.policy.as_ref());
    if let Some(http) = policy.and_then(|policy| policy.http.as_ref()) {
        spec.target.deliver_by(http);
    }
    if spec.notify.is_none() {
        spec.notify = policy.and_then(|policy| policy.notify.clone());
    }
    if let (Some(policy), Body::Inline(content)) = (policy, &mut spec.body) {
        policy.label(&mut content.labels, LABELS_MAX);
        spec.indexed = policy.index(&content.labels);
    }
    for follow in then {
        let FollowUp {
            when,
            start,
            with_result,
            in_tree,
            task,
        } = follow;
        spec.then.push(FollowUp {
            when,
            start,
            with_result,
            in_tree,
            task: one(task, known)?,
        });
    }
    Ok(spec)
}
