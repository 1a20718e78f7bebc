//! The table of metrics describes every metric for operators: name, kind, labels, meaning.
//!
//! Tests make sure that it has exactly the metrics that are recorded, and that `docs/metrics.md` tells the same.

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

pub use super::{
    catalogue::METRICS,
    metric::{Kind, Metric},
};

/// Tells the recorder about every metric.
pub fn describe() {
    for metric in METRICS.iter().filter(|metric| !metric.is_of_the_process()) {
        let unit = if metric.name.ends_with("_seconds") {
            Unit::Seconds
        } else {
            Unit::Count
        };
        match metric.kind {
            Kind::Counter => describe_counter!(metric.name, unit, metric.help),
            Kind::Gauge => describe_gauge!(metric.name, unit, metric.help),
            Kind::Histogram => describe_histogram!(metric.name, unit, metric.help),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::*;

    #[test]
    fn names_are_unique_and_end_as_their_kind_demands() {
        let names: BTreeSet<_> = METRICS.iter().map(|m| m.name).collect();
        assert_eq!(names.len(), METRICS.len());
        for metric in METRICS {
            let own = metric.name.starts_with("tickwheel_");
            assert!(own || metric.is_of_the_process(), "{}", metric.name);
            let is_total = metric.name.ends_with("_total");
            assert_eq!(is_total, metric.kind == Kind::Counter, "{}", metric.name);
            let is_seconds = metric.name.ends_with("_seconds");
            assert!(
                is_seconds || metric.kind != Kind::Histogram,
                "{}",
                metric.name
            );
        }
    }

    #[test]
    fn the_table_holds_what_the_code_records_and_nothing_else() {
        let own = METRICS.iter().filter(|metric| !metric.is_of_the_process());
        let known: BTreeSet<_> = own.map(|m| m.name.to_owned()).collect();
        let mut used = BTreeSet::new();
        let source = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src"));
        collect(source, &mut used);
        assert!(!used.is_empty());
        let missing: Vec<_> = used.difference(&known).collect();
        assert!(missing.is_empty(), "not in the table: {missing:?}");
        let unused: Vec<_> = known.difference(&used).collect();
        assert!(unused.is_empty(), "never recorded: {unused:?}");
    }

    /// Finds the names in `counter!("...`, `gauge!("...` and `histogram!("...`.
    fn collect(folder: &Path, names: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, names);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                for macro_name in ["counter!(", "gauge!(", "histogram!("] {
                    for after in text.split(macro_name).skip(1) {
                        let name = after.trim_start().strip_prefix('"');
                        if let Some(name) = name.filter(|n| n.starts_with("tickwheel_")) {
                            names.insert(name.split('"').next().unwrap().to_owned());
                        }
                    }
                }
            }
        }
    }
}
