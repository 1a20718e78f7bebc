//! The page of keys lists them for administrators, makes one, and revokes one.

use askama::Template;

use super::rows::written;
use crate::{
    api::api_key::{ApiKeyResponse, ListApiKeysResponse},
    http::ui::{
        gate::Failure,
        parts::{
            form::Field,
            frame::{Frame, with},
            text::visible,
            time,
        },
        visit::Visit,
    },
    limits::PAGE_LIST_ROWS_MAX,
};

struct Line {
    id: String,
    name: String,
    role: &'static str,
    covers: String,
    payloads: bool,
    created: String,
    expires: String,
    is_own: bool,
}

#[derive(Template)]
#[template(path = "keys.html", config = "src/http/ui/askama.toml")]
struct Page {
    frame: Frame,
    lines: Vec<Line>,
    next: Option<String>,
    fields: Vec<Field>,
    wrong: Option<String>,
    /// The text of a key that was just made: it is shown once.
    made: Option<String>,
}

/// Shows the keys.
pub(in crate::http::ui) async fn page(visit: &Visit) -> Result<String, Failure> {
    shown(visit, fields(&|_| String::new()), None, None).await
}

/// Shows the keys with a form as it was sent, or with a key that was made.
pub(in crate::http::ui) async fn shown(
    visit: &Visit,
    fields: Vec<Field>,
    wrong: Option<String>,
    made: Option<String>,
) -> Result<String, Failure> {
    let mut path = format!("/v1/api-keys?page_size={PAGE_LIST_ROWS_MAX}");
    if let Some(token) = visit.parameter("page") {
        path = with(&path, "page_token", &token);
    }
    let (keys, next) = match visit.get::<ListApiKeysResponse>(&path).await {
        Ok(list) => (list.api_keys, list.next_page_token),
        // The first key closes the service to this reader as well. The key must be shown all the same.
        Err(_) if made.is_some() => (Vec::new(), None),
        Err(failure) => return Err(failure),
    };
    written(&Page {
        frame: visit.frame(),
        lines: keys.iter().map(|key| line(visit, key)).collect(),
        next: next.map(|token| with("/keys", "page", &token)),
        fields,
        wrong: wrong.filter(|wrong| !wrong.is_empty()),
        made,
    })
}

fn line(visit: &Visit, key: &ApiKeyResponse) -> Line {
    let covers = key.callbacks.as_ref().map(|all| all.join(", "));
    Line {
        id: key.id.clone(),
        name: visible(&key.name),
        role: key.role.name(),
        covers: covers.map_or_else(|| "all callbacks".to_owned(), |all| visible(&all)),
        payloads: key.payloads,
        created: time::row(&key.create_time),
        expires: key.expire_time.as_ref().map_or_else(time::none, time::row),
        is_own: visit.who.id.as_deref() == Some(&key.id),
    }
}

/// Returns the fields of the form, with their values.
pub(in crate::http::ui) fn fields(value: &dyn Fn(&str) -> String) -> Vec<Field> {
    vec![
        Field::text("name", "Name", value("name"), "Logs and the audit show it."),
        Field::choice(
            "role",
            "Role",
            value("role"),
            &["viewer", "producer", "worker", "operator", "admin"],
        ),
        Field::text(
            "callbacks",
            "Only these callbacks",
            value("callbacks"),
            "With commas between; all unless it is said.",
        ),
        Field::text(
            "expire_time",
            "Expires",
            value("expire_time"),
            "Such as 2027-06-30T00:00:00Z; never unless it is said.",
        ),
        Field::choice(
            "payloads",
            "Sees payloads",
            value("payloads"),
            &["", "true", "false"],
        ),
    ]
}
