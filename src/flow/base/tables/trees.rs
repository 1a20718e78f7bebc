//! The rows of children and the records of their parents are read and written here for the rooms beside.

use bytes::Bytes;

use crate::{
    flaw::{self, Flaw},
    flow::base::{api::Fault, context::Context, documents},
    limits::FAMILY_RACES_MAX,
    model::{
        family::{self, Family, Outcome, Tree},
        ids::TaskId,
        kin::Runs,
        record::{Change, Kind, Name, Record},
        row::TaskRow,
        task::Spec,
        time::Millis,
    },
    schema::{
        ChildRow, Opened, children_partition, decode_child, decode_family, encode_family,
        encode_opened, encode_outcome,
    },
    store::{
        self, Freshness, Swapped,
        index::{IndexKind, IndexPut, IndexRange, IndexRemoval, Partition, Place},
    },
};

/// The record of a parent, as it was read.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Read {
    pub(in crate::flow) tree: Tree,
    /// The round of the tree.
    pub(in crate::flow) round: u32,
    /// When the tree was cancelled as a whole.
    pub(in crate::flow) cancelled: Option<Millis>,
    /// All children were added.
    pub(in crate::flow) complete: bool,
    pub(in crate::flow) record: Option<Record>,
}

/// The outcome of a write of a record.
#[derive(Debug)]
pub(in crate::flow) enum Written {
    /// It is as it was wanted.
    Done(Read),
    /// Another was first, or nobody knows: it is read again.
    Lost,
}

/// A place among the rows of the children of one parent: behind a row of a bucket.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::flow) struct Cursor {
    pub(in crate::flow) bucket: u8,
    pub(in crate::flow) after: Option<TaskId>,
}

/// Rows of children, in order.
#[derive(Debug)]
pub(in crate::flow) struct Page {
    pub(in crate::flow) rows: Vec<(TaskId, ChildRow)>,
    /// Where the next page begins; none behind the last row.
    pub(in crate::flow) next: Option<Cursor>,
}

/// Reads the record of a parent. One that is not there is open.
pub(in crate::flow) async fn read(
    ctx: &Context,
    parent: TaskId,
    freshness: Freshness,
) -> Result<Read, Fault> {
    let record = ctx.store.record(&name(parent)?, freshness).await?;
    let value = record.as_ref().and_then(|record| record.value.clone());
    let read = value.map_or(Ok(Family::NEW), decode_family);
    let Family {
        tree,
        round,
        cancelled,
        complete,
    } = read.map_err(|cause| corrupt("read the record of a parent", &cause))?;
    Ok(Read {
        tree,
        round,
        cancelled,
        complete,
        record,
    })
}

/// Tells whether the record of a parent says that its tree was cancelled. An acknowledged cancel is seen.
pub(in crate::flow) async fn is_cancelled(ctx: &Context, parent: TaskId) -> Result<bool, Fault> {
    let read = read(ctx, parent, Freshness::Quorum).await?;
    Ok(read.cancelled.is_some())
}

/// Writes the record of a parent in place of what was read, in the same round. The record of a tree that has ended expires at
/// `expires`.
pub(in crate::flow) async fn write(
    ctx: &Context,
    parent: TaskId,
    before: &Read,
    tree: Tree,
    expires: Option<Millis>,
) -> Result<Written, Fault> {
    let family = Family {
        tree,
        round: before.round,
        cancelled: before
            .cancelled
            .filter(|_| !flaw::is(Flaw::CancelForgotten)),
        complete: before.complete,
    };
    write_family(ctx, parent, before, family, expires).await
}

/// Writes into the record of a parent, as it was read, that its tree was cancelled at a time.
pub(in crate::flow) async fn cancel(
    ctx: &Context,
    parent: TaskId,
    before: &Read,
    at: Millis,
) -> Result<Written, Fault> {
    let family = Family {
        tree: before.tree,
        round: before.round,
        cancelled: Some(at),
        complete: before.complete,
    };
    write_family(ctx, parent, before, family, None).await
}

