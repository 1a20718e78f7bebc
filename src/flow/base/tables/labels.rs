//! The rows of labels: tasks by a label that their callback has named. The value is empty.
//!
//! Partition: the hash of callback, name and value, so whoever reads a row looks at the labels of its task as well. Order: id,
//! which is that of first starts. A row is written again with a newer time when its task ends or is redriven.

use std::collections::BTreeMap;

use bytes::{BufMut as _, Bytes, BytesMut};
use xxhash_rust::xxh3::xxh3_128;

use super::rows_by_id::sort;
use crate::{
    model::{ids::TaskId, task::Spec, time::Millis},
    store::index::{IndexKind, IndexPut, Partition, Place, Refused},
};

/// A label of tasks of a callback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::flow) struct Label<'a> {
    pub(in crate::flow) callback: &'a str,
    pub(in crate::flow) name: &'a str,
    pub(in crate::flow) value: &'a str,
}

impl<'a> Label<'a> {
    /// Returns the first of the wanted labels that is among those of the callback.
    pub(in crate::flow) fn among(
        callback: &'a str,
        wanted: &'a BTreeMap<String, String>,
        is_indexed: impl Fn(&str) -> bool,
    ) -> Option<Self> {
        let mut wanted = wanted.iter();
        let (name, value) = wanted.find(|(name, _)| is_indexed(name))?;
        Some(Self {
            callback,
            name,
            value,
        })
    }
}

/// Returns the places of a task.
pub(in crate::flow) fn places<'a>(
    id: TaskId,
    spec: &'a Spec,
) -> impl Iterator<Item = Result<Place, Refused>> + use<'a> {
    let callback = spec.callback().unwrap_or_default();
    spec.indexed.iter().map(move |(name, value)| {
        let label = Label {
            callback,
            name,
            value,
        };
        Place::new(partition(label)?, sort(id))
    })
}

/// Returns a row that ends at `end`, or stays.
pub(in crate::flow) fn row(
    place: Place,
    written: i64,
    end: Option<Millis>,
) -> Result<IndexPut, Refused> {
    let row = IndexPut::new(place, Bytes::new(), written)?;
    Ok(match end {
        Some(end) => row.until(end),
        None => row,
    })
}

pub(in crate::flow) fn partition(label: Label<'_>) -> Result<Partition, Refused> {
    let Label {
        callback,
        name,
        value,
    } = label;
    let mut text = BytesMut::new();
    for part in [callback, name, value] {
        text.put_slice(part.as_bytes());
        // No text has this byte.
        text.put_u8(0xff);
    }
    let hash = xxh3_128(&text).to_be_bytes();
    Partition::new(IndexKind::Label, Bytes::copy_from_slice(&hash))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_that_read_alike_together_lie_apart() {
        let place = |callback, name, value| {
            partition(Label {
                callback,
                name,
                value,
            })
            .unwrap()
        };
        let one = place("mail", "tenant", "acme");
        assert_eq!(one, place("mail", "tenant", "acme"));
        for other in [
            place("mailt", "enant", "acme"),
            place("mail", "tenanta", "cme"),
            place("mail", "tenant", "acm"),
        ] {
            assert_ne!(one, other);
        }
    }
    #[test]
    fn the_bytes_of_rows_are_unchanged() {
        let id = "01b8dac5-b4fa-8201-8123-456789abcdef"
            .parse::<TaskId>()
            .unwrap();
        let spec = Spec {
            indexed: [("tenant".to_owned(), "acme".to_owned())].into(),
            ..crate::model::fixtures::spec()
        };
        let places: Vec<Place> = places(id, &spec).collect::<Result<_, _>>().unwrap();
        let [place] = &places[..] else {
            panic!("{places:?}")
        };
        assert_eq!(place.sort(), &id.uuid().as_bytes()[..]);
        assert_eq!(place.partition().kind(), IndexKind::Label);
        let hash = u128::from_be_bytes(place.partition().name()[..].try_into().unwrap());
        assert_eq!(hash, HASH);
        for end in [None, Some(Millis(9))] {
            let row = row(place.clone(), 7, end).unwrap();
            assert_eq!((row.value().len(), row.written, row.expires), (0, 7, end));
        }
    }

    /// Of `mail`, `tenant` and `acme`, by another implementation of XXH3.
    const HASH: u128 = 0x6564_26f8_0193_6b42_9de7_a71f_f28b_9d5f;
}
