//! The rows and records of trees, for the golden file of all rows.

use std::fmt::Write as _;

use tickwheel::{
    model::{
        family::{self, Family, Outcome, Rounds, Tree, TreeOutcome},
        kin::Runs,
        row::{State, TaskRow},
        time::Millis,
    },
    schema::{
        ChildRow, Opened, children_partition, decode_child, decode_family, encode_added,
        encode_family, encode_opened, encode_outcome,
    },
    store::row::TaskColumns,
};

use crate::{
    golden::{START, full, id},
    golden_rows::task,
};

const OPENED: Opened = Opened {
    round: 2,
    run: Runs::Failed,
};

fn outcome() -> Outcome {
    Outcome {
        state: State::Dead,
        tree: TreeOutcome::Faulted,
        at: Millis(START.0 + 7),
    }
}

fn families() -> [Family; 4] {
    let family = |tree, round, cancelled| Family {
        tree,
        round,
        cancelled,
        complete: false,
    };
    let complete = Family {
        complete: true,
        ..Family::NEW
    };
    [
        family(Tree::Closing, 0, None),
        family(Tree::Faulted, 3, None),
        family(Tree::Cancelled, 0, Some(START)),
        complete,
    ]
}

/// A task in a later round of its tree.
fn again() -> TaskRow {
    let mut row = task();
    row.detail.rounds = Rounds {
        round: 3,
        opened: 1,
        awaits: true,
    };
    row
}

/// Adds the lines of this file.
pub(crate) fn render(text: &mut String) {
    let (spec, _) = full();
    let partition = children_partition(id(), family::bucket(id()));
    writeln!(text, "children {partition:?}").unwrap();
    let added = encode_added(&spec, START).unwrap();
    writeln!(text, "child {added:?}").unwrap();
    let opened = encode_opened(&spec, START, OPENED);
    writeln!(text, "child of a later round {opened:?}").unwrap();
    for round in [0, 2] {
        let ended = encode_outcome(&outcome(), round);
        let written = [
            family::opened_written(round, false),
            family::opened_written(round, true),
            family::ended_written(round),
            family::let_go_written(round, 5),
        ];
        writeln!(text, "ended child {ended:?} {written:?}").unwrap();
    }
    for family in families() {
        writeln!(text, "family {:?}", encode_family(family)).unwrap();
    }
    let detail = TaskColumns::of(&again()).detail;
    writeln!(text, "detail of a task of a later round {detail:?}").unwrap();
}

#[test]
fn rows_of_trees_are_read_as_they_were_written() {
    let (spec, _) = full();
    let sort = id().uuid().as_bytes().to_vec();
    let child = ChildRow::Added {
        spec: Box::new(spec.clone()),
        at: START,
        opened: OPENED,
    };
    let read = decode_child(&sort, encode_opened(&spec, START, OPENED));
    assert_eq!(read, Ok((id(), child)));
    let ended = ChildRow::Ended {
        outcome: outcome(),
        round: 2,
    };
    let read = decode_child(&sort, encode_outcome(&outcome(), 2));
    assert_eq!(read, Ok((id(), ended)));
    for family in families() {
        assert_eq!(decode_family(encode_family(family)), Ok(family));
    }
    let columns = TaskColumns::of(&again());
    assert_eq!(columns.into_row(id().uuid()), Ok(again()));
}
