//! The rows of sequences and the records of their turns are read and written here for the rooms beside.

use bytes::Bytes;

use crate::{
    flow::base::{
        api::Fault,
        context::Context,
        documents::{self, Put},
    },
    limits::{MEMBERS_PAGE, TURN_KEPT},
    model::{
        ids::TaskId,
        ordering::{Bound, Member, Rank, Sequence, Turn},
        record::{Change, Kind, Name, Record},
        row::TaskRow,
        time::Millis,
    },
    schema::{
        decode_member, decode_turn, encode_bound, encode_member, encode_rank, encode_turn,
        members_partition,
    },
    store::{
        self, Freshness,
        index::{IndexKind, IndexPut, IndexRange, IndexRemoval, IndexRow, Partition, Place},
    },
};

/// A turn as it was read, with its record.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Read {
    pub(in crate::flow) turn: Turn,
    pub(in crate::flow) record: Option<Record>,
}

/// The outcome of a write of a turn.
#[derive(Debug)]
pub(in crate::flow) enum Written {
    /// It is as it was wanted.
    Done(Read),
    /// Another was first: it is this.
    Lost(Read),
}

/// Members in order.
#[derive(Debug)]
pub(in crate::flow) struct Page {
    pub(in crate::flow) members: Vec<Member>,
    /// A place on it could not be understood.
    pub(in crate::flow) is_damaged: bool,
    /// The sort key behind which there may be more.
    pub(in crate::flow) next: Option<Bytes>,
}

/// Reads the turn of a sequence.
pub(in crate::flow) async fn read(
    ctx: &Context,
    sequence: &Sequence,
    freshness: Freshness,
) -> Result<Read, Fault> {
    let record = ctx.store.record(&name(sequence)?, freshness).await?;
    of_record(record)
}

/// Writes a turn in place of what was read.
pub(in crate::flow) async fn write(
    ctx: &Context,
    sequence: &Sequence,
    before: &Read,
    turn: Turn,
) -> Result<Written, Fault> {
    // A holder may wait for years. Without one the record only says where the first member is.
    let expires = turn.holder.is_none().then(|| ctx.now().after(TURN_KEPT));
    let (name, value, mark) = (name(sequence)?, encode_turn(&turn), ctx.time.mark());
    let change = Change::put(name, before.record.as_ref(), value, expires, mark)?;
    Ok(match documents::put(&*ctx.store, &change).await? {
        Put::Done(record) => Written::Done(Read {
            turn,
            record: Some(record),
        }),
        Put::Lost(there) => Written::Lost(of_record(there)?),
    })
}

/// Writes rows of members; one result per row, in order.
pub(in crate::flow) async fn put(
    ctx: &Context,
    members: &[(&Sequence, Member)],
) -> Vec<Result<(), Fault>> {
    let rows = members.iter().map(|(sequence, member)| {
        let written = if member.sure {
            member.rank.sure_at()
        } else {
            member.rank.stamp
        };
        let put = IndexPut::new(
            place(sequence, &member.rank)?,
            encode_member(member),
            written,
        );
        let put = put?;
        // A ghost goes by itself, where nobody comes to remove it. The row of a task that is there stays.
        let ghost = member.rank.start.max(member.until).after(TURN_KEPT);
        Ok::<_, Fault>(if member.sure { put } else { put.until(ghost) })
    });
    let rows: Vec<IndexPut> = match rows.collect() {
        Ok(rows) => rows,
        Err(fault) => return vec![Err(fault); members.len()],
    };
    let put = ctx.store.put_index(&rows).await;
    put.into_iter()
        .map(|put| put.map_err(Fault::from))
        .collect()
}

/// Removes rows for ever.
pub(in crate::flow) async fn remove(
    ctx: &Context,
    sequence: &Sequence,
    ranks: impl Iterator<Item = Rank>,
) -> Result<(), Fault> {
    let stamp = ctx.time.stamp();
    let removals = ranks.map(|rank| {
        Ok::<_, Fault>(IndexRemoval {
            place: place(sequence, &rank)?,
            written: rank.removed_at(stamp),
        })
    });
    let removals: Vec<IndexRemoval> = removals.collect::<Result<_, _>>()?;
    if removals.is_empty() {
        return Ok(());
    }
    for removed in ctx.store.remove_index(&removals).await {
        removed?;
    }
    Ok(())
}

/// Reads the first members behind a bound.
pub(in crate::flow) async fn members(
    ctx: &Context,
    sequence: &Sequence,
    from: &Bound,
) -> Result<Page, Fault> {
    let from = encode_bound(from);
    members_behind(ctx, sequence, (!from.is_empty()).then_some(from)).await
}

