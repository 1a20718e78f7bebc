//! The end steps give the content of every terminal task an end of life for the store, and file the letter of a dead one.
//! They are undone when a dead task is to run again. The content of a task that a person deleted is removed.
//!
//! The steps are idempotent. The stage that made the task terminal does them, and the look that finds it
//! terminal does them again before it drops. A crash between the last transition and these steps is therefore
//! repaired by the look. A slow node may do the steps after a redrive. The looks of a task that may have been
//! redriven therefore undo them again, days before the content would end.

use std::{sync::Arc, time::Duration};

use super::results;
use crate::{
    flow::{api::Fault, context::Context, dead_letters::filing},
    model::{
        dead_letter,
        ids::TaskId,
        restart,
        state::{TERMINAL_TTL_MIN, TaskRow},
        task::Spec,
    },
};

/// Does the end steps of a terminal task: a content that is kept apart gets an end of life, and a dead task a letter. The
/// letter of a life before goes first, since a crash in between is repeated by the look, and no reader counts a task twice.
///
/// # Errors
/// When the store is away; the look comes back to it.
pub(in crate::flow) async fn steps(ctx: &Context, row: &TaskRow) -> Result<(), Fault> {
    if row.detail.erased {
        // No reader is shown it any more. A repeated step removes nothing.
        let written = ctx.time.stamp();
        ctx.store.delete_bodies(&[row.id], written).await?;
        results::delete(ctx, row).await?;
    }
    filing::withdraw(ctx, row).await?;
    filing::file(ctx, row).await?;
    // Entries of the task that are still ahead need no content any more; readers of the task do, while it is retained.
    let kept = dead_letter::kept(row).max(TERMINAL_TTL_MIN);
    keep_content(ctx, row.id, &row.detail.spec, Some(kept))
        .await
        .map(drop)
}

/// Undoes the end steps of a task that is to run again: its content lives for ever. False when it is gone.
///
/// # Errors
/// When the store is away.
pub(in crate::flow) async fn undo(ctx: &Context, id: TaskId, spec: &Spec) -> Result<bool, Fault> {
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
    let body = ctx.store.bodies(&[id]).await?.into_iter().next().flatten();
    let Some(content) = body else {
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
