//! These targets damage the data of stores and queues: messages, specs, contents, rows and keys, columns.

use bytes::Bytes;
use tickwheel::{
    model::{dispatch::Dispatch, ids::TaskId, task::Spec, time::Millis},
    queue::message::TaskMessage,
    schema::{decode_content, decode_spec, encode_content, encode_short, encode_spec},
    store::{
        Heartbeat, Parked,
        embedded::{key, value},
        row::{ClockColumns, EntryColumns, TaskColumns},
    },
};
use uuid::Uuid;

use super::{
    run::Target,
    samples::{START, clock, content, entries, id, row, specs},
};

/// The memory that a decoder of a row may take: its parts are copied once or twice, and lists of
/// them have heads.
const BYTES_MAX: (u64, u64) = (16 * 1024, 64);

pub(crate) fn target(name: &'static str, samples: Vec<Vec<u8>>) -> Target<'static> {
    Target {
        name,
        samples,
        words: &["\u{0}", "\u{8}\u{1}", "team", "application/json"],
        bytes_max: BYTES_MAX,
        seconds: 2,
    }
}

#[test]
fn messages_of_the_queue() {
    let message = |spec| TaskMessage {
        dispatch: Dispatch {
            id: id(),
            generation: 3,
            expected_attempt: 2,
            start: START,
        },
        published: START,
        spec,
    };
    let specs = specs().into_iter().take(2);
    let samples = specs.map(|spec| message(spec).outgoing().unwrap().encode().to_vec());
    target("task_message", samples.collect()).run(|bytes| {
        let Ok(message) = TaskMessage::decode(Bytes::copy_from_slice(bytes)) else {
            return false;
        };
        if let Some(outgoing) = message.outgoing() {
            assert_eq!(TaskMessage::decode(outgoing.encode()).unwrap(), message);
        }
        true
    });
}

#[test]
fn specs_and_contents() {
    let encoded = |spec: Spec| [encode_spec(&spec).to_vec(), encode_short(&spec).to_vec()];
    let samples = specs().into_iter().flat_map(encoded);
    target("spec", samples.collect()).run(|bytes| {
        let Ok(spec) = decode_spec(Bytes::copy_from_slice(bytes)) else {
            return false;
        };
        assert_eq!(decode_spec(encode_spec(&spec)).unwrap(), spec);
        assert_eq!(decode_spec(encode_short(&spec)).unwrap(), spec);
        true
    });
    target("content", vec![encode_content(&content()).to_vec()]).run(|bytes| {
        let Ok(content) = decode_content(Bytes::copy_from_slice(bytes)) else {
            return false;
        };
        let again = decode_content(encode_content(&content));
        assert_eq!(again.unwrap(), content);
        true
    });
}

#[test]
fn rows_of_the_embedded_wheel() {
    // The sample starts with the key, at its full length.
    let samples = entries().into_iter().map(|entry| {
        let value = value::entry(&entry, encode_short(&entry.spec));
        [&*key::version(&entry.key, entry.written), &*value].concat()
    });
    target("embedded_entry", samples.collect()).run(|bytes| {
        let (head, rest) = bytes.split_at(bytes.len().min(key::VERSION_BYTES));
        let Some((key, written)) = key::parse_version(head) else {
            return false;
        };
        assert_eq!(
            key::parse_version(&key::version(&key, written)),
            Some((key, written))
        );
        let Ok(entry) = value::parse_entry(key, written, rest) else {
            return false;
        };
        let again = value::entry(&entry, encode_short(&entry.spec));
        assert_eq!(value::parse_entry(key, written, &again).unwrap(), entry);
        true
    });
}

#[test]
fn rows_of_embedded_tasks_and_clocks() {
    target("embedded_task", vec![value::task(&row(), START).to_vec()]).run(|bytes| {
        let seen = value::parse_seen(bytes).is_ok();
        let Ok(row) = value::parse_task(id(), bytes) else {
            return false;
        };
        assert!(seen, "a whole row has what conditions look at");
        let expires = value::expires(bytes).unwrap();
        let again = value::task(&row, expires);
        assert_eq!(value::parse_task(id(), &again).unwrap(), row);
        assert_eq!(value::is_live(&again, START), value::is_live(bytes, START));
        true
    });
    target("embedded_clock", vec![value::clock(&clock()).to_vec()]).run(|bytes| {
        let Ok(row) = value::parse_clock(bytes) else {
            return false;
        };
        assert_eq!(value::parse_clock(&value::clock(&row)).unwrap(), row);
        true
    });
}

#[test]
fn what_else_the_embedded_store_keeps() {
    let beat = |progress| Heartbeat {
        id: id(),
        attempt: 3,
        at: START,
        progress,
    };
    let samples = [None, Some(Bytes::from_static(b"{\"done\":7}"))];
    let samples = samples.map(|progress| value::heartbeat(&beat(progress), START).to_vec());
    target("embedded_heartbeat", samples.to_vec()).run(|bytes| {
        let written = value::parse_written(bytes);
        let Some(beat) = value::parse_heartbeat(id(), 3, bytes) else {
            return false;
        };
        assert_eq!(written, Some(beat.at.0));
        let again = value::heartbeat(&beat, START);
        assert_eq!(value::parse_heartbeat(id(), 3, &again), Some(beat));
        true
    });
    let entry = entries().remove(0);
    let parked = Parked {
        key: entry.key,
        at: START,
        reason: "it cannot be read".to_owned(),
        raw: encode_spec(&entry.spec),
    };
    let sample = [&*key::parked(START, &entry.key), &*value::parked(&parked)].concat();
    let key_bytes = key::parked(START, &entry.key).len();
    target("embedded_parked", vec![sample]).run(|bytes| {
        let (head, rest) = bytes.split_at(bytes.len().min(key_bytes));
        let Some((at, key)) = key::parse_parked(head) else {
            return false;
        };
        let Some(parked) = value::parse_parked(at, key, rest) else {
            return false;
        };
        let again = value::parse_parked(at, key, &value::parked(&parked)).unwrap();
        assert_eq!((again.reason, again.raw), (parked.reason, parked.raw));
        true
    });
}

/// Takes columns from the front of bytes; each is missing where the bit of a mask says so.
pub(crate) struct Columns<'a> {
    bytes: &'a [u8],
    mask: u16,
}