/// Reads on behind a sort key.
pub(in crate::flow) async fn members_behind(
    ctx: &Context,
    sequence: &Sequence,
    after: Option<Bytes>,
) -> Result<Page, Fault> {
    let range = IndexRange {
        partition: partition(sequence)?,
        after,
        rows_max: MEMBERS_PAGE,
    };
    let page = ctx.store.index_range(&range).await?;
    // One that cannot be understood keeps nobody waiting: the others would wait for as long as nobody mends it.
    let member = |row: IndexRow| match decode_member(&row.sort, row.value) {
        Ok(member) => Some(member),
        Err(cause) => {
            let key = sequence.key.as_str();
            tracing::error!(key, %cause, "a place in a sequence is damaged, and passed over");
            None
        }
    };
    let rows = page.rows.len();
    let members: Vec<Member> = page.rows.into_iter().filter_map(member).collect();
    Ok(Page {
        is_damaged: members.len() < rows,
        members,
        next: page.next,
    })
}

/// Reads the rows that a task has at a start.
pub(in crate::flow) async fn rows_of(
    ctx: &Context,
    sequence: &Sequence,
    (id, start): (TaskId, Millis),
) -> Result<Vec<Rank>, Fault> {
    // Each try of a registration leaves one, and there are few.
    let page = members(ctx, sequence, &Bound::of(start, id)).await?;
    let ranks = page.members.into_iter().map(|member| member.rank);
    Ok(ranks
        .take_while(|rank| (rank.id, rank.start) == (id, start))
        .collect())
}

/// Reads the row of one task.
pub(in crate::flow) async fn task(ctx: &Context, id: TaskId) -> Result<Option<TaskRow>, Fault> {
    let rows = ctx.store.tasks(&[id], Freshness::Quorum).await?;
    Ok(rows.into_iter().next().flatten())
}

/// A turn that cannot be understood stops its sequence: the task that has it may be running.
fn of_record(record: Option<Record>) -> Result<Read, Fault> {
    let value = record.as_ref().and_then(|record| record.value.clone());
    let turn = value.map_or(Ok(Turn::UNKNOWN), decode_turn);
    let turn = turn.map_err(|cause| store::Error::Corrupt {
        operation: "read the turn of a sequence",
        reason: cause.to_string(),
    })?;
    Ok(Read { turn, record })
}

/// Returns the name of the record of a turn. The name of a callback has no slash, so no two sequences share one.
fn name(sequence: &Sequence) -> Result<Name, Fault> {
    let Sequence { callback, key } = sequence;
    Name::new(Kind::Turn, &format!("{callback}/{key}")).map_err(Fault::from)
}

/// Returns how the turn of a sequence is called in answers.
pub(in crate::flow) fn turn_of(sequence: &Sequence) -> String {
    format!("the turn of ordering key `{}`", sequence.key)
}

fn partition(sequence: &Sequence) -> Result<Partition, Fault> {
    Partition::new(IndexKind::Member, members_partition(sequence)).map_err(Fault::from)
}

fn place(sequence: &Sequence, rank: &Rank) -> Result<Place, Fault> {
    Place::new(partition(sequence)?, encode_rank(rank)).map_err(Fault::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_rows_and_the_name_of_the_turn_are_unchanged() {
        let id: TaskId = "01b8dac5-b4fa-8201-8123-456789abcdef".parse().unwrap();
        let uuid = id.uuid();
        let sequence = Sequence {
            callback: "mail".to_owned(),
            key: "a/b".to_owned(),
        };
        let rank = Rank {
            start: Millis(5),
            id,
            generation: 2,
            stamp: -1,
        };
        let place = place(&sequence, &rank).unwrap();
        assert_eq!(place.partition().kind(), IndexKind::Member);
        assert_eq!(&place.partition().name()[..], b"mail\0a/b");
        let sort = [
            &b"\x80\0\0\0\0\0\0\x05"[..],
            uuid.as_bytes(),
            b"\0\0\0\x02\x7f\xff\xff\xff\xff\xff\xff\xff",
        ];
        assert_eq!(place.sort(), &sort.concat());
        let member = Member {
            rank,
            sure: true,
            until: Millis(9),
        };
        let value = encode_member(&member);
        assert_eq!(&value[..], b"\x08\x01\x10\x09");
        assert_eq!(decode_member(place.sort(), value), Ok(member));
        let turn = name(&sequence).unwrap();
        assert_eq!((turn.kind(), turn.key()), (Kind::Turn, "mail/a/b"));
    }
}
