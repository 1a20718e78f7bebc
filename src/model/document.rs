//! The document is what an action sends in place of the message about an end: JSON of a client, in whose texts facts about the
//! task are filled in.
//!
//! The texts are templates ([`super::template`]), names of fields are not. A fact fills a part of a text, so the document stays
//! JSON of the same form whatever a worker or a client has written.

use serde_json::Value;

use super::template::{Fact, Template};

/// Facts that a document names: each may take some kilobytes where it is filled in.
pub const DOCUMENT_FACTS_MAX: usize = 20;

/// Longest text with its values, in characters.
const TEXT_CHARS_MAX: usize = 8000;

/// JSON with templates in its texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document(String);

impl Document {
    /// Takes the JSON that a client gave.
    #[must_use]
    pub fn of(value: &Value) -> Self {
        Self(value.to_string())
    }

    /// Takes JSON as it was stored.
    #[must_use]
    pub const fn stored(text: String) -> Self {
        Self(text)
    }

    /// Returns the JSON.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Returns the JSON as a value; null where it is none.
    #[must_use]
    pub fn value(&self) -> Value {
        serde_json::from_str(&self.0).unwrap_or_default()
    }

    /// Returns the facts that its texts name.
    ///
    /// # Errors
    /// A text about the first mistake in it.
    pub fn facts(&self) -> Result<Vec<Fact>, String> {
        let (mut facts, mut wrong) = (Vec::new(), None);
        each_text(&mut self.value(), &mut |text| match Template::read(text) {
            Ok(template) => facts.extend(template.facts().cloned()),
            Err(reason) => wrong = wrong.take().or(Some(reason)),
        });
        if facts.len() > DOCUMENT_FACTS_MAX {
            let many = || format!("names more than {DOCUMENT_FACTS_MAX} facts about the task");
            wrong = wrong.or_else(|| Some(many()));
        }
        wrong.map_or(Ok(facts), Err)
    }

    /// Returns the JSON with the values of its facts. A text that is no template, which was checked at the registration, is
    /// written as it is.
    #[must_use]
    pub fn filled(&self, value: impl Fn(&Fact) -> Option<String>) -> String {
        let mut document = self.value();
        each_text(&mut document, &mut |text| {
            if let Ok(template) = Template::read(text) {
                *text = template.write(&value, TEXT_CHARS_MAX);
            }
        });
        document.to_string()
    }
}

/// Hands out all texts, but names of fields. A value that was read is only so many levels deep.
fn each_text(value: &mut Value, take: &mut impl FnMut(&mut String)) {
    match value {
        Value::String(text) => take(text),
        Value::Array(items) => items.iter_mut().for_each(|item| each_text(item, take)),
        Value::Object(fields) => fields.values_mut().for_each(|field| each_text(field, take)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn facts_are_filled_into_texts_and_the_form_stays() {
        let document = Document::of(&json!({
            "{{task.id}}": 1.5,
            "text": "{{task.id}} is {{task.state}}",
            "blocks": [null, true, ["{{task.error}}"]],
        }));
        assert_eq!(document.facts().unwrap().len(), 3);
        let filled = document.filled(|fact| match fact {
            Fact::Id => Some("7".to_owned()),
            Fact::Error => Some("\"}, \"admin\": true\r\n{{task.id}}".to_owned()),
            _ => None,
        });
        let expected = json!({
            "{{task.id}}": 1.5,
            "text": "7 is ",
            "blocks": [null, true, ["\"}, \"admin\": true\n{{task.id}}"]],
        });
        assert_eq!(serde_json::from_str::<Value>(&filled).unwrap(), expected);
        assert_eq!(Document::stored(document.text().to_owned()), document);
    }

    #[test]
    fn mistakes_in_texts_are_told() {
        let facts = |value: Value| Document::of(&value).facts();
        for (value, says) in [
            (json!(["ok", {"a": "{{task.none}}"}]), "not known"),
            (json!("{{task.id"), "without"),
            (json!(vec!["{{task.id}}"; 21]), "more than 20"),
        ] {
            assert!(facts(value).is_err_and(|reason| reason.contains(says)));
        }
        assert_eq!(facts(json!(7)), Ok(Vec::new()));
        assert_eq!(Document::stored("{".to_owned()).filled(|_| None), "null");
    }
}
