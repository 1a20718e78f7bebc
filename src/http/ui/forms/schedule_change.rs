//! The forms that change a schedule, or make one: they show the effect first, and save then.

use std::borrow::Cow;

use axum::http::StatusCode;
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};

use super::posted::{Done, Posted};
use crate::http::ui::{
    gate::{Condition, Failure, json as written},
    pages::schedule_change::{Form, Set, effect, fields, named_fields, set, shown},
    parts::{
        form::{Field, mistaken},
        frame::part,
    },
    visit::Visit,
};

/// Shows the effect of a change, or saves it.
pub(in crate::http::ui) async fn act(visit: &Visit, posted: &Posted) -> Result<Done, Failure> {
    let (settings, _) = set(visit).await?;
    let sent = fields(&|name| posted.or_empty(name));
    taken(visit, posted, &visit.name, settings, sent).await
}

/// Shows the first runs of a new schedule, or makes it.
pub(in crate::http::ui) async fn make(visit: &Visit, posted: &Posted) -> Result<Done, Failure> {
    let mut sent = named_fields(&|name| posted.or_empty(name));
    let name = posted.or_empty("name");
    if name.is_empty() {
        for field in sent.iter_mut().filter(|field| field.name == "name") {
            field.wrong = Some("A schedule needs a name.".to_owned());
        }
        return shown(visit, Form::of(sent, String::new())).map(Done::Again);
    }
    taken(visit, posted, &name, Set::new(), sent).await
}

async fn taken(
    visit: &Visit,
    posted: &Posted,
    name: &str,
    mut settings: Set,
    mut sent: Vec<Field>,
) -> Result<Done, Failure> {
    let etag = posted.or_empty("etag");
    if let Err(wrong) = fill(&mut settings, &sent) {
        let form = Form {
            wrong: Some(wrong),
            ..Form::of(sent, etag)
        };
        return shown(visit, form).map(Done::Again);
    }
    let done = match posted.text("act") {
        Some("save") => save(visit, name, &settings, &etag).await,
        _ => match effect(visit, name, &settings).await {
            Ok(effect) => {
                let form = Form {
                    effect: Some(effect),
                    ..Form::of(sent, etag)
                };
                return shown(visit, form).map(Done::Again);
            }
            Err(failure) => Err(failure),
        },
    };
    match done {
        Err(failure) if failure.status.is_client_error() && !failure.is_of_key() => {
            let wrong = mistaken(&mut sent, &failure, |name| Cow::Owned(format!("/{name}")));
            let form = Form {
                wrong: Some(wrong),
                ..Form::of(sent, etag)
            };
            shown(visit, form).map(Done::Again)
        }
        done => done,
    }
}

/// Saves a schedule that is still as it was read: also one that was not there then.
async fn save(visit: &Visit, name: &str, settings: &Set, etag: &str) -> Result<Done, Failure> {
    let path = format!("/v1/schedules/{}", part(name));
    let (condition, said) = match etag {
        "" => (Condition::IsNone, "The schedule is made."),
        tag => (Condition::Is(tag), "The schedule is saved."),
    };
    let saved = visit.put(&path, written(settings)?, condition).await;
    match saved {
        Ok(_) => Ok(Done::good(format!("/schedules/{}", part(name)), said)),
        Err(failure) if etag.is_empty() && failure.status == StatusCode::PRECONDITION_FAILED => {
            Err(Failure::new(
                StatusCode::CONFLICT,
                "There is such a schedule",
                format!(
                    "there is a schedule {name} already: choose another name, or change that one"
                ),
            ))
        }
        Err(failure) => Err(failure),
    }
}

/// Puts the texts of the form into the settings, as the API has them. The API refuses a limit that is no number.
fn fill(settings: &mut Set, sent: &[Field]) -> Result<(), String> {
    for field in sent {
        let text = field.value.trim();
        let value = match field.name {
            // It is in the path.
            "name" => continue,
            _ if text.is_empty() => None,
            "cron" => {
                let lines: Vec<&str> = text
                    .lines()
                    .map(str::trim)
                    .filter(|line| !line.is_empty())
                    .collect();
                match lines.as_slice() {
                    [one] => Some(json!(one)),
                    several => Some(json!(several)),
                }
            }
            "limit" => Some(
                text.parse::<u64>()
                    .map_or_else(|_| json!(text), |limit| json!(limit)),
            ),
            "pause_on_failure" => Some(json!(text == "true")),
            "task" => {
                // As it was typed: values would lose large numbers.
                let task = RawValue::from_string(text.to_owned());
                let task = task.map_err(|error| format!("the task is no JSON: {error}"))?;
                settings.insert("task".to_owned(), task);
                continue;
            }
            _ => Some(json!(text)),
        };
        let value = value.map(|value: Value| to_raw_value(&value)).transpose();
        let value = value.map_err(|error| error.to_string())?;
        match value {
            Some(value) => settings.insert(field.name.to_owned(), value),
            None => settings.remove(field.name),
        };
    }
    Ok(())
}
