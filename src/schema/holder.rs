//! The codec of key records converts what the record of a key holds for stores: the task that holds the key.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message;

use super::{Malformed, request::id, spec_from_message, spec_to_message, v1};
use crate::model::key::Holder;

/// Encodes a holder.
#[must_use]
pub fn encode_holder(holder: &Holder) -> Bytes {
    holder_to_message(holder).encode_to_vec().into()
}

/// Converts a holder to its message.
#[must_use]
pub fn holder_to_message(holder: &Holder) -> v1::KeyHolder {
    let Holder {
        id,
        generation,
        spec,
    } = holder;
    v1::KeyHolder {
        id: Bytes::copy_from_slice(id.uuid().as_bytes()),
        generation: *generation,
        spec: Some(spec_to_message(spec)),
    }
}

/// Decodes a holder.
///
/// # Errors
/// [`Malformed`] when the bytes are not one.
pub fn decode_holder(bytes: Bytes) -> Result<Holder, Malformed> {
    holder_from_message(v1::KeyHolder::decode(bytes)?)
}

/// Reads a holder from its message.
///
/// # Errors
/// [`Malformed`] when a field that must be there is missing or out of range.
pub fn holder_from_message(message: v1::KeyHolder) -> Result<Holder, Malformed> {
    let spec = message.spec.ok_or(Malformed::Missing("spec"))?;
    Ok(Holder {
        id: id(&message.id)?,
        generation: message.generation,
        spec: Arc::new(spec_from_message(spec)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{fixtures, ids::TaskId, time::Millis, wheel::WheelNumber};

    #[test]
    fn a_holder_survives_its_bytes_and_others_are_refused() {
        let holder = Holder {
            id: TaskId::new(Millis(1_800_000_000_000), WheelNumber::from_low_bits(3), 9),
            generation: 4,
            spec: Arc::new(fixtures::spec()),
        };
        let bytes = encode_holder(&holder);
        assert_eq!(decode_holder(bytes.clone()), Ok(holder));
        assert_eq!(decode_holder(Bytes::new()), Err(Malformed::Missing("spec")));
        assert!(decode_holder(bytes.slice(..bytes.len() - 3)).is_err());
    }
}
