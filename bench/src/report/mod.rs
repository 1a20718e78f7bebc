//! The report writes results in one format: a table for people, JSON lines for programs.

mod lines;
pub(crate) mod setting;
pub(crate) mod table;

use std::{
    fs::File,
    io::{BufWriter, Write as _},
    path::Path,
};

use hdrhistogram::Histogram;

pub(crate) use self::lines::{Costs, Line};
use self::{lines::text, setting::Setting};
use crate::{chart::Chart, check::Check};

/// All measurements of a run.
#[derive(Debug, Default)]
pub(crate) struct Report {
    lines: Vec<Line>,
}

impl Report {
    pub(crate) fn rate(&mut self, case: &'static str, round: u32, per_second: f64, check: Check) {
        self.add(Line::Rate {
            case,
            round,
            per_second,
            check,
        });
    }

    pub(crate) fn note(&mut self, text: String) {
        self.add(Line::Note { text });
    }

    pub(crate) fn figure(&mut self, case: String, value: f64, unit: &'static str) {
        self.add(Line::Figure {
            case,
            value,
            unit,
            aim: None,
        });
    }

    /// Adds a figure that has an aim.
    pub(crate) fn aimed(&mut self, case: String, value: f64, unit: &'static str, aim: f64) {
        self.add(Line::Figure {
            case,
            value,
            unit,
            aim: Some(aim),
        });
    }

    /// Adds a broken promise: the run fails.
    pub(crate) fn fault(&mut self, text: String) {
        self.add(Line::Fault { text });
    }

    pub(crate) fn chart(&mut self, chart: Chart) {
        self.add(Line::Chart(chart));
    }

    pub(crate) fn costs(&mut self, case: String, costs: Costs) {
        self.add(Line::Costs { case, costs });
    }

    pub(crate) fn peer_setting(&mut self, setting: Setting) {
        self.add(Line::PeerSetting(setting));
    }

    pub(crate) fn peer(&mut self, figure: table::Figure) {
        self.add(Line::Peer(figure));
    }

    /// Adds a distribution that was recorded in microseconds.
    pub(crate) fn times(&mut self, case: String, micros: &Histogram<u64>, check: Check) {
        let at = |quantile| micros.value_at_quantile(quantile) as f64 / 1000.0;
        self.add(Line::Times {
            case,
            p50: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
            max: micros.max() as f64 / 1000.0,
            check,
        });
    }

    fn add(&mut self, line: Line) {
        if let Some(text) = text(&line) {
            // A closed standard error loses the progress, not the result.
            writeln!(std::io::stderr().lock(), "{text}").unwrap_or_default();
        }
        self.lines.push(line);
    }

    /// Returns the throughput of a case by round.
    fn rounds(&self, wanted: &str) -> Vec<(u32, f64)> {
        let of = |line: &Line| match line {
            Line::Rate {
                case,
                round,
                per_second,
                ..
            } if *case == wanted => Some((*round, *per_second)),
            _ => None,
        };
        self.lines.iter().filter_map(of).collect()
    }

    /// Adds the summary of a case, if it was measured.
    pub(crate) fn summarize(&mut self, case: &'static str) {
        let mut values: Vec<f64> = self.rounds(case).into_iter().map(|(_, v)| v).collect();
        if let Some((min, median, max)) = spread(&mut values) {
            self.lines.push(Line::Rates {
                case,
                rounds: values.len(),
                min,
                median,
                max,
            });
        }
    }

