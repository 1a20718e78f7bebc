//! These targets damage the rows and records of sequences, trees, joins and schedules, and the tokens of their lists.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use bytes::Bytes;
use tickwheel::{
    flow::{
        base::tables::letters::{Scope, Spot},
        stages::letters::walk::Wanted,
    },
    http::convert::{dead_letter_token, page_token},
    model::{
        draft::{BackoffDraft, TaskDraft},
        family::{Family, Outcome, Tree, TreeOutcome},
        join::Marks,
        kin::Runs,
        look_step::LookStep,
        ordering::{Bound, Holder, Member, Rank, Turn},
        schedule::{
            life::{ChangeMark, Missed, Overlap, Pause, Schedule, ScheduleSpec, State as Life},
            run::{Cause, Listed, Run},
        },
        state::State,
    },
    schema::{
        ChildRow, DependencyRow, Opened, decode_child, decode_dependency, decode_family,
        decode_marks, decode_member, decode_run, decode_schedule, decode_turn, encode_added,
        encode_dependency, encode_family, encode_marks, encode_member, encode_opened,
        encode_outcome, encode_rank, encode_run, encode_schedule, encode_turn,
    },
};

use super::{
    rows::target,
    samples::{START, id, specs},
};

/// Bytes of the sort key of a member.
const RANK_BYTES: usize = 36;

/// Bytes of an id, the sort key of a child.
const ID_BYTES: usize = 16;

fn rank() -> Rank {
    Rank {
        start: START,
        id: id(),
        generation: 3,
        stamp: START.0 * 1000,
    }
}

#[test]
fn members_and_turns_of_sequences() {
    let member = Member {
        rank: rank(),
        sure: true,
        until: START,
    };
    let sample = [encode_rank(&rank()), encode_member(&member)].concat();
    target("member", vec![sample]).run(|bytes| {
        let (sort, value) = bytes.split_at(bytes.len().min(RANK_BYTES));
        let Ok(member) = decode_member(sort, Bytes::copy_from_slice(value)) else {
            return false;
        };
        // The order of a sequence is that of its keys: a key is read as what it sorts by.
        assert_eq!(encode_rank(&member.rank), sort);
        let again = decode_member(sort, encode_member(&member));
        assert_eq!(again, Ok(member));
        true
    });
    let holder = Holder {
        id: id(),
        generation: 2,
        since: START,
        attempt: 4,
    };
    let turns = [
        (Some(holder), Bound::FIRST),
        (None, rank().bound()),
        (Some(holder), Bound::at(START)),
    ];
    let samples = turns.map(|(holder, from)| encode_turn(&Turn { holder, from }).to_vec());
    target("turn", samples.to_vec()).run(|bytes| {
        let Ok(turn) = decode_turn(Bytes::copy_from_slice(bytes)) else {
            return false;
        };
        assert_eq!(decode_turn(encode_turn(&turn)), Ok(turn));
        true
    });
}

fn outcome() -> Outcome {
    Outcome {
        state: State::Dead,
        tree: TreeOutcome::Faulted,
        at: START,
    }
}

#[test]
fn rows_and_records_of_trees() {
    let opened = Opened {
        round: 3,
        run: Runs::Failed,
    };
    let samples = [
        encode_added(&specs()[0], START).unwrap(),
        encode_opened(&specs()[1], START, opened),
        encode_outcome(&outcome(), 0),
        encode_outcome(&outcome(), 2),
    ];
    let samples = samples.map(|row| [id().uuid().as_bytes(), &row[..]].concat());
    target("child", samples.to_vec()).run(|bytes| {
        let (sort, value) = bytes.split_at(bytes.len().min(ID_BYTES));
        let Ok((id, row)) = decode_child(sort, Bytes::copy_from_slice(value)) else {
            return false;
        };
        let again = match &row {
            ChildRow::Ended { outcome, round } => encode_outcome(outcome, *round),
            ChildRow::Added { spec, at, opened } => encode_opened(spec, *at, *opened),
        };
        assert_eq!(decode_child(sort, again), Ok((id, row)));
        true
    });
    let trees = [
        (Tree::Open, 0, None),
        (Tree::Closing, 7, Some(START)),
        (Tree::Faulted, 1, None),
    ];
    let samples = trees.map(|(tree, round, cancelled)| {
        let family = Family {
            tree,
            round,
            cancelled,
            complete: round == 1,
        };
        encode_family(family).to_vec()
    });
    target("family", samples.to_vec()).run(|bytes| {
        let Ok(family) = decode_family(Bytes::copy_from_slice(bytes)) else {
            return false;
        };
        assert_eq!(decode_family(encode_family(family)), Ok(family));
        true
    });
}

