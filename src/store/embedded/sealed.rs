//! A sealed text is a few lines that describe a directory or a backup, and behind them a line with their check sum.
//!
//! The sum finds damage; it keeps nobody from writing another text.

use xxhash_rust::xxh3::xxh3_64;

/// The name of the last line.
const CHECK: &str = "check=";

/// The state of a text that may be sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seal<'a> {
    /// These lines are as they were written.
    Whole(&'a str),
    /// It has no such line: an earlier program wrote it.
    Missing,
    /// It is not as it was written.
    Broken,
}

/// Puts the check sum behind lines, each of which ends with a line end.
pub(super) fn sealed(mut lines: String) -> String {
    let sum = xxh3_64(lines.as_bytes());
    lines.push_str(&format!("{CHECK}{sum:016x}\n"));
    lines
}

/// Compares a text with its check sum.
pub(super) fn seal_of(text: &str) -> Seal<'_> {
    let last = text.split_inclusive('\n').next_back().unwrap_or_default();
    let lines = text.strip_suffix(last).unwrap_or_default();
    if sealed(lines.to_owned()) == text {
        Seal::Whole(lines)
    } else if text.lines().any(|line| line.starts_with(CHECK)) {
        Seal::Broken
    } else {
        Seal::Missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "wheels=4\nslots=8\n";

    #[test]
    fn lines_that_are_as_they_were_written_are_whole() {
        assert_eq!(seal_of(&sealed(LINES.to_owned())), Seal::Whole(LINES));
        assert_eq!(seal_of(LINES), Seal::Missing);
        assert_eq!(seal_of(""), Seal::Missing);
    }

    #[test]
    fn a_text_that_was_changed_or_cut_off_is_not_whole() {
        let whole = sealed(LINES.to_owned());
        for place in 0..whole.len() {
            assert!(!matches!(seal_of(&whole[..place]), Seal::Whole(_)));
            for bit in 0..7 {
                let mut changed = whole.clone().into_bytes();
                changed[place] ^= 1 << bit;
                let changed = String::from_utf8(changed).unwrap();
                assert!(!matches!(seal_of(&changed), Seal::Whole(_)), "{changed}");
            }
        }
        let other = whole.replace("wheels=4", "wheels=2");
        assert_eq!(seal_of(&other), Seal::Broken);
        assert_eq!(seal_of(&format!("{whole}more=1\n")), Seal::Broken);
    }
}
