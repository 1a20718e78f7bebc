//! The judge decides for the gate from the ratios of all rounds whether a program is worse than another.
//!
//! It is pure. A round gives one ratio, the changed program to the base. The estimate of a figure is the median of the
//! rounds' ratios. Its spread is half the width of the interval that holds the true median at the least in [`LEVEL`] of all
//! cases, whatever the distribution: from one of the ordered ratios to the one that lies as far from the other end.

/// A program is not worse up to this ratio of CPU a task.
const RATIO_MAX: f64 = 1.03;
/// A wider spread allows no judgement.
const SPREAD_MAX: f64 = 0.03;
/// A spread that is as narrow needs no more rounds: a loss of 5 % is then beyond [`RATIO_MAX`] by more than it.
const SPREAD_WANTED: f64 = 0.015;
/// How sure the interval is. A run looks at five scenarios, so at 0.95 every fourth run of a program against itself would
/// show a difference.
const LEVEL: f64 = 0.999;

/// A median with its spread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Estimate {
    pub(super) median: f64,
    /// Half the width of the interval; infinite when there are too few values for one.
    pub(super) spread: f64,
    /// A quarter of the values lie below the first, a quarter above the second.
    quartiles: [f64; 2],
}

/// The outcome for a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    NotWorse,
    Worse,
    CannotTell,
}

impl Estimate {
    /// Returns the estimate from one value for each round; none without values.
    pub(super) fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let median = middle(&sorted)?;
        let ends = outside(sorted.len()).and_then(|out| {
            let high = sorted.get(sorted.len().checked_sub(out + 1)?)?;
            Some(high - sorted.get(out)?)
        });
        Some(Self {
            median,
            spread: ends.map_or(f64::INFINITY, |width| width / 2.0),
            quartiles: [lower(&sorted), upper(&sorted)].map(|half| middle(half).unwrap_or(median)),
        })
    }

    /// Judges by an estimate of CPU a task.
    pub(super) fn verdict(self) -> Verdict {
        if self.spread > SPREAD_MAX {
            Verdict::CannotTell
        } else if self.median <= RATIO_MAX || self.median < RATIO_MAX + self.spread {
            Verdict::NotWorse
        } else {
            Verdict::Worse
        }
    }

    /// Tells whether more rounds would change little.
    pub(super) fn is_narrow(self) -> bool {
        self.spread <= SPREAD_WANTED
    }

    /// Tells whether the programs may be the same.
    pub(super) fn holds_one(self) -> bool {
        (self.median - 1.0).abs() <= self.spread
    }

    /// Says between which values half of the rounds lie.
    pub(super) fn quartiles_text(self) -> String {
        let [low, high] = self.quartiles;
        format!("{low:.3}..{high:.3}")
    }

    /// Says both in words.
    pub(super) fn text(self) -> String {
        if self.spread.is_finite() {
            format!("{:.3} +-{:.1} %", self.median, self.spread * 100.0)
        } else {
            format!("{:.3} +-?", self.median)
        }
    }
}

impl Verdict {
    /// Returns that of a run from those of its scenarios: a loss that was found counts, then what is not known.
    pub(super) fn of_all(verdicts: &[Self]) -> Self {
        if verdicts.contains(&Self::Worse) {
            Self::Worse
        } else if verdicts.contains(&Self::CannotTell) {
            Self::CannotTell
        } else {
            Self::NotWorse
        }
    }

    /// Says it in words, with the reason if there is no judgement.
    pub(super) fn text(self, cpu: Estimate) -> String {
        match self {
            Self::NotWorse if cpu.holds_one() => "not worse, 1 is within the spread".to_owned(),
            Self::NotWorse => "not worse".to_owned(),
            Self::Worse => "worse".to_owned(),
            Self::CannotTell if cpu.spread.is_finite() => format!(
                "cannot tell: a spread of {:.1} % is above {:.0} %, more rounds",
                cpu.spread * 100.0,
                SPREAD_MAX * 100.0
            ),
            Self::CannotTell => "cannot tell: too few rounds for a spread".to_owned(),
        }
    }
}

/// Returns the median; none without values.
pub(super) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    middle(&sorted)
}

fn middle(sorted: &[f64]) -> Option<f64> {
    let high = sorted.get(sorted.len() / 2)?;
    let low = sorted.get(sorted.len().checked_sub(1)? / 2)?;
    Some(f64::midpoint(*low, *high))
}

/// The half of ordered values below the middle, without it.
fn lower(sorted: &[f64]) -> &[f64] {
    sorted.get(..sorted.len() / 2).unwrap_or_default()
}

/// The half of ordered values above the middle, without it.
fn upper(sorted: &[f64]) -> &[f64] {
    sorted.get(sorted.len().div_ceil(2)..).unwrap_or_default()
}