/// Writes into the record of a parent, as it was read, that all its children were added.
pub(in crate::flow) async fn complete(
    ctx: &Context,
    parent: TaskId,
    before: &Read,
) -> Result<Written, Fault> {
    let family = Family {
        tree: before.tree,
        round: before.round,
        cancelled: before.cancelled,
        complete: true,
    };
    write_family(ctx, parent, before, family, None).await
}

/// Tells whether the record of a parent is still to be written in the round of its row: it got its first child when it ran again,
/// and a record that is not there is of round 0.
pub(in crate::flow) const fn lacks_record(read: &Read, row: &TaskRow) -> bool {
    read.record.is_none() && row.detail.rounds.round > 0 && row.detail.tree.is_none()
}

/// Reads the record of a parent whose tree goes on by its row. It is written if it is still to be.
pub(in crate::flow) async fn read_of(ctx: &Context, row: &TaskRow) -> Result<Read, Fault> {
    let there = read(ctx, row.id, Freshness::Serial).await?;
    if !lacks_record(&there, row) {
        return Ok(there);
    }
    match begin(ctx, row.id, &there, row.detail.rounds.round).await? {
        Written::Done(now) => Ok(now),
        Written::Lost => read(ctx, row.id, Freshness::Serial).await,
    }
}

/// Opens a tree in a later round.
pub(in crate::flow) async fn begin(
    ctx: &Context,
    parent: TaskId,
    before: &Read,
    round: u32,
) -> Result<Written, Fault> {
    let family = Family {
        tree: Tree::Open,
        round,
        cancelled: before.cancelled,
        complete: before.complete,
    };
    write_family(ctx, parent, before, family, None).await
}

async fn write_family(
    ctx: &Context,
    parent: TaskId,
    before: &Read,
    family: Family,
    expires: Option<Millis>,
) -> Result<Written, Fault> {
    let mark = ctx.time.mark();
    let (name, value) = (name(parent)?, encode_family(family));
    let change = Change::put(name, before.record.as_ref(), value, expires, mark)?;
    Ok(match ctx.store.put_if(&change).await? {
        Swapped::Applied => Written::Done(Read {
            tree: family.tree,
            round: family.round,
            cancelled: family.cancelled,
            complete: family.complete,
            record: Some(change.record().clone()),
        }),
        // Each version is closing once, so a write that arrives late finds its own version or fails.
        Swapped::Conflict(_) | Swapped::Unknown => Written::Lost,
    })
}

/// Opens a record that is closing, for an add or a check that has found a child that goes on. Returns it as it is then.
pub(in crate::flow) async fn reopened(
    ctx: &Context,
    parent: TaskId,
    read_: Read,
) -> Result<Read, Fault> {
    let mut there = read_;
    for _ in 0..FAMILY_RACES_MAX {
        if family::add(there.tree) != family::Add::Reopen {
            return Ok(there);
        }
        match write(ctx, parent, &there, Tree::Open, None).await? {
            Written::Done(now) => return Ok(now),
            Written::Lost => there = read(ctx, parent, Freshness::Serial).await?,
        }
    }
    Err(documents::raced(format_args!("the tree of {parent}")))
}

/// A row of a child that is to be written: its parent, its id, its value and its write time.
pub(in crate::flow) type Wanted = (TaskId, TaskId, Bytes, i64);

/// Writes rows of children.
pub(in crate::flow) async fn put(ctx: &Context, rows: Vec<Wanted>) -> Result<(), Fault> {
    put_at(ctx, rows, place).await
}

/// Writes the rows of children that wait for the own run of their parent. A row that was removed stays so.
pub(in crate::flow) async fn put_waiting(ctx: &Context, rows: Vec<Wanted>) -> Result<(), Fault> {
    put_at(ctx, rows, waiting_place).await
}

