//! The query of the search box: words that narrow a list of tasks, as a person types them and as the API takes them.

use url::form_urlencoded::Serializer;

/// The words that a query knows, for suggestions and mistakes.
pub(in crate::http::ui) const WORDS: [&str; 12] = [
    "callback",
    "state",
    "key",
    "label",
    "error",
    "schedule",
    "collection",
    "parent",
    "from",
    "to",
    "ended",
    "roots",
];

/// A query as it was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::http::ui) struct Query {
    /// Parameters of the API: their names and values.
    pub(in crate::http::ui) parameters: Vec<(String, String)>,
    /// A word without a name: an id or a key.
    pub(in crate::http::ui) bare: Option<String>,
    /// Words that are not understood.
    pub(in crate::http::ui) wrong: Vec<String>,
}

impl Query {
    /// Reads a query: `NAME:VALUE` with blanks between; a value with blanks stands in quotes.
    pub(in crate::http::ui) fn read(text: &str) -> Self {
        let mut query = Self::default();
        for word in words(text) {
            match word.split_once(':') {
                Some((name, value)) if WORDS.contains(&name) => query.set(name, value),
                Some((name, _)) if is_name(name) => query.wrong.push(format!(
                    "{name}: is not known; these are: {}",
                    WORDS.join(", ")
                )),
                _ if query.bare.is_none() => query.bare = Some(word),
                _ => query
                    .wrong
                    .push(format!("{word}: one word without a name is enough")),
            }
        }
        query
    }

    fn set(&mut self, name: &str, value: &str) {
        if value.is_empty() {
            return self.wrong.push(format!("{name}: has no value"));
        }
        let parameter = match name {
            "label" => match value.split_once(['=', ':']) {
                Some((label, value)) => (format!("label.{label}"), value.to_owned()),
                None => {
                    let wrong = format!("label: is written label:NAME=VALUE, not {value}");
                    return self.wrong.push(wrong);
                }
            },
            "from" => ("start_time_from".to_owned(), whole(value)),
            "to" => ("start_time_to".to_owned(), whole(value)),
            name => (name.to_owned(), value.to_owned()),
        };
        self.parameters.push(parameter);
    }

    /// Returns the value of a parameter.
    pub(in crate::http::ui) fn of(&self, name: &str) -> Option<&str> {
        let mut found = self.parameters.iter().filter(|(found, _)| found == name);
        found.next().map(|(_, value)| value.as_str())
    }

    /// Returns the labels.
    pub(in crate::http::ui) fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.parameters.iter();
        all.filter_map(|(name, value)| Some((name.strip_prefix("label.")?, value.as_str())))
    }

    /// Writes the parameters for the API, with others behind them.
    pub(in crate::http::ui) fn written(&self, more: &[(&str, &str)]) -> String {
        let mut text = Serializer::new(String::new());
        text.extend_pairs(&self.parameters);
        text.extend_pairs(more);
        text.finish()
    }
}

/// Completes a time: a day, a minute or a second stands for its beginning, in UTC unless it says otherwise.
fn whole(text: &str) -> String {
    match text.len() {
        10 => format!("{text}T00:00:00Z"),
        16 => format!("{text}:00Z"),
        19 => format!("{text}Z"),
        17 if text.ends_with('Z') => format!("{}:00Z", text.trim_end_matches('Z')),
        _ => text.to_owned(),
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase())
}

/// Parts a text at its blanks, but not in quotes.
fn words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
    for c in text.chars() {
        match c {
            '"' => quoted = !quoted,
            c if c.is_whitespace() && !quoted => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            c => word.push(c),
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// Writes a word of a query.
pub(in crate::http::ui) fn word(name: &str, value: &str) -> String {
    let value = value.replace('"', "");
    if value.contains(char::is_whitespace) {
        format!("{name}:\"{value}\"")
    } else {
        format!("{name}:{value}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_read_as_it_is_typed() {
        let query = Query::read(
            "callback:mail  label:tenant=acme error:\"connection refused: 7\" from:2026-11-30 x-17",
        );
        assert_eq!(query.wrong, Vec::<String>::new());
        assert_eq!(query.bare.as_deref(), Some("x-17"));
        assert_eq!(query.of("error"), Some("connection refused: 7"));
        assert_eq!(query.labels().collect::<Vec<_>>(), [("tenant", "acme")]);
        assert_eq!(
            query.written(&[("page_size", "50")]),
            "callback=mail&label.tenant=acme&error=connection+refused%3A+7&start_time_from=2026-11-30T00%3A00%3A00Z&page_size=50"
        );
        let again = word("error", query.of("error").unwrap());
        assert_eq!(again, "error:\"connection refused: 7\"");
    }

    #[test]
    fn a_word_that_is_not_understood_is_named() {
        let query = Query::read("colour:red label:x state: a b order:17");
        assert_eq!(query.wrong.len(), 5, "{:?}", query.wrong);
        assert!(query.wrong[0].contains("callback"), "{:?}", query.wrong);
        // The text of an error may begin like a name.
        assert_eq!(Query::read("Order:17").bare.as_deref(), Some("Order:17"));
        assert_eq!(Query::read(""), Query::default());
    }
}