#[test]
fn rows_and_marks_of_joins() {
    let rows = [
        DependencyRow::Open { known: true },
        DependencyRow::Ended(outcome()),
    ];
    let rows = rows.map(|row| encode_dependency(&row).to_vec());
    target("dependency", rows.to_vec()).run(|bytes| {
        let Ok(row) = decode_dependency(Bytes::copy_from_slice(bytes)) else {
            return false;
        };
        assert_eq!(decode_dependency(encode_dependency(&row)), Ok(row));
        true
    });
    let marks = encode_marks(Marks::of("mail").with(Marks::of("report"))).to_vec();
    target("join_marks", vec![marks]).run(|bytes| {
        let Ok(marks) = decode_marks(Bytes::copy_from_slice(bytes)) else {
            return false;
        };
        assert_eq!(decode_marks(encode_marks(marks)), Ok(marks));
        true
    });
}

fn schedule() -> Schedule {
    let spec = ScheduleSpec {
        crons: vec!["30 2 * * MON-FRI".to_owned()],
        every: Some(Duration::from_secs(900)),
        zone: "Europe/Berlin".to_owned(),
        start: Some(START),
        end: Some(START),
        limit: Some(7),
        jitter: Duration::from_secs(300),
        overlap: Overlap::BufferOne,
        missed: Missed::All,
        window: Duration::from_secs(3600),
        pause_on_failure: true,
        note: "nightly".to_owned(),
        labels: [("team".to_owned(), "billing".to_owned())].into(),
        task: TaskDraft {
            backoff: BackoffDraft::default(),
            ..specs().swap_remove(0).into()
        },
    };
    let mark = ChangeMark {
        id: 8 << 100,
        at: START,
    };
    let step = LookStep::covering(Duration::from_secs(90));
    Schedule {
        state: Life::Paused(Pause {
            reason: "holidays".to_owned(),
            who: "ann".to_owned(),
            since: START,
        }),
        next: Some(START),
        ahead: vec![run()],
        waiting: Some(run()),
        zone_data: "2026a".to_owned(),
        ..Schedule::created(spec, None, 7 << 90, step, mark)
    }
}

fn run() -> Run {
    Run {
        id: id(),
        generation: 3,
        seq: 4,
        time: START,
        entered: false,
        late: false,
    }
}

#[test]
fn records_of_schedules_and_rows_of_runs() {
    target("schedule", vec![encode_schedule(&schedule()).to_vec()]).run(|bytes| {
        let Ok(schedule) = decode_schedule(Bytes::copy_from_slice(bytes)) else {
            return false;
        };
        let again = decode_schedule(encode_schedule(&schedule));
        assert_eq!(again.as_ref(), Ok(&schedule));
        true
    });
    let listed = Listed {
        run: run(),
        cause: Cause::Trigger,
        skipped: true,
    };
    target("listed_run", vec![encode_run(&listed).to_vec()]).run(|bytes| {
        let Ok(listed) = decode_run(Bytes::copy_from_slice(bytes)) else {
            return false;
        };
        assert_eq!(decode_run(encode_run(&listed)), Ok(listed));
        true
    });
}

#[test]
fn tokens_of_dead_letters_and_children() {
    let wanted = Wanted {
        scope: Scope::of(Some("mail")),
        error: Some("timeout after # ms".to_owned()),
    };
    let spot = Spot {
        time: START,
        id: id().uuid(),
    };
    // Text that is not base64 is refused at once, so the text inside is damaged; the token itself is damaged as well.
    let letter = dead_letter_token::write(&wanted, spot);
    let samples = [letter.clone().into_bytes(), BASE64.decode(&letter).unwrap()];
    target("dead_letter_token", samples.to_vec()).run(|bytes| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let mut accepted = false;
        for token in [text, BASE64.encode(bytes)] {
            if let Ok(spot) = dead_letter_token::read(&token, &wanted) {
                accepted = true;
                let again = dead_letter_token::write(&wanted, spot);
                assert_eq!(dead_letter_token::read(&again, &wanted), Ok(spot));
            }
        }
        accepted
    });
    let children = page_token::write_children((3, Some(id())));
    let samples = [
        children.clone().into_bytes(),
        BASE64.decode(&children).unwrap(),
    ];
    target("children_token", samples.to_vec()).run(|bytes| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let mut accepted = false;
        for token in [text, BASE64.encode(bytes)] {
            if let Ok(place) = page_token::read_children(&token) {
                accepted = true;
                let again = page_token::write_children(place);
                assert_eq!(page_token::read_children(&again), Ok(place));
            }
        }
        accepted
    });
}