impl<'a> Columns<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        let mut columns = Self { bytes, mask: 0 };
        columns.mask = u16::from_be_bytes(columns.take());
        columns
    }

    /// A missing column is zero.
    pub(crate) fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut taken = [0; N];
        let there = N.min(self.bytes.len());
        taken[..there].copy_from_slice(&self.bytes[..there]);
        self.bytes = &self.bytes[there..];
        taken
    }

    pub(crate) fn present<T>(&mut self, column: T) -> Option<T> {
        let there = self.mask & 1 == 0;
        self.mask >>= 1;
        there.then_some(column)
    }

    pub(crate) fn tiny(&mut self) -> Option<i8> {
        let [byte] = self.take();
        self.present(byte.cast_signed())
    }

    pub(crate) fn int(&mut self) -> Option<i32> {
        let number = i32::from_be_bytes(self.take());
        self.present(number)
    }

    pub(crate) fn long(&mut self) -> Option<i64> {
        let number = i64::from_be_bytes(self.take());
        self.present(number)
    }

    pub(crate) fn uuid(&mut self) -> Option<Uuid> {
        let uuid = Uuid::from_bytes(self.take());
        self.present(uuid)
    }

    pub(crate) fn rest(&mut self) -> Option<Bytes> {
        let rest = Bytes::copy_from_slice(self.bytes);
        self.present(rest)
    }
}

pub(crate) fn joined(parts: &[&[u8]]) -> Vec<u8> {
    [&[0, 0], parts.concat().as_slice()].concat()
}

