//! The chart draws the last minutes as SVG for the status page.

use std::fmt::Write as _;

use crate::flow::base::figures::second::Second;

const WIDTH: usize = 900;
const HEIGHT: u64 = 120;

/// Seconds that a bar stands for.
const STEP: usize = 3;

/// Draws how many tasks fired, a bar for every three seconds, from the oldest to the newest.
pub(super) fn fired(seconds: &[Second]) -> String {
    let bars: Vec<u64> = seconds
        .chunks(STEP)
        .map(|seconds| seconds.iter().map(|second| second.fired).sum())
        .collect();
    let highest = bars.iter().max().copied().unwrap_or_default().max(1);
    let pitch = WIDTH / bars.len().max(1);
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"Tasks fired in the last five minutes\" preserveAspectRatio=\"none\">"
    );
    for (index, tasks) in bars.iter().enumerate() {
        let height = (tasks * (HEIGHT - 4)).div_ceil(highest);
        // Writing to a String cannot fail.
        write!(
            svg,
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"><title>{}</title></rect>",
            index * pitch,
            HEIGHT - height.max(1),
            pitch.saturating_sub(2).max(1),
            height.max(1),
            tasks.div_ceil(STEP as u64),
        )
        .unwrap_or_default();
    }
    svg.push_str("</svg>");
    svg
}
