//! The keeper of results keeps large results apart from the rows of tasks, for the settle stage and for readers.
//!
//! A result is durable before the row of its task names it. A crash between the two writes, or a report that counts for nothing,
//! leaves bytes under the key of their attempt that no row names. They have an end of life from the start.

use std::sync::Arc;

use super::content;
use crate::{
    flow::base::{api::Fault, budget::Budget, context::Context},
    limits::{RESULT_INLINE_BYTES_MAX, RESULT_KEPT_LONGER},
    model::{
        ids::TaskId,
        result::{self, Place, TaskResult},
        state::{Outcome, TaskRow},
        task::Content,
    },
};

/// Writes the result of a task's attempt apart if it is large, and returns the outcome with the place of the result. `row` is the
/// row of the task as it was read last.
///
/// # Errors
/// When the store is away; repeating it is safe.
pub(in crate::flow) async fn keep_apart(
    ctx: &Context,
    row: &TaskRow,
    attempt: u32,
    outcome: Outcome,
) -> Result<Outcome, Fault> {
    let Outcome::Succeeded {
        result:
            Some(TaskResult {
                content_type,
                place: Place::Inline(payload),
            }),
    } = outcome
    else {
        return Ok(outcome);
    };
    if payload.len() <= RESULT_INLINE_BYTES_MAX {
        let place = Place::Inline(payload);
        return Ok(done(content_type, place));
    }
    let bytes = payload.len() as u64;
    let content = Content {
        payload,
        content_type: content_type.clone(),
        ..Content::default()
    };
    let kept = row.detail.spec.retention + RESULT_KEPT_LONGER;
    let ttl = u32::try_from(kept.as_secs()).unwrap_or(u32::MAX);
    let body = (result::key(row.id, attempt), Arc::new(content));
    // The bytes are copied on their way into the store.
    let _room = ctx.contents.take_to_end(bytes).await;
    let put = ctx
        .store
        .put_bodies(&[body], ctx.time.stamp(), Some(ttl))
        .await;
    put.into_iter().collect::<Result<(), _>>()?;
    Ok(done(content_type, Place::Apart { attempt, bytes }))
}

const fn done(content_type: String, place: Place) -> Outcome {
    Outcome::Succeeded {
        result: Some(TaskResult {
            content_type,
            place,
        }),
    }
}

/// Reads a result that is kept apart, within the memory of `room`. One that is gone keeps its place, which says how large it was.
///
/// # Errors
/// When the store cannot be read.
pub(in crate::flow) async fn read(
    ctx: &Context,
    id: TaskId,
    result: TaskResult,
    room: &Budget,
) -> Result<TaskResult, Fault> {
    let Some((attempt, bytes)) = result.apart() else {
        return Ok(result);
    };
    let _room = room.take(2 * bytes).await;
    Ok(match content::read(ctx, result::key(id, attempt)).await? {
        Some(Content { payload, .. }) => TaskResult {
            place: Place::Inline(payload),
            ..result
        },
        None => result,
    })
}

/// Deletes the bytes of a task's result that are kept apart.
///
/// # Errors
/// When the store is away; repeating it is safe.
pub(in crate::flow) async fn delete(ctx: &Context, row: &TaskRow) -> Result<(), Fault> {
    let result = row.detail.result.as_ref();
    let Some((attempt, _)) = result.and_then(TaskResult::apart) else {
        return Ok(());
    };
    let (key, written) = (result::key(row.id, attempt), ctx.time.stamp());
    Ok(ctx.store.delete_bodies(&[key], written).await?)
}