    /// Adds the ratio of a case to the slowest of others in the same round, if all were measured.
    pub(crate) fn ratio(&mut self, case: &'static str, of: &[&'static str], aim: f64) {
        let mut ratios = Vec::new();
        for (round, value) in self.rounds(case) {
            let others = of.iter().filter_map(|other| {
                let rounds = self.rounds(other);
                rounds.into_iter().find(|(n, _)| *n == round)
            });
            let others: Vec<f64> = others.map(|(_, value)| value).collect();
            if others.len() == of.len() {
                ratios.push(value / others.into_iter().fold(f64::INFINITY, f64::min));
            }
        }
        if let Some((min, median, max)) = spread(&mut ratios) {
            self.lines.push(Line::Ratio {
                case,
                of: of.join(" and "),
                min,
                median,
                max,
                aim,
            });
        }
    }

    /// Tells whether no task was lost or came out early, and no other promise was broken.
    pub(crate) fn is_sound(&self) -> bool {
        self.lines.iter().all(|line| match line {
            Line::Rate { check, .. } | Line::Times { check, .. } => {
                check.lost == 0 && check.early == 0
            }
            Line::Peer(figure) => figure.is_sound(),
            Line::Fault { .. } => false,
            Line::Rates { .. }
            | Line::Ratio { .. }
            | Line::Costs { .. }
            | Line::Figure { .. }
            | Line::Chart(_)
            | Line::PeerSetting(_)
            | Line::Note { .. } => true,
        })
    }

    /// Prints the summary.
    pub(crate) fn print(&self) -> anyhow::Result<()> {
        let mut out = std::io::stdout().lock();
        if let Some(comparison) = self.comparison() {
            comparison.print(&mut out)?;
            self.print_costs(&mut out)?;
            return self.print_checks(&mut out);
        }
        writeln!(
            out,
            "\n{:<34} {:>9} {:>9} {:>9}",
            "throughput, per second", "min", "median", "max"
        )?;
        for line in &self.lines {
            if let Line::Rates {
                case,
                min,
                median,
                max,
                ..
            } = line
            {
                writeln!(out, "{case:<34} {min:>9.0} {median:>9.0} {max:>9.0}")?;
            }
        }
        self.print_ratios(&mut out)?;
        self.print_times(&mut out)?;
        self.print_figures(&mut out)?;
        self.print_costs(&mut out)?;
        self.print_checks(&mut out)
    }

    /// Returns the measurements of peers, if there are any.
    fn comparison(&self) -> Option<table::Comparison<'_>> {
        let mut comparison = table::Comparison::default();
        for line in &self.lines {
            match line {
                Line::PeerSetting(setting) => comparison.settings.push(setting),
                Line::Peer(figure) => comparison.figures.push(figure),
                _ => {}
            }
        }
        (!comparison.settings.is_empty()).then_some(comparison)
    }

    fn print_ratios(&self, out: &mut impl std::io::Write) -> anyhow::Result<()> {
        if !self
            .lines
            .iter()
            .any(|line| matches!(line, Line::Ratio { .. }))
        {
            return Ok(());
        }
        writeln!(
            out,
            "\n{:<34} {:>9} {:>9} {:>9} {:>5}  of the slower of",
            "ratio, by round", "min", "median", "max", "aim"
        )?;
        for line in &self.lines {
            if let Line::Ratio {
                case,
                of,
                min,
                median,
                max,
                aim,
            } = line
            {
                writeln!(
                    out,
                    "{case:<34} {min:>9.2} {median:>9.2} {max:>9.2} {aim:>5.2}  {of}"
                )?;
            }
        }
        Ok(())
    }

    fn print_times(&self, out: &mut impl std::io::Write) -> anyhow::Result<()> {
        writeln!(
            out,
            "\n{:<46} {:>8} {:>8} {:>8} {:>8} {:>8} {:>5}",
            "times, ms", "p50", "p99", "p99.9", "max", "tasks", "twice"
        )?;
        for line in &self.lines {
            if let Line::Times {
                case,
                p50,
                p99,
                p999,
                max,
                check,
            } = line
            {
                let (tasks, twice) = (check.tasks, check.duplicates);
                writeln!(
                    out,
                    "{case:<46} {p50:>8.1} {p99:>8.1} {p999:>8.1} {max:>8.1} {tasks:>8} {twice:>5}"
                )?;
            }
        }
        Ok(())
    }

    fn print_figures(&self, out: &mut impl std::io::Write) -> anyhow::Result<()> {
        let mut head = Some("\nfigures");
        for line in &self.lines {
            let Line::Figure {
                case,
                value,
                unit,
                aim,
            } = line
            else {
                continue;
            };
            if let Some(head) = head.take() {
                writeln!(out, "{head}")?;
            }
            let aim = aim.map_or_else(String::new, |aim| format!(" (aim {aim})"));
            writeln!(out, "{case:<60} {value:>12.2} {unit}{aim}")?;
        }
        Ok(())
    }

    fn print_costs(&self, out: &mut impl std::io::Write) -> anyhow::Result<()> {
        let mut head = Some("\ncosts: CPU, memory in MiB, load");
        for line in &self.lines {
            let Line::Costs { case, costs } = line else {
                continue;
            };
            if let Some(head) = head.take() {
                writeln!(
                    out,
                    "{head:<47} {:>8} {:>9} {:>9} {:>8} {:>6} {:>6}",
                    "cores", "us/item", "client us", "resident", "peak", "load"
                )?;
            }
            let item = |seconds: f64| seconds * 1e6 / costs.items.max(1) as f64;
            let each = |seconds| match costs.items {
                0 => "-".to_owned(),
                _ => format!("{:.1}", item(seconds)),
            };
            let cores = costs.service_cpu_seconds / costs.wall_seconds;
            let (service, client) = (
                each(costs.service_cpu_seconds),
                each(costs.client_cpu_seconds),
            );
            let (resident, peak, load) = (costs.resident_mib, costs.peak_mib, &costs.load);
            writeln!(
                out,
                "{case:<46} {cores:>8.3} {service:>9} {client:>9} {resident:>8} {peak:>6} {load:>6}"
            )?;
        }
        Ok(())
    }

    /// Prints the results of the checks of all tasks, over all scenarios.
    fn print_checks(&self, out: &mut impl std::io::Write) -> anyhow::Result<()> {
        let (mut tasks, mut lost, mut early, mut twice) = (0, 0, 0, 0);
        for line in &self.lines {
            if let Line::Rate { check, .. }
            | Line::Times { check, .. }
            | Line::Peer(table::Figure { check, .. }) = line
            {
                tasks += check.tasks;
                lost += check.lost;
                early += check.early;
                twice += check.duplicates;
            }
        }
        writeln!(
            out,
            "\n{tasks} tasks checked: {lost} lost, {early} early, {twice} duplicates"
        )?;
        for line in &self.lines {
            if let Line::Fault { text } = line {
                writeln!(out, "FAULT: {text}")?;
            }
        }
        Ok(())
    }

    /// Draws every chart into a folder.
    pub(crate) fn write_charts(&self, folder: &Path) -> anyhow::Result<()> {
        std::fs::create_dir_all(folder)?;
        self.lines.iter().try_for_each(|line| match line {
            Line::Chart(chart) => chart.write(folder),
            _ => Ok(()),
        })
    }

    /// Writes every line as JSON.
    pub(crate) fn write_json(&self, path: &Path) -> anyhow::Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        for line in &self.lines {
            serde_json::to_writer(&mut file, line)?;
            writeln!(file)?;
        }
        Ok(file.flush()?)
    }
}

