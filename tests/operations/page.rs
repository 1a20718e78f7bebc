//! The page of metrics is compared with the table of the code, and with what a running service shows.

use std::{collections::BTreeSet, time::Duration};

use serde_json::json;
use tempfile::TempDir;
use tickwheel::time_source::TimeSource;

use super::{Known, read, registered};
use crate::server::{Server, post};

/// The longest wait for a figure to be shown.
const SOON: Duration = Duration::from_secs(20);

/// The entries of the page: "- `name`: kind by `label`, `label`.", the meaning, and when to worry.
fn told(page: &str) -> Known {
    let entries = page.split("\n- `").skip(1);
    let entry = |text: &str| {
        let (name, rest) = text.split_once("`: ").expect("an entry has a kind");
        let (head, body) = rest.split_once('\n').expect("an entry has a meaning");
        let (kind, labels) = head.split_once(" by ").unwrap_or((head, ""));
        let labels = labels.split('`').skip(1).step_by(2).map(str::to_owned);
        let body = body.split("\n\n").next().unwrap_or_default();
        assert!(
            body.contains("\n  Worry"),
            "{name} does not say when to worry"
        );
        let kind = kind.trim_end_matches('.').to_owned();
        (name.to_owned(), (kind, labels.collect()))
    };
    entries.map(entry).collect()
}

/// The metrics of a scrape. Labels are those of its samples, without the buckets' own.
fn shown(text: &str) -> Known {
    let kinds = text.lines().filter_map(|line| {
        let (name, kind) = line.strip_prefix("# TYPE ")?.split_once(' ')?;
        Some((name.to_owned(), (kind.to_owned(), BTreeSet::new())))
    });
    let mut known: Known = kinds.collect();
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    for (name, labels) in samples.filter_map(|line| line.split_once('{')) {
        let ends = ["", "_bucket", "_sum", "_count"].into_iter();
        let name = ends
            .filter_map(|end| name.strip_suffix(end))
            .find(|name| known.contains_key(*name));
        let (_, found) = known.get_mut(name.expect("a sample has a type")).unwrap();
        // No value of a label has such characters.
        let names = labels
            .split("=\"")
            .map(|part| part.rsplit([',', '{']).next().unwrap());
        let names = names.filter(|name| !name.contains(['"', '}']) && *name != "le");
        found.extend(names.map(str::to_owned));
    }
    known
}

#[test]
fn the_page_has_what_the_code_has() {
    let (told, registered) = (told(&read("docs/metrics.md")), registered());
    let both = |known: &Known| known.clone().into_iter().collect::<BTreeSet<_>>();
    let (told, registered) = (both(&told), both(&registered));
    let missing: Vec<_> = registered.difference(&told).collect();
    assert!(missing.is_empty(), "docs/metrics.md lacks {missing:#?}");
    let old: Vec<_> = told.difference(&registered).collect();
    assert!(old.is_empty(), "only in docs/metrics.md: {old:#?}");
}

