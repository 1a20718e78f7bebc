//! The form that changes a schedule: it shows the effect first, and saves then.

use std::borrow::Cow;

use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};

use super::posted::{Done, Posted};
use crate::http::ui::{
    gate::{Failure, json as written},
    pages::schedule_change::{Set, effect, fields, set, shown},
    parts::form::{Field, mistaken},
    visit::Visit,
};

/// Shows the effect of a change, or saves it.
pub(in crate::http::ui) async fn act(visit: &Visit, posted: &Posted) -> Result<Done, Failure> {
    let (mut settings, _) = set(visit).await?;
    let mut sent = fields(&|name| posted.or_empty(name));
    let etag = posted.or_empty("etag");
    if let Err(wrong) = fill(&mut settings, &sent) {
        return shown(visit, sent, etag, Some(wrong), None).map(Done::Again);
    }
    let done = match posted.text("act") {
        Some("save") => save(visit, &settings, &etag).await,
        _ => match effect(visit, &settings).await {
            Ok(effect) => {
                return shown(visit, sent, etag, None, Some(effect)).map(Done::Again);
            }
            Err(failure) => Err(failure),
        },
    };
    match done {
        Err(failure) if failure.status.is_client_error() && !failure.is_of_key() => {
            let wrong = mistaken(&mut sent, &failure, |name| Cow::Owned(format!("/{name}")));
            shown(visit, sent, etag, Some(wrong), None).map(Done::Again)
        }
        done => done,
    }
}

async fn save(visit: &Visit, settings: &Set, etag: &str) -> Result<Done, Failure> {
    let path = format!("/v1/schedules/{}", visit.part());
    let tag = (!etag.is_empty()).then_some(etag);
    visit.put(&path, written(settings)?, tag).await?;
    let here = format!("/schedules/{}", visit.part());
    Ok(Done::good(here, "The schedule is saved."))
}

/// Puts the texts of the form into the settings, as the API has them. The API refuses a limit that is no number.
fn fill(settings: &mut Set, sent: &[Field]) -> Result<(), String> {
    for field in sent {
        let text = field.value.trim();
        let value = match field.name {
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
