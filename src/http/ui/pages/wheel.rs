//! The heat map of the wheel shows which callbacks have tasks when: a row for each callback, a cell for each step ahead.

use serde::Deserialize;

use crate::{
    api::text::InstantText,
    http::ui::{
        gate::Failure,
        parts::{
            chart,
            frame::part,
            text::{counted, grouped, visible},
        },
        visit::Visit,
    },
};

/// Callbacks with a row of their own; the others share one.
const ROWS: usize = 15;

/// The answer of the API, as far as it is shown.
#[derive(Deserialize)]
struct Forecast {
    total: u64,
    exact: bool,
    steps: Vec<Step>,
    callbacks: Vec<Ahead>,
}

#[derive(Deserialize)]
struct Step {
    from: InstantText,
}

#[derive(Deserialize)]
struct Ahead {
    callback: String,
    total: u64,
    tasks: Vec<u64>,
}

/// How far ahead the map shows.
pub(super) struct Zoom {
    name: &'static str,
    pub(super) words: &'static str,
    pub(super) path: &'static str,
    pub(super) end: &'static str,
    pub(super) here: bool,
    step: &'static str,
    count: usize,
}

const ZOOMS: [Zoom; 2] = [
    Zoom {
        name: "",
        words: "An hour, by minutes",
        path: "/cluster",
        end: "+1 h",
        here: false,
        step: "60s",
        count: 60,
    },
    Zoom {
        name: "days",
        words: "Two days, by hours",
        path: "/cluster?ahead=days",
        end: "+48 h",
        here: false,
        step: "1h",
        count: 48,
    },
];

/// A row of the map.
pub(super) struct Row {
    pub(super) name: String,
    /// The page of the callback; empty where there is none.
    pub(super) path: String,
    pub(super) cells: String,
    pub(super) total: String,
}

/// The map.
pub(super) struct Map {
    pub(super) zooms: [Zoom; 2],
    pub(super) end: &'static str,
    pub(super) rows: Vec<Row>,
    pub(super) caption: String,
    /// The least count of each shade, with the drawing of it.
    pub(super) legend: Vec<(String, String)>,
}

/// Asks for the map, as far ahead as the query says. A service of an earlier version does not tell.
pub(super) async fn map(visit: &Visit) -> Result<Option<Map>, Failure> {
    let wanted = visit.parameter("ahead").unwrap_or_default();
    let [hour, days] = ZOOMS;
    let is_far = wanted == days.name;
    let (step, count, end) = if is_far {
        (days.step, days.count, days.end)
    } else {
        (hour.step, hour.count, hour.end)
    };
    let zooms = [(hour, !is_far), (days, is_far)].map(|(zoom, here)| Zoom { here, ..zoom });
    let path = format!("/v1/forecast?step={step}&count={count}");
    let forecast = match visit.get::<Forecast>(&path).await {
        Ok(forecast) => forecast,
        Err(failure) if failure.status.is_client_error() => return Ok(None),
        Err(failure) => return Err(failure),
    };
    let times: Vec<String> = forecast.steps.iter().map(|step| time(&step.from)).collect();
    let shown = largest(forecast.callbacks, count);
    let highest = shown.iter().flat_map(|row| &row.tasks).max();
    let shades = chart::Shades::of(highest.copied().unwrap_or_default());
    let rows = shown.iter().map(|row| Row {
        name: name(&row.callback),
        path: match row.callback.as_str() {
            "" | OTHERS => String::new(),
            name => format!("/callbacks/{}", part(name)),
        },
        cells: chart::heat(&titled(&times, &row.tasks), &shades),
        total: grouped(row.total),
    });
    let least = if forecast.exact { "" } else { "at least " };
    let tasks = counted(forecast.total, "task", "tasks");
    Ok(Some(Map {
        end,
        rows: rows.collect(),
        caption: format!("{least}{tasks}"),
        legend: shades.legend(),
        zooms,
    }))
}

/// The name under which the API and this page count what has no row of its own.
const OTHERS: &str = "(other)";

/// Returns the rows with the most tasks, and one for all others behind them.
fn largest(mut all: Vec<Ahead>, count: usize) -> Vec<Ahead> {
    all.retain(|row| row.total > 0);
    // The sort keeps the order of the names among equals; what is counted together comes last.
    all.sort_by_key(|row| (row.callback == OTHERS, std::cmp::Reverse(row.total)));
    let named = all.iter().filter(|row| row.callback != OTHERS).count();
    let rest = all.split_off(named.min(ROWS));
    if !rest.is_empty() {
        let mut others = Ahead {
            callback: OTHERS.to_owned(),
            total: 0,
            tasks: vec![0; count],
        };
        for row in rest {
            others.total += row.total;
            for (sum, tasks) in others.tasks.iter_mut().zip(row.tasks) {
                *sum += tasks;
            }
        }
        all.push(others);
    }
    all
}

fn name(callback: &str) -> String {
    match callback {
        "" => "records of Kafka".to_owned(),
        OTHERS => "all others".to_owned(),
        name => visible(name),
    }
}

/// Returns the hour and the minute of a time. Its text has digits and signs alone.
fn time(from: &InstantText) -> String {
    let plain = |c: &char| c.is_ascii_digit() || *c == ':';
    from.0.chars().skip(11).take(5).filter(plain).collect()
}

fn titled(times: &[String], tasks: &[u64]) -> Vec<(String, u64)> {
    let cells = times.iter().zip(tasks);
    cells
        .map(|(time, tasks)| (format!("{time} UTC: {}", grouped(*tasks)), *tasks))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ahead(callback: &str, tasks: &[u64]) -> Ahead {
        Ahead {
            callback: callback.to_owned(),
            total: tasks.iter().sum(),
            tasks: tasks.to_vec(),
        }
    }

    #[test]
    fn the_largest_callbacks_have_rows_and_the_others_share_one() {
        let few = largest(vec![ahead("a", &[1, 0]), ahead("b", &[0, 2])], 2);
        let names: Vec<&str> = few.iter().map(|row| row.callback.as_str()).collect();
        assert_eq!(names, ["b", "a"]);
        let many = (0..ROWS + 3).map(|number| ahead(&format!("c{number}"), &[1, number as u64]));
        let many = many.chain([ahead(OTHERS, &[5, 500])]).collect();
        let many = largest(many, 2);
        assert_eq!(many.len(), ROWS + 1);
        let last = many.last().unwrap();
        assert_eq!(
            (last.callback.as_str(), &last.tasks),
            (OTHERS, &vec![8, 503])
        );
        assert_eq!(last.total, 511);
        let whole: u64 = many.iter().map(|row| row.total).sum();
        let numbers: u64 = (0..ROWS as u64 + 3).map(|number| number + 1).sum();
        assert_eq!(whole, numbers + 505);
    }

    #[test]
    fn what_has_no_page_has_a_name() {
        assert_eq!(name(""), "records of Kafka");
        assert_eq!(name(OTHERS), "all others");
        assert_eq!(
            time(&InstantText("2026-11-30T09:05:00Z".to_owned())),
            "09:05"
        );
    }
}
