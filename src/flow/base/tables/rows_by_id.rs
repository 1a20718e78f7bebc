//! The rows by id let the lister read tasks in the order of their first starts, from partitions of the index whose places are ids
//! of tasks, and forget rows that are wrong.

use bytes::Bytes;
use uuid::Uuid;

use crate::{
    flow::base::{api::Fault, context::Context},
    model::ids::TaskId,
    store::index::{IndexRange, IndexRemoval, IndexRow, Partition, Place, Refused},
};

/// Returns the place of a task in its partition.
pub(in crate::flow) fn sort(id: TaskId) -> Bytes {
    Bytes::copy_from_slice(id.uuid().as_bytes())
}

fn id_of(sort: &[u8]) -> Option<TaskId> {
    Some(TaskId::bound(Uuid::from_slice(sort).ok()?))
}

/// Reads the ids of a partition behind `after`. Also returns behind which id there may be more.
///
/// # Errors
/// When the store is away.
pub(in crate::flow) async fn read(
    ctx: &Context,
    partition: Partition,
    after: TaskId,
    rows_max: usize,
) -> Result<(Vec<(TaskId, IndexRow)>, Option<TaskId>), Fault> {
    let range = IndexRange {
        partition,
        after: Some(sort(after)),
        rows_max,
    };
    let page = ctx.store.index_range(&range).await?;
    let next = page.next.as_deref().and_then(id_of);
    let found = page.rows.into_iter();
    let found = found.filter_map(|row| Some((id_of(&row.sort)?, row)));
    Ok((found.collect(), next))
}

/// Removes a row that was read and whose task is not as it says. A failure is left to the next reader.
pub(in crate::flow) async fn forget(
    ctx: &Context,
    partition: Result<Partition, Refused>,
    row: &IndexRow,
) {
    let place = partition.and_then(|partition| Place::new(partition, row.sort.clone()));
    let Ok(place) = place else { return };
    let written = row.written;
    let removal = [IndexRemoval { place, written }];
    let removed = ctx.store.remove_index(&removal).await;
    for error in removed.into_iter().filter_map(Result::err) {
        tracing::debug!(%error, "the row of a task was left");
    }
}