#[test]
fn columns_of_the_shared_store() {
    let samples = entries().into_iter().map(|entry| {
        let c = EntryColumns::of(&entry);
        joined(&[
            &c.kind.unwrap_or_default().to_be_bytes(),
            &c.flags.unwrap_or_default().to_be_bytes(),
            &c.reason.unwrap_or(1).to_be_bytes(),
            &c.spills.unwrap_or_default().to_be_bytes(),
            &c.start_ms.unwrap_or_default().to_be_bytes(),
            &c.at_ms.unwrap_or_default().to_be_bytes(),
            &c.moved_ms.unwrap_or_default().to_be_bytes(),
            &c.spec.unwrap_or_default(),
        ])
    });
    let keys: Vec<_> = entries().into_iter().map(|entry| entry.key).collect();
    target("entry_columns", samples.collect()).run(|bytes| {
        let mut from = Columns::new(bytes);
        let columns = EntryColumns {
            kind: from.tiny(),
            flags: from.tiny(),
            reason: from.tiny(),
            spills: from.int(),
            start_ms: from.long(),
            at_ms: from.long(),
            moved_ms: from.long(),
            spec: from.rest(),
        };
        let mut accepted = false;
        for key in &keys {
            if let Ok(entry) = columns.clone().into_entry(*key, 77) {
                accepted = true;
                assert_eq!(
                    EntryColumns::of(&entry).into_entry(*key, 77).unwrap(),
                    entry
                );
            }
        }
        accepted
    });
}

#[test]
fn task_and_clock_columns_of_the_shared_store() {
    let c = TaskColumns::of(&row());
    let sample = joined(&[
        &c.state.unwrap().to_be_bytes(),
        &c.generation.unwrap().to_be_bytes(),
        &c.attempt.unwrap().to_be_bytes(),
        &c.tries.unwrap().to_be_bytes(),
        &c.next_ms.unwrap().to_be_bytes(),
        &c.last_ms.unwrap().to_be_bytes(),
        &[1],
        c.nonce.unwrap().as_bytes(),
        &c.detail.unwrap(),
    ]);
    target("task_columns", vec![sample]).run(|bytes| {
        let mut from = Columns::new(bytes);
        let columns = TaskColumns {
            state: from.tiny(),
            generation: from.int(),
            attempt: from.int(),
            tries: from.int(),
            next_ms: from.long(),
            last_ms: from.long(),
            cancel_requested: from.tiny().map(|flag| flag != 0),
            nonce: from.uuid(),
            detail: from.rest(),
        };
        let Ok(row) = columns.into_row(id().uuid()) else {
            return false;
        };
        assert_eq!(TaskColumns::of(&row).into_row(id().uuid()).unwrap(), row);
        true
    });
    let c = ClockColumns::of(&clock());
    let numbers = [
        c.version,
        c.opened,
        c.fired_due_ms,
        c.erased,
        c.lease_until_ms,
        c.wall_ms,
    ];
    let numbers: Vec<u8> = numbers
        .iter()
        .flat_map(|n| n.unwrap().to_be_bytes())
        .collect();
    let (fired, owner) = (c.fired_id.unwrap(), c.owner.unwrap());
    let sample = joined(&[&numbers, fired.as_bytes(), owner.as_bytes()]);
    target("clock_columns", vec![sample]).run(|bytes| {
        let mut from = Columns::new(bytes);
        let columns = ClockColumns {
            version: from.long(),
            opened: from.long(),
            fired_due_ms: from.long(),
            erased: from.long(),
            lease_until_ms: from.long(),
            wall_ms: from.long(),
            fired_id: from.uuid(),
            owner: from.uuid(),
        };
        let Ok(row) = columns.into_row() else {
            return false;
        };
        assert_eq!(ClockColumns::of(&row).into_row().unwrap(), row);
        true
    });
}

#[test]
fn ids() {
    let samples = vec![
        id().to_string().into_bytes(),
        id().uuid().simple().to_string().into_bytes(),
    ];
    target("id", samples).run(|bytes| {
        let text = String::from_utf8_lossy(bytes);
        let Ok(id) = text.parse::<TaskId>() else {
            return false;
        };
        assert_eq!(id.to_string().parse::<TaskId>(), Ok(id));
        assert!(
            (Millis::EPOCH..=Millis::MAX).contains(&id.first_start()),
            "{id}"
        );
        true
    });
}
