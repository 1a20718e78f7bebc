//! The status page shows people at `/` how the service is doing; the server renders it.
//!
//! It reloads itself and needs no script.

mod chart;

use std::time::Duration;

use askama::Template;
use axum::{
    extract::State,
    http::{HeaderMap, StatusCode, Uri, header, uri::Authority},
    response::{IntoResponse, Response},
};

use super::{Api, error::Error};
use crate::{
    flow::{
        base::figures::{recent::Fired, unclaimed::Waiting},
        stages::query::stats::{Horizon, Stats},
    },
    limits::UNCLAIMED_WARN,
    model::{
        ids::NodeId,
        time::{Millis, rfc3339},
    },
};

/// The page loads only what this server sends, and runs no script.
const POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Callbacks whose waiting tasks are shown.
const WAITING_SHOWN: usize = 10;

/// A task that has waited for so long while no worker asks for it is shown as a problem: a poll begins within
/// seconds of the last.
const ALARMING: Duration = Duration::from_secs(10);

/// Answers the style sheet of the page.
pub(super) async fn style() -> Response {
    let media = [(header::CONTENT_TYPE, "text/css")];
    (media, include_str!("page.css")).into_response()
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
    at_least: bool,
    waiting: Vec<WaitingLine>,
    recent: Vec<Line>,
    wheels: Vec<WheelLine>,
    at: String,
    /// The address by which the browser reached the page, with its scheme; commands in a terminal reach it there as well.
    server: String,
}

struct WaitingLine {
    callback: String,
    tasks: String,
    oldest: String,
    polled: String,
    /// No worker asks for these tasks.
    alarming: bool,
}

struct Card {
    name: &'static str,
    value: String,
    about: String,
}

struct Bar {
    name: &'static str,
    tasks: String,
    /// The length in percent of the longest.
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

/// Shows the state of the service.
pub(super) async fn page(State(api): State<Api>, uri: Uri, headers: HeaderMap) -> Response {
    let problems = api.service.readiness().into_iter().filter_map(|check| {
        let problem = check.problem?;
        Some(format!("{}: {problem}", check.name))
    });
    let problems: Vec<String> = problems.collect();
    let stats = match api.service.stats().await {
        Ok(stats) => stats,
        Err(fault) => return Error::from(fault).into_response(),
    };
    let server = server(&uri, &headers, api.options.tls);
    match filled(&stats, problems, &server).render() {
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

/// Returns the server as the browser names it, if that is a name or address and a port; else the default one.
fn server(uri: &Uri, headers: &HeaderMap, tls: bool) -> String {
    const DEFAULT: &str = "localhost:7420";
    // HTTP/2, which browsers speak over TLS, has the host in the address and no header of it.
    let of_uri = uri.authority().map(Authority::as_str);
    let of_header = || headers.get(header::HOST)?.to_str().ok();
    let host = of_uri.or_else(of_header);
    let plain = |host: &&str| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || ".:-[]".contains(c);
        (1..=255).contains(&host.len()) && host.chars().all(allowed)
    };
    let scheme = if tls { "https" } else { "http" };
    format!("{scheme}://{}", host.filter(plain).unwrap_or(DEFAULT))
}

fn filled(stats: &Stats, problems: Vec<String>, server: &str) -> Page {
    let longest = stats.pending.iter().map(|pending| pending.tasks).max();
    let longest = longest.unwrap_or_default().max(1);
    let pending = stats.pending.iter().map(|pending| Bar {
        name: horizon(pending.horizon),
        tasks: match (pending.complete, pending.tasks) {
            (true, tasks) => grouped(tasks),
            (false, 0) => "not counted".to_owned(),
            (false, tasks) => format!("at least {}", grouped(tasks)),
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
        at_least: !stats.unclaimed.exact,
        waiting: stats
            .unclaimed
            .callbacks
            .iter()
            .take(WAITING_SHOWN)
            .map(|waiting| waiting_line(waiting, stats.at))
            .collect(),
        recent: stats.recent.iter().map(line).collect(),
        wheels: wheels.collect(),
        at: clock(stats.at),
        server: server.to_owned(),
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

fn waiting_line(waiting: &Waiting, now: Millis) -> WaitingLine {
    let age = now.since(waiting.oldest);
    let idle = waiting.polled.is_none_or(|ago| ago >= UNCLAIMED_WARN);
    WaitingLine {
        callback: waiting.callback.clone(),
        tasks: grouped(waiting.tasks),
        oldest: seconds(age),
        polled: waiting.polled.map_or_else(
            || "not in the last ten minutes".to_owned(),
            |ago| format!("{} ago", seconds(ago)),
        ),
        alarming: idle && age >= ALARMING,
    }
}

/// Writes a time span for people.
fn seconds(span: Duration) -> String {
    match span.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
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

/// Writes a number with separators between its thousands.
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
    use crate::flow::{
        base::figures::unclaimed::{Cause, Unclaimed},
        stages::query::standing::Standing,
    };

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
            exact: true,
            unclaimed: unclaimed("<b>"),
            standing: Standing::default(),
            gates: Vec::new(),
            seconds: Vec::new(),
            lateness: None,
            recent: vec![fired],
        };
        let html = filled(&stats, vec!["store: <away>".to_owned()], "here:1")
            .render()
            .expect("a page");
        assert!(
            !html.contains("<script>") && !html.contains("<away>") && !html.contains("<b>"),
            "{html}"
        );
        assert!(html.contains("08:00:00.003"), "{html}");
        assert!(html.contains("1 234"), "{html}");
    }

    fn unclaimed(callback: &str) -> Unclaimed {
        let waiting = Waiting {
            callback: callback.to_owned(),
            tasks: 1234,
            oldest: Millis(1_799_999_900_000),
            polled: None,
            cause: Cause::Worker,
        };
        Unclaimed {
            callbacks: vec![waiting],
            tasks: 1234,
            limited: 0,
            exact: true,
        }
    }

    #[test]
    fn an_empty_page_names_the_server_that_it_came_from() {
        let stats = Stats {
            at: Millis(1_800_000_000_500),
            nodes: Vec::new(),
            wheels: Vec::new(),
            pending: Vec::new(),
            exact: true,
            unclaimed: Unclaimed::default(),
            standing: Standing::default(),
            gates: Vec::new(),
            seconds: Vec::new(),
            lateness: None,
            recent: Vec::new(),
        };
        let (mut headers, uri) = (HeaderMap::new(), Uri::from_static("/"));
        let html = |headers: &HeaderMap| {
            let pages = [false, true].map(|tls| {
                let page = filled(&stats, Vec::new(), &server(&uri, headers, tls));
                page.render().expect("a page")
            });
            let [plain, encrypted] = &pages;
            assert!(!plain.contains("https://") && !encrypted.contains("http://"));
            pages.concat()
        };
        assert!(html(&headers).contains("http://localhost:7420/v1/tasks"));
        for (host, shown) in [
            ("127.0.0.1:7499", "https://127.0.0.1:7499/v1/tasks"),
            ("[::1]:80", "http://[::1]:80/v1/tasks"),
            ("x'; rm -r ~ #", "https://localhost:7420/v1/tasks"),
        ] {
            headers.insert(header::HOST, host.parse().expect("a header"));
            assert!(html(&headers).contains(shown), "{host}");
        }
        let uri = Uri::from_static("https://timers.example:7420/");
        let of_uri = server(&uri, &HeaderMap::new(), true);
        assert_eq!(of_uri, "https://timers.example:7420");
    }
}