async fn put_at(
    ctx: &Context,
    rows: Vec<Wanted>,
    place: fn(TaskId, TaskId) -> Result<Place, Fault>,
) -> Result<(), Fault> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut puts = Vec::with_capacity(rows.len());
    for (parent, child, value, written) in rows {
        puts.push(IndexPut::new(place(parent, child)?, value, written)?);
    }
    let put = ctx.store.put_index(&puts).await;
    put.into_iter().try_for_each(|result| Ok(result?))
}

/// Returns the row of a child that is opened for a later round. Two calls may write it at different times, of which either wins.
pub(in crate::flow) fn opened(
    ctx: &Context,
    parent: TaskId,
    child: TaskId,
    spec: &Spec,
    opened: Opened,
) -> Wanted {
    let value = encode_opened(spec, ctx.now(), opened);
    let written = family::opened_written(opened.round, opened.run != Runs::None);
    (parent, child, value, written)
}

/// Removes the rows of children that wait no more, in these rounds of theirs.
pub(in crate::flow) async fn remove_waiting(
    ctx: &Context,
    parent: TaskId,
    children: &[(TaskId, u32)],
) -> Result<(), Fault> {
    let mut removals = Vec::with_capacity(children.len());
    for (child, round) in children {
        let place = waiting_place(parent, *child)?;
        let written = family::ended_written(*round);
        removals.push(IndexRemoval { place, written });
    }
    remove(ctx, removals).await
}

/// Removes the rows of a child whose add to a tree in this round was refused. The end of one that was added after all is later.
pub(in crate::flow) async fn take_back(
    ctx: &Context,
    parent: TaskId,
    child: TaskId,
    (round, waits): (u32, bool),
) -> Result<(), Fault> {
    let written = family::refused_written(round);
    let waiting = waits.then(|| waiting_place(parent, child)).transpose()?;
    for place in waiting.into_iter().chain([place(parent, child)?]) {
        remove(ctx, vec![IndexRemoval { place, written }]).await?;
    }
    Ok(())
}

async fn remove(ctx: &Context, removals: Vec<IndexRemoval>) -> Result<(), Fault> {
    if removals.is_empty() {
        return Ok(());
    }
    let removed = ctx.store.remove_index(&removals).await;
    removed.into_iter().try_for_each(|result| Ok(result?))
}

fn waiting_place(parent: TaskId, child: TaskId) -> Result<Place, Fault> {
    let partition = partition(parent, family::WAITING)?;
    Place::new(partition, sort(child)).map_err(Fault::from)
}

/// Writes how a child has ended in a round, with all of its own tree. Repeating it is safe.
pub(in crate::flow) async fn put_outcome(
    ctx: &Context,
    parent: TaskId,
    child: TaskId,
    (outcome, round): (&Outcome, u32),
) -> Result<(), Fault> {
    let written = family::ended_written(round);
    let row = (parent, child, encode_outcome(outcome, round), written);
    put(ctx, vec![row]).await
}

/// Gives rows of children that have ended an end of life.
pub(in crate::flow) async fn let_go(
    ctx: &Context,
    parent: TaskId,
    rows: &[(TaskId, ChildRow)],
    expires: Millis,
) -> Result<(), Fault> {
    let stamp = ctx.time.stamp();
    let mut puts = Vec::with_capacity(rows.len());
    for (child, row) in rows {
        if let ChildRow::Ended { outcome, round } = row {
            let written = family::let_go_written(*round, stamp);
            let value = encode_outcome(outcome, *round);
            let put = IndexPut::new(place(parent, *child)?, value, written)?;
            puts.push(put.until(expires));
        }
    }
    if puts.is_empty() {
        return Ok(());
    }
    let put = ctx.store.put_index(&puts).await;
    put.into_iter().try_for_each(|result| Ok(result?))
}

