//! The pages that change a schedule or make one show which runs appear and which vanish before anything is saved.

use std::collections::BTreeMap;

use askama::Template;
use serde_json::{Value, value::RawValue};

use super::rows::written;
use crate::{
    api::schedule::{PreviewResponse, RunTime},
    http::ui::{
        gate::Failure,
        parts::{
            form::Field,
            frame::{Frame, part},
            json,
            text::visible,
            time,
        },
        visit::Visit,
    },
};

/// Runs that are compared.
const COMPARED: usize = 20;

/// The members of an answer that are settings, which a change sends back.
pub(in crate::http::ui) const SETTINGS: [&str; 14] = [
    "cron",
    "every",
    "time_zone",
    "start_time",
    "end_time",
    "limit",
    "jitter",
    "overlap",
    "missed",
    "catch_up_window",
    "pause_on_failure",
    "note",
    "labels",
    "task",
];

struct Run {
    utc: String,
    local: String,
}

/// The effect of a change on the next runs.
pub(in crate::http::ui) struct Effect {
    words: String,
    zone: String,
    appear: Vec<Run>,
    vanish: Vec<Run>,
    same: usize,
}

#[derive(Template)]
#[template(path = "schedule_change.html", config = "src/http/ui/askama.toml")]
struct Page {
    frame: Frame,
    name: String,
    /// There is no such schedule yet.
    is_new: bool,
    /// The zone in which its runs are shown at wish; empty where it is not known.
    zone: String,
    /// Where the form is sent to.
    action: String,
    /// The page that the reader has come from.
    back: String,
    fields: Vec<Field>,
    etag: String,
    wrong: Option<String>,
    effect: Option<Effect>,
}

/// Settings by name, each as the API has it: a payload keeps its numbers.
pub(in crate::http::ui) type Set = BTreeMap<String, Box<RawValue>>;

/// Reads a schedule as it is set, with its tag; empty where there is none.
pub(in crate::http::ui) async fn set(visit: &Visit) -> Result<(Set, String), Failure> {
    let path = format!("/v1/schedules/{}", visit.part());
    match visit.read(&path).await {
        Ok(answer) => {
            let mut all: Set = answer.read()?;
            all.retain(|name, _| SETTINGS.contains(&name.as_str()));
            Ok((all, answer.etag().unwrap_or_default().to_owned()))
        }
        Err(failure) if failure.code == "schedule_not_found" => Ok((Set::new(), String::new())),
        Err(failure) => Err(failure),
    }
}

/// A form as it is shown.
pub(in crate::http::ui) struct Form {
    pub(in crate::http::ui) fields: Vec<Field>,
    /// The tag of the schedule as it was read; empty where there was none.
    pub(in crate::http::ui) etag: String,
    /// The words of a refusal that belong to no field.
    pub(in crate::http::ui) wrong: Option<String>,
    pub(in crate::http::ui) effect: Option<Effect>,
}

impl Form {
    pub(in crate::http::ui) const fn of(fields: Vec<Field>, etag: String) -> Self {
        Self {
            fields,
            etag,
            wrong: None,
            effect: None,
        }
    }
}

/// Shows the form with what is set.
pub(in crate::http::ui) async fn page(visit: &Visit) -> Result<String, Failure> {
    visit.operates()?;
    let (settings, etag) = set(visit).await?;
    shown(
        visit,
        Form::of(fields(&|name| text_of(&settings, name)), etag),
    )
}

/// Shows the form of a new schedule.
pub(in crate::http::ui) async fn fresh(visit: &Visit) -> Result<String, Failure> {
    visit.operates()?;
    let callback = visit.parameter("callback");
    let callback = callback.unwrap_or_else(|| "report".to_owned());
    let task = serde_json::json!({"callback": callback}).to_string();
    let value = |name: &str| match name {
        "task" => json::laid_out(&task),
        _ => String::new(),
    };
    shown(visit, Form::of(named_fields(&value), String::new()))
}

/// Shows the form of a schedule, or of a new one where the path names none.
pub(in crate::http::ui) fn shown(visit: &Visit, form: Form) -> Result<String, Failure> {
    let zone = form.effect.as_ref().map(|effect| effect.zone.clone());
    let is_new = form.etag.is_empty();
    let path = format!("/schedules/{}", visit.part());
    let (action, here) = if visit.name.is_empty() {
        ("/new/schedules".to_owned(), String::new())
    } else {
        (format!("{path}/change"), path)
    };
    written(&Page {
        frame: visit.frame(),
        name: visible(&visit.name),
        is_new,
        zone: zone.unwrap_or_default(),
        action,
        back: if is_new {
            "/schedules".to_owned()
        } else {
            here
        },
        fields: form.fields,
        etag: form.etag,
        wrong: form.wrong.filter(|wrong| !wrong.is_empty()),
        effect: form.effect,
    })
}

