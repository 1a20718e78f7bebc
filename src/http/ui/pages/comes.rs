//! The tasks that come in the next hour, for the overview.

use serde::Deserialize;

use crate::{
    api::text::InstantText,
    http::ui::{
        gate::Failure,
        parts::{
            chart,
            text::{counted, grouped},
        },
        visit::Visit,
    },
};

/// Minutes ahead that are drawn.
const MINUTES: usize = 60;

/// The answer of the API, as far as it is shown.
#[derive(Deserialize)]
struct Forecast {
    total: u64,
    exact: bool,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    from: InstantText,
    tasks: u64,
}

/// The bars of the next hour.
pub(super) struct Hour {
    pub(super) bars: String,
    pub(super) caption: String,
}

/// Asks for the next hour. A service of an earlier version does not tell.
pub(super) async fn hour(visit: &Visit) -> Result<Option<Hour>, Failure> {
    let path = format!("/v1/forecast?step=60s&count={MINUTES}");
    let forecast = match visit.get::<Forecast>(&path).await {
        Ok(forecast) => forecast,
        Err(failure) if failure.status.is_client_error() => return Ok(None),
        Err(failure) => return Err(failure),
    };
    let figures = forecast.steps.iter().map(|step| {
        // The text of a time has digits and signs alone; the hour and the minute are these.
        let plain = |c: &char| c.is_ascii_digit() || *c == ':';
        let minute: String = step.from.0.chars().skip(11).take(5).filter(plain).collect();
        (format!("{minute} UTC: {}", grouped(step.tasks)), step.tasks)
    });
    let figures: Vec<(String, u64)> = figures.collect();
    let highest = figures
        .iter()
        .map(|(_, tasks)| *tasks)
        .max()
        .unwrap_or_default();
    let least = if forecast.exact { "" } else { "at least " };
    Ok(Some(Hour {
        bars: chart::bars(&figures, "Tasks due in each minute of the next hour"),
        caption: format!(
            "{least}{} due in the next hour, at most {} in a minute",
            counted(forecast.total, "task", "tasks"),
            grouped(highest)
        ),
    }))
}
