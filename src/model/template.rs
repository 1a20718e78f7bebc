//! The template fills facts about a task into a text of a client, for e-mails of actions.
//!
//! The syntax is small: `{{task.NAME}}`, with or without spaces inside the braces. Everything else is text, also a single brace.
//! Names are known when a template is read, so a mistake in one is told to the client at once. A value is bounded, and has no
//! control characters but line feeds and tabs: what a client or a worker wrote cannot end a header or a message.

use std::fmt::Write as _;

/// The begin and the end of a value.
const BRACES: (&str, &str) = ("{{", "}}");

/// Before each name.
const PREFIX: &str = "task.";

/// Longest value in characters. A longer one is cut, and an ellipsis follows.
pub const VALUE_CHARS_MAX: usize = 1000;

/// Longest name in characters, with its path.
const NAME_CHARS_MAX: usize = 200;

/// A fact about a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact {
    /// Its id.
    Id,
    /// Its state.
    State,
    /// Where its tree stands.
    TreeState,
    /// The name of its callback.
    Callback,
    /// Its collection.
    Collection,
    /// Its key.
    Key,
    /// Its attempts so far.
    Attempt,
    /// The error of its last attempt.
    Error,
    /// The name of the schedule that it is a run of.
    Schedule,
    /// When it started, or is to start.
    StartTime,
    /// When it ended.
    EndTime,
    /// The label of this name.
    Label(String),
    /// A value within its payload, which is JSON; no steps are all of it.
    Payload(Vec<String>),
    /// A value within its result, which is JSON; no steps are all of it.
    Result(Vec<String>),
}

/// The facts that have a name of their own.
const PLAIN: [(&str, Fact); 13] = [
    ("id", Fact::Id),
    ("state", Fact::State),
    ("tree_state", Fact::TreeState),
    ("callback", Fact::Callback),
    ("collection", Fact::Collection),
    ("key", Fact::Key),
    ("attempt", Fact::Attempt),
    ("error", Fact::Error),
    ("schedule", Fact::Schedule),
    ("start_time", Fact::StartTime),
    ("end_time", Fact::EndTime),
    ("payload", Fact::Payload(Vec::new())),
    ("result", Fact::Result(Vec::new())),
];

/// A text with facts in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Fact(Fact),
}

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// A text about the first mistake in it.
    pub fn read(text: &str) -> Result<Self, String> {
        let (mut parts, mut rest) = (Vec::new(), text);
        while let Some((before, behind)) = rest.split_once(BRACES.0) {
            let (name, after) = behind.split_once(BRACES.1).ok_or_else(|| {
                format!("has `{{{{` without `}}}}` behind it, in {}", quoted(behind))
            })?;
            if !before.is_empty() {
                parts.push(Part::Text(before.to_owned()));
            }
            parts.push(Part::Fact(fact(name)?));
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        Ok(Self(parts))
    }

    /// Returns the facts that it names, in their order.
    pub fn facts(&self) -> impl Iterator<Item = &Fact> {
        self.0.iter().filter_map(|part| match part {
            Part::Fact(fact) => Some(fact),
            Part::Text(_) => None,
        })
    }

    /// Writes it with the values of its facts, in at most `chars_max` characters. A fact without value is written as nothing.
    #[must_use]
    pub fn write(&self, value: impl Fn(&Fact) -> Option<String>, chars_max: usize) -> String {
        let mut text = String::new();
        for part in &self.0 {
            match part {
                Part::Text(part) => text.push_str(&clean(part)),
                Part::Fact(fact) => {
                    let value = value(fact).unwrap_or_default();
                    text.push_str(&cut(&clean(&value), VALUE_CHARS_MAX));
                }
            }
        }
        cut(&text, chars_max)
    }
}

/// Writes a text in one line: for a header.
#[must_use]
pub fn one_line(text: &str) -> String {
    let spaced = |c: char| {
        if c.is_control() || c == '\u{2028}' || c == '\u{2029}' {
            ' '
        } else {
            c
        }
    };
    text.chars().map(spaced).collect()
}

