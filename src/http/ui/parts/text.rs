//! The texts of pages: what others have written is shown as it is, and numbers are grouped.

use std::{fmt::Write as _, time::Duration};

/// Replaces control characters, which a browser drops, by their pictures. Line feeds and tabs stay.
pub(in crate::http::ui) fn visible(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' | '\t' => c,
            '\u{7f}' => '\u{2421}',
            '\0'..='\u{1f}' => char::from_u32(0x2400 + u32::from(c)).unwrap_or(c),
            c => c,
        })
        .collect()
}

/// Returns the first line of a text, cut for a row of a table.
pub(in crate::http::ui) fn short(text: &str, chars: usize) -> String {
    let line = text.lines().next().unwrap_or_default();
    let cut = match line.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line.to_owned(),
    };
    visible(&cut)
}

/// Cuts a text that is too large for a page, at a character; tells how many bytes are left out.
pub(in crate::http::ui) fn bounded(text: &str, bytes: usize) -> (&str, usize) {
    if text.len() <= bytes {
        return (text, 0);
    }
    let ends = text.char_indices().map(|(at, _)| at);
    let end = ends
        .take_while(|at| *at <= bytes)
        .last()
        .unwrap_or_default();
    (text.get(..end).unwrap_or_default(), text.len() - end)
}

/// Writes a number in groups of three digits.
pub(in crate::http::ui) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Writes how many there are of something.
pub(in crate::http::ui) fn counted(number: u64, one: &str, many: &str) -> String {
    format!(
        "{} {}",
        grouped(number),
        if number == 1 { one } else { many }
    )
}

/// Writes a rate: exactly where it is small.
pub(in crate::http::ui) fn rate(value: f64) -> String {
    if value >= 100.0 || value == 0.0 {
        grouped(value as u64)
    } else {
        format!("{value:.1}")
    }
}

/// Writes a span of time for people, in its two largest units.
pub(in crate::http::ui) fn span(span: Duration) -> String {
    let (millis, seconds) = (span.as_millis(), span.as_secs());
    let two = |large: u64, of: &str, small: u64, unit: &str| match small {
        0 => format!("{large} {of}"),
        small => format!("{large} {of} {small} {unit}"),
    };
    match seconds {
        0 => format!("{millis} ms"),
        1..10 if !millis.is_multiple_of(1000) => format!("{:.1} s", span.as_secs_f64()),
        1..60 => format!("{seconds} s"),
        60..3600 => two(seconds / 60, "min", seconds % 60, "s"),
        3600..86_400 => two(seconds / 3600, "h", seconds % 3600 / 60, "min"),
        _ => two(seconds / 86_400, "d", seconds % 86_400 / 3600, "h"),
    }
}

/// Writes bytes as hex, sixteen in a line, with their characters beside them.
pub(in crate::http::ui) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 5);
    for (line, chunk) in bytes.chunks(16).enumerate() {
        write!(text, "{:06x} ", line * 16).unwrap_or_default();
        for byte in chunk {
            write!(text, " {byte:02x}").unwrap_or_default();
        }
        let blank = 3 * (16 - chunk.len()) + 2;
        write!(text, "{:blank$}", "").unwrap_or_default();
        let seen = |byte: &u8| match byte {
            b' '..=b'~' => char::from(*byte),
            _ => '.',
        };
        text.extend(chunk.iter().map(seen));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_seen() {
        assert_eq!(visible("a\0b\u{1b}[31m\n\u{7f}"), "a␀b␛[31m\n␡");
        assert_eq!(short("one two\nthree", 5), "one t…");
        assert_eq!(bounded("aüb", 2), ("a", 3));
        assert_eq!(bounded("aüb", 4), ("aüb", 0));
    }

    #[test]
    fn numbers_and_spans_are_written_for_people() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(counted(1, "task", "tasks"), "1 task");
        assert_eq!(rate(0.26), "0.3");
        assert_eq!(rate(5120.4), "5,120");
        for (millis, text) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1500, "1.5 s"),
            (59_000, "59 s"),
            (61_000, "1 min 1 s"),
            (3_600_000, "1 h"),
            (90_000_000, "1 d 1 h"),
        ] {
            assert_eq!(span(Duration::from_millis(millis)), text);
        }
    }

    #[test]
    fn bytes_are_shown_as_hex() {
        let shown = hex(b"ab\0");
        assert!(shown.starts_with("000000  61 62 00"), "{shown}");
        assert!(shown.ends_with("ab.\n"), "{shown}");
    }
}