/// Reads rows of children from a place on.
pub(in crate::flow) async fn page(
    ctx: &Context,
    parent: TaskId,
    from: &Cursor,
    rows_max: usize,
) -> Result<Page, Fault> {
    let range = IndexRange {
        partition: partition(parent, from.bucket)?,
        after: from.after.map(sort),
        rows_max,
    };
    let page = ctx.store.index_range(&range).await?;
    let mut rows = Vec::with_capacity(page.rows.len());
    for row in page.rows {
        let child = decode_child(&row.sort, row.value);
        rows.push(child.map_err(|cause| corrupt("read the row of a child", &cause))?);
    }
    let next = match page.next {
        Some(after) => {
            let id = uuid::Uuid::from_slice(&after);
            let id = id.map_err(|cause| corrupt("read the row of a child", &cause))?;
            Some(Cursor {
                bucket: from.bucket,
                after: Some(TaskId::bound(id)),
            })
        }
        None if from.bucket + 1 < family::BUCKETS => Some(Cursor {
            bucket: from.bucket + 1,
            after: None,
        }),
        None => None,
    };
    Ok(Page { rows, next })
}

/// Reads the row of one child; none when there is none.
pub(in crate::flow) async fn child(
    ctx: &Context,
    parent: TaskId,
    child: TaskId,
) -> Result<Option<ChildRow>, Fault> {
    let before = u128::from_be_bytes(*child.uuid().as_bytes()).saturating_sub(1);
    let from = Cursor {
        bucket: family::bucket(child),
        after: Some(TaskId::bound(uuid::Uuid::from_u128(before))),
    };
    let page = page(ctx, parent, &from, 1).await?;
    let mut rows = page.rows.into_iter();
    Ok(rows.find(|(id, _)| *id == child).map(|(_, row)| row))
}

fn name(parent: TaskId) -> Result<Name, Fault> {
    Name::new(Kind::Family, &parent.to_string()).map_err(Fault::from)
}

fn partition(parent: TaskId, bucket: u8) -> Result<Partition, Fault> {
    let name = children_partition(parent, bucket);
    Partition::new(IndexKind::Child, name).map_err(Fault::from)
}

pub(in crate::flow) fn place(parent: TaskId, child: TaskId) -> Result<Place, Fault> {
    let partition = partition(parent, family::bucket(child))?;
    Place::new(partition, sort(child)).map_err(Fault::from)
}

fn sort(child: TaskId) -> Bytes {
    Bytes::copy_from_slice(child.uuid().as_bytes())
}

fn corrupt(operation: &'static str, cause: &dyn std::fmt::Display) -> Fault {
    let reason = cause.to_string();
    store::Error::Corrupt { operation, reason }.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{family::TreeOutcome, row::State};

    #[test]
    fn the_bytes_of_places_and_the_name_of_the_record_are_unchanged() {
        let parent: TaskId = "01b8dac5-b4fa-8201-8123-456789abcdef".parse().unwrap();
        let child: TaskId = "01b8dac5-b4fa-8201-8123-456789abcdee".parse().unwrap();
        let outcome = Outcome {
            state: State::Succeeded,
            tree: TreeOutcome::Completed,
            at: Millis(9),
        };
        let value = encode_outcome(&outcome, 3);
        let row = (child, ChildRow::Ended { outcome, round: 3 });
        let waiting = waiting_place(parent, child).unwrap();
        let ended = place(parent, child).unwrap();
        for (place, bucket) in [(ended, BUCKET), (waiting, 16)] {
            assert_eq!(place.partition().kind(), IndexKind::Child);
            let name = [&parent.uuid().as_bytes()[..], &[bucket]].concat();
            assert_eq!(place.partition().name(), &name);
            assert_eq!(place.sort(), &child.uuid().as_bytes()[..]);
            assert_eq!(decode_child(place.sort(), value.clone()), Ok(row.clone()));
        }
        let name = name(parent).unwrap();
        let key = "01b8dac5-b4fa-8201-8123-456789abcdef";
        assert_eq!((name.kind(), name.key()), (Kind::Family, key));
    }

    /// Of this child, for ever.
    const BUCKET: u8 = 14;
}