/// Returns the value at the end of a path in JSON, as text; none where there is none, or null.
#[must_use]
pub fn value_at(json: &serde_json::Value, steps: &[String]) -> Option<String> {
    let found = steps.iter().try_fold(json, |at, step| match at {
        serde_json::Value::Object(fields) => fields.get(step),
        serde_json::Value::Array(items) => items.get(step.parse::<usize>().ok()?),
        _ => None,
    })?;
    match found {
        serde_json::Value::Null => None,
        serde_json::Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// Reads a fact from what is between the braces.
fn fact(text: &str) -> Result<Fact, String> {
    let name = text.trim();
    if name.chars().count() > NAME_CHARS_MAX {
        return Err(format!(
            "has a name of more than {NAME_CHARS_MAX} characters"
        ));
    }
    let known = || {
        let names: Vec<String> = PLAIN
            .iter()
            .map(|(name, _)| format!("{PREFIX}{name}"))
            .collect();
        format!(
            "{} is not known: there are {}, task.labels.NAME, task.payload.PATH and task.result.PATH",
            quoted(name),
            names.join(", ")
        )
    };
    let name = name.strip_prefix(PREFIX).ok_or_else(known)?;
    if let Some((_, fact)) = PLAIN.iter().find(|(plain, _)| *plain == name) {
        return Ok(fact.clone());
    }
    match name.split_once('.') {
        Some(("labels", label)) if !label.is_empty() => Ok(Fact::Label(label.to_owned())),
        Some(("payload", path)) => Ok(Fact::Payload(steps(path)?)),
        Some(("result", path)) => Ok(Fact::Result(steps(path)?)),
        _ => Err(known()),
    }
}

/// Reads the steps of a path: names of fields and numbers of items.
fn steps(path: &str) -> Result<Vec<String>, String> {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '$' | '@');
    let step = |step: &str| {
        let fits = !step.is_empty() && step.chars().all(is_plain);
        fits.then(|| step.to_owned())
    };
    let steps: Option<Vec<String>> = path.split('.').map(step).collect();
    steps.ok_or_else(|| {
        format!(
            "{} is no path: names and numbers with dots between them, such as user.name or items.0",
            quoted(path)
        )
    })
}

/// Leaves out control characters; a line feed and a tab stay.
fn clean(text: &str) -> String {
    let stays = |c: &char| !c.is_control() || matches!(c, '\n' | '\t');
    text.chars().filter(stays).collect()
}

fn cut(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        None => text.to_owned(),
        Some(_) => {
            let kept: String = text.chars().take(chars_max.saturating_sub(1)).collect();
            format!("{kept}…")
        }
    }
}

