//! Reads of the rows of tasks, for every stage and feature. `crate::flow::life::door` alone writes them.

use crate::{
    flow::base::{api::Fault, context::Context},
    model::{ids::TaskId, state::TaskRow},
    store::{self, Freshness},
};

/// Reads a row.
///
/// # Errors
/// [`Fault::Unavailable`] when the store cannot be read.
pub(in crate::flow) async fn row(ctx: &Context, id: TaskId) -> Result<Option<TaskRow>, Fault> {
    Ok(one(ctx, id, Freshness::Quorum).await?)
}

/// Reads rows, each with an outcome of its own: one that cannot be understood, or be read for now, fails alone.
pub(in crate::flow) async fn rows_each(
    ctx: &Context,
    ids: &[TaskId],
) -> Vec<Result<Option<TaskRow>, store::Error>> {
    if ids.is_empty() {
        return Vec::new();
    }
    ctx.store.tasks_each(ids, Freshness::Quorum).await
}

/// Reads rows as [`rows_each`] does, for entries of these generations. A row of an earlier generation is read once more,
/// serially. The transition that its entry was written for may be decided and not learned by a quorum: the serial read completes
/// it, and no lesser read ever would.
pub(in crate::flow) async fn rows_of_generations(
    ctx: &Context,
    tasks: &[(TaskId, u32)],
) -> Vec<Result<Option<TaskRow>, store::Error>> {
    let ids: Vec<TaskId> = tasks.iter().map(|(id, _)| *id).collect();
    let mut rows = rows_each(ctx, &ids).await;
    for ((id, generation), row) in tasks.iter().zip(&mut rows) {
        let found = row
            .as_ref()
            .map(|row| row.as_ref().map_or(0, |row| row.generation));
        if found.is_ok_and(|found| found < *generation) {
            *row = one(ctx, *id, Freshness::Serial).await;
        }
    }
    rows
}

/// Reads a row as fresh as this.
///
/// # Errors
/// As of the store.
pub(in crate::flow) async fn one(
    ctx: &Context,
    id: TaskId,
    freshness: Freshness,
) -> Result<Option<TaskRow>, store::Error> {
    let rows = ctx.store.tasks(&[id], freshness).await?;
    Ok(rows.into_iter().next().flatten())
}
