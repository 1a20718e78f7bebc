//! The letter codec converts the value of a dead letter in the index to and from bytes for the lists.

use bytes::Bytes;
use prost::Message;

use super::{Malformed, v1};
use crate::model::dead_letter::Letter;

/// The part of a letter that its sort key does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LetterValue {
    /// The callback; empty where the partition names it.
    pub callback: String,
    /// The class of the error.
    pub error: String,
    /// The attempts.
    pub attempts: u32,
}

/// Encodes the value of a letter, with the callback's name or without.
#[must_use]
pub fn encode_letter(letter: &Letter, with_callback: bool) -> Bytes {
    let Letter {
        callback,
        error,
        attempts,
        time: _,
        stamp: _,
        kept: _,
    } = letter;
    let message = v1::DeadLetter {
        callback: if with_callback {
            callback.clone()
        } else {
            String::new()
        },
        error: error.clone(),
        attempts: *attempts,
    };
    message.encode_to_vec().into()
}

/// Decodes the value of a letter.
///
/// # Errors
/// [`Malformed`] when the bytes are not one.
pub fn decode_letter(bytes: Bytes) -> Result<LetterValue, Malformed> {
    let v1::DeadLetter {
        callback,
        error,
        attempts,
    } = v1::DeadLetter::decode(bytes)?;
    Ok(LetterValue {
        callback,
        error,
        attempts,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::time::Millis;

    #[test]
    fn a_letter_is_read_back_and_other_bytes_are_refused() {
        let letter = Letter {
            callback: "send_email".to_owned(),
            error: "timeout after # ms".to_owned(),
            attempts: 3,
            time: Millis(5),
            stamp: 5000,
            kept: Duration::from_secs(1),
        };
        for (with_callback, callback) in [(true, "send_email"), (false, "")] {
            let value = LetterValue {
                callback: callback.to_owned(),
                error: letter.error.clone(),
                attempts: 3,
            };
            assert_eq!(
                decode_letter(encode_letter(&letter, with_callback)),
                Ok(value)
            );
        }
        assert!(decode_letter(Bytes::from_static(&[0x0a, 0xff])).is_err());
    }
}