/// Shows the begin of a text that a client wrote.
fn quoted(text: &str) -> String {
    let mut shown = String::from("`");
    let shorter: String = text.chars().take(40).collect();
    // Writing to a String cannot fail.
    write!(shown, "{}", one_line(&shorter)).unwrap_or_default();
    shown.push('`');
    shown
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn written(template: &str, value: &str) -> String {
        let template = Template::read(template).unwrap();
        template.write(|_| Some(value.to_owned()), 1000)
    }

    #[test]
    fn values_take_the_place_of_their_names() {
        assert_eq!(written("a {{task.id}} b {{ task.error }}", "7"), "a 7 b 7");
        assert_eq!(written("{ } }} {x} {", "7"), "{ } }} {x} {");
        assert_eq!(written("", "7"), "");
        let template = Template::read("{{task.labels.a b}}{{task.payload.user.0}}{{task.result}}");
        let facts: Vec<Fact> = template.unwrap().facts().cloned().collect();
        let steps = vec!["user".to_owned(), "0".to_owned()];
        assert_eq!(
            facts,
            [
                Fact::Label("a b".to_owned()),
                Fact::Payload(steps),
                Fact::Result(vec![])
            ]
        );
        let none = Template::read("<{{task.error}}>").unwrap();
        assert_eq!(none.write(|_| None, 99), "<>");
    }

    #[test]
    fn every_plain_name_is_read() {
        for (name, fact) in &PLAIN {
            let template = Template::read(&format!("{{{{task.{name}}}}}")).unwrap();
            assert_eq!(template.facts().next(), Some(fact), "{name}");
        }
    }

    #[test]
    fn a_name_that_refers_to_nothing_is_refused() {
        for (text, says) in [
            ("{{task.id", "without"),
            ("{{}}", "not known"),
            ("{{id}}", "task.id"),
            ("{{task.ID}}", "not known"),
            ("{{task.labels.}}", "not known"),
            ("{{task.labels}}", "not known"),
            ("{{task.payload.}}", "no path"),
            ("{{task.payload.a..b}}", "no path"),
            ("{{task.payload.a b}}", "no path"),
            ("{{task.error|upper}}", "not known"),
            ("{{{task.id}}}", "not known"),
        ] {
            let refused = Template::read(text).unwrap_err();
            assert!(refused.contains(says), "{text}: {refused}");
        }
        let long = format!("{{{{task.labels.{}}}}}", "x".repeat(300));
        assert!(Template::read(&long).is_err());
    }

    #[test]
    fn a_value_is_not_read_as_a_template_and_ends_no_line() {
        assert_eq!(written("{{task.error}}", "{{task.id}}"), "{{task.id}}");
        let evil = "x\r\nBcc: everybody@example.org\r\n\r\n.\r\n\0";
        let body = written("{{task.error}}", evil);
        assert_eq!(body, "x\nBcc: everybody@example.org\n\n.\n");
        assert_eq!(one_line(&body), "x Bcc: everybody@example.org  . ");
    }

    #[test]
    fn values_and_texts_are_bounded() {
        let long = "é".repeat(5000);
        let text = written("{{task.error}}", &long);
        assert_eq!(
            (text.chars().count(), text.ends_with('…')),
            (VALUE_CHARS_MAX, true)
        );
        let template = Template::read("{{task.error}}{{task.error}}").unwrap();
        let text = template.write(|_| Some(long.clone()), 10);
        assert_eq!(text, format!("{}…", "é".repeat(9)));
    }

    #[test]
    fn a_path_leads_into_json() {
        let json = json!({"user": {"name": "Ada", "tags": ["a", 7, null, true]}, "0": "zero"});
        let at = |path: &str| {
            let steps: Vec<String> = path.split('.').map(str::to_owned).collect();
            value_at(&json, &steps)
        };
        assert_eq!(at("user.name").as_deref(), Some("Ada"));
        assert_eq!(at("user.tags.1").as_deref(), Some("7"));
        assert_eq!(at("user.tags.2"), None);
        assert_eq!(at("user.tags").as_deref(), Some("[\"a\",7,null,true]"));
        assert_eq!(at("0").as_deref(), Some("zero"));
        for path in ["user.tags.9", "user.name.x", "nobody", "user.tags.-1"] {
            assert_eq!(at(path), None, "{path}");
        }
    }

    proptest! {
        /// Any text is refused or written, within its bounds and without control characters.
        #[test]
        fn any_text_is_refused_or_written(text in "(\\PC|[{}\\.\\r\\n]|\\{\\{task\\.error\\}\\}){0,60}", value: String) {
            if let Ok(template) = Template::read(&text) {
                let written = template.write(|_| Some(value.clone()), 500);
                prop_assert!(written.chars().count() <= 500);
                prop_assert!(!written.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t')));
                prop_assert!(!one_line(&written).chars().any(char::is_control));
            }
        }

        /// A text without the mark of a value is written as it is.
        #[test]
        fn a_text_without_values_is_itself(text in "[^{\\p{Cc}]{0,200}") {
            let template = Template::read(&text).unwrap();
            prop_assert_eq!(template.write(|_| None, 1000), text);
        }
    }
}
