//! The rule that no order is drawn at random where the simulation runs the service: a seed is to give the same run twice.
//!
//! `select!` without `biased` begins with a random branch, and a `watch` channel spreads its waiters over shards at random. The
//! order of a hash map is random as well; a search of lines cannot tell whether it matters, so the seeds check that.

use super::{Source, code, fail_if_any, is_code, is_test, rust, sources};

/// The rooms that seeds run.
const ROOMS: [&str; 5] = [
    "src/doubles/queue/",
    "src/doubles/store/",
    "src/flow/",
    "src/time_source/",
    "src/wake.rs",
];

#[test]
fn no_order_is_drawn_at_random() {
    let checked = sources(|path| {
        let runs = ROOMS.iter().any(|room| path.starts_with(room));
        runs && rust(path) && !is_test(path)
    });
    fail_if_any(&checked.iter().flat_map(draws).collect::<Vec<_>>());
}

fn draws(Source { path, text }: &Source) -> Vec<String> {
    let lines: Vec<(usize, &str)> = code(text).filter(is_code).collect();
    let mut findings = Vec::new();
    for (place, (number, line)) in lines.iter().enumerate() {
        let next = lines.get(place + 1).map_or("", |(_, next)| next.trim());
        if line.contains("select! {") && next != "biased;" {
            findings.push(format!("{path}:{number}: say `biased` first in `select!`"));
        }
        if line.contains("watch::") || line.contains("sync::watch") {
            findings.push(format!("{path}:{number}: `crate::wake` wakes in order"));
        }
    }
    findings
}

#[test]
fn random_orders_are_found() {
    let found = |text: &str| {
        let (path, text) = ("a.rs".to_owned(), text.to_owned());
        draws(&Source { path, text }).len()
    };
    assert_eq!(found("select! {\n    biased;\n    () = a => {}\n}"), 0);
    assert_eq!(found("select! {\n    // A reason.\n    biased;\n}"), 0);
    assert_eq!(found("    tokio::select! {\n        () = a => {}\n}"), 1);
    assert_eq!(found("use tokio::sync::watch;\nx: watch::Sender<u64>,"), 2);
}
