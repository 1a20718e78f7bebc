//! The codec of messages converts what workers told with their heartbeats to and from bytes for stores.

use bytes::Bytes;
use prost::Message as _;

use super::{Malformed, v1};
use crate::model::{messages::Message, time::Millis};

/// Encodes the messages of an attempt.
#[must_use]
pub fn encode_messages(messages: &[Message]) -> Bytes {
    let told = |message: &Message| v1::ToldMessage {
        at_ms: message.at.0,
        note: message.note.clone(),
    };
    let messages = v1::ToldMessages {
        messages: messages.iter().map(told).collect(),
    };
    messages.encode_to_vec().into()
}

/// Decodes the messages of an attempt.
///
/// # Errors
/// [`Malformed`] when the bytes are not some.
pub fn decode_messages(bytes: Bytes) -> Result<Vec<Message>, Malformed> {
    let messages = v1::ToldMessages::decode(bytes)?.messages.into_iter();
    let told = messages.map(|message| Message {
        at: Millis(message.at_ms),
        note: message.note,
    });
    Ok(told.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stores keep these bytes.
    #[test]
    fn messages_survive_their_bytes_which_are_fixed() {
        let message = |at: i64, note: &'static str| Message {
            at: Millis(at),
            note: Bytes::from_static(note.as_bytes()),
        };
        let messages = [message(7, "1"), message(8, "{}")];
        let bytes = encode_messages(&messages);
        assert_eq!(
            &*bytes,
            b"\x0a\x05\x08\x07\x12\x011\x0a\x06\x08\x08\x12\x02{}"
        );
        assert_eq!(decode_messages(bytes).as_deref(), Ok(&messages[..]));
        assert_eq!(decode_messages(Bytes::new()), Ok(Vec::new()));
        assert!(decode_messages(Bytes::from_static(b"\xff")).is_err());
    }
}
