//! The rows of labels let the lister find tasks for people by a label that their callback has named for it.
//!
//! A row is written before the entry of its task, so a task that is durable can be found. It stays while the task has not ended,
//! and then as long as the task can be read. A crash before the entry leaves a row without a task: the reader that meets it a
//! day behind its start removes it. The end steps and the redrive of a task write its rows again, each with a newer time.
//!
//! Where a row lies: [`labels`].

use crate::{
    flow::base::{
        api::Fault,
        context::Context,
        tables::{
            labels::{self, Label, partition, places},
            rows_by_id,
        },
    },
    model::{
        ids::TaskId,
        task::{CONTENT_WRITTEN, Spec},
        time::Millis,
    },
    store::{
        self,
        index::{IndexPut, IndexRemoval, IndexRow, Place, Refused},
    },
};

/// Writes the rows of tasks that are being registered. Returns the faults, by the index of the task; most batches have no such
/// labels, and cost nothing. A row of a task that stands already is left as it is.
pub(in crate::flow) async fn put<'a>(
    ctx: &Context,
    tasks: impl Iterator<Item = (TaskId, &'a Spec)>,
) -> Vec<(usize, Fault)> {
    let mut rows = Vec::new();
    let mut owners = Vec::new();
    let mut faults = Vec::new();
    for (index, (id, spec)) in tasks.enumerate() {
        for place in places(id, spec) {
            match place.and_then(|place| labels::row(place, CONTENT_WRITTEN, None)) {
                Ok(row) => {
                    rows.push(row);
                    owners.push(index);
                }
                Err(refused) => faults.push((index, refused.into())),
            }
        }
    }
    if rows.is_empty() {
        return faults;
    }
    let written = ctx.store.put_index(&rows).await;
    for (index, written) in owners.into_iter().zip(written) {
        if let Err(error) = written {
            faults.push((index, error.into()));
        }
    }
    faults
}

/// Writes the rows of a task again: they end at `end`, or stay.
///
/// # Errors
/// When the store is away; repeating it is safe.
pub(in crate::flow) async fn keep(
    ctx: &Context,
    id: TaskId,
    spec: &Spec,
    end: Option<Millis>,
) -> Result<(), Fault> {
    if spec.indexed.is_empty() {
        return Ok(());
    }
    let written = ctx.time.stamp();
    let row = |place: Result<Place, Refused>| labels::row(place?, written, end);
    let rows: Result<Vec<IndexPut>, Refused> = places(id, spec).map(row).collect();
    let written = ctx.store.put_index(&rows?).await;
    let all: Result<(), store::Error> = written.into_iter().collect();
    Ok(all?)
}

/// Removes the rows of a task that is read no more.
///
/// # Errors
/// When the store is away; repeating it is safe.
pub(in crate::flow) async fn remove(ctx: &Context, id: TaskId, spec: &Spec) -> Result<(), Fault> {
    if spec.indexed.is_empty() {
        return Ok(());
    }
    let written = ctx.time.stamp();
    let removal =
        |place: Result<Place, Refused>| place.map(|place| IndexRemoval { place, written });
    let rows: Result<Vec<IndexRemoval>, Refused> = places(id, spec).map(removal).collect();
    let removed = ctx.store.remove_index(&rows?).await;
    let all: Result<(), store::Error> = removed.into_iter().collect();
    Ok(all?)
}

/// Reads the ids of tasks with a label behind `after`, in the order of their first starts. Also returns behind which id there
/// may be more.
///
/// # Errors
/// When the store is away.
pub(in crate::flow) async fn read(
    ctx: &Context,
    label: Label<'_>,
    after: TaskId,
    rows_max: usize,
) -> Result<(Vec<(TaskId, IndexRow)>, Option<TaskId>), Fault> {
    rows_by_id::read(ctx, partition(label)?, after, rows_max).await
}

/// Removes a row that was read and whose task is not there. A failure is left to the next reader.
pub(in crate::flow) async fn forget(ctx: &Context, label: Label<'_>, row: &IndexRow) {
    rows_by_id::forget(ctx, partition(label), row).await;
}
