//! The file reader applies a TOML file to the settings of a node, and prints a file of all defaults for
//! operators.

use std::fmt::Write as _;

use toml::Value;

use super::{
    Problem, Settings,
    keys::{KEYS, Key},
};

/// Least similarity of a key that is suggested for an unknown one.
const LIKENESS_MIN: f64 = 0.6;

/// Width of the comments in the printed file.
const COMMENT_CHARS: usize = 100;

/// Says in one line where a file stops being TOML, and why. The line itself may hold a password, and is not shown.
pub(super) fn not_toml(text: &str, error: &toml::de::Error) -> String {
    let before = error.span().and_then(|span| text.get(..span.start));
    let line = before.unwrap_or_default().matches('\n').count() + 1;
    let why = error.message().replace('\n', "; ");
    format!("not valid TOML: line {line}: {why}")
}

impl Settings {
    /// Applies a file; returns the mistakes in it.
    pub(super) fn apply_file(&mut self, name: &str, text: &str) -> Vec<Problem> {
        let table: toml::Table = match text.parse() {
            Ok(table) => table,
            Err(error) => {
                return vec![Problem {
                    origin: name.to_owned(),
                    reason: not_toml(text, &error),
                }];
            }
        };
        let mut problems = Vec::new();
        for (name_of_key, value) in &table {
            let origin = format!("{name}: {name_of_key}");
            let Some(key) = KEYS.iter().find(|key| key.name == name_of_key) else {
                let reason = unknown(name_of_key);
                problems.push(Problem { origin, reason });
                continue;
            };
            match as_text(value) {
                Some(text) => problems.extend(self.set(key, &text, origin)),
                None => problems.push(Problem {
                    origin,
                    reason: format!("expected a value such as {}", key.default_as_toml()),
                }),
            }
        }
        problems
    }
}

pub(super) fn as_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Array(items) => {
            let items: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
            items.map(|items| items.join(","))
        }
        Value::Boolean(switch) => Some(switch.to_string()),
        Value::Float(_) | Value::Datetime(_) | Value::Table(_) => None,
    }
}

pub(super) fn unknown(name: &str) -> String {
    let alike = |key: &&Key| strsim::jaro_winkler(key.name, name);
    let nearest = KEYS.iter().max_by(|a, b| alike(a).total_cmp(&alike(b)));
    match nearest.filter(|key| alike(key) >= LIKENESS_MIN) {
        Some(key) => format!("unknown key; did you mean {}?", key.name),
        None => "unknown key; `tickwheel config print-default` lists all".to_owned(),
    }
}

/// Returns a file in which every key is commented out, with its default and the reason for it.
#[must_use]
pub fn print_default() -> String {
    let mut text = String::new();
    let comment = |text: &mut String, words: &str| {
        for line in wrapped(words) {
            // Writing to a String cannot fail.
            writeln!(text, "# {line}").unwrap_or_default();
        }
    };
    comment(
        &mut text,
        "Settings of Tickwheel. A flag (--data-dir) goes before an environment variable (TICKWHEEL_DATA_DIR), that \
         before this file, and this file before the default. Remove the # before a key to change it.",
    );
    for key in KEYS {
        text.push('\n');
        comment(&mut text, key.about);
        comment(&mut text, key.why);
        writeln!(text, "#{} = {}", key.name, key.default_as_toml()).unwrap_or_default();
    }
    text
}

fn wrapped(words: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + word.len() < COMMENT_CHARS => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
