//! `/`: what a person sees first. Made on the server, reloads itself, needs no script.

mod chart;

use askama::Template;
use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};

use super::{Api, error::Error};
use crate::{
    flow::{
        pulse::Fired,
        stats::{Horizon, Stats},
    },
    model::{ids::NodeId, time::Millis},
    queue::message::rfc3339,
};

/// Nothing but what this server sends, and nothing that runs.
const POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(super) fn routes() -> Router<Api> {
    let style = || async {
        (
            [(header::CONTENT_TYPE, "text/css")],
            include_str!("page.css"),
        )
    };
    Router::new()
        .route("/", get(page))
        .route("/assets/page.css", get(style))
}

#[derive(Template)]
#[template(path = "page.html", config = "src/http/page/askama.toml")]
struct Page {
    version: &'static str,
    problems: Vec<String>,
    nodes: Vec<NodeLine>,
    cards: Vec<Card>,
    chart: String,
    pending: Vec<Bar>,
    recent: Vec<Line>,
    wheels: Vec<WheelLine>,
    at: String,
}

struct Card {
    name: &'static str,
    value: String,
    about: String,
}

struct Bar {
    name: &'static str,
    tasks: String,
    /// Of the longest.
    percent: u64,
}

struct Line {
    id: String,
    to: String,
    due: String,
    fired: String,
    late_ms: i64,
}

struct NodeLine {
    name: String,
    address: String,
    ready: bool,
}

struct WheelLine {
    wheel: u16,
    owner: String,
    fired: String,
    behind_ms: u128,
    version: i64,
}

/// Shows what the service does.
async fn page(State(api): State<Api>) -> Response {
    let problems = api.service.readiness().into_iter().filter_map(|check| {
        let problem = check.problem?;
        Some(format!("{}: {problem}", check.name))
    });
    let problems: Vec<String> = problems.collect();
    let stats = match api.service.stats().await {
        Ok(stats) => stats,
        Err(fault) => return Error::from(fault).into_response(),
    };
    match filled(&stats, problems).render() {
        Ok(html) => {
            let headers = [
                (header::CONTENT_TYPE, "text/html; charset=utf-8"),
                (header::CONTENT_SECURITY_POLICY, POLICY),
                (header::CACHE_CONTROL, "no-store"),
            ];
            (StatusCode::OK, headers, html).into_response()
        }
        Err(error) => Error::new(super::error::Code::Internal, error.to_string()).into_response(),
    }
}

fn filled(stats: &Stats, problems: Vec<String>) -> Page {
    let longest = stats.pending.iter().map(|pending| pending.tasks).max();
    let longest = longest.unwrap_or_default().max(1);
    let pending = stats.pending.iter().map(|pending| Bar {
        name: horizon(pending.horizon),
        tasks: match (pending.complete, pending.tasks) {
            (true, tasks) => grouped(tasks),
            (false, 0) => "not counted".to_owned(),
            (false, tasks) => format!("{} or more", grouped(tasks)),
        },
        percent: pending.tasks * 100 / longest,
    });
    let nodes = stats.nodes.iter().map(|node| NodeLine {
        name: node.name.clone(),
        address: node.address.clone(),
        ready: node.ready,
    });
    let name_of = |owner: NodeId| {
        let node = stats.nodes.iter().find(|node| node.node == owner);
        match node {
            Some(node) => node.name.clone(),
            None if owner == NodeId::NOBODY => "nobody".to_owned(),
            None => "a node that is gone".to_owned(),
        }
    };
    let wheels = stats.wheels.iter().map(|(wheel, row)| WheelLine {
        wheel: wheel.get(),
        owner: name_of(row.owner),
        fired: clock(row.fired.due),
        behind_ms: stats.at.since(row.fired.due).as_millis(),
        version: row.version,
    });
    Page {
        version: env!("CARGO_PKG_VERSION"),
        problems,
        nodes: nodes.collect(),
        cards: cards(stats),
        chart: chart::fired(&stats.seconds),
        pending: pending.collect(),
        recent: stats.recent.iter().map(line).collect(),
        wheels: wheels.collect(),
        at: clock(stats.at),
    }
}

fn cards(stats: &Stats) -> Vec<Card> {
    let rate = |value: f64| {
        if value >= 100.0 || value == 0.0 {
            grouped(value as u64)
        } else {
            format!("{value:.1}")
        }
    };
    let (late, about) = match stats.lateness {
        Some(late) => (
            format!("{} ms", late.p99_ms),
            format!(
                "half within {} ms, the latest {} ms",
                late.p50_ms, late.max_ms
            ),
        ),
        None => (
            "none".to_owned(),
            "nothing fired in the last minute".to_owned(),
        ),
    };
    let minute = || "per second, over the last minute".to_owned();
    vec![
        Card {
            name: "fired",
            value: rate(stats.per_second(|second| second.fired)),
            about: minute(),
        },
        Card {
            name: "lateness, 99 of 100",
            value: late,
            about,
        },
        Card {
            name: "registered",
            value: rate(stats.per_second(|second| second.registered)),
            about: minute(),
        },
        Card {
            name: "settled",
            value: rate(stats.per_second(|second| second.settled)),
            about: minute(),
        },
    ]
}

fn line(fired: &Fired) -> Line {
    Line {
        id: fired.id.to_string(),
        to: fired.to.clone(),
        due: clock(fired.due),
        fired: clock(fired.at),
        late_ms: (fired.at.0 - fired.due.0).max(0),
    }
}

const fn horizon(horizon: Horizon) -> &'static str {
    match horizon {
        Horizon::Overdue => "overdue",
        Horizon::Minute => "within a minute",
        Horizon::Hour => "within an hour",
        Horizon::Day => "within a day",
        Horizon::Later => "later",
    }
}

/// Time of day in UTC, to the millisecond.
fn clock(at: Millis) -> String {
    let text = rfc3339(at);
    let time = text.split_once('T').map_or(text.as_str(), |(_, time)| time);
    time.trim_end_matches('Z').to_owned()
}

/// Writes a number with its thousands apart.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_in_groups_of_three() {
        let texts = [0, 12, 999, 1000, 1_234_567].map(grouped);
        assert_eq!(texts, ["0", "12", "999", "1 000", "1 234 567"]);
    }

    #[test]
    fn a_task_of_any_name_is_text_on_the_page() {
        let fired = Fired {
            id: crate::model::ids::TaskId::new(
                Millis(5),
                crate::model::wheel::WheelNumber::new(0).expect("a wheel"),
                7,
            ),
            to: "<script>".to_owned(),
            due: Millis(1_800_000_000_000),
            at: Millis(1_800_000_000_003),
        };
        let stats = Stats {
            at: Millis(1_800_000_000_500),
            nodes: Vec::new(),
            wheels: Vec::new(),
            pending: Vec::new(),
            seconds: Vec::new(),
            lateness: None,
            recent: vec![fired],
        };
        let html = filled(&stats, vec!["store: <away>".to_owned()])
            .render()
            .expect("a page");
        assert!(
            !html.contains("<script>") && !html.contains("<away>"),
            "{html}"
        );
        assert!(html.contains("08:00:00.003"), "{html}");
    }
}
