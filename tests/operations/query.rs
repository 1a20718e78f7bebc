//! The reader of queries finds the metrics and labels in an expression of Prometheus, as far as rules and boards here need it.

use std::collections::BTreeSet;

use super::Known;

/// Labels that Prometheus adds, and that of the buckets of histograms.
const ADDED: [&str; 4] = ["job", "instance", "le", "__name__"];

/// A metric that every scrape has.
const UP: &str = "up";

/// Returns what is wrong with a query: metrics or labels that do not exist.
pub(super) fn faults(query: &str, known: &Known) -> Vec<String> {
    let mut faults = Vec::new();
    let mut labels: BTreeSet<&str> = ADDED.into_iter().collect();
    let metrics = metrics(query);
    if metrics.is_empty() {
        faults.push("it names no metric".to_owned());
    }
    for (name, matched) in &metrics {
        if *name == UP {
            continue;
        }
        let Some(own) = labels_of(name, known) else {
            faults.push(format!("there is no metric `{name}`"));
            continue;
        };
        labels.extend(own.iter().map(String::as_str));
        for label in matched {
            if !own.contains(*label) && !ADDED.contains(label) {
                faults.push(format!("`{name}` has no label `{label}`"));
            }
        }
    }
    for label in grouped(query) {
        if !labels.contains(label) {
            faults.push(format!("no metric of it has the label `{label}`"));
        }
    }
    faults
}

/// The labels of a metric, by the name of one of its series.
fn labels_of<'a>(name: &str, known: &'a Known) -> Option<&'a BTreeSet<String>> {
    let series = |end| {
        let (kind, labels) = known.get(name.strip_suffix(end)?)?;
        (kind == "histogram").then_some(labels)
    };
    match known.get(name) {
        // A histogram has no series of its plain name.
        Some((kind, labels)) => (kind != "histogram").then_some(labels),
        None => ["_bucket", "_sum", "_count"].into_iter().find_map(series),
    }
}

/// The metrics of a query, each with the labels that it is matched by.
fn metrics(query: &str) -> Vec<(&str, Vec<&str>)> {
    let mut found = Vec::new();
    let mut rest = query;
    while let Some(at) = rest.find(|c: char| c.is_ascii_alphabetic()) {
        let word = &rest[at..];
        let end = word
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(word.len());
        let (name, after) = word.split_at(end);
        let is_metric =
            name.starts_with("tickwheel_") || name.starts_with("process_") || name == UP;
        let matchers = after
            .strip_prefix('{')
            .and_then(|text| text.split_once('}'));
        match matchers {
            Some((matchers, after)) if is_metric => {
                let labels = matchers
                    .split(',')
                    .map(|one| one.split(['=', '!']).next().unwrap().trim());
                found.push((name, labels.filter(|label| !label.is_empty()).collect()));
                rest = after;
            }
            _ => {
                if is_metric {
                    found.push((name, Vec::new()));
                }
                rest = after;
            }
        }
    }
    found
}

/// The labels that a query groups or joins by.
fn grouped(query: &str) -> Vec<&str> {
    let parts = query
        .split([' ', '\n'])
        .zip(query.split([' ', '\n']).skip(1));
    let lists = parts.filter(|(word, _)| ["by", "on", "without"].contains(word));
    let starts = lists.map(|(_, list)| list.as_ptr() as usize - query.as_ptr() as usize);
    let texts = starts.filter_map(|start| query[start..].strip_prefix('(')?.split(')').next());
    texts
        .flat_map(|text| text.split(','))
        .map(str::trim)
        .collect()
}

#[test]
fn what_does_not_exist_is_found() {
    let labels = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let known: Known = [
        (
            "tickwheel_a_total".to_owned(),
            ("counter".to_owned(), labels(&["callback"])),
        ),
        (
            "tickwheel_b_seconds".to_owned(),
            ("histogram".to_owned(), labels(&[])),
        ),
    ]
    .into();
    let cases = [
        (
            "sum by (job, callback) (rate(tickwheel_a_total{callback=\"x\"}[5m]))",
            0,
        ),
        (
            "histogram_quantile(0.9, sum by (le) (rate(tickwheel_b_seconds_bucket[5m])))",
            0,
        ),
        ("up{job=\"tickwheel\"} == 0", 0),
        ("rate(tickwheel_c_total[5m])", 1),
        ("tickwheel_b_seconds > 1", 1),
        ("tickwheel_a_total{outcome=\"dead\"}", 1),
        ("sum by (outcome) (tickwheel_a_total)", 1),
        ("tickwheel_a_total and on (node) up", 1),
        ("1 + 1", 1),
    ];
    for (query, expected) in cases {
        let found = faults(query, &known);
        assert_eq!(found.len(), expected, "{query}: {found:?}");
    }
}
