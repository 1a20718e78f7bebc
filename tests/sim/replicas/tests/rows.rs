//! A row that is kept once for all replicas equals three rows that are kept apart.

use super::super::{
    dice::Dice,
    row::{Row, Value, Version},
    set::Set,
};

impl Value for u8 {
    fn merged(&self, other: &Self) -> Self {
        *self.max(other)
    }
}

/// The versions of the replicas, kept apart.
type Apart = [Option<Version<u8>>; 3];

fn wins(new: &Version<u8>, held: &Version<u8>) -> bool {
    // Of two with one time a deletion wins, else the greater value.
    let rank = |version: &Version<u8>| (version.written, version.value.is_none(), version.value);
    rank(new) >= rank(held)
}

fn receive(apart: &mut Apart, new: &Version<u8>, by: Set) {
    for replica in by.members() {
        let held = &mut apart[replica];
        if held.as_ref().is_none_or(|held| wins(new, held)) {
            *held = Some(new.clone());
        }
    }
}

fn newest(apart: &Apart, of: Set) -> Option<Version<u8>> {
    let held = of.members().filter_map(|replica| apart[replica].clone());
    held.reduce(|one, other| if wins(&one, &other) { one } else { other })
}

fn any_version(dice: &mut Dice) -> Version<u8> {
    let written = i64::try_from(dice.below(4)).unwrap();
    match dice.below(4) {
        0 => Version::deletion(written),
        value => Version::new(written, u8::try_from(value).unwrap(), None),
    }
}

fn any_set(dice: &mut Dice) -> Set {
    Set::from_low_bits(1 + dice.below(7))
}

/// Does one step on both; the row is none once nothing is left of it.
fn step(dice: &mut Dice, row: &mut Option<Row<u8>>, apart: &mut Apart) {
    let set = any_set(dice);
    match dice.below(4) {
        0 | 1 => {
            let new = any_version(dice);
            receive(apart, &new, set);
            match row {
                Some(row) => row.receive(new, set),
                None => *row = Some(Row::new(new, set)),
            }
        }
        2 => {
            // A repair changes replicas with older versions; a read of nothing repairs nothing.
            if let Some(best) = newest(apart, set) {
                receive(apart, &best, set);
            }
            if let Some(row) = row {
                row.repair(set);
            }
        }
        _ => {
            let written = i64::try_from(dice.below(4)).unwrap();
            for replica in set.members() {
                apart[replica].take_if(|held| held.written <= written);
            }
            if row.as_mut().is_some_and(|row| !row.erase(written, set)) {
                *row = None;
            }
        }
    }
}

#[test]
fn a_row_is_what_three_replicas_hold() {
    let mut differed = 0;
    for seed in 0..3000 {
        let mut dice = Dice::new(seed);
        let (mut row, mut apart) = (None, Apart::default());
        for number in 0..30 {
            step(&mut dice, &mut row, &mut apart);
            assert_eq!(row.is_none(), newest(&apart, Set::ALL).is_none());
            let Some(row) = &row else { continue };
            for (replica, expected) in apart.iter().enumerate() {
                let held = row.held_by(Set::only(replica));
                assert_eq!(held, expected.as_ref(), "seed {seed}, step {number}");
            }
            let pair = any_set(&mut dice);
            let seen = row.held_by(pair).map(|version| version.written);
            let expected = newest(&apart, pair).map(|version| version.written);
            assert_eq!(seen, expected);
            let same = pair
                .members()
                .all(|replica| apart[replica] == apart[pair.members().next().unwrap_or(replica)]);
            let differs = row.differs_among(pair);
            assert!(differs || same, "a difference is not seen");
            differed += usize::from(differs);
        }
    }
    assert!(differed > 1000, "{differed}");
}
