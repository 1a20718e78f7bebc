//! The end steps give the content of every terminal task an end of life for the store, file the letter of a dead one, have
//! its record published where its callback names a topic for that, and have the end told to those who want to know it. The
//! rows of its labels get an end of life, too. All of this is undone when a dead task is to run again. The content of a
//! task that a person deleted is removed.
//!
//! The steps are idempotent. The stage that made the task terminal does them, and the look that finds it
//! terminal does them again before it drops. A crash between the last transition and these steps is therefore
//! repaired by the look. A slow node may do the steps after a redrive. The looks of a task that may have been
//! redriven therefore undo them again, days before the content would end.
//!
//! A repetition tells an end no second time, as it finds what was registered for it. The registrations are forgotten after days
//! ([`END_TOLD_WITHIN`]), and a caller that comes later does the other steps alone. Only the look of a plain task, which is
//! dropped then, tells an end however old it is: the look of a task that was cancelled long before its start may be the first.

use std::{sync::Arc, time::Duration};

use crate::{
    flow::{
        base::{
            api::Fault,
            context::Context,
            rows::{content, results},
        },
        features::{
            ends::{dead_letter_topic, follow_ups, report},
            join::ended as joins_ended,
            letter::filing,
            lists::{ended_rows, label_rows},
            sequence::leave,
            tree::ended as family_ended,
        },
    },
    limits::END_TOLD_WITHIN,
    model::{
        dead_letter, family,
        ids::TaskId,
        restart,
        state::{TERMINAL_TTL_MIN, TaskRow},
        task::Spec,
        time::Millis,
    },
};

const _: () = assert!(END_TOLD_WITHIN.as_secs() < TERMINAL_TTL_MIN.as_secs());

/// Does the end steps of a terminal task: its sequence goes on, a content that is kept apart gets an end of life, a dead
/// task a letter, and an end that somebody wants to know a task that tells it. The tasks that follow it are registered. The
/// letter of a life before goes first, since a crash in between is repeated by the look, and no reader counts a task twice.
///
/// # Errors
/// When the store is away; the look comes back to it.
pub(in crate::flow) async fn steps(ctx: &Context, row: &TaskRow) -> Result<(), Fault> {
    steps_telling(ctx, row, true).await
}

/// Does the end steps of a terminal task for a caller that may come long behind its end. An end that is days old is not told
/// again.
///
/// # Errors
/// As of [`steps`].
pub(in crate::flow) async fn steps_again(ctx: &Context, row: &TaskRow) -> Result<(), Fault> {
    let tells = may_be_told(ctx, row.detail.end_time);
    steps_telling(ctx, row, tells).await
}

async fn steps_telling(ctx: &Context, row: &TaskRow, tells: bool) -> Result<(), Fault> {
    if row.waits_for_children() {
        return Box::pin(run_steps(ctx, row, ctx.now())).await;
    }
    let mut left = Ok(());
    if row.detail.spec.ordering_key.is_some() {
        // Apart, so that the step of other tasks is as small as it can be. Rows of other tasks may fail it, and they keep no step
        // of this one from being done.
        left = Box::pin(leave::ended(ctx, row)).await;
    }
    if row.detail.erased {
        // No reader is shown it any more. A repeated step removes nothing.
        let written = ctx.time.stamp();
        ctx.store.delete_bodies(&[row.id], written).await?;
        results::delete(ctx, row).await?;
        label_rows::remove(ctx, row.id, &row.detail.spec).await?;
    }
    filing::withdraw(ctx, row).await?;
    filing::file(ctx, row).await?;
    ended_rows::file(ctx, row).await?;
    if !row.detail.erased {
        let end = row.detail.end_time.unwrap_or_else(|| ctx.now());
        let end = end.after(dead_letter::kept(row));
        label_rows::keep(ctx, row.id, &row.detail.spec, Some(end)).await?;
    }
    // Entries of the task that are still ahead need no content any more; readers of the task do, while it is retained.
    let kept = dead_letter::kept(row).max(TERMINAL_TTL_MIN);
    keep_content(ctx, row.id, &row.detail.spec, Some(kept)).await?;
    if row.detail.spec.kin.is_some() {
        Box::pin(kin_steps(ctx, row)).await?;
        return left;
    }
    if tells {
        dead_letter_topic::file(ctx, row).await?;
        report::tell(ctx, row).await?;
    }
    joins_ended::step(ctx, row).await?;
    left
}

