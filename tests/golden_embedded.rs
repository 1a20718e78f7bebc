//! These tests compare keys and values of the embedded store byte for byte with a golden file. This version
//! must read a directory that an older one wrote. The file under `tests/golden/` is never changed, only added
//! to, or kept beside that of the next format.

use std::fmt::Write as _;

use bytes::Bytes;
use tickwheel::{
    model::{look_step::LookStep, time::Millis, wheel::WheelNumber},
    schema::{encode_short, encode_spec},
    store::{
        Heartbeat, Parked,
        embedded::{key, record_bytes, value},
        index::{IndexKind, IndexPut, Partition, Place},
    },
};

use crate::{
    golden::{START, full, id},
    golden_rows::{clock, entries, records, task},
};

fn hex(text: &mut String, name: &str, bytes: &[u8]) {
    writeln!(text, "{name}").unwrap();
    for line in bytes.chunks(32) {
        let line: String = line.iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(text, "  {line}").unwrap();
    }
}

fn heartbeats() -> [(&'static str, Heartbeat); 2] {
    let beat = |progress| Heartbeat {
        id: id(),
        attempt: 3,
        at: START,
        progress,
    };
    [
        ("heartbeat", beat(None)),
        (
            "heartbeat, with progress",
            beat(Some(Bytes::from_static(b"{\"done\":7}"))),
        ),
    ]
}

fn parked() -> Parked {
    let (_, entry) = entries().remove(0);
    Parked {
        key: entry.key,
        at: START,
        reason: "the queue refuses it".to_owned(),
        raw: encode_spec(&entry.spec),
    }
}

fn index_rows() -> [(&'static str, IndexPut); 2] {
    let partition = Partition::new(IndexKind::Held, "send-email").unwrap();
    let place = Place::new(partition, &b"\x00\x01\xff"[..]).unwrap();
    let row = IndexPut::new(place, "value", 77).unwrap();
    [
        ("row of the index", row.clone()),
        ("row of the index, with an end", row.until(START)),
    ]
}

fn rendered() -> String {
    let mut text = String::new();
    let wheel = WheelNumber::new(513).unwrap();
    hex(&mut text, "key: clock", &key::clock(wheel));
    hex(&mut text, "key: task", &key::task(id()));
    hex(&mut text, "key: heartbeat", &key::heartbeat(id(), 3));
    hex(&mut text, "key: body", &key::body(id()));
    hex(&mut text, "key: parked", &key::parked(START, &parked().key));
    for (name, entry) in entries() {
        let spec = encode_short(&entry.spec);
        hex(
            &mut text,
            &format!("key: {name}"),
            &key::version(&entry.key, entry.written),
        );
        hex(
            &mut text,
            &format!("value: {name}"),
            &value::entry(&entry, spec),
        );
    }
    hex(&mut text, "value: clock", &value::clock(&clock()));
    hex(
        &mut text,
        "value: task",
        &value::task(&task(), Millis(START.0 + 99)),
    );
    hex(
        &mut text,
        "value: task, for ever",
        &value::task(&task(), value::NEVER),
    );
    for (name, beat) in heartbeats() {
        hex(
            &mut text,
            &format!("value: {name}"),
            &value::heartbeat(&beat, START),
        );
    }
    hex(&mut text, "value: body", &value::body(&full().1, 77, START));
    hex(&mut text, "value: parked", &value::parked(&parked()));
    for (name, record) in records() {
        let key = record_bytes::record_key(&record.name);
        hex(&mut text, &format!("key: {name}"), &key);
        let value = record_bytes::record(&record);
        hex(&mut text, &format!("value: {name}"), &value);
    }
    for (name, row) in index_rows() {
        let key = record_bytes::index_key(row.place());
        hex(&mut text, &format!("key: {name}"), &key);
        let value = record_bytes::index_row(&row);
        hex(&mut text, &format!("value: {name}"), &value);
    }
    let removed = record_bytes::index_removed(77, START);
    hex(&mut text, "value: row of the index, removed", &removed);
    text
}

#[test]
fn keys_and_values_of_the_embedded_store_are_unchanged() {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/embedded.txt");
    let now = rendered();
    if std::env::var_os("TICKWHEEL_UPDATE_GOLDEN").is_some() {
        std::fs::write(&file, &now).unwrap();
    }
    let golden = std::fs::read_to_string(&file).unwrap();
    assert_eq!(now, golden, "the format has changed; it is now:\n{now}");
}

#[test]
fn keys_and_values_are_read_as_they_were_written() {
    for (name, entry) in entries() {
        let stored = key::version(&entry.key, entry.written);
        assert_eq!(
            key::parse_version(&stored),
            Some((entry.key, entry.written)),
            "{name}"
        );
        let stored = value::entry(&entry, encode_short(&entry.spec));
        let read = value::parse_entry(entry.key, entry.written, &stored);
        assert_eq!(read.as_ref(), Ok(&entry), "{name}");
    }
    assert_eq!(
        value::parse_clock(&value::clock(&clock())).ok(),
        Some(clock())
    );
    let stored = value::task(&task(), START);
    assert_eq!(value::parse_task(id(), &stored).ok(), Some(task()));
    assert_eq!(value::expires(&stored), Some(START));
    for (name, beat) in heartbeats() {
        let stored = value::heartbeat(&beat, START);
        assert_eq!(
            value::parse_heartbeat(id(), 3, &stored),
            Some(beat),
            "{name}"
        );
    }
    for (name, record) in records() {
        let stored = record_bytes::record(&record);
        let read = record_bytes::parse_record(record.name.clone(), &stored);
        assert_eq!(read.as_ref(), Ok(&record), "{name}");
        let expires = record.expires.unwrap_or(value::NEVER);
        assert_eq!(value::expires(&stored), Some(expires), "{name}");
    }
    for (name, row) in index_rows() {
        let read = record_bytes::parse_index_row(&record_bytes::index_row(&row)).unwrap();
        let wanted = record_bytes::StoredRow {
            written: row.written,
            shown_until: row.expires.unwrap_or(value::NEVER),
            value: Some(row.value().clone()),
        };
        assert_eq!(read, wanted, "{name}");
    }
    let removed = record_bytes::parse_index_row(&record_bytes::index_removed(77, START));
    assert_eq!(removed.map(|row| (row.written, row.value)), Ok((77, None)));
    let stored = value::parked(&parked());
    let read = value::parse_parked(START, parked().key, &stored).unwrap();
    assert_eq!((read.reason, read.raw), (parked().reason, parked().raw));
    // The step of a task's looks is in its id, and so in its keys.
    let step = LookStep::covering(std::time::Duration::from_secs(90));
    assert_ne!(key::task(id().with_look_step(step)), key::task(id()));
}
