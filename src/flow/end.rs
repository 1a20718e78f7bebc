//! What is to be done when a task has become terminal.
//!
//! Idempotent: done by whoever made it terminal, and again by the look that finds it so before it drops. A crash between the
//! last transition and these steps is therefore repaired by the look.

use std::sync::Arc;

use super::{api::Fault, context::Context};
use crate::model::state::{TERMINAL_TTL_MIN, TaskRow};

/// Does the end steps of a terminal task: a content that is kept apart gets an end of life.
///
/// # Errors
/// When the store is away; the look comes back to it.
pub(super) async fn steps(ctx: &Context, row: &TaskRow) -> Result<(), Fault> {
    let Some(bytes) = row.detail.spec.bytes_apart() else {
        return Ok(());
    };
    // Many tasks may end at once, and each content is in memory for this.
    let _room = ctx.contents.take_to_end(2 * bytes).await;
    let body = ctx
        .store
        .bodies(&[row.id])
        .await?
        .into_iter()
        .next()
        .flatten();
    let Some(content) = body else { return Ok(()) };
    // Entries of the task that are still ahead need no content any more; readers of the task do, while it is retained.
    let ttl = row.detail.spec.retention.max(TERMINAL_TTL_MIN).as_secs();
    let ttl = u32::try_from(ttl).unwrap_or(u32::MAX);
    let put = ctx
        .store
        .put_bodies(&[(row.id, Arc::new(content))], ctx.time.stamp(), Some(ttl))
        .await;
    for result in put {
        result?;
    }
    Ok(())
}
