//! The pages, rules and boards for operators tell the same as the service: names, kinds and labels of metrics, sections of the
//! runbook, and commands.

mod boards;
mod commands;
mod page;
mod query;
mod rules;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use tickwheel::telemetry::table::METRICS;

/// Metrics by name, each with its kind and its labels.
pub(crate) type Known = BTreeMap<String, (String, BTreeSet<String>)>;

/// Reads a file of the project.
fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The metrics as the code has them.
fn registered() -> Known {
    let metrics = METRICS.iter().map(|metric| {
        let labels = metric.labels.iter().map(|label| (*label).to_owned());
        let told = (metric.kind.name().to_owned(), labels.collect());
        (metric.name.to_owned(), told)
    });
    metrics.collect()
}
