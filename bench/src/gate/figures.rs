//! The figures of all rounds of a scenario become, for the reader of the gate, a line with both ratios and a verdict.

use super::{
    judge::{Estimate, Verdict, median},
    round::Round,
    scenarios::Scenario,
};

/// The values of the rounds of a scenario, one for each.
#[derive(Debug)]
pub(super) struct Figures {
    pub(super) scenario: Scenario,
    /// CPU a task of the changed program, divided by that of the base.
    cpu: Vec<f64>,
    /// The same of tasks a second; empty where the rate is fixed.
    rate: Vec<f64>,
    /// Microseconds of CPU a task of the base.
    base_us: Vec<f64>,
    /// Tasks a second of the base.
    base_rate: Vec<f64>,
}

impl Figures {
    pub(super) const fn of(scenario: Scenario) -> Self {
        Self {
            scenario,
            cpu: Vec::new(),
            rate: Vec::new(),
            base_us: Vec::new(),
            base_rate: Vec::new(),
        }
    }

    /// Adds rounds.
    pub(super) fn add(&mut self, rounds: &[Round]) {
        for round in rounds {
            let (tasks, took) = (round.tasks as f64, round.took[0].as_secs_f64());
            let of = |value: f64| value.is_finite().then_some(value);
            self.cpu.extend(of(ratio(round.cpu[1], round.cpu[0])));
            let seconds = round.cpu[0].as_secs_f64();
            self.base_us.extend(of(seconds * 1e6 / tasks));
            // The faster one took less time for the same tasks.
            self.rate.extend(of(ratio(round.took[0], round.took[1])));
            self.base_rate.extend(of(tasks / took));
        }
    }

    pub(super) fn cpu(&self) -> Option<Estimate> {
        Estimate::of(&self.cpu)
    }

    /// Tells whether more rounds would change little.
    pub(super) fn is_done(&self) -> bool {
        self.cpu().is_some_and(Estimate::is_narrow)
    }

    pub(super) fn verdict(&self) -> Verdict {
        self.cpu().map_or(Verdict::CannotTell, Estimate::verdict)
    }

    /// Returns its line of the table.
    pub(super) fn line(&self, name: &str) -> String {
        let Some(cpu) = self.cpu() else {
            return format!("{name:<10} was not measured");
        };
        let rate = Estimate::of(&self.rate).map_or_else(|| "fixed".to_owned(), Estimate::text);
        let base_us = median(&self.base_us).unwrap_or_default();
        let base_rate = median(&self.base_rate).map_or(String::new(), |rate| format!("{rate:.0}"));
        format!(
            "{name:<10}{:>6}{base_us:>12.2}  {:<16}{:<14}{base_rate:>10}  {rate:<16}  {}",
            self.cpu.len(),
            cpu.text(),
            cpu.quartiles_text(),
            self.verdict().text(cpu)
        )
    }
}

/// The head of the table.
pub(super) fn head() -> String {
    format!(
        "{:<10}{:>6}{:>12}  {:<16}{:<14}{:>10}  {:<16}  verdict",
        "scenario", "rounds", "us a task", "CPU ratio", "quartiles", "tasks/s", "rate ratio"
    )
}

fn ratio(of: std::time::Duration, to: std::time::Duration) -> f64 {
    of.as_secs_f64() / to.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn round(base_ms: u64, changed_ms: u64) -> Round {
        Round {
            tasks: 1000,
            cpu: [base_ms, changed_ms].map(Duration::from_millis),
            took: [changed_ms, base_ms].map(Duration::from_millis),
        }
    }

    #[test]
    fn the_middle_of_the_rounds_counts_whatever_the_speed_of_each() {
        let mut figures = Figures::of(Scenario::Life);
        // The second round is twice as slow for both, the third was disturbed.
        figures.add(&[round(100, 110), round(200, 220), round(100, 300)]);
        let cpu = figures.cpu().unwrap();
        assert!((cpu.median - 1.1).abs() < 1e-9);
        assert!((figures.rate[0] - 1.1).abs() < 1e-9);
        assert!((figures.base_us[0] - 100.0).abs() < 1e-9);
        assert_eq!(figures.verdict(), Verdict::CannotTell);
        assert!(!figures.is_done());
        figures.add(&[round(100, 110); 13]);
        assert_eq!(figures.verdict(), Verdict::Worse);
        assert!(figures.is_done());
    }

    #[test]
    fn a_fixed_rate_has_no_ratio() {
        let mut figures = Figures::of(Scenario::Steady);
        let took = [Duration::ZERO; 2];
        figures.add(&[Round {
            took,
            ..round(10, 10)
        }]);
        assert!(figures.rate.is_empty() && figures.base_rate.is_empty());
        assert!(figures.line("steady").contains("fixed"));
    }
}