/// Does the end steps of the own run of a task whose tree goes on. The end of its life in the store waits for the tree. `due` is
/// now, or when the look was due that asks for them: the first looks behind the end repeat them, also where they come days late.
/// They are not repeated for ever: that would tell the end of the run again, once nobody remembers that it was told.
///
/// # Errors
/// As of [`steps`].
pub(in crate::flow) async fn run_steps(
    ctx: &Context,
    row: &TaskRow,
    due: Millis,
) -> Result<(), Fault> {
    let end = row.detail.end_time;
    let repeated = family::run_steps_repeated(row.id);
    let mut left = Ok(());
    if may_be_told(ctx, end) && end.is_none_or(|end| due.since(end) < repeated) {
        left = leave::ended(ctx, row).await;
        filing::file(ctx, row).await?;
        dead_letter_topic::file(ctx, row).await?;
        report::tell(ctx, row).await?;
    }
    follow_ups::join(ctx, row).await?;
    family_ended::step(ctx, row).await?;
    left
}

/// Does what only the end of a task of a tree asks for.
async fn kin_steps(ctx: &Context, row: &TaskRow) -> Result<(), Fault> {
    if may_be_told(ctx, row.detail.end_time) {
        dead_letter_topic::file(ctx, row).await?;
        report::tell(ctx, row).await?;
    }
    if row.detail.tree.is_some() && may_be_told(ctx, row.detail.tree.map(|tree| tree.at)) {
        report::tell_tree(ctx, row).await?;
    }
    follow_ups::join(ctx, row).await?;
    family_ended::step(ctx, row).await?;
    joins_ended::step(ctx, row).await
}

/// Tells whether an end of this time may be told: a repetition still finds what was registered when it was told before.
pub(super) fn may_be_told(ctx: &Context, end: Option<Millis>) -> bool {
    let now = ctx.store.expired_by(ctx.now());
    end.is_none_or(|end| now.since(end) < END_TOLD_WITHIN)
}

/// Undoes the end steps of a task that is to run again: its content lives for ever. False when it is gone.
///
/// # Errors
/// When the store is away.
pub(in crate::flow) async fn undo(ctx: &Context, id: TaskId, spec: &Spec) -> Result<bool, Fault> {
    label_rows::keep(ctx, id, spec, None).await?;
    keep_content(ctx, id, spec, None).await
}

/// Does for redriven tasks that are looked at what their redrive may have left: their letters go, and their contents get
/// their unbounded life back. A failure is left to the next look.
pub(in crate::flow) async fn keep_redriven(ctx: &Context, rows: &[Option<TaskRow>]) {
    let redriven = |row: &&TaskRow| restart::may_be_redriven(row);
    for row in rows.iter().flatten().filter(redriven) {
        if let Err(fault) = undo(ctx, row.id, &row.detail.spec).await {
            tracing::debug!(task = %row.id, %fault, "its content was left to the next look");
        }
    }
    // The end steps of a terminal task do it.
    let runs = |row: &&TaskRow| !row.state.is_terminal();
    for row in rows.iter().flatten().filter(runs) {
        if let Err(fault) = filing::withdraw(ctx, row).await {
            tracing::debug!(task = %row.id, %fault, "its letter was left to the next look");
        }
    }
}

/// Writes a content that is kept apart again: it is kept for `kept` from now on, or for ever.
async fn keep_content(
    ctx: &Context,
    id: TaskId,
    spec: &Spec,
    kept: Option<Duration>,
) -> Result<bool, Fault> {
    let Some(bytes) = spec.bytes_apart() else {
        return Ok(true);
    };
    // Many tasks may end at once, and each content is in memory for this.
    let _room = ctx.contents.take_to_end(2 * bytes).await;
    let Some(content) = content::read(ctx, id).await? else {
        return Ok(false);
    };
    let ttl = kept.map(|kept| u32::try_from(kept.as_secs()).unwrap_or(u32::MAX));
    let put = ctx
        .store
        .put_bodies(&[(id, Arc::new(content))], ctx.time.stamp(), ttl)
        .await;
    for result in put {
        result?;
    }
    Ok(true)
}
