//! The table compares the figures of this service with those of each peer for readers of the results.

use std::{fmt, io::Write};

use hdrhistogram::Histogram;
use serde::Serialize;

use super::setting::Setting;
use crate::check::Check;

/// A measured value.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "measure", rename_all = "snake_case")]
pub(crate) enum Value {
    /// Tasks a second.
    Rate { per_second: f64 },
    /// From due time to received, in milliseconds.
    Lateness {
        p50: f64,
        p99: f64,
        p999: f64,
        max: f64,
    },
    /// Of each pending task, and of all processes of the peer together.
    Pending {
        memory_bytes: f64,
        disk_bytes: f64,
        process_mib: f64,
    },
    /// It failed, with the reason.
    Failed { why: String },
}

/// One measurement of a peer.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Figure {
    pub(crate) case: String,
    pub(crate) peer: &'static str,
    #[serde(skip)]
    own: bool,
    pub(crate) round: u32,
    #[serde(flatten)]
    pub(crate) value: Value,
    #[serde(flatten)]
    pub(crate) check: Check,
}

impl Figure {
    pub(crate) fn new(case: &str, setting: &Setting, round: u32, value: Value) -> Self {
        Self {
            case: case.to_owned(),
            peer: setting.name,
            own: setting.is_own(),
            round,
            value,
            check: Check::default(),
        }
    }

    pub(crate) fn failed(case: &str, setting: &Setting, round: u32, error: &anyhow::Error) -> Self {
        let why = format!("{error:#}");
        Self::new(case, setting, round, Value::Failed { why })
    }

    pub(crate) fn checked(mut self, check: Check) -> Self {
        self.check = check;
        self
    }

    /// Tells whether it was measured, and no task was lost or early.
    pub(crate) fn is_sound(&self) -> bool {
        !matches!(self.value, Value::Failed { .. }) && self.check.lost + self.check.early == 0
    }

    /// Returns the figure that is compared; a failure has none.
    fn compared(&self) -> Option<f64> {
        match self.value {
            Value::Rate { per_second } => Some(per_second),
            Value::Lateness { p99, .. } => Some(p99),
            Value::Pending { memory_bytes, .. } => Some(memory_bytes),
            Value::Failed { .. } => None,
        }
    }
}

impl Value {
    /// Takes the values from a distribution of microseconds.
    pub(crate) fn lateness(micros: &Histogram<u64>) -> Self {
        let at = |quantile| micros.value_at_quantile(quantile) as f64 / 1000.0;
        Self::Lateness {
            p50: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
            max: micros.max() as f64 / 1000.0,
        }
    }

    fn head(&self) -> &'static str {
        match self {
            Self::Rate { .. } => "per second",
            Self::Lateness { .. } => "p50 / p99 / p99.9 / max ms",
            Self::Pending { .. } => "RAM / disk bytes each, MiB in all",
            Self::Failed { .. } => "failed",
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate { per_second } => write!(f, "{per_second:.0}"),
            Self::Lateness {
                p50,
                p99,
                p999,
                max,
            } => write!(f, "{p50:.1} / {p99:.1} / {p999:.1} / {max:.1}"),
            Self::Pending {
                memory_bytes,
                disk_bytes,
                process_mib,
            } => write!(f, "{memory_bytes:.0} / {disk_bytes:.0}, {process_mib:.0}"),
            Self::Failed { .. } => f.write_str("failed"),
        }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (case, peer, round) = (&self.case, self.peer, self.round);
        if let Value::Failed { why } = &self.value {
            return write!(f, "{case}, {peer} round {round}: {why}");
        }
        let (head, value, check) = (self.value.head(), &self.value, self.check);
        write!(
            f,
            "{case}, {peer} round {round}: {value} ({head}) {check:?}"
        )
    }
}

/// All measurements of peers.
#[derive(Debug, Default)]
pub(crate) struct Comparison<'a> {
    pub(crate) settings: Vec<&'a Setting>,
    pub(crate) figures: Vec<&'a Figure>,
}

