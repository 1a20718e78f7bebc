//! The suggestions complete the last word of the search box.

use askama::Template;

use super::rows::written;
use crate::{
    api::{callback::ListCallbacksResponse, schedule_response::ListSchedulesResponse},
    http::ui::{gate::Failure, parts::query::WORDS, visit::Visit},
};

/// Suggestions that are shown.
const SHOWN: usize = 12;

/// The states of tasks.
const STATES: [&str; 13] = [
    "scheduled",
    "enqueued",
    "claimed",
    "processing",
    "retrying",
    "waiting",
    "waiting_for_children",
    "succeeded",
    "failed",
    "cancelled",
    "expired",
    "dead",
    "published",
];

#[derive(Template)]
#[template(path = "suggest.html", config = "src/http/ui/askama.toml")]
struct Page {
    texts: Vec<String>,
}

/// Suggests how to go on.
pub(in crate::http::ui) async fn page(visit: &Visit) -> Result<String, Failure> {
    let text = visit.parameter("q").unwrap_or_default();
    let (before, last) = match text.rsplit_once(char::is_whitespace) {
        Some((before, last)) => (format!("{before} "), last),
        None => (String::new(), text.as_str()),
    };
    let words: Vec<String> = match last.split_once(':') {
        None => WORDS.iter().map(|word| format!("{word}:")).collect(),
        Some(("state", _)) => STATES
            .iter()
            .map(|state| format!("state:{state}"))
            .collect(),
        Some(("callback", _)) => {
            let list: ListCallbacksResponse = visit.get("/v1/callbacks?page_size=100").await?;
            let names = list.callbacks.into_iter().map(|one| one.name);
            names.map(|name| format!("callback:{name}")).collect()
        }
        Some(("schedule", _)) if visit.rights.look && visit.rights.whole => {
            let list: ListSchedulesResponse = visit.get("/v1/schedules?page_size=100").await?;
            let names = list.schedules.into_iter().map(|one| one.name);
            names.map(|name| format!("schedule:{name}")).collect()
        }
        Some(("ended" | "roots", _)) => {
            let name = last.split(':').next().unwrap_or_default();
            ["true", "false"]
                .map(|value| format!("{name}:{value}"))
                .into()
        }
        Some(_) => Vec::new(),
    };
    let fitting = words
        .into_iter()
        .filter(|word| word.starts_with(last) && word != last);
    written(&Page {
        texts: fitting
            .take(SHOWN)
            .map(|word| format!("{before}{word}"))
            .collect(),
    })
}
