//! The payload generator makes the payload of every task for this service and the peers: 256 bytes of JSON.
//!
//! A payload has a number and a note, and no two are alike. Stores and brokers compress repeated text. A note
//! of random letters leaves nothing to gain for LZ4, which most of them use, so figures of disk and rates
//! hold for any payload of that size.

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, ensure};
use rand::{RngCore as _, SeedableRng as _, rngs::SmallRng};

/// Bytes of a payload.
pub(crate) const BYTES: usize = 256;
/// How a payload begins.
const HEAD: &[u8] = br#"{"job":""#;
/// Between number and note.
const MIDDLE: &[u8] = br#"","note":""#;
const TAIL: &[u8] = br#""}"#;
/// Digits of a number.
const DIGITS: usize = 20;
const NOTE: usize = BYTES - HEAD.len() - DIGITS - MIDDLE.len() - TAIL.len();
/// The letters of notes: as many as six bits choose from, and none that JSON escapes.
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Returns the payload of a task by its number; the same for the same number.
pub(crate) fn of(number: u64) -> String {
    let mut note = [0; NOTE];
    SmallRng::seed_from_u64(number).fill_bytes(&mut note);
    for byte in &mut note {
        let letter = LETTERS.get(usize::from(*byte) % LETTERS.len());
        *byte = letter.copied().unwrap_or_default();
    }
    let note = std::str::from_utf8(&note).unwrap_or_default();
    format!(r#"{{"job":"{number:0DIGITS$}","note":"{note}"}}"#)
}

/// Returns the payload of a task whose number is not needed: another one each time.
pub(crate) fn next() -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    of(NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// Returns the number of a payload's task.
///
/// # Errors
///
/// When it is not byte for byte the payload of that task.
pub(crate) fn number(payload: &[u8]) -> anyhow::Result<u64> {
    let found = payload
        .strip_prefix(HEAD)
        .and_then(|rest| rest.get(..DIGITS));
    let digits = found.context("not a payload")?;
    let number = std::str::from_utf8(digits)?.parse()?;
    ensure!(
        of(number).as_bytes() == payload,
        "the payload of {number} came back changed"
    );
    Ok(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_has_its_length_and_its_number() {
        let payload = of(4711);
        assert_eq!(payload.len(), BYTES);
        serde_json::from_str::<serde_json::Value>(&payload).unwrap();
        assert_eq!(number(payload.as_bytes()).unwrap(), 4711);
        assert!(number(&payload.as_bytes()[..255]).is_err());
        assert!(number(b"{}").is_err());
    }

    #[test]
    fn a_changed_payload_is_found() {
        let mut payload = of(1).into_bytes();
        payload[200] ^= 1;
        assert!(number(&payload).is_err());
    }

    #[test]
    fn no_two_are_alike() {
        let notes: std::collections::HashSet<String> = (0..1000)
            .map(|number| of(number)[40..].to_owned())
            .collect();
        assert_eq!(notes.len(), 1000);
        assert_ne!(next(), next());
    }
}
