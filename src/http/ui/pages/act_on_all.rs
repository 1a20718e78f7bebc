//! The pages that ask before many tasks are acted on: the selected ones, or all of a search.

use askama::Template;

use super::rows::written;
use crate::http::ui::{
    gate::Failure,
    parts::{
        frame::{Frame, with},
        text::{counted, visible},
    },
    visit::Visit,
};

#[derive(Template)]
#[template(path = "sure.html", config = "src/http/ui/askama.toml")]
struct Sure<'a> {
    frame: Frame,
    act: &'static str,
    word: &'static str,
    tasks: String,
    effect: &'static str,
    ids: &'a [String],
    query: String,
    back: String,
}

/// Asks whether some tasks are to be cancelled or deleted.
pub(in crate::http::ui) fn sure(
    visit: &Visit,
    act: &str,
    ids: &[String],
    query: Option<&str>,
) -> Result<String, Failure> {
    let (act, word, effect) = match act {
        "delete" => (
            "delete",
            "Delete",
            "Their payloads, labels and errors are erased for good. Those that are not dead stay.",
        ),
        _ => (
            "cancel",
            "Cancel",
            "No attempt of them begins any more, and running ones are told to stop.",
        ),
    };
    let query = query.unwrap_or_default();
    written(&Sure {
        frame: visit.frame(),
        act,
        word,
        effect,
        tasks: counted(ids.len() as u64, "task", "tasks"),
        ids,
        query: query.to_owned(),
        back: back(query),
    })
}

fn back(query: &str) -> String {
    match query {
        "" => "/tasks".to_owned(),
        query => with("/tasks", "q", query),
    }
}

#[derive(Template)]
#[template(path = "all.html", config = "src/http/ui/askama.toml")]
struct All {
    frame: Frame,
    query: String,
    shown: String,
    back: String,
    wrong: Option<String>,
}

/// Asks what is to be done to all tasks of a search.
pub(in crate::http::ui) fn page(
    visit: &Visit,
    query: &str,
    wrong: Option<String>,
) -> Result<String, Failure> {
    written(&All {
        frame: visit.frame(),
        shown: if query.is_empty() {
            "every task".to_owned()
        } else {
            visible(query)
        },
        query: query.to_owned(),
        back: back(query),
        wrong,
    })
}

/// Asks what is to be done to all tasks of the search that the query of the page has.
pub(in crate::http::ui) async fn asked(visit: &Visit) -> Result<String, Failure> {
    visit.operates()?;
    page(visit, &visit.parameter("q").unwrap_or_default(), None)
}
