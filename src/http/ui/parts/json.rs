//! The payloads of pages: JSON in lines, with every name, number and text as it was sent.
//!
//! It is not read into values: those would lose integers beyond 2^53, the order of names, and names that come twice.

/// Indents no further than so many levels: a payload of brackets alone would be blanks.
const LEVELS_MAX: usize = 24;

/// Lays out a JSON text in lines. Only blanks between its tokens change. Text that would grow without measure, or is no JSON, is
/// returned as it is.
pub(in crate::http::ui) fn laid_out(raw: &str) -> String {
    let bytes_max = raw.len() * 6 + 64;
    let mut out = String::with_capacity(raw.len() * 2);
    let mut level = 0_usize;
    let mut characters = raw.chars().peekable();
    while let Some(c) = characters.next() {
        if out.len() > bytes_max {
            return raw.to_owned();
        }
        match c {
            '"' => {
                out.push(c);
                text(&mut out, &mut characters);
            }
            '{' | '[' => {
                out.push(c);
                while characters.next_if(char::is_ascii_whitespace).is_some() {}
                match characters.next_if(|next| matches!(next, '}' | ']')) {
                    Some(end) => out.push(end),
                    None => {
                        level += 1;
                        line(&mut out, level);
                    }
                }
            }
            '}' | ']' => {
                level = level.saturating_sub(1);
                line(&mut out, level);
                out.push(c);
            }
            ',' => {
                out.push(c);
                line(&mut out, level);
            }
            ':' => out.push_str(": "),
            c if c.is_ascii_whitespace() => {}
            c => out.push(c),
        }
    }
    out
}

/// Takes over a text up to its end.
fn text(out: &mut String, characters: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    while let Some(c) = characters.next() {
        out.push(c);
        match c {
            '\\' => out.extend(characters.next()),
            '"' => return,
            _ => {}
        }
    }
}

fn line(out: &mut String, level: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", level.min(LEVELS_MAX)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_blanks_change() {
        let raw = r#"{"a": 9007199254740993, "a":1.50,"b":[ ],"c":{"d\"}":[1,"x, y"]}}"#;
        let wanted = "{\n  \"a\": 9007199254740993,\n  \"a\": 1.50,\n  \"b\": [],\n  \"c\": {\n    \"d\\\"}\": [\n      1,\n      \"x, y\"\n    ]\n  }\n}";
        assert_eq!(laid_out(raw), wanted);
        for bare in ["null", "1e999", r#""a b""#, ""] {
            assert_eq!(laid_out(bare), bare);
        }
    }

    #[test]
    fn brackets_do_not_become_blanks_without_measure() {
        let deep = "[".repeat(10_000) + &"]".repeat(10_000);
        assert!(laid_out(&deep).len() <= deep.len() * 7 + 128);
        let texts = r#"["\u0000","\\"]"#;
        assert_eq!(laid_out(texts), "[\n  \"\\u0000\",\n  \"\\\\\"\n]");
    }
}