impl Comparison<'_> {
    /// Prints the promises of peers, and then case after case with every peer's middle round.
    pub(crate) fn print(&self, out: &mut impl Write) -> anyhow::Result<()> {
        writeln!(
            out,
            "\n{:<28} {:<14} {:<18} {:<26} batches",
            "peer, setting", "delivery", "synced at ack", "resolution"
        )?;
        for setting in &self.settings {
            let Setting {
                name,
                delivery,
                synced,
                resolution,
                batches,
                ..
            } = setting;
            writeln!(
                out,
                "{name:<28} {delivery:<14} {synced:<18} {resolution:<26} {batches}"
            )?;
        }
        let mut cases: Vec<&str> = Vec::new();
        for figure in &self.figures {
            if !cases.contains(&figure.case.as_str()) {
                cases.push(&figure.case);
            }
        }
        for case in cases {
            self.print_case(case, out)?;
        }
        Ok(())
    }

    fn print_case(&self, case: &str, out: &mut impl Write) -> anyhow::Result<()> {
        let mut of = self.figures.clone();
        of.retain(|figure| figure.case == case);
        let head = of.iter().map(|figure| figure.value.head());
        let head = head
            .max_by_key(|head| *head != "failed")
            .unwrap_or_default();
        writeln!(
            out,
            "\n{case:<33} {head:>42} {:>14} {:>9} {:>5} {:>5} {:>5}",
            "tickwheel/peer", "tasks", "lost", "early", "twice"
        )?;
        for setting in &self.settings {
            let mut rounds = of.clone();
            rounds.retain(|figure| figure.peer == setting.name);
            let Some(middle) = middle(&rounds) else {
                continue;
            };
            let (peer, value) = (setting.name, middle.value.to_string());
            let ratio = ratio(&of, &rounds).map_or_else(String::new, |ratio| format!("{ratio:.2}"));
            let sum = |part: fn(&Check) -> u64| -> u64 {
                rounds.iter().map(|figure| part(&figure.check)).sum()
            };
            let (tasks, lost) = (sum(|check| check.tasks), sum(|check| check.lost));
            let (early, twice) = (sum(|check| check.early), sum(|check| check.duplicates));
            writeln!(
                out,
                "{peer:<33} {value:>42} {ratio:>14} {tasks:>9} {lost:>5} {early:>5} {twice:>5}"
            )?;
        }
        for figure in of {
            if let Value::Failed { why } = &figure.value {
                writeln!(out, "  {}: {why}", figure.peer)?;
            }
        }
        Ok(())
    }
}

/// Returns the middle round; failed rounds come first in the order.
fn middle<'a>(rounds: &[&'a Figure]) -> Option<&'a Figure> {
    let mut rounds = rounds.to_vec();
    let by = |figure: &&Figure| figure.compared().unwrap_or(f64::NEG_INFINITY);
    rounds.sort_by(|a, b| by(a).total_cmp(&by(b)));
    rounds.get(rounds.len() / 2).copied()
}

/// Returns the middle one of the ratios within rounds.
fn ratio(all: &[&Figure], peer: &[&Figure]) -> Option<f64> {
    let own = |round| all.iter().find(|one| one.own && one.round == round);
    let of = |figure: &&Figure| {
        let own = own(figure.round)?;
        Some(own.compared()? / figure.compared().filter(|value| *value > 0.0)?)
    };
    let mut ratios: Vec<f64> = peer.iter().filter_map(of).collect();
    ratios.sort_by(f64::total_cmp);
    ratios.get(ratios.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{peers::catalogue::chosen, report::setting::Kind};

    #[test]
    fn a_ratio_is_taken_within_a_round() {
        let settings = chosen(&[Kind::Tickwheel, Kind::Redis], &[]);
        let (own, peer) = (&settings[0], &settings[1]);
        let rate = |setting, round, per_second| {
            Figure::new("x", setting, round, Value::Rate { per_second })
        };
        let figures = [
            rate(own, 1, 100.0),
            rate(peer, 1, 50.0),
            rate(own, 2, 10.0),
            rate(peer, 2, 100.0),
            rate(own, 3, 30.0),
            rate(peer, 3, 10.0),
        ];
        let all: Vec<&Figure> = figures.iter().collect();
        let of_peer: Vec<&Figure> = figures.iter().filter(|one| !one.own).collect();
        assert_eq!(ratio(&all, &of_peer), Some(2.0));
        assert_eq!(middle(&of_peer).unwrap().compared(), Some(50.0));
        let why = anyhow::anyhow!("not there");
        let failed = Figure::failed("x", peer, 1, &why);
        assert!(!failed.is_sound());
        assert_eq!(ratio(&all, &[&failed]), None);
    }
}
