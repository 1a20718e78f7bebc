//! The rows of ended tasks let the lister find, for people, tasks that have ended.
//!
//! A row lies in the partition of callback, state and day of the end, where the store cannot list ended tasks by their own rows.
//! A task that ended with an error has one more in every store: in the partition of callback, class of the error and day. That
//! has the hash of the class alone: the deletion of a task erases its error, also that of a life before.
//!
//! Rows are plain writes of the end steps, behind the row of the task: a crash in between leaves a task without them, and the
//! look of the task repeats the steps, which write under the same places. They end when the task can be read no more. The
//! deletion of the task removes them. A task that was redriven, or has ended again on another day, leaves them behind. A reader
//! looks at the task and removes such a row then.
//!
//! Tasks that succeed have rows only where their callback asks for that: they are the many.

use crate::{
    flaw::{self, Flaw},
    flow::base::{
        api::Fault,
        context::Context,
        tables::{
            ended::{self, Part, Trait, day_of, partition},
            rows_by_id,
        },
    },
    model::{
        dead_letter, error_class,
        ids::TaskId,
        row::{State, TaskRow},
    },
    store::{
        self,
        index::{IndexPut, IndexRemoval, IndexRow, Place, Refused},
    },
};

/// The states that are filed, in the order in which a day is read.
pub(in crate::flow) const FILED: [State; 5] = [
    State::Dead,
    State::Failed,
    State::Expired,
    State::Cancelled,
    State::Succeeded,
];

/// Writes the rows of a task that has ended, where there are to be some, and removes those of a task that was deleted. Others
/// cost nothing.
///
/// # Errors
/// When the store is away; repeating it is safe.
pub(in crate::flow) async fn file(ctx: &Context, row: &TaskRow) -> Result<(), Fault> {
    let (Some(callback), Some(end)) = (row.detail.spec.callback(), row.detail.end_time) else {
        return Ok(());
    };
    let places = places(ctx, row, callback, day_of(end)).await?;
    if places.is_empty() {
        return Ok(());
    }
    let written = ctx.time.stamp();
    if row.detail.erased {
        let removal = |place| IndexRemoval { place, written };
        let removals: Vec<_> = places.into_iter().map(removal).collect();
        return done(ctx.store.remove_index(&removals).await);
    }
    // The end of a task that may have children is that of its tree.
    let end = row.ended_at().unwrap_or(end).after(dead_letter::kept(row));
    let put = |place| ended::row(place, written, end);
    let puts: Vec<IndexPut> = places
        .into_iter()
        .map(put)
        .collect::<Result<_, Refused>>()?;
    let written = ctx.store.put_index(&puts).await;
    if flaw::is(Flaw::EndedRowLeft) {
        return Ok(());
    }
    done(written)
}

/// Returns where the rows of an ended task lie. The error of a deleted one is gone, so its row is left to the next reader.
async fn places(
    ctx: &Context,
    row: &TaskRow,
    callback: &str,
    day: i64,
) -> Result<Vec<Place>, Fault> {
    let mut traits = Vec::new();
    if !FILED.contains(&row.state) {
        return Ok(Vec::new());
    }
    let is_filed = !ctx.store.lists_ended_tasks()
        && (row.state != State::Succeeded
            || row.detail.erased
            || lists_succeeded(ctx, callback).await?);
    if is_filed {
        traits.push(Trait::State(row.state));
    }
    let error = row.detail.error.as_deref().map(error_class::error_class);
    traits.extend(error.as_deref().map(Trait::Error));
    let place = |of| ended::place(Part { callback, of, day }, row.id);
    Ok(traits.into_iter().map(place).collect::<Result<_, _>>()?)
}

fn done(results: Vec<Result<(), store::Error>>) -> Result<(), Fault> {
    let all: Result<(), store::Error> = results.into_iter().collect();
    Ok(all?)
}

/// Tells whether tasks of a callback that succeed have rows.
///
/// # Errors
/// When the configuration cannot be read.
pub(in crate::flow) async fn lists_succeeded(ctx: &Context, callback: &str) -> Result<bool, Fault> {
    let policy = ctx.configured.policy(&*ctx.store, callback).await?;
    Ok(policy.is_some_and(|policy| policy.list_succeeded))
}

/// Reads the ids of a part behind `after`. Also returns behind which id there may be more.
///
/// # Errors
/// When the store is away.
pub(in crate::flow) async fn read(
    ctx: &Context,
    part: Part<'_>,
    after: TaskId,
    rows_max: usize,
) -> Result<(Vec<(TaskId, IndexRow)>, Option<TaskId>), Fault> {
    rows_by_id::read(ctx, partition(part)?, after, rows_max).await
}

/// Removes a row that was read and whose task is not as it says. A failure is left to the next reader.
pub(in crate::flow) async fn forget(ctx: &Context, part: Part<'_>, row: &IndexRow) {
    rows_by_id::forget(ctx, partition(part), row).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_end_is_filed() {
        let terminal = State::ALL.into_iter().filter(|state| state.is_terminal());
        assert!(terminal.clone().all(|state| FILED.contains(&state)));
        assert_eq!(terminal.count(), FILED.len());
    }
}
