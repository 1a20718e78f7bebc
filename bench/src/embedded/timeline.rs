//! The timeline records lateness over the time of a measurement for the charts, second by second.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use tickwheel::model::time::Millis;

use crate::{
    chart::{Chart, Curve, Scale},
    generator::histogram,
};

/// The lateness within a stretch of time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stretch {
    /// Its beginning, in seconds from the beginning of the measurement.
    pub(crate) from: i64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) max_ms: f64,
}

/// The lateness of every task, in four bytes each.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    seconds: BTreeMap<i64, Vec<u32>>,
}

impl Timeline {
    /// Notes the lateness of a task under the second of `at`: when it was due, or when it came.
    pub(crate) fn note(&mut self, at: Millis, late_us: i64) {
        let late_us = u32::try_from(late_us.max(0)).unwrap_or(u32::MAX);
        let second = at.0.div_euclid(1000);
        self.seconds.entry(second).or_default().push(late_us);
    }

    /// Returns stretches of so many seconds; empty ones are left out.
    pub(super) fn stretches(&self, seconds: i64) -> Vec<Stretch> {
        let Some(first) = self.seconds.keys().next().copied() else {
            return Vec::new();
        };
        let mut gathered: BTreeMap<i64, Vec<u32>> = BTreeMap::new();
        for (second, late) in &self.seconds {
            let stretch = (second - first).div_euclid(seconds.max(1));
            gathered.entry(stretch).or_default().extend(late);
        }
        let stretch = |(number, mut late): (i64, Vec<u32>)| {
            late.sort_unstable();
            let at = |share: f64| {
                let rank = (late.len() as f64 * share).ceil() as usize;
                let micros = late.get(rank.clamp(1, late.len()) - 1);
                micros.map_or(0.0, |micros| f64::from(*micros) / 1000.0)
            };
            Stretch {
                from: number * seconds,
                p50_ms: at(0.5),
                p99_ms: at(0.99),
                max_ms: at(1.0),
            }
        };
        gathered.into_iter().map(stretch).collect()
    }

    /// Returns the lateness that was noted under the whole seconds of a stretch of time.
    pub(crate) fn between(&self, from: Millis, to: Millis) -> anyhow::Result<Histogram<u64>> {
        let mut lateness = histogram()?;
        // The second in which the stretch begins belongs to the time before.
        let seconds = from.0.div_euclid(1000) + 1..to.0.div_euclid(1000);
        if !seconds.is_empty() {
            for late in self.seconds.range(seconds).flat_map(|(_, late)| late) {
                lateness.saturating_record(u64::from(*late));
            }
        }
        Ok(lateness)
    }

    /// Returns the chart of p50, p99 and greatest lateness by stretches.
    pub(crate) fn chart(&self, name: &str, title: &str, seconds: i64) -> Chart {
        let stretches = self.stretches(seconds);
        let curve = |name: &str, of: fn(&Stretch) -> f64| Curve {
            name: name.to_owned(),
            points: stretches
                .iter()
                .map(|stretch| (stretch.from as f64, of(stretch)))
                .collect(),
        };
        let curves = vec![
            curve("greatest", |stretch| stretch.max_ms),
            curve("p99", |stretch| stretch.p99_ms),
            curve("p50", |stretch| stretch.p50_ms),
        ];
        Chart::over_time(name, title, ("ms late", Scale::Log), curves)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_gathered_to_stretches_and_ranked() {
        let mut timeline = Timeline::default();
        for index in 0..100_i64 {
            timeline.note(Millis(5_000 + index * 20), (index + 1) * 1000);
        }
        timeline.note(Millis(9_999), 7_000);
        let stretches = timeline.stretches(2);
        let seen: Vec<(i64, f64)> = stretches.iter().map(|s| (s.from, s.p50_ms)).collect();
        assert_eq!(seen, [(0, 50.0), (4, 7.0)]);
        let first = stretches[0];
        assert_eq!(
            (first.p50_ms, first.p99_ms, first.max_ms),
            (50.0, 99.0, 100.0)
        );
    }
}