/// Returns least, middle and greatest.
fn spread(values: &mut [f64]) -> Option<(f64, f64, f64)> {
    values.sort_by(f64::total_cmp);
    // Of an even number, the mean of the two in the middle.
    let (low, high) = (
        values.get(values.len().checked_sub(1)? / 2)?,
        values.get(values.len() / 2)?,
    );
    let median = f64::midpoint(*low, *high);
    Some((*values.first()?, median, *values.last()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_compares_within_rounds_and_with_the_slowest() {
        let mut report = Report::default();
        for (round, ours, scan, publish) in [(1, 80.0, 100.0, 200.0), (2, 80.0, 400.0, 160.0)] {
            report.rate("ours", round, ours, Check::default());
            report.rate("scan", round, scan, Check::default());
            report.rate("publish", round, publish, Check::default());
        }
        report.ratio("ours", &["scan", "publish"], 0.7);
        report.ratio("ours", &["scan", "not measured"], 0.7);
        let ratios: Vec<(f64, f64)> = report
            .lines
            .iter()
            .filter_map(|line| match line {
                Line::Ratio { min, max, .. } => Some((*min, *max)),
                _ => None,
            })
            .collect();
        assert_eq!(ratios, [(0.5, 0.8)]);
    }

    #[test]
    fn a_lost_or_early_task_makes_the_run_unsound() {
        let of = |lost, early| {
            let mut report = Report::default();
            let check = Check {
                lost,
                early,
                ..Check::default()
            };
            report.rate("x", 1, 1.0, check);
            report.is_sound()
        };
        assert!(of(0, 0));
        assert!(!of(1, 0));
        assert!(!of(0, 1));
    }

    #[test]
    fn a_broken_promise_makes_the_run_unsound() {
        let mut report = Report::default();
        report.aimed("x".to_owned(), 1.0, "s", 2.0);
        assert!(report.is_sound());
        report.fault("two of a key".to_owned());
        assert!(!report.is_sound());
    }
}
