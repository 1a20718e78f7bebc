//! The page of the audit shows administrators who has changed what, and what was refused.

use askama::Template;

use super::rows::written;
use crate::{
    api::api_key::{AuditEntry, ListAuditResponse},
    http::ui::{
        gate::Failure,
        parts::{
            frame::{Frame, with},
            text::{grouped, visible},
            time,
        },
        visit::Visit,
    },
    limits::PAGE_LIST_ROWS_MAX,
};

struct Line {
    time: String,
    who: String,
    action: String,
    target: String,
    from: String,
    outcome: String,
    class: &'static str,
    more: Option<String>,
}

#[derive(Template)]
#[template(path = "audit.html", config = "src/http/ui/askama.toml")]
struct Page {
    frame: Frame,
    lines: Vec<Line>,
    next: Option<String>,
    from: String,
    to: String,
    wrong: Option<String>,
}

/// Shows the calls of a span: the last day unless the query says otherwise.
pub(in crate::http::ui) async fn page(visit: &Visit) -> Result<String, Failure> {
    let mut path = format!("/v1/audit?page_size={PAGE_LIST_ROWS_MAX}");
    let mut here = "/audit".to_owned();
    for name in ["from", "to"] {
        if let Some(value) = visit.parameter(name) {
            path = with(&path, name, &value);
            here = with(&here, name, &value);
        }
    }
    if let Some(token) = visit.parameter("page") {
        path = with(&path, "page_token", &token);
    }
    let (list, wrong) = match visit.get::<ListAuditResponse>(&path).await {
        Ok(list) => (Some(list), None),
        Err(failure) if !failure.errors.is_empty() => (None, Some(visible(&failure.detail))),
        Err(failure) => return Err(failure),
    };
    let entries = list.iter().flat_map(|list| &list.entries);
    let next = list
        .as_ref()
        .and_then(|list| list.next_page_token.as_deref());
    written(&Page {
        frame: visit.frame(),
        lines: entries.map(line).collect(),
        next: next.map(|token| with(&here, "page", token)),
        from: visit.parameter("from").unwrap_or_default(),
        to: visit.parameter("to").unwrap_or_default(),
        wrong,
    })
}

fn line(entry: &AuditEntry) -> Line {
    let class = match entry.outcome.as_str() {
        "ok" => "good",
        "unknown" => "warn",
        _ => "bad",
    };
    Line {
        time: time::of(Some(&entry.time)),
        who: visible(&entry.who),
        action: visible(&entry.action),
        target: visible(&entry.target),
        from: entry.from.as_deref().map_or_else(String::new, visible),
        outcome: visible(&entry.outcome),
        class,
        more: entry.more.map(|more| grouped(u64::from(more))),
    }
}
