//! The rows that join waiters and their dependencies are read and written here for the rooms beside.

use bytes::Bytes;

use crate::{
    flow::{
        api::{Fault, TaskView, Waits},
        context::Context,
    },
    limits::JOINS_PAGE,
    model::{family::Outcome, ids::TaskId, join::ADDED_WRITTEN, time::Millis},
    schema::{
        DependencyRow, decode_dependency, decode_join_sort, encode_dependency, join_partition,
    },
    store::{
        self,
        index::{IndexKind, IndexPut, IndexRange, IndexRemoval, Partition, Place},
    },
};

/// Waiters of a dependency, in order.
#[derive(Debug)]
pub(super) struct Waiters {
    pub(super) ids: Vec<TaskId>,
    /// There may be more.
    pub(super) more: bool,
}

/// Writes the rows of a waiter on both sides: for each dependency, whether it is known. Repeating it is safe.
pub(super) async fn put(
    ctx: &Context,
    waiter: TaskId,
    dependencies: &[(TaskId, bool)],
) -> Result<(), Fault> {
    let mut rows = Vec::with_capacity(2 * dependencies.len());
    for (id, known) in dependencies {
        let value = encode_dependency(&DependencyRow::Open { known: *known });
        rows.push(IndexPut::new(own(waiter, *id)?, value, ADDED_WRITTEN)?);
        let names = waiting(*id, waiter)?;
        rows.push(IndexPut::new(names, Bytes::new(), ADDED_WRITTEN)?);
    }
    write(ctx, &rows).await
}

/// Writes how dependencies have ended into the rows of their waiters. Repeating it is safe.
pub(super) async fn put_outcomes(
    ctx: &Context,
    outcomes: impl Iterator<Item = (TaskId, TaskId, Outcome)>,
) -> Result<(), Fault> {
    let stamp = ctx.time.stamp();
    let mut rows = Vec::new();
    for (waiter, dependency, outcome) in outcomes {
        let value = encode_dependency(&DependencyRow::Ended(outcome));
        rows.push(IndexPut::new(own(waiter, dependency)?, value, stamp)?);
    }
    write(ctx, &rows).await
}

/// Gives the rows of a waiter that has ended an end of life.
pub(super) async fn let_go(
    ctx: &Context,
    waiter: TaskId,
    dependencies: &[(TaskId, DependencyRow)],
    expires: Millis,
) -> Result<(), Fault> {
    let stamp = ctx.time.stamp();
    let mut rows = Vec::with_capacity(dependencies.len());
    for (id, row) in dependencies {
        let put = IndexPut::new(own(waiter, *id)?, encode_dependency(row), stamp)?;
        rows.push(put.until(expires));
    }
    write(ctx, &rows).await
}

/// Reads all that a waiter waits for, in the order of their first starts.
pub(in crate::flow) async fn dependencies(
    ctx: &Context,
    waiter: TaskId,
) -> Result<Vec<(TaskId, DependencyRow)>, Fault> {
    let mut range = IndexRange {
        partition: partition(IndexKind::Join, waiter)?,
        after: None,
        rows_max: JOINS_PAGE,
    };
    let mut all = Vec::new();
    loop {
        let page = ctx.store.index_range(&range).await?;
        for row in page.rows {
            let id = decode_join_sort(&row.sort).map_err(|cause| corrupt(&cause))?;
            let row = decode_dependency(row.value).map_err(|cause| corrupt(&cause))?;
            all.push((id, row));
        }
        if page.next.is_none() {
            return Ok(all);
        }
        range.after = page.next;
    }
}

/// Completes the view of a task with what it waits for.
pub(in crate::flow) async fn shown(ctx: &Context, mut task: TaskView) -> Result<TaskView, Fault> {
    if task.spec.after.is_some() {
        let rows = dependencies(ctx, task.id).await?;
        let is_open = |one: &&(TaskId, DependencyRow)| matches!(one.1, DependencyRow::Open { .. });
        task.waits = Some(Waits {
            open: Some(rows.iter().filter(is_open).count()),
            ids: rows.into_iter().map(|(id, _)| id).collect(),
        });
    }
    Ok(task)
}

/// Reads the first waiters of a dependency.
pub(super) async fn waiters(ctx: &Context, dependency: TaskId) -> Result<Waiters, Fault> {
    let range = IndexRange {
        partition: partition(IndexKind::Waiter, dependency)?,
        after: None,
        rows_max: JOINS_PAGE,
    };
    let mut range = range;
    loop {
        let page = ctx.store.index_range(&range).await?;
        let ids = page.rows.iter().map(|row| decode_join_sort(&row.sort));
        let ids: Vec<TaskId> = ids
            .collect::<Result<_, _>>()
            .map_err(|cause| corrupt(&cause))?;
        let more = page.next.is_some();
        // A page may be empty and not the last.
        if !ids.is_empty() || !more {
            return Ok(Waiters { ids, more });
        }
        range.after = page.next;
    }
}

/// Removes rows that name waiters: of each, the dependency and the waiter.
pub(super) async fn forget(
    ctx: &Context,
    pairs: impl Iterator<Item = (TaskId, TaskId)>,
) -> Result<(), Fault> {
    let places = pairs.map(|(dependency, waiter)| waiting(dependency, waiter));
    remove_all(ctx, places).await
}

/// Removes the rows of a waiter that will never be registered.
pub(super) async fn remove(ctx: &Context, waiter: TaskId, ids: &[TaskId]) -> Result<(), Fault> {
    remove_all(ctx, ids.iter().map(|id| own(waiter, *id))).await
}

async fn remove_all(
    ctx: &Context,
    places: impl Iterator<Item = Result<Place, Fault>>,
) -> Result<(), Fault> {
    let written = ctx.time.stamp();
    let mut removals = Vec::new();
    for place in places {
        let place = place?;
        removals.push(IndexRemoval { place, written });
    }
    for some in removals.chunks(JOINS_PAGE) {
        for removed in ctx.store.remove_index(some).await {
            removed?;
        }
    }
    Ok(())
}

async fn write(ctx: &Context, rows: &[IndexPut]) -> Result<(), Fault> {
    for some in rows.chunks(JOINS_PAGE) {
        for put in ctx.store.put_index(some).await {
            put?;
        }
    }
    Ok(())
}

/// The place of the row of a waiter that stands for a dependency.
fn own(waiter: TaskId, dependency: TaskId) -> Result<Place, Fault> {
    let partition = partition(IndexKind::Join, waiter)?;
    Place::new(partition, join_partition(dependency)).map_err(Fault::from)
}

/// The place of the row of a dependency that names a waiter.
fn waiting(dependency: TaskId, waiter: TaskId) -> Result<Place, Fault> {
    let partition = partition(IndexKind::Waiter, dependency)?;
    Place::new(partition, join_partition(waiter)).map_err(Fault::from)
}

fn partition(kind: IndexKind, id: TaskId) -> Result<Partition, Fault> {
    Partition::new(kind, join_partition(id)).map_err(Fault::from)
}

fn corrupt(cause: &dyn std::fmt::Display) -> Fault {
    let (operation, reason) = ("read a row of a join", cause.to_string());
    store::Error::Corrupt { operation, reason }.into()
}
