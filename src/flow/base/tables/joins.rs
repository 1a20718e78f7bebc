//! The rows that join waiters and their dependencies are read and written here for the rooms beside.

use bytes::Bytes;

use crate::{
    flow::base::{
        api::{Fault, TaskView, Waits},
        context::Context,
    },
    limits::{JOIN_ROWS_KEPT, JOINS_PAGE},
    model::{
        family::Outcome,
        ids::TaskId,
        join::{ADDED_WRITTEN, KEPT_WRITTEN},
        time::Millis,
    },
    schema::{
        DependencyRow, decode_dependency, decode_join_sort, encode_dependency, join_partition,
    },
    store::index::{IndexKind, IndexPut, IndexRange, IndexRemoval, Partition, Place},
};

/// A row of a waiter, which stands for a dependency.
#[derive(Debug, Clone, Copy)]
pub(in crate::flow) struct Joined {
    /// The dependency.
    pub(in crate::flow) id: TaskId,
    /// The row as it was read. One that nobody understands says nothing.
    pub(in crate::flow) row: DependencyRow,
    /// It stays for as long as the wait.
    pub(in crate::flow) is_kept: bool,
}

impl Joined {
    /// Tells whether the row says nothing of an end.
    pub(in crate::flow) const fn is_open(&self) -> bool {
        matches!(self.row, DependencyRow::Open { .. })
    }
}

/// Rows of a waiter, in order.
#[derive(Debug)]
pub(in crate::flow) struct Page {
    pub(in crate::flow) rows: Vec<Joined>,
    /// The sort key behind which there may be more.
    pub(in crate::flow) next: Option<Bytes>,
}

/// Waiters of a dependency, in order.
#[derive(Debug)]
pub(in crate::flow) struct Waiters {
    pub(in crate::flow) ids: Vec<TaskId>,
    /// There may be more.
    pub(in crate::flow) more: bool,
}

/// Writes the rows of a waiter on both sides: for each dependency, whether it is known. Repeating it is safe. They end by
/// themselves, since the registration may never come to its end, until [`keep`] writes them again.
pub(in crate::flow) async fn put(
    ctx: &Context,
    waiter: TaskId,
    dependencies: &[(TaskId, bool)],
) -> Result<(), Fault> {
    let end = ctx.now().after(JOIN_ROWS_KEPT);
    let rows = both(waiter, dependencies, ADDED_WRITTEN)?;
    let rows: Vec<IndexPut> = rows.into_iter().map(|row| row.until(end)).collect();
    write(ctx, &rows).await
}

/// Writes rows of a wait that goes on once more, to stay for as long as it does. An end that was noted meanwhile stays, and so
/// does a removal. Repeating it is safe.
pub(in crate::flow) async fn keep(
    ctx: &Context,
    waiter: TaskId,
    dependencies: &[(TaskId, bool)],
) -> Result<(), Fault> {
    write(ctx, &both(waiter, dependencies, KEPT_WRITTEN)?).await
}

fn both(
    waiter: TaskId,
    dependencies: &[(TaskId, bool)],
    written: i64,
) -> Result<Vec<IndexPut>, Fault> {
    let mut rows = Vec::with_capacity(2 * dependencies.len());
    for (id, known) in dependencies {
        let value = encode_dependency(&DependencyRow::Open { known: *known });
        rows.push(IndexPut::new(own(waiter, *id)?, value, written)?);
        let names = waiting(*id, waiter)?;
        rows.push(IndexPut::new(names, Bytes::new(), written)?);
    }
    Ok(rows)
}

/// Writes how dependencies have ended into the rows of their waiters: of each, the waiter and the dependency. Repeating it is
/// safe.
pub(in crate::flow) async fn put_outcomes(
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

/// Notes for a waiter how dependencies have ended that were asked. They need not tell it any more, since the outcomes are durable
/// first. Repeating it is safe.
pub(in crate::flow) async fn note(
    ctx: &Context,
    waiter: TaskId,
    ended: &[(TaskId, Outcome)],
) -> Result<(), Fault> {
    let outcomes = ended.iter();
    put_outcomes(ctx, outcomes.map(|(id, outcome)| (waiter, *id, *outcome))).await?;
    forget(ctx, ended.iter().map(|(id, _)| (*id, waiter))).await
}

/// Gives the rows of a waiter that has ended an end of life.
pub(in crate::flow) async fn let_go(
    ctx: &Context,
    waiter: TaskId,
    dependencies: &[Joined],
    expires: Millis,
) -> Result<(), Fault> {
    let stamp = ctx.time.stamp();
    let mut rows = Vec::with_capacity(dependencies.len());
    for Joined { id, row, .. } in dependencies {
        let put = IndexPut::new(own(waiter, *id)?, encode_dependency(row), stamp)?;
        rows.push(put.until(expires));
    }
    write(ctx, &rows).await
}

/// Reads all that a waiter waits for, in the order of their first starts.
pub(in crate::flow) async fn dependencies(
    ctx: &Context,
    waiter: TaskId,
) -> Result<Vec<Joined>, Fault> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let Page { rows, next } = page(ctx, waiter, after, JOINS_PAGE).await?;
        all.extend(rows);
        if next.is_none() {
            return Ok(all);
        }
        after = next;
    }
}

