//! These tests open for the store a directory that a program of format 2 wrote, byte for byte as its golden
//! file has the rows.

use std::{fs, path::Path, sync::Arc};

use super::{
    Mode, Settings, Store,
    disk::database::{Space, open},
    key,
    tests::shape,
    value,
};
use crate::{
    model::{
        entry::{DoneReason, Entry},
        ids::TaskId,
        time::Millis,
        wheel::Shape,
    },
    store::{Freshness, TaskRow, TaskStore as _, WheelStore as _},
    time_source::TimeSource,
};

const GOLDEN: &str = include_str!("../../../tests/golden/embedded_2.txt");

pub(super) fn bytes(name: &str) -> Vec<u8> {
    golden_bytes(GOLDEN, name)
}

/// Returns the bytes that a golden file has under a name.
pub(super) fn golden_bytes(golden: &str, name: &str) -> Vec<u8> {
    let lines = golden.lines().skip_while(|line| *line != name).skip(1);
    let text: String = lines
        .take_while(|line| line.starts_with(' '))
        .map(str::trim)
        .collect();
    let byte = |at: usize| u8::from_str_radix(text.get(at..at + 2).unwrap(), 16).unwrap();
    (0..text.len()).step_by(2).map(byte).collect()
}

fn opened(directory: &Path, shape: &Shape) -> Arc<Store> {
    let settings = Settings {
        mode: Mode::Inline,
        ..Settings::new(directory, *shape)
    };
    Store::open(
        settings,
        &TimeSource::simulated(Millis(1_790_000_000_000), 1),
    )
    .unwrap()
}

pub(super) fn entry(name: &str) -> Entry {
    let (key, written) = key::parse_version(&bytes(&format!("key: {name}"))).unwrap();
    value::parse_entry(key, written, &bytes(&format!("value: {name}"))).unwrap()
}

/// Makes a directory of format 2; returns its tasks' id and row.
fn written_before(directory: &Path, shape: &Shape) -> (TaskId, TaskRow) {
    drop(opened(directory, shape));
    let id = entry("due, first").key.id;
    let row = bytes("value: task");
    let database = open(&directory.join("store"), shape).unwrap();
    for (space, name) in [(Space::Due, "due, first"), (Space::Look, "look")] {
        let (key, value) = (
            bytes(&format!("key: {name}")),
            bytes(&format!("value: {name}")),
        );
        database.space(space).insert(key, value).unwrap();
    }
    database
        .space(Space::Row)
        .insert(key::task(id), &row)
        .unwrap();
    drop(database);
    let format = directory.join("FORMAT");
    let text = fs::read_to_string(&format).unwrap();
    // It had no check sum.
    let text = text.replace("format=4", "format=2");
    let (lines, _) = text.split_once("check=").unwrap();
    fs::write(&format, lines).unwrap();
    (id, value::parse_task(id, &row).unwrap())
}

#[tokio::test(start_paused = true)]
async fn what_lies_in_a_directory_of_format_2_goes_on_beside_what_is_new() {
    let directory = tempfile::tempdir().unwrap();
    let shape = shape(1024);
    let (id, row) = written_before(directory.path(), &shape);
    let (due, look) = (entry("due, first"), entry("look"));
    let cancelled = due.marked_done(DoneReason::Cancelled, due.start, due.written + 1);
    for round in 0..2 {
        let store = opened(directory.path(), &shape);
        let rows = store.tasks(&[id], Freshness::Quorum).await.unwrap();
        assert_eq!(rows, [Some(row.clone())]);
        let found = store.find_entries(id, &[due.key.due]).await.unwrap();
        if round == 0 {
            assert_eq!(found, [look.clone(), due.clone()]);
            let put = store.put_entries(&[cancelled.clone(), look.clone()]).await;
            assert!(put.iter().all(Result::is_ok));
        } else {
            assert_eq!(found, [look.clone(), cancelled.clone()]);
        }
        let text = fs::read_to_string(directory.path().join("FORMAT")).unwrap();
        assert!(text.contains("format=4"), "{text}");
    }
}