/// Scrapes until every one of these lines is there, and returns the scrape.
async fn scrape(url: &str, lines: &[&str]) -> String {
    let time = TimeSource::real();
    let until = time.moment().after(SOON);
    loop {
        let answer = reqwest::get(format!("{url}/metrics"))
            .await
            .expect("an answer");
        let text = answer.text().await.expect("a whole answer");
        let lacks = |line: &&&str| !text.lines().any(|shown| shown == **line);
        let Some(missing) = lines.iter().find(lacks) else {
            return text;
        };
        assert!(time.moment() < until, "{missing}\n{text}");
        time.sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_service_shows_what_the_page_has_and_its_own_figures() {
    let directory = TempDir::new().expect("a directory");
    let server = Server::start(directory.path(), &[]).await;
    let url = &server.url;
    let retry = json!({"initial": "1h", "factor": 1, "max": "1h", "jitter": "none"});
    let tasks = json!({"tasks": [
        {"callback": "mail", "delay": "0s", "retry": retry},
        {"callback": "mail", "delay": "0s", "retry": retry},
        {"callback": "paused", "delay": "2h"},
        {"callback": "paused", "delay": "3s"},
        {"callback": "once", "delay": "0s", "max_attempts": 1},
    ]});
    post(url, "/v1/tasks:batchCreate", &tasks).await;
    let gate = json!({"gate": "paused", "reason": "a test"});
    post(url, "/v1/callbacks/paused/gate", &gate).await;
    let mut polled = Vec::new();
    while polled.len() < 3 {
        let of = ["mail", "once"];
        let poll = json!({"worker": "w", "callbacks": of, "max_tasks": 3, "wait": "5s"});
        let answer = post(url, "/v1/worker/poll", &poll).await;
        polled.extend(answer["tasks"].as_array().expect("tasks").clone());
    }
    polled.sort_by_key(|task| task["callback"].to_string());
    let report = |task: &serde_json::Value| json!({"id": task["id"], "attempt": 1, "outcome": "retry", "error": "no"});
    let settle = json!({"worker": "w", "tasks": [report(&polled[0]), report(&polled[2])]});
    post(url, "/v1/worker/settle", &settle).await;
    shows(url, "/v1/callbacks/paused", r#""held":1"#).await;
    let dead = polled[2]["id"].as_str().expect("an id");
    shows(url, "/v1/dead-letters?callback=once", dead).await;
    // One task of `mail` runs, one waits for its retry, a gate holds one, one is dead, and the last one is two hours ahead.
    let expected = [
        r#"tickwheel_held_tasks{callback="paused"} 1"#,
        r#"tickwheel_dead_tasks{callback="once"} 1"#,
        r#"tickwheel_running_attempts{callback="mail"} 1"#,
        r#"tickwheel_retrying_tasks{callback="mail"} 1"#,
        r#"tickwheel_gates_closed{callback="paused",gate="paused"} 1"#,
        r#"tickwheel_pending_tasks{horizon="day"} 1"#,
        r#"tickwheel_callback_fired_total{callback="mail"} 2"#,
    ];
    let text = scrape(url, &expected).await;
    let told = told(&read("docs/metrics.md"));
    for (name, (kind, labels)) in shown(&text) {
        let entry = told.get(&name);
        let (told_kind, told_labels) =
            entry.unwrap_or_else(|| panic!("{name} is not in docs/metrics.md"));
        assert_eq!((&name, &kind), (&name, told_kind));
        assert!(
            labels.is_subset(told_labels),
            "{name}: {labels:?}, told: {told_labels:?}"
        );
    }
    let wheels = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    assert_eq!(
        wheels("tickwheel_wheels "),
        wheels("tickwheel_wheels_owned ")
    );
    if cfg!(target_os = "linux") {
        has_figures_of_the_process(&text);
    }
    let open = json!({"gate": "open"});
    post(url, "/v1/callbacks/paused/gate", &open).await;
    let opened = r#"tickwheel_gates_closed{callback="paused",gate="paused"} 0"#;
    scrape(url, &[opened]).await;
}

/// Waits until an answer has a text: held and dead tasks are counted by the first scrape, and then not for a minute.
async fn shows(url: &str, path: &str, text: &str) {
    let time = TimeSource::real();
    let until = time.moment().after(SOON);
    loop {
        let answer = reqwest::get(format!("{url}{path}")).await;
        let shown = answer.expect("an answer").text().await.expect("a text");
        if shown.contains(text) {
            return;
        }
        assert!(time.moment() < until, "{path}: no {text} in {shown}");
        time.sleep(Duration::from_millis(100)).await;
    }
}

fn has_figures_of_the_process(text: &str) {
    let figure = |name: &str| {
        let line = text
            .lines()
            .find(|line| line.split(' ').next() == Some(name));
        line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
    };
    assert!(
        figure("process_resident_memory_bytes") > Some(1e6),
        "{text}"
    );
    assert!(figure("process_open_fds") > Some(5.0), "{text}");
    assert!(
        figure("process_max_fds") >= figure("process_open_fds"),
        "{text}"
    );
    assert!(figure("process_start_time_seconds") > Some(1.7e9), "{text}");
    assert!(figure("process_cpu_seconds_total") > Some(0.0), "{text}");
}

#[test]
fn a_scrape_is_read_with_its_labels() {
    let text = "# TYPE a_seconds histogram\na_seconds_bucket{op=\"x, y\",le=\"0.1\"} 1\n\
                # TYPE b_total counter\nb_total{route=\"/v1/{id}\",method=\"GET\"} 2\n";
    let known = shown(text);
    let labels = |name: &str| known[name].1.iter().map(String::as_str).collect::<Vec<_>>();
    assert_eq!(labels("a_seconds"), ["op"]);
    assert_eq!(labels("b_total"), ["method", "route"]);
}
