//! The lines of a report carry single results to the table for people and to the JSON lines for programs.

use serde::Serialize;

use crate::{
    chart::Chart,
    check::Check,
    report::{setting::Setting, table},
};

/// The resources that a measurement took.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Costs {
    /// The number by which the table divides the times: tasks or requests; 0 when there were none.
    pub(crate) items: u64,
    pub(crate) wall_seconds: f64,
    pub(crate) service_cpu_seconds: f64,
    pub(crate) client_cpu_seconds: f64,
    pub(crate) resident_mib: u64,
    pub(crate) peak_mib: u64,
    /// Load average at its end.
    pub(crate) load: String,
}

/// One line of the result.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Line {
    /// One measurement of a throughput.
    Rate {
        case: &'static str,
        round: u32,
        per_second: f64,
        #[serde(flatten)]
        check: Check,
    },
    /// All measurements of a throughput.
    Rates {
        case: &'static str,
        rounds: usize,
        min: f64,
        median: f64,
        max: f64,
    },
    /// Two throughputs of the same rounds; min, median and max over the rounds.
    Ratio {
        case: &'static str,
        of: String,
        min: f64,
        median: f64,
        max: f64,
        aim: f64,
    },
    /// A distribution of times, in milliseconds.
    Times {
        case: String,
        p50: f64,
        p99: f64,
        p999: f64,
        max: f64,
        #[serde(flatten)]
        check: Check,
    },
    /// The costs of a measurement.
    Costs {
        case: String,
        #[serde(flatten)]
        costs: Costs,
    },
    /// One figure.
    Figure {
        case: String,
        value: f64,
        unit: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        aim: Option<f64>,
    },
    /// A promise that was broken; it fails the run.
    Fault { text: String },
    /// A drawn chart, point by point.
    Chart(Chart),
    /// A peer that is compared, and what it promises.
    PeerSetting(Setting),
    /// One measurement of a peer.
    Peer(table::Figure),
    /// A setting that was found by trying, or another text without a figure.
    Note { text: String },
}

/// Returns the text of a line while the run goes on.
pub(super) fn text(line: &Line) -> Option<String> {
    match line {
        Line::Rate {
            case,
            round,
            per_second,
            check,
        } => Some(format!("{case} round {round}: {per_second:.0}/s {check:?}")),
        Line::Times {
            case,
            p50,
            p99,
            check,
            ..
        } => Some(format!("{case}: p50 {p50:.1} p99 {p99:.1} ms {check:?}")),
        Line::Note { text } => Some(text.clone()),
        Line::Costs { case, costs } => Some(format!("{case}: {costs:?}")),
        Line::Figure {
            case, value, unit, ..
        } => Some(format!("{case}: {value:.2} {unit}")),
        Line::Fault { text } => Some(format!("FAULT: {text}")),
        Line::Rates { .. } | Line::Ratio { .. } | Line::Chart(_) | Line::PeerSetting(_) => None,
        Line::Peer(figure) => Some(figure.to_string()),
    }
}
