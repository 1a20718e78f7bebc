//! The codec of request records converts what the record of an idempotency key holds for stores.

use bytes::Bytes;
use prost::Message;
use uuid::Uuid;

use super::{Malformed, v1};
use crate::model::ids::TaskId;

/// A request that a client marked, as its record names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The id of its task. It carries the start.
    pub id: TaskId,
    /// The hash of the request as it was sent.
    pub hash: u128,
}

/// Encodes a request.
#[must_use]
pub fn encode_request(request: &Request) -> Bytes {
    let Request { id, hash } = request;
    let message = v1::MarkedRequest {
        id: Bytes::copy_from_slice(id.uuid().as_bytes()),
        hash: Bytes::copy_from_slice(&hash.to_be_bytes()),
    };
    message.encode_to_vec().into()
}

/// Decodes a request.
///
/// # Errors
/// [`Malformed`] when the bytes are not one.
pub fn decode_request(bytes: Bytes) -> Result<Request, Malformed> {
    let message = v1::MarkedRequest::decode(bytes)?;
    let hash: [u8; 16] = message
        .hash
        .as_ref()
        .try_into()
        .map_err(|_| Malformed::OutOfRange("hash"))?;
    Ok(Request {
        id: id(&message.id)?,
        hash: u128::from_be_bytes(hash),
    })
}

pub(super) fn id(bytes: &[u8]) -> Result<TaskId, Malformed> {
    Uuid::from_slice(bytes)
        .ok()
        .and_then(TaskId::from_uuid)
        .ok_or(Malformed::OutOfRange("id"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{time::Millis, wheel::WheelNumber};

    #[test]
    fn a_request_survives_its_bytes_and_others_are_refused() {
        let id = TaskId::new(Millis(1_800_000_000_000), WheelNumber::from_low_bits(3), 9);
        let request = Request {
            id,
            hash: u128::MAX - 5,
        };
        let bytes = encode_request(&request);
        assert_eq!(decode_request(bytes.clone()), Ok(request));
        assert_eq!(
            decode_request(Bytes::new()),
            Err(Malformed::OutOfRange("hash"))
        );
        let cut = bytes.slice(..bytes.len() - 3);
        assert!(decode_request(cut).is_err());
    }
}
