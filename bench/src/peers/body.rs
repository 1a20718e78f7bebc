//! The body of every task: 256 bytes of JSON that carry its id, the same for every peer.

use anyhow::{Context as _, ensure};

/// Bytes of a body.
pub(super) const BYTES: usize = 256;
/// Digits of an id.
const DIGITS: usize = 20;
/// How a body begins.
pub(super) const HEAD: &[u8] = br#"{"job":""#;

/// Returns the body of a task.
pub(super) fn of(id: u64) -> String {
    const FRAME: usize = HEAD.len() + DIGITS + r#"","note":""}"#.len();
    let (digits, note) = (DIGITS, BYTES - FRAME);
    format!(
        r#"{{"job":"{id:0digits$}","note":"{:x<note$}"}}"#,
        "due-mail "
    )
}

/// Returns whose body it is; what came back must be whole.
pub(super) fn id(body: &[u8]) -> anyhow::Result<u64> {
    let found = body.strip_prefix(HEAD).and_then(|rest| rest.get(..DIGITS));
    let digits = found.context("not a body")?;
    ensure!(
        body.len() == BYTES && body.ends_with(br#"x"}"#),
        "a body of {} bytes",
        body.len()
    );
    Ok(std::str::from_utf8(digits)?.parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_has_its_length_and_its_id() {
        let body = of(4711);
        assert_eq!(body.len(), BYTES);
        assert_eq!(id(body.as_bytes()).unwrap(), 4711);
        assert!(id(&body.as_bytes()[..255]).is_err());
        assert!(id(b"{}").is_err());
    }
}