/// Reads some of the rows of a waiter, behind a sort key. A row that nobody understands costs no other one: it counts as open,
/// so that its dependency is asked. One that names no task is left out.
pub(in crate::flow) async fn page(
    ctx: &Context,
    waiter: TaskId,
    after: Option<Bytes>,
    rows_max: usize,
) -> Result<Page, Fault> {
    let partition = partition(IndexKind::Join, waiter)?;
    let range = IndexRange {
        partition,
        after,
        rows_max,
    };
    let page = ctx.store.index_range(&range).await?;
    let rows = page.rows.into_iter().filter_map(|row| {
        let id = named(&row.sort, waiter)?;
        let is_kept = row.written > ADDED_WRITTEN;
        let row = decode_dependency(row.value).unwrap_or_else(|cause| {
            tracing::warn!(task = %waiter, dependency = %id, %cause, "a row of a wait cannot be understood");
            DependencyRow::Open { known: false }
        });
        Some(Joined { id, row, is_kept })
    });
    Ok(Page {
        rows: rows.collect(),
        next: page.next,
    })
}

/// Returns the task that a row of a task names.
fn named(sort: &Bytes, of: TaskId) -> Option<TaskId> {
    let id = decode_join_sort(sort);
    let told = id.map_err(|cause| {
        tracing::warn!(task = %of, %cause, "a row of a wait names no task");
    });
    told.ok()
}

/// Completes the view of a task with what it waits for.
pub(in crate::flow) async fn shown(ctx: &Context, mut task: TaskView) -> Result<TaskView, Fault> {
    if task.spec.after.is_some() {
        let rows = dependencies(ctx, task.id).await?;
        task.waits = Some(Waits {
            open: Some(
                rows.iter()
                    .filter(|one| one.is_open())
                    .map(|one| one.id)
                    .collect(),
            ),
            ids: rows.into_iter().map(|one| one.id).collect(),
        });
    }
    Ok(task)
}

/// Reads the first waiters of a dependency.
pub(in crate::flow) async fn waiters(ctx: &Context, dependency: TaskId) -> Result<Waiters, Fault> {
    let mut range = IndexRange {
        partition: partition(IndexKind::Waiter, dependency)?,
        after: None,
        rows_max: JOINS_PAGE,
    };
    loop {
        let page = ctx.store.index_range(&range).await?;
        let rows = page.rows.iter();
        let ids: Vec<TaskId> = rows
            .filter_map(|row| named(&row.sort, dependency))
            .collect();
        let more = page.next.is_some();
        // A page may be empty and not the last.
        if !ids.is_empty() || !more {
            return Ok(Waiters { ids, more });
        }
        range.after = page.next;
    }
}

/// Removes rows that name waiters: of each, the dependency and the waiter.
pub(in crate::flow) async fn forget(
    ctx: &Context,
    pairs: impl Iterator<Item = (TaskId, TaskId)>,
) -> Result<(), Fault> {
    let places = pairs.map(|(dependency, waiter)| waiting(dependency, waiter));
    remove_all(ctx, places).await
}

/// Removes the rows of a waiter that will never be registered.
pub(in crate::flow) async fn remove(
    ctx: &Context,
    waiter: TaskId,
    ids: &[TaskId],
) -> Result<(), Fault> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_rows_are_unchanged_and_read_back() {
        let waiter: TaskId = "01b8dac5-b4fa-8201-8123-456789abcdef".parse().unwrap();
        let dependency: TaskId = "01b8dac5-b4fa-8201-8123-456789abcdee".parse().unwrap();
        let rows = both(waiter, &[(dependency, true)], 7).unwrap();
        let bytes = |id: TaskId| Bytes::copy_from_slice(id.uuid().as_bytes());
        for (row, (kind, of, sort)) in rows.iter().zip([
            (IndexKind::Join, waiter, dependency),
            (IndexKind::Waiter, dependency, waiter),
        ]) {
            let partition = row.place().partition();
            assert_eq!((partition.kind(), partition.name()), (kind, &bytes(of)));
            assert_eq!((row.place().sort(), row.written), (&bytes(sort), 7));
            assert_eq!(named(row.place().sort(), of), Some(sort));
        }
        let known = DependencyRow::Open { known: true };
        assert_eq!(&rows[0].value()[..], b"\x08\x01");
        assert_eq!(decode_dependency(rows[0].value().clone()), Ok(known));
        assert_eq!((rows.len(), rows[1].value().len()), (2, 0));
    }
}
