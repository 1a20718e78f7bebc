//! The epoch codec converts the counter of changes of the configuration to and from bytes for the nodes.

use bytes::Bytes;
use prost::Message;

use super::{Malformed, v1};
use crate::model::{
    configuration::{Announced, Epoch},
    record::{Kind, Name},
};

/// Encodes an epoch. Its number is not in the bytes: it is the version of the record that they are the value of.
#[must_use]
pub fn encode_epoch(epoch: &Epoch) -> Bytes {
    let announced = |change: &Announced| v1::Announced {
        number: change.number,
        kind: i32::from(change.name.kind().number()),
        key: change.name.key().to_owned(),
    };
    let message = v1::Epoch {
        since: epoch.since,
        changes: epoch.changes.iter().map(announced).collect(),
    };
    message.encode_to_vec().into()
}

/// Decodes the epoch of this number. A kind that only a later version knows is passed over: this one has no use for its records.
///
/// # Errors
/// [`Malformed`] when the bytes are not one.
pub fn decode_epoch(number: i64, bytes: Bytes) -> Result<Epoch, Malformed> {
    let v1::Epoch { since, changes } = v1::Epoch::decode(bytes)?;
    let mut known = Vec::with_capacity(changes.len());
    for v1::Announced { number, kind, key } in changes {
        let Some(kind) = i8::try_from(kind).ok().and_then(Kind::from_number) else {
            continue;
        };
        let name = Name::new(kind, &key).map_err(|_| Malformed::OutOfRange("key"))?;
        known.push(Announced { number, name });
    }
    Ok(Epoch {
        number,
        since,
        changes: known,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_is_read_back_and_a_kind_of_a_later_version_is_passed_over() {
        let name = |key| Name::new(Kind::Callback, key).unwrap();
        let epoch = Epoch::default().raised(7, name("a")).raised(9, name("b"));
        assert_eq!(decode_epoch(9, encode_epoch(&epoch)), Ok(epoch.clone()));
        let mut message = v1::Epoch::decode(encode_epoch(&epoch)).unwrap();
        message.changes[0].kind = 99;
        let read = decode_epoch(9, message.encode_to_vec().into()).unwrap();
        assert_eq!(read.changes, epoch.changes[1..]);
        message.changes[1].key.clear();
        let read = decode_epoch(9, message.encode_to_vec().into());
        assert_eq!(read, Err(Malformed::OutOfRange("key")));
    }
}
