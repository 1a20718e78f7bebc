//! The codec of sequences converts their rows of the index, and the record of their turn, for the nodes.
//!
//! The partition names callback and ordering key. Rows sort by rank: start, id, generation, and the time of their first write.

use bytes::Bytes;
use prost::Message;
use uuid::Uuid;

use super::{Malformed, request::id, sort_key, v1};
use crate::model::{
    ids::TaskId,
    ordering::{Bound, Holder, Member, Rank, Sequence, Turn},
    time::Millis,
};

/// Returns the name of the partition with the members of a sequence. The name of a callback has no zero byte.
#[must_use]
pub fn members_partition(sequence: &Sequence) -> Bytes {
    let Sequence { callback, key } = sequence;
    [callback.as_bytes(), &[0], key.as_bytes()].concat().into()
}

/// Encodes a bound as the beginning of sort keys; empty before all of them.
#[must_use]
pub fn encode_bound(bound: &Bound) -> Bytes {
    if *bound == Bound::FIRST {
        return Bytes::new();
    }
    let mut sort = sorted(bound.start);
    if let Some(id) = bound.id {
        sort.extend_from_slice(id.uuid().as_bytes());
    }
    sort.into()
}

fn sorted(start: Millis) -> Vec<u8> {
    let mut sort = Vec::with_capacity(36);
    sort.extend_from_slice(&sort_key::ascending(start.0));
    sort
}

fn decode_bound(bytes: &[u8]) -> Result<Bound, Malformed> {
    let wrong = || Malformed::OutOfRange("from");
    if bytes.is_empty() {
        return Ok(Bound::FIRST);
    }
    let (start, rest) = bytes.split_first_chunk::<8>().ok_or_else(wrong)?;
    let start = Millis(sort_key::of_ascending(*start));
    if rest.is_empty() {
        return Ok(Bound::at(start));
    }
    let id = Uuid::from_slice(rest).map_err(|_| wrong())?;
    let id = TaskId::from_uuid(id).ok_or_else(wrong)?;
    Ok(Bound::of(start, id))
}

/// Encodes a rank: the sort key of its row.
#[must_use]
pub fn encode_rank(rank: &Rank) -> Bytes {
    let mut sort = sorted(rank.start);
    sort.extend_from_slice(rank.id.uuid().as_bytes());
    sort.extend_from_slice(&rank.generation.to_be_bytes());
    sort.extend_from_slice(&sort_key::ascending(rank.stamp));
    sort.into()
}

/// Encodes the value of a member's row.
#[must_use]
pub fn encode_member(member: &Member) -> Bytes {
    let value = v1::OrderedMember {
        sure: member.sure,
        until_ms: member.until.0,
    };
    value.encode_to_vec().into()
}

/// Decodes the row of a member.
///
/// # Errors
/// [`Malformed`] when the bytes are not one.
pub fn decode_member(sort: &[u8], value: Bytes) -> Result<Member, Malformed> {
    let wrong = || Malformed::OutOfRange("sort key");
    let (start, rest) = sort.split_first_chunk::<8>().ok_or_else(wrong)?;
    let (id, rest) = rest.split_first_chunk::<16>().ok_or_else(wrong)?;
    let (generation, stamp) = rest.split_first_chunk::<4>().ok_or_else(wrong)?;
    let stamp: [u8; 8] = stamp.try_into().map_err(|_| wrong())?;
    let v1::OrderedMember { sure, until_ms } = v1::OrderedMember::decode(value)?;
    let rank = Rank {
        start: Millis(sort_key::of_ascending(*start)),
        id: TaskId::from_uuid(Uuid::from_bytes(*id)).ok_or_else(wrong)?,
        generation: u32::from_be_bytes(*generation),
        stamp: sort_key::of_ascending(stamp),
    };
    Ok(Member {
        rank,
        sure,
        until: Millis(until_ms),
    })
}

/// Encodes a turn.
#[must_use]
pub fn encode_turn(turn: &Turn) -> Bytes {
    let holder = turn.holder.map(|holder| v1::TurnHolder {
        id: Bytes::copy_from_slice(holder.id.uuid().as_bytes()),
        generation: holder.generation,
        since_ms: holder.since.0,
        attempt: holder.attempt,
    });
    let from = encode_bound(&turn.from);
    v1::Turn { holder, from }.encode_to_vec().into()
}

