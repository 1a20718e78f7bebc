//! The rows and the record of a sequence, for the golden file of all rows.

use std::fmt::Write as _;

use tickwheel::{
    model::{
        ordering::{Bound, Holder, Member, Rank, Sequence, Turn},
        time::Millis,
    },
    schema::{
        decode_member, decode_turn, encode_member, encode_rank, encode_turn, members_partition,
    },
};

use crate::golden::{START, id};

fn sequence() -> Sequence {
    Sequence {
        callback: "send-email".to_owned(),
        key: "account-3".to_owned(),
    }
}

fn members() -> [Member; 2] {
    let rank = |generation| Rank {
        start: START,
        id: id(),
        generation,
        stamp: 1_893_456_000_250_007,
    };
    [false, true].map(|sure| Member {
        rank: rank(u32::from(sure)),
        sure,
        until: Millis(1_893_456_010_250),
    })
}

fn turns() -> [Turn; 2] {
    let [member, _] = members();
    let holder = Holder {
        id: member.rank.id,
        generation: 2,
        since: Millis(1_893_456_000_300),
        attempt: 0,
    };
    [
        Turn {
            holder: Some(holder),
            from: member.rank.bound(),
        },
        Turn {
            holder: None,
            from: Bound::at(START),
        },
    ]
}

/// Writes them as stores keep them.
pub(crate) fn render(text: &mut String) {
    writeln!(text, "members {:?}", members_partition(&sequence())).unwrap();
    for member in members() {
        let row = (encode_rank(&member.rank), encode_member(&member));
        writeln!(text, "member {row:?}").unwrap();
    }
    for turn in turns() {
        writeln!(text, "turn {:?}", encode_turn(&turn)).unwrap();
    }
}

#[test]
fn rows_of_sequences_are_read_as_they_were_written() {
    for member in members() {
        let read = decode_member(&encode_rank(&member.rank), encode_member(&member));
        assert_eq!(read, Ok(member));
    }
    for turn in turns() {
        assert_eq!(decode_turn(encode_turn(&turn)), Ok(turn));
    }
}
