//! A metric describes itself to operators: name, kind, labels, meaning.

/// The behaviour of a metric over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts values by size.
    Histogram,
}

/// One metric.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Its name; ends in its unit.
    pub name: &'static str,
    /// Its behaviour over time.
    pub kind: Kind,
    /// Its labels; each has a bounded set of values.
    pub labels: &'static [&'static str],
    /// Its meaning.
    pub help: &'static str,
}

impl Metric {
    /// Tells whether it is one that every program shows for Prometheus; `process.rs` writes these.
    #[must_use]
    pub fn is_of_the_process(&self) -> bool {
        self.name.starts_with("process_")
    }
}

impl Kind {
    /// Returns its name as Prometheus has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A counter.
pub(super) const fn counter(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Metric {
    Metric {
        name,
        kind: Kind::Counter,
        labels,
        help,
    }
}

/// A gauge.
pub(super) const fn gauge(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Metric {
    Metric {
        name,
        kind: Kind::Gauge,
        labels,
        help,
    }
}

/// A histogram of seconds.
pub(super) const fn seconds(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Metric {
    Metric {
        name,
        kind: Kind::Histogram,
        labels,
        help,
    }
}
