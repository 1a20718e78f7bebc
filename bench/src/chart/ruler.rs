//! The ruler places values on an axis for the charts, and chooses the values that have a mark.

use serde::Serialize;

/// Percentiles that have a mark.
const NINES: [(f64, &str); 7] = [
    (0.0, "0"),
    (50.0, "50"),
    (90.0, "90"),
    (99.0, "99"),
    (99.9, "99.9"),
    (99.99, "99.99"),
    (99.999, "99.999"),
];

/// How values are laid along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Scale {
    /// From zero, evenly.
    Linear,
    /// Each power of ten as long as the others.
    Log,
    /// Percentiles: each further nine as long as the others.
    Nines,
}

/// Lays the values of an axis on a line of the picture.
pub(super) struct Ruler {
    scale: Scale,
    /// Least and greatest value, as `stretched`.
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Ruler {
    pub(super) fn new(scale: Scale, values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.map(|value| stretched(scale, value)) {
            (low, high) = (low.min(value), high.max(value));
        }
        (low, high) = match scale {
            Scale::Log if low <= high => (low.floor(), high.ceil()),
            _ => (0.0, high.max(0.0)),
        };
        if high <= low {
            high = low + 1.0;
        }
        Self {
            scale,
            low,
            high,
            from,
            to,
        }
    }

    pub(super) fn place(&self, value: f64) -> f64 {
        let share = (stretched(self.scale, value) - self.low) / (self.high - self.low);
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }

    pub(super) fn marks(&self) -> Vec<(f64, String)> {
        match self.scale {
            Scale::Linear => {
                let step = nice((self.high - self.low) / 7.0);
                let marks = (0..=8).map(|number| f64::from(number) * step);
                marks
                    .filter(|mark| *mark <= self.high * 1.0001)
                    .map(|mark| (mark, plain(mark)))
                    .collect()
            }
            Scale::Log => {
                let decades = (self.low as i32)..=(self.high as i32);
                decades
                    .map(|power| 10_f64.powi(power))
                    .map(|mark| (mark, plain(mark)))
                    .collect()
            }
            Scale::Nines => {
                let marks = NINES
                    .iter()
                    .filter(|(value, _)| stretched(self.scale, *value) <= self.high + 0.01);
                marks
                    .map(|(value, text)| (*value, (*text).to_owned()))
                    .collect()
            }
        }
    }
}

/// Returns a value as evenly spaced marks need it.
fn stretched(scale: Scale, value: f64) -> f64 {
    match scale {
        Scale::Linear => value,
        // A hundredth of a millisecond is below the precision of the measurements.
        Scale::Log => value.max(0.01).log10(),
        Scale::Nines => -(1.0 - value.min(99.999_99) / 100.0).log10(),
    }
}

/// Returns 1, 2 or 5 times a power of ten, at least `step`.
fn nice(step: f64) -> f64 {
    let power = 10_f64.powf(step.max(1e-9).log10().floor());
    let fits = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .find(|factor| factor * power >= step * 0.999);
    fits.unwrap_or(10.0) * power
}

fn plain(value: f64) -> String {
    let digits = if value.fract().abs() < 1e-9 { 0 } else { 2 };
    let text = format!("{value:.digits$}");
    if digits > 0 {
        text.trim_end_matches('0').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(scale: Scale, values: &[f64]) -> Vec<String> {
        let ruler = Ruler::new(scale, values.iter().copied(), 0.0, 100.0);
        ruler.marks().into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn marks_are_round_figures() {
        assert_eq!(
            marks(Scale::Linear, &[3.0, 12.0]),
            ["0", "2", "4", "6", "8", "10", "12"]
        );
        assert_eq!(
            marks(Scale::Log, &[0.4, 120.0]),
            ["0.1", "1", "10", "100", "1000"]
        );
        assert_eq!(
            marks(Scale::Nines, &[0.0, 99.9]),
            ["0", "50", "90", "99", "99.9"]
        );
        assert_eq!(
            marks(Scale::Linear, &[]),
            ["0", "0.2", "0.4", "0.6", "0.8", "1"]
        );
    }

    #[test]
    fn a_further_nine_is_as_long_as_the_one_before() {
        let ruler = Ruler::new(Scale::Nines, [0.0, 99.99].into_iter(), 0.0, 400.0);
        for (value, wanted) in [(0.0, 0.0), (90.0, 100.0), (99.0, 200.0), (99.9, 300.0)] {
            assert!((ruler.place(value) - wanted).abs() < 0.1, "{value}");
        }
    }
}
