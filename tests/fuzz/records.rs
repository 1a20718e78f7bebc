//! These targets damage records, rows of the index, and the values that lie in them.

use std::time::Duration;

use bytes::Bytes;
use tickwheel::{
    model::{
        configuration::Epoch,
        dead_letter::Letter,
        ids::TaskId,
        key::Holder,
        record::{Kind, Name, Record, Version},
    },
    schema::{
        LetterValue, Request, decode_epoch, decode_holder, decode_letter, decode_request,
        encode_epoch, encode_holder, encode_letter, encode_request,
    },
    store::{
        embedded::{record_bytes, value},
        index::{IndexKind, IndexPut, Partition, Place},
        row::RecordColumns,
    },
};
use uuid::Uuid;

use super::{
    rows::{Columns, joined, target},
    samples::{START, id, row, specs},
};

fn name() -> Name {
    Name::new(Kind::Callback, "send-email").unwrap()
}

fn records() -> [Record; 2] {
    let record = |value, expires| Record {
        name: name(),
        version: Version(77),
        nonce: row().nonce,
        value,
        expires,
    };
    [
        record(Some(Bytes::from_static(b"value")), None),
        record(None, Some(START)),
    ]
}

#[test]
fn records_and_rows_of_the_index_of_the_embedded_store() {
    let samples = records().map(|record| record_bytes::record(&record).to_vec());
    target("embedded_record", samples.to_vec()).run(|bytes| {
        let Ok(record) = record_bytes::parse_record(name(), bytes) else {
            return false;
        };
        let again = record_bytes::record(&record);
        assert_eq!(value::expires(&again), value::expires(bytes));
        assert_eq!(record_bytes::parse_record(name(), &again).unwrap(), record);
        true
    });
    let partition = Partition::new(IndexKind::Held, "p").unwrap();
    let place = Place::new(partition, "s").unwrap();
    let put = IndexPut::new(place.clone(), "value", 77).unwrap();
    let samples = [
        record_bytes::index_row(&put),
        record_bytes::index_row(&put.until(START)),
        record_bytes::index_removed(77, START),
    ];
    let samples = samples.map(|sample| sample.to_vec()).to_vec();
    target("embedded_index_row", samples).run(|bytes| {
        let Ok(row) = record_bytes::parse_index_row(bytes) else {
            return false;
        };
        let again = match &row.value {
            Some(value) => {
                let Ok(put) = IndexPut::new(place.clone(), value.clone(), row.written) else {
                    return true;
                };
                record_bytes::index_row(&put.until(row.shown_until))
            }
            None => record_bytes::index_removed(row.written, row.shown_until),
        };
        assert_eq!(record_bytes::parse_index_row(&again).unwrap(), row);
        true
    });
}

#[test]
fn columns_of_records_and_the_epoch() {
    let samples = records().map(|record| {
        let c = RecordColumns::of(&record);
        joined(&[
            &c.version.unwrap().to_be_bytes(),
            c.nonce.unwrap().as_bytes(),
            &c.state.unwrap().to_be_bytes(),
            &c.expires_ms.unwrap().to_be_bytes(),
            &c.value.unwrap(),
        ])
    });
    target("record_columns", samples.to_vec()).run(|bytes| {
        let mut from = Columns::new(bytes);
        let columns = RecordColumns {
            version: from.long(),
            nonce: from.uuid(),
            state: from.tiny(),
            expires_ms: from.long(),
            value: from.rest(),
        };
        let Ok(record) = columns.into_record(name()) else {
            return false;
        };
        let again = RecordColumns::of(&record).into_record(name());
        assert_eq!(again.unwrap(), record);
        true
    });
    let other = Name::new(Kind::ApiKey, "k").unwrap();
    let epoch = Epoch::default().raised(3, name()).raised(9, other);
    target("epoch", vec![encode_epoch(&epoch).to_vec()]).run(|bytes| {
        let Ok(epoch) = decode_epoch(9, Bytes::copy_from_slice(bytes)) else {
            return false;
        };
        assert_eq!(decode_epoch(9, encode_epoch(&epoch)).unwrap(), epoch);
        true
    });
    let letter = Letter {
        callback: "send_email".to_owned(),
        error: "timeout after # ms".to_owned(),
        attempts: 3,
        time: START,
        stamp: START.0 * 1000,
        kept: Duration::from_secs(1),
    };
    target("dead_letter", vec![encode_letter(&letter, true).to_vec()]).run(|bytes| {
        let Ok(value) = decode_letter(Bytes::copy_from_slice(bytes)) else {
            return false;
        };
        let LetterValue {
            callback,
            error,
            attempts,
        } = value.clone();
        let again = Letter {
            callback,
            error,
            attempts,
            ..letter.clone()
        };
        assert_eq!(decode_letter(encode_letter(&again, true)).unwrap(), value);
        true
    });
}

#[test]
fn records_of_keys() {
    let holder = |spec| Holder {
        id: id(),
        generation: 3,
        spec: std::sync::Arc::new(spec),
    };
    let samples = specs().into_iter().take(2).map(holder);
    let samples = samples.map(|holder| encode_holder(&holder).to_vec());
    target("key_holder", samples.collect()).run(|bytes| {
        let Ok(holder) = decode_holder(Bytes::copy_from_slice(bytes)) else {
            return false;
        };
        assert_eq!(decode_holder(encode_holder(&holder)), Ok(holder));
        true
    });
}

#[test]
fn records_of_marked_requests() {
    let sample = Request {
        id: TaskId::bound(Uuid::from_u128(0x018b_cfe5_6800_8000_8000_0000_0000_0001)),
        hash: 7,
    };
    target("marked_request", vec![encode_request(&sample).to_vec()]).run(|bytes| {
        let Ok(request) = decode_request(Bytes::copy_from_slice(bytes)) else {
            return false;
        };
        assert_eq!(decode_request(encode_request(&request)), Ok(request));
        true
    });
}
