//! Signing keys let the service mark its messages for workers and consumers, so that these can tell forged ones.
//!
//! The first key signs. Every key is believed, so that a key can be replaced while both sides know the old one and the new one.

use std::{fmt, sync::Arc};

/// Fewest bytes of a key: a shorter one could be guessed.
pub const KEY_BYTES_MIN: usize = 24;

/// Most bytes of a key: a longer one is no safer.
pub const KEY_BYTES_MAX: usize = 256;

/// Most keys at once: one that signs, and those that are on their way in or out.
pub const KEYS_MAX: usize = 8;

/// A key that signs messages and checks signatures.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningKey(Arc<[u8]>);

impl SigningKey {
    /// Takes the bytes of a key.
    ///
    /// # Errors
    /// A text about its length, which shows nothing of it.
    pub fn new(bytes: &[u8]) -> Result<Self, String> {
        if (KEY_BYTES_MIN..=KEY_BYTES_MAX).contains(&bytes.len()) {
            return Ok(Self(bytes.into()));
        }
        Err(format!(
            "a key has {} bytes: use {KEY_BYTES_MIN} to {KEY_BYTES_MAX}, such as a line of `openssl rand -base64 32`",
            bytes.len()
        ))
    }

    /// Reads the text of a file of keys: one on each line, the one that signs first.
    ///
    /// # Errors
    /// A text about what is wrong with it, which shows no key.
    pub fn read_all(text: &str) -> Result<Vec<Self>, String> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let keys = lines.map(|line| Self::new(line.as_bytes()));
        let keys: Vec<Self> = keys.collect::<Result<_, _>>()?;
        match keys.len() {
            0 => Err("it has no key: write one on a line of its own".to_owned()),
            1..=KEYS_MAX => Ok(keys),
            many => Err(format!(
                "it has {many} keys: at most {KEYS_MAX} are allowed"
            )),
        }
    }

    /// Returns its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for SigningKey {
    /// Shows nothing of it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(..)")
    }
}

/// The treatment by a consumer of a message that has no signature, or a wrong one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unsigned {
    /// It is passed over.
    #[default]
    Refused,
    /// It is taken: not every node signs yet.
    Taken,
}

/// How messages are signed and checked; without keys they are not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Signing {
    /// The keys, the one that signs first.
    pub keys: Vec<SigningKey>,
    /// The treatment of messages that are not signed.
    pub unsigned: Unsigned,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_a_key_on_each_line_and_nothing_shows_them() {
        let (one, two) = ("a".repeat(KEY_BYTES_MIN), "b".repeat(KEY_BYTES_MAX));
        let keys = SigningKey::read_all(&format!("\n {one}\r\n\n{two}\n")).unwrap();
        let bytes: Vec<&[u8]> = keys.iter().map(SigningKey::bytes).collect();
        assert_eq!(bytes, [one.as_bytes(), two.as_bytes()]);
        let shown = format!(
            "{:?}",
            Signing {
                keys,
                ..Signing::default()
            }
        );
        assert!(!shown.contains("aa"), "{shown}");
        for wrong in [
            String::new(),
            "\n\n".to_owned(),
            "a".repeat(KEY_BYTES_MIN - 1),
            "a".repeat(KEY_BYTES_MAX + 1),
            format!("{one}\n").repeat(KEYS_MAX + 1),
        ] {
            let error = SigningKey::read_all(&wrong).unwrap_err();
            assert!(!error.contains("aa"), "{error}");
        }
        assert!(SigningKey::read_all(&format!("{one}\n").repeat(KEYS_MAX)).is_ok());
    }
}