/// Returns how many of so many ordered values may lie outside of the interval on each side; none when all of them
/// are too few. The true median has a value on either side of it with even odds.
fn outside(count: usize) -> Option<usize> {
    let (mut missed, mut ways, mut out) = (0.0, 1.0, None);
    for index in 0..count / 2 {
        missed += 2.0 * ways * 0.5_f64.powi(i32::try_from(count).ok()?);
        if 1.0 - missed < LEVEL {
            break;
        }
        out = Some(index);
        ways *= (count - index) as f64 / (index + 1) as f64;
    }
    out
}

#[cfg(test)]
mod tests {
    use rand::{Rng as _, SeedableRng as _, rngs::SmallRng};

    use super::*;

    fn estimate(median: f64, spread: f64) -> Estimate {
        Estimate {
            median,
            spread,
            quartiles: [median; 2],
        }
    }

    /// Ratios of rounds as machines give them: about a true one, some far off.
    fn ratios(random: &mut SmallRng, rounds: usize, of: f64, noise: f64) -> Vec<f64> {
        let one = |random: &mut SmallRng| {
            let sum: f64 = (0..12).map(|_| random.random::<f64>()).sum();
            let far = if random.random_ratio(1, 20) { 4.0 } else { 1.0 };
            of * (1.0 + (sum - 6.0) * noise * far)
        };
        (0..rounds).map(|_| one(random)).collect()
    }

    #[test]
    fn the_median_is_the_middle_or_between_the_two_middle_ones() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[7.0]), Some(7.0));
        assert_eq!(median(&[]), None);
        assert_eq!(Estimate::of(&[]), None);
    }

    #[test]
    fn the_interval_leaves_out_as_many_as_it_may() {
        // Of n values all lie on one side of the median with odds of 2 to 2^n.
        assert_eq!(outside(0), None);
        assert_eq!(outside(10), None);
        assert_eq!(outside(11), Some(0));
        assert_eq!(outside(12), Some(0));
        assert_eq!(outside(16), Some(1));
        assert_eq!(outside(20), Some(2));
        let values: Vec<f64> = (0..20).map(f64::from).collect();
        let all = Estimate::of(&values).unwrap();
        assert_eq!((all.median, all.spread), (9.5, 7.5));
        assert_eq!(all.quartiles_text(), "4.500..14.500");
        let few = Estimate::of(&values[..10]).unwrap();
        assert_eq!(few.spread, f64::INFINITY);
        assert_eq!(few.verdict(), Verdict::CannotTell);
    }

    #[test]
    fn a_ratio_at_the_bound_is_not_worse_and_one_a_spread_above_it_is() {
        let above = |by: f64| estimate(RATIO_MAX + by, 0.01).verdict();
        assert_eq!(above(0.0), Verdict::NotWorse);
        assert_eq!(above(0.009), Verdict::NotWorse);
        assert_eq!(above(0.01), Verdict::Worse);
        assert_eq!(estimate(RATIO_MAX, 0.0).verdict(), Verdict::NotWorse);
        assert_eq!(estimate(RATIO_MAX + 1e-9, 0.0).verdict(), Verdict::Worse);
        assert_eq!(estimate(0.5, 0.01).verdict(), Verdict::NotWorse);
    }

    #[test]
    fn a_spread_at_its_bound_is_judged_and_a_wider_one_is_not() {
        assert_eq!(estimate(1.0, SPREAD_MAX).verdict(), Verdict::NotWorse);
        assert_eq!(estimate(2.0, SPREAD_MAX).verdict(), Verdict::Worse);
        let wide = SPREAD_MAX + 1e-9;
        assert_eq!(estimate(1.0, wide).verdict(), Verdict::CannotTell);
        assert_eq!(estimate(2.0, wide).verdict(), Verdict::CannotTell);
        assert!(estimate(1.0, SPREAD_WANTED).is_narrow());
        assert!(!estimate(1.0, SPREAD_WANTED + 1e-9).is_narrow());
    }

    #[test]
    fn a_loss_counts_before_what_is_not_known() {
        let of = Verdict::of_all;
        let (good, bad, open) = (Verdict::NotWorse, Verdict::Worse, Verdict::CannotTell);
        assert_eq!(of(&[good, open, bad]), bad);
        assert_eq!(of(&[good, open]), open);
        assert_eq!(of(&[good, good]), good);
    }

    #[test]
    fn a_program_against_itself_has_one_within_its_spread_and_a_loss_of_five_percent_is_found() {
        let mut random = SmallRng::seed_from_u64(7);
        let (mut same, mut found) = (0, 0);
        for _ in 0..1000 {
            let alike = Estimate::of(&ratios(&mut random, 20, 1.0, 0.01)).unwrap();
            same += u32::from(alike.holds_one() && alike.verdict() == Verdict::NotWorse);
            let lossy = Estimate::of(&ratios(&mut random, 20, 1.05, 0.005)).unwrap();
            found += u32::from(lossy.verdict() == Verdict::Worse);
        }
        assert!(same >= 990, "{same} of 1000 have 1 within the spread");
        assert!(found >= 990, "{found} of 1000 losses were found");
    }
}