/// Compares the next runs with those that a change would have.
pub(in crate::http::ui) async fn effect(
    visit: &Visit,
    name: &str,
    settings: &Set,
) -> Result<Effect, Failure> {
    let name = part(name);
    let path = format!("/v1/schedules:preview?name={name}&count={COMPARED}");
    let answer = visit
        .call(axum::http::Method::POST, &path, Some(settings))
        .await?;
    let after: PreviewResponse = answer.read()?;
    let path = format!("/v1/schedules/{name}/preview?count={COMPARED}");
    let before = match visit.get::<PreviewResponse>(&path).await {
        Ok(before) => before.run_times,
        Err(failure) if failure.status.is_client_error() => Vec::new(),
        Err(failure) => return Err(failure),
    };
    Ok(compared(&before, &after))
}

fn compared(before: &[RunTime], after: &PreviewResponse) -> Effect {
    // Behind the last of the shorter list nothing can be said of the other.
    let full = |runs: &[RunTime]| runs.len() >= COMPARED;
    let ends = [before, &after.run_times]
        .into_iter()
        .filter(|runs| full(runs));
    let end = ends
        .filter_map(|runs| runs.last().map(|run| run.utc.0.clone()))
        .min();
    let within = |run: &&RunTime| end.as_ref().is_none_or(|end| run.utc.0 <= *end);
    let only = |runs: &[RunTime], others: &[RunTime]| {
        let runs = runs.iter().filter(within);
        let only = runs.filter(|run| !others.iter().any(|other| other.utc == run.utc));
        let only = only.map(|run| Run {
            utc: time::row(&run.utc),
            local: visible(&run.local),
        });
        only.collect::<Vec<Run>>()
    };
    let appear = only(&after.run_times, before);
    Effect {
        vanish: only(before, &after.run_times),
        same: after.run_times.iter().filter(within).count() - appear.len(),
        appear,
        words: visible(&after.description),
        zone: visible(&after.time_zone),
    }
}

/// Returns a setting as a text of the form.
fn text_of(settings: &Set, name: &str) -> String {
    let Some(raw) = settings.get(name) else {
        return String::new();
    };
    if name == "task" {
        return json::laid_out(raw.get());
    }
    match serde_json::from_str(raw.get()) {
        Ok(Value::String(text)) => text,
        Ok(Value::Array(all)) => {
            let texts = all.iter().filter_map(Value::as_str);
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => raw.get().to_owned(),
    }
}

/// Returns the fields of the form of a new schedule, with their values.
pub(in crate::http::ui) fn named_fields(value: &dyn Fn(&str) -> String) -> Vec<Field> {
    let hint = "Such as nightly-report: letters, digits, dots and dashes.";
    let name = Field::text("name", "Name", value("name"), hint);
    [name].into_iter().chain(fields(value)).collect()
}

/// Returns the fields of the form, with their values.
pub(in crate::http::ui) fn fields(value: &dyn Fn(&str) -> String) -> Vec<Field> {
    let text = |name, label, hint| Field::text(name, label, value(name), hint);
    let overlap = &["", "skip", "allow", "buffer_one", "cancel_other"];
    vec![
        text(
            "cron",
            "Cron",
            "Such as 30 7 * * MON-FRI; a line for each expression.",
        )
        .long(),
        text("every", "Or every", "Such as 15m."),
        text(
            "time_zone",
            "Time zone",
            "Such as Europe/Berlin; UTC unless it is said.",
        ),
        Field::choice(
            "overlap",
            "A run meets the one before",
            value("overlap"),
            overlap,
        ),
        Field::choice(
            "missed",
            "Times that were missed",
            value("missed"),
            &["", "latest", "all", "skip"],
        ),
        text("jitter", "Later by up to", "Such as 30s."),
        text("limit", "Runs at most", "For ever unless it is said."),
        text("start_time", "Not before", "Such as 2026-12-01T00:00:00Z."),
        text("end_time", "Not after", ""),
        Field::choice(
            "pause_on_failure",
            "Pauses when a run fails",
            value("pause_on_failure"),
            &["", "true"],
        ),
        text("note", "Note", "For people."),
        text(
            "task",
            "Task of each run",
            "JSON, as POST /v1/tasks takes it.",
        )
        .long(),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn runs(hours: impl IntoIterator<Item = usize>) -> Vec<RunTime> {
        let run = |hour| json!({"local": "", "utc": format!("2030-01-01T{hour:02}:00:00Z")});
        let runs: Vec<Value> = hours.into_iter().map(run).collect();
        serde_json::from_value(Value::Array(runs)).unwrap()
    }

    #[test]
    fn runs_that_appear_and_vanish_are_told_as_far_as_both_are_known() {
        let preview = |hours: Vec<usize>| {
            let runs = serde_json::to_value(runs(hours)).unwrap();
            let all = json!({"description": "d", "time_zone": "UTC", "time_zone_version": "1", "run_times": runs});
            serde_json::from_value::<PreviewResponse>(all).unwrap()
        };
        let effect = compared(&runs([1, 2, 3]), &preview(vec![2, 3, 4]));
        assert_eq!(
            (effect.appear.len(), effect.vanish.len(), effect.same),
            (1, 1, 2)
        );
        // The list of the new runs is full: nothing is known behind its last one.
        let effect = compared(
            &runs((0..COMPARED).map(|n| n + 2)),
            &preview((0..COMPARED).collect()),
        );
        assert_eq!((effect.appear.len(), effect.vanish.len()), (2, 0));
    }
}
