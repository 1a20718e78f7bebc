//! This conversion turns the forecast of the flow into an answer for clients.

use std::time::Duration;

use crate::{
    api::{
        forecast::{ForecastCallback, ForecastResponse, ForecastStep},
        text::DurationText,
    },
    flow::stages::query::forecast::{Ahead, Count, Steps},
    model::time::Millis,
};

/// Converts a forecast.
#[must_use]
pub(in crate::http) fn response(ahead: &Ahead, steps: Steps) -> ForecastResponse {
    let length = Duration::from_secs(u64::from(steps.seconds));
    let first = Millis(ahead.at.0.div_euclid(1000) * 1000);
    let begins = std::iter::successors(Some(first), |begin| Some(begin.after(length)));
    let steps = begins.take(steps.count).enumerate().map(|(index, from)| {
        let of_step = || {
            ahead
                .callbacks
                .values()
                .filter_map(|counts| counts.get(index))
        };
        ForecastStep {
            from: from.into(),
            tasks: of_step().map(|count| count.at_least).sum(),
            at_most: of_step().map(|count| count.at_most).sum(),
        }
    });
    let steps: Vec<ForecastStep> = steps.collect();
    let callbacks = ahead.callbacks.iter().map(|(callback, counts)| {
        let tasks: Vec<u64> = counts
            .iter()
            .map(|Count { at_least, .. }| *at_least)
            .collect();
        ForecastCallback {
            callback: callback.clone(),
            total: tasks.iter().sum(),
            tasks,
        }
    });
    ForecastResponse {
        time: ahead.at.into(),
        step: DurationText::readable(length),
        exact: ahead.exact,
        total: steps.iter().map(|step| step.tasks).sum(),
        steps,
        callbacks: callbacks.collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn steps_are_the_sums_of_all_callbacks_and_of_unknown_bounds_unknown() {
        let count = |at_least, at_most| Count { at_least, at_most };
        let ahead = Ahead {
            at: Millis(1_500),
            callbacks: BTreeMap::from([
                ("a".to_owned(), vec![count(1, Some(2)), count(3, Some(3))]),
                ("b".to_owned(), vec![count(4, Some(4)), count(5, None)]),
            ]),
            exact: false,
        };
        let steps = Steps {
            seconds: 90,
            count: 2,
        };
        let told = serde_json::to_value(response(&ahead, steps)).unwrap();
        let wanted = serde_json::json!({
            "time": "1970-01-01T00:00:01.500Z", "step": "1m 30s", "exact": false, "total": 13,
            "steps": [
                {"from": "1970-01-01T00:00:01.000Z", "tasks": 5, "at_most": 6},
                {"from": "1970-01-01T00:01:31.000Z", "tasks": 8},
            ],
            "callbacks": [
                {"callback": "a", "total": 4, "tasks": [1, 3]},
                {"callback": "b", "total": 9, "tasks": [4, 5]},
            ],
        });
        assert_eq!(told, wanted);
    }
}
