//! The completion fills for registration what the callbacks of a task, and of the tasks that follow it, say of it.
//!
//! A follow-up is complete when the task before it is registered. So the end steps of that task write the same follow-up each
//! time, and a refusal meets the client that can correct it.

use crate::{
    flow::base::{api::Fault, records::callbacks::Known},
    limits::{LABELS_MAX, THEN_BYTES_MAX, THEN_IN_TREE_BYTES_MAX},
    model::{
        callback::Callback,
        chain::{FollowUp, Refusal},
        draft::{Defaults, TaskDraft},
        target::Target,
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
    if draft.then.is_empty() {
        return one(draft, known, Adds::All);
    }
    let is_run = draft.scheduled.is_some();
    let bare = is_run.then(|| draft.clone());
    let spec = one(draft, known, Adds::All)?;
    match (check(&spec.then), bare) {
        (Ok(()), _) => Ok(spec),
        // A run of a schedule has no client that could correct it: it was checked when it was set, and must not fail for ever.
        (Err(refusal), Some(bare)) => {
            tracing::debug!(%refusal, "the follow-ups of a run go without the labels and notices of their callbacks");
            one(bare, known, Adds::Nothing)
        }
        (Err(refusal), None) => Err(Fault::Chain(refusal)),
    }
}

/// How much the callbacks of follow-ups add to these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Adds {
    /// All that they say.
    All,
    /// Nothing that takes room.
    Nothing,
}

fn check(then: &[FollowUp<Spec>]) -> Result<(), Refusal> {
    let (bytes, most) = (follow_ups_bytes(then), THEN_BYTES_MAX);
    if bytes > most {
        return Err(Refusal::TooLarge { bytes, most });
    }
    check_in_tree(then)
}

fn check_in_tree(then: &[FollowUp<Spec>]) -> Result<(), Refusal> {
    for FollowUp { in_tree, task, .. } in then {
        let (bytes, most) = (in_tree_bytes(task), THEN_IN_TREE_BYTES_MAX);
        if *in_tree && bytes > most {
            return Err(Refusal::TooLargeForTree { bytes, most });
        }
        check_in_tree(&task.then)?;
    }
    Ok(())
}

fn one(draft: TaskDraft, known: &Known, adds: Adds) -> Result<Spec, Fault> {
    // The task itself has all of it: its follow-ups alone are bounded together.
    level(draft, known, Adds::All, adds)
}

fn level(
    mut draft: TaskDraft,
    known: &Known,
    own: Adds,
    of_follow_ups: Adds,
) -> Result<Spec, Fault> {
    let then = std::mem::take(&mut draft.then);
    let callback = draft.target.callback().map(|name| known.get(name));
    let callback = callback.transpose()?.flatten();
    let defaults = callback.map_or(Defaults::SERVICE, Callback::defaults);
    let policy = callback.and_then(|callback| callback.policy.as_ref());
    // Before the rest: the target decides how long an attempt lives.
    if let Some(http) = policy.and_then(|policy| policy.http.as_ref()) {
        draft.target.deliver_by(http);
    }
    let mut spec = draft.complete(&defaults);
    // The end of the task that it copies was told.
    let is_copy = matches!(&spec.target, Target::Http { call, .. } if call.message_id.is_some());
    if spec.notify.is_none() && own == Adds::All && !is_copy {
        spec.notify = policy.and_then(|policy| policy.notify.clone());
    }
    if let (Some(policy), Body::Inline(content)) = (policy, &mut spec.body) {
        if own == Adds::All {
            policy.label(&mut content.labels, LABELS_MAX);
        }
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
            task: level(task, known, of_follow_ups, of_follow_ups)?,
        });
    }
    Ok(spec)
}
