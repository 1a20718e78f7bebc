//! The forecast handler tells people and autoscalers how many tasks are due in the time ahead.

use std::time::Duration;

use axum::{extract::State, http::Uri, response::Response};

use crate::{
    api::{forecast::ForecastResponse, problem::Problem, text::DurationText, time},
    flow::stages::query::forecast::Steps,
    http::{
        Api, answer,
        convert::{any_callback, forecast},
        error::Error,
        extract::{FromQuery, Params, each, put, unquoted, whole_number},
    },
    limits::{FORECAST_STEP_MAX, FORECAST_STEPS_MAX},
};

/// Counts the tasks that are due in steps ahead, of one callback or of all.
///
/// Counted are tasks that start for the first time, or again after a move; the next attempts of failed ones are not. On an
/// embedded store the counts are exact. On a cluster each is a lower bound, with an upper one for some minutes ahead.
#[utoipa::path(get, path = "/v1/forecast", tag = "cluster", operation_id = "getForecast",
    params(
        ("callback" = Option<String>, Query, description = "Of this callback; of all by default"),
        ("step" = Option<String>, Query, description = "The length of a step, in whole seconds; `1m` by default, at most 24h"),
        ("count" = Option<usize>, Query, minimum = 1, maximum = 1440, description = "The number of steps; 60 by default")),
    responses(
        (status = 200, description = "The tasks that are due", body = ForecastResponse),
        (status = "default", description = "Not counted", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn read(
    State(api): State<Api>,
    Params(query): Params<ForecastQuery>,
) -> Result<Response, Error> {
    let told = counted(&api, query.callback.as_deref(), query.steps).await?;
    Ok(answer::json(&told))
}

/// Counts the tasks that are due in steps ahead, of one callback or of all.
///
/// # Errors
/// The store is away.
pub(in crate::http) async fn counted(
    api: &Api,
    callback: Option<&str>,
    steps: Steps,
) -> Result<ForecastResponse, Error> {
    let ahead = api.service.forecast(callback, steps).await?;
    Ok(forecast::response(&ahead, steps))
}

/// The query of a forecast.
#[derive(Debug)]
pub(in crate::http) struct ForecastQuery {
    callback: Option<String>,
    steps: Steps,
}

impl FromQuery for ForecastQuery {
    fn read(uri: &Uri, _: &Api) -> Result<Self, Error> {
        let mut query = Self {
            callback: None,
            steps: Steps {
                seconds: 60,
                count: 60,
            },
        };
        let violations = each(uri, &["callback", "step", "count"], |name, value| {
            Some(match name {
                "callback" => put(&mut query.callback, any_callback(value)),
                "step" => put(&mut query.steps.seconds, step(value)),
                "count" => {
                    let count = whole_number(&value, FORECAST_STEPS_MAX, FORECAST_STEPS_MAX);
                    put(&mut query.steps.count, count)
                }
                _ => return None,
            })
        })?;
        violations.finish().map(|()| query)
    }
}

/// Reads the length of a step, in seconds.
fn step(text: String) -> Result<u32, String> {
    let step = time::duration(&DurationText(text), Duration::from_secs(1));
    let step = step.map_err(|detail| unquoted(&detail))?;
    if step > FORECAST_STEP_MAX || step.subsec_nanos() != 0 {
        return Err("must be whole seconds, and 24h at most".to_owned());
    }
    u32::try_from(step.as_secs()).map_err(|_| "must be 24h at most".to_owned())
}
