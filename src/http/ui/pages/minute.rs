//! The last minute of the node that answers, second by second, for the overview.

use crate::{
    api::stats::SecondsResponse,
    http::ui::parts::{chart, text::grouped},
};

/// The seconds of one kind of work.
pub(super) struct Past {
    pub(super) name: &'static str,
    pub(super) bars: String,
    pub(super) about: String,
}

/// Draws what was done in each second. Titles say how long ago that was, so that the drawing of a node at rest stays as it is.
pub(super) fn past(seconds: &SecondsResponse) -> Vec<Past> {
    let kinds = [
        ("Registered", &seconds.registered),
        ("Handed over", &seconds.fired),
        ("Settled", &seconds.settled),
    ];
    kinds.map(|(name, counts)| drawn(name, counts)).into()
}

fn drawn(name: &'static str, counts: &[u64]) -> Past {
    let figures = counts.iter().enumerate();
    let figures = figures.map(|(at, tasks)| {
        let ago = counts.len() - at;
        (format!("{ago} s ago: {}", grouped(*tasks)), *tasks)
    });
    let figures: Vec<(String, u64)> = figures.collect();
    let highest = counts.iter().max().copied().unwrap_or_default();
    let sum: u64 = counts.iter().sum();
    let label = format!("{name} in each second of the last minute");
    Past {
        name,
        bars: chart::bars(&figures, &label),
        about: format!(
            "{} in all, at most {} a second",
            grouped(sum),
            grouped(highest)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_is_told_by_how_long_ago_it_was() {
        let one = drawn("Settled", &[0, 1200, 3]);
        assert!(
            one.bars.contains("<title>2 s ago: 1,200</title>"),
            "{}",
            one.bars
        );
        assert!(
            one.bars.contains("<title>1 s ago: 3</title>"),
            "{}",
            one.bars
        );
        assert_eq!(one.about, "1,203 in all, at most 1,200 a second");
        assert_eq!(drawn("Settled", &[]).about, "0 in all, at most 0 a second");
    }
}
