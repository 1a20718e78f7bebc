//! The forms of a callback set its gate and its settings.

use axum::http::Method;
use serde_json::{Map, Value, json};

use super::posted::{Done, Posted};
use crate::{
    api::{
        callback::{GateRequest, GateState},
        text::InstantText,
    },
    http::ui::{
        gate::{Condition, Failure, json as written},
        pages::callback::{SETTINGS, fields, pointer, shown},
        parts::{form::mistaken, text::visible},
        visit::Visit,
    },
};

/// Opens or closes a gate.
pub(in crate::http::ui) async fn gate(visit: &Visit, posted: &Posted) -> Result<Done, Failure> {
    let here = format!("/callbacks/{}", visit.part());
    let (state, said) = match posted.text("gate").unwrap_or_default() {
        "paused" => (
            GateState::Paused,
            "Its due tasks are held until the gate is opened.",
        ),
        "dropping" => (
            GateState::Dropping,
            "Its due tasks end as cancelled until the gate is opened.",
        ),
        "open" => (GateState::Open, "The gate is open."),
        other => return Err(Failure::not_found(format!("no gate is {}", visible(other)))),
    };
    let mut wish = GateRequest::new(state);
    wish.collection = posted.text("collection").map(str::to_owned);
    wish.reason = posted.text("reason").map(str::to_owned);
    wish.until = posted.text("until").map(|text| until(visit, text));
    let path = format!("/v1/callbacks/{}/gate", visit.part());
    match visit.call(Method::POST, &path, Some(&wish)).await {
        Ok(_) => Ok(Done::good(here, said)),
        Err(failure) if failure.errors.is_empty() => Err(failure),
        Err(failure) => {
            let wrong = failure
                .errors
                .iter()
                .map(|error| format!("{} {}", error.pointer.trim_start_matches('/'), error.detail));
            let wrong: Vec<String> = wrong.collect();
            Ok(Done::bad(here, visible(&wrong.join("; "))))
        }
    }
}

/// Reads a time, or how far away it is.
fn until(visit: &Visit, text: &str) -> InstantText {
    let wait = crate::api::text::DurationText(text.to_owned()).duration();
    wait.map_or_else(
        || InstantText(text.to_owned()),
        |wait| visit.now.after(wait).into(),
    )
}

/// Sets what the form says; settings that it does not have stay as they are.
pub(in crate::http::ui) async fn set(visit: &Visit, posted: &Posted) -> Result<Done, Failure> {
    let path = format!("/v1/callbacks/{}", visit.part());
    let mut settings = match visit.get::<Map<String, Value>>(&path).await {
        Ok(all) => all,
        Err(failure) if failure.code == "callback_not_found" => Map::new(),
        Err(failure) => return Err(failure),
    };
    settings.retain(|name, _| SETTINGS.contains(&name.as_str()));
    for field in fields(&|name| posted.or_empty(name)) {
        put(&mut settings, field.name, &field.value);
    }
    let condition = posted.text("etag").map_or(Condition::Any, Condition::Is);
    match visit.put(&path, written(&settings)?, condition).await {
        Ok(_) => {
            let here = format!("/callbacks/{}", visit.part());
            Ok(Done::good(
                here,
                "The settings hold for tasks that are registered from now on.",
            ))
        }
        Err(failure) if failure.status.is_client_error() && !failure.is_of_key() => {
            let mut sent = fields(&|name| posted.or_empty(name));
            let wrong = mistaken(&mut sent, &failure, pointer);
            shown(visit, Some((sent, wrong))).await.map(Done::Again)
        }
        Err(failure) => Err(failure),
    }
}

/// Puts the text of a field into the settings, as the API has it. A text that is no number is left to the API to refuse.
fn put(settings: &mut Map<String, Value>, name: &str, text: &str) {
    let number = |text: &str| {
        let number = serde_json::from_str::<serde_json::Number>(text);
        number.map_or_else(|_| json!(text), Value::Number)
    };
    let value = match name {
        _ if text.is_empty() => Value::Null,
        "max_attempts" | "max_in_flight" | "per_second" | "burst" => number(text),
        "indexed_labels" => {
            let names = text.split(',').map(str::trim);
            json!(names.filter(|name| !name.is_empty()).collect::<Vec<_>>())
        }
        "labels" => {
            let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
            let pairs = lines.map(|line| line.split_once('=').unwrap_or((line, "")));
            let labels = pairs.map(|(name, value)| (name.trim().to_owned(), json!(value.trim())));
            Value::Object(labels.collect())
        }
        _ => json!(text),
    };
    let (of, name) = match name {
        "per_second" | "burst" => {
            let rate = settings.entry("rate").or_insert_with(|| json!({}));
            if !rate.is_object() {
                *rate = json!({});
            }
            (rate.as_object_mut(), name)
        }
        name => (Some(&mut *settings), name),
    };
    if let Some(of) = of {
        if value.is_null() {
            of.remove(name);
        } else {
            of.insert(name.to_owned(), value);
        }
    }
    let is_empty = settings
        .get("rate")
        .and_then(Value::as_object)
        .is_some_and(Map::is_empty);
    if is_empty {
        settings.remove("rate");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_changes_what_it_has_and_leaves_the_rest() {
        let Value::Object(mut settings) = json!({
            "max_attempts": 3, "rate": {"per_second": 5, "burst": 9}, "notify": {"kafka": {"topic": "t"}}, "labels": {"a": "b"},
        }) else {
            panic!("it is an object");
        };
        for (name, text) in [
            ("max_attempts", "7"),
            ("max_in_flight", "many"),
            ("per_second", ""),
            ("burst", ""),
            ("labels", "x=1\n y = z=2 \n"),
            ("indexed_labels", "x, y,"),
            ("description", ""),
        ] {
            put(&mut settings, name, text);
        }
        let wanted = json!({
            "max_attempts": 7, "max_in_flight": "many", "notify": {"kafka": {"topic": "t"}}, "labels": {"x": "1", "y": "z=2"},
            "indexed_labels": ["x", "y"],
        });
        assert_eq!(Value::Object(settings), wanted);
    }
}