/// Decodes a turn.
///
/// # Errors
/// [`Malformed`] when the bytes are not one.
pub fn decode_turn(bytes: Bytes) -> Result<Turn, Malformed> {
    let v1::Turn { holder, from } = v1::Turn::decode(bytes)?;
    let holder = holder.map(|holder| {
        Ok::<_, Malformed>(Holder {
            id: id(&holder.id)?,
            generation: holder.generation,
            since: Millis(holder.since_ms),
            attempt: holder.attempt,
        })
    });
    Ok(Turn {
        holder: holder.transpose()?,
        from: decode_bound(&from)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::wheel::WheelNumber;

    fn member(start: i64, random: u64, generation: u32, stamp: i64) -> Member {
        let start = Millis(start);
        Member {
            rank: Rank {
                start,
                id: TaskId::new(start, WheelNumber::new(3).unwrap(), random),
                generation,
                stamp,
            },
            sure: random == 7,
            until: Millis(99),
        }
    }

    #[test]
    fn members_are_read_back_and_sort_by_rank() {
        let members = [
            member(0, 7, 0, 5),
            member(1_800_000_000_000, 7, 0, -3),
            member(1_800_000_000_000, 7, 0, 5),
            member(1_800_000_000_000, 7, 1, 4),
            member(1_800_000_000_000, 8, 0, 0),
            member(1_800_000_000_001, 1, 0, 0),
        ];
        let sorts = members.map(|member| encode_rank(&member.rank));
        assert!(sorts.is_sorted() && members.map(|member| member.rank).is_sorted());
        for (member, sort) in members.iter().zip(&sorts) {
            assert_eq!(decode_member(sort, encode_member(member)), Ok(*member));
            assert_eq!(sort.len(), 36);
            let bound = encode_bound(&member.rank.bound());
            assert!(encode_bound(&Bound::at(member.rank.start)) < bound && bound < *sort);
        }
        let before_1970 = Rank {
            start: Millis(-5),
            ..members[0].rank
        };
        assert!(encode_rank(&before_1970) < sorts[0]);
    }

    #[test]
    fn a_turn_survives_its_bytes() {
        let rank = member(1_800_000_000_000, 7, 0, 5).rank;
        let holder = Holder {
            id: rank.id,
            generation: 2,
            since: Millis(1_800_000_000_500),
            attempt: 3,
        };
        for from in [Bound::FIRST, Bound::at(rank.start), rank.bound()] {
            for holder in [None, Some(holder)] {
                let turn = Turn { holder, from };
                assert_eq!(decode_turn(encode_turn(&turn)), Ok(turn));
            }
        }
        assert_eq!(decode_turn(Bytes::new()), Ok(Turn::UNKNOWN));
    }

    #[test]
    fn bytes_that_are_neither_are_refused() {
        let member = member(7, 7, 0, 5);
        let (sort, value) = (encode_rank(&member.rank), encode_member(&member));
        for sort in [&sort[..7], &sort[..23], &sort[..35], &[0; 36], &[0; 37]] {
            let read = decode_member(sort, value.clone());
            assert_eq!(read, Err(Malformed::OutOfRange("sort key")));
        }
        assert!(decode_member(&sort, Bytes::from_static(b"\xff")).is_err());
        for from in [&[0_u8; 3][..], &[0; 23], &[0; 24]] {
            let from = Bytes::copy_from_slice(from);
            let turn = v1::Turn { holder: None, from }.encode_to_vec();
            assert_eq!(decode_turn(turn.into()), Err(Malformed::OutOfRange("from")));
        }
    }

    #[test]
    fn partitions_of_different_sequences_differ() {
        let named = |callback: &str, key: &str| {
            members_partition(&Sequence {
                callback: callback.to_owned(),
                key: key.to_owned(),
            })
        };
        let names = [
            named("a", "bc"),
            named("ab", "c"),
            named("a", "b"),
            named("b", "a"),
        ];
        for (index, one) in names.iter().enumerate() {
            assert!(names.iter().skip(index + 1).all(|other| one != other));
        }
    }
}
