//! The charts draw results as SVG for readers of the results: plain axes, a few lines, a legend.
//!
//! They need no library, no script and no font. They are readable on light and on dark pages (the colours
//! follow the reader's preference), and without colour, since lines differ in their dashes, too. All drawn
//! values are also in the JSON.

mod ruler;

use std::{fmt::Write as _, path::Path};

use hdrhistogram::Histogram;
use serde::Serialize;

use self::ruler::Ruler;
pub(crate) use self::ruler::Scale;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 430.0;
const LEFT: f64 = 74.0;
const RIGHT: f64 = 22.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 50.0;
/// Height of a line of the legend.
const LEGEND_STEP: f64 = 18.0;
/// Colours that stand out from white and from black, and the dashes that go with them.
const STYLES: [(&str, &str); 9] = [
    ("#3b82f6", ""),
    ("#ea580c", "7 3"),
    ("#16a34a", "2 3"),
    ("#db2777", "9 3 2 3"),
    ("#8b5cf6", "4 4"),
    ("#0891b2", "12 4"),
    ("#a16207", "1 2"),
    ("#64748b", "6 2 1 2"),
    ("#be123c", "14 3 3 3"),
];
const SHEET: &str = ".b{fill:#fff}.t{fill:#1f2937;font:12px sans-serif}.h{font-size:14px;font-weight:600}\
.g{stroke:#d1d5db;stroke-width:.7}.a{stroke:#6b7280}path{fill:none;stroke-width:1.8;stroke-linejoin:round}\
@media(prefers-color-scheme:dark){.b{fill:#0d1117}.t{fill:#d1d5db}.g{stroke:#30363d}.a{stroke:#8b949e}}";
/// An axis.
#[derive(Debug, Clone, Serialize)]
struct Axis {
    label: String,
    scale: Scale,
}

/// A line of a chart.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Curve {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// A chart.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Chart {
    /// Name of its file.
    name: String,
    title: String,
    x: Axis,
    y: Axis,
    curves: Vec<Curve>,
}

impl Chart {
    /// A chart of these curves.
    pub(crate) fn lines(
        name: &str,
        title: &str,
        x: (&str, Scale),
        y: (&str, Scale),
        curves: Vec<Curve>,
    ) -> Self {
        let axis = |(label, scale): (&str, Scale)| Axis {
            label: label.to_owned(),
            scale,
        };
        Self {
            name: name.to_owned(),
            title: title.to_owned(),
            x: axis(x),
            y: axis(y),
            curves,
        }
    }

    /// A chart of a course of events, by seconds.
    pub(crate) fn over_time(name: &str, title: &str, y: (&str, Scale), curves: Vec<Curve>) -> Self {
        Self::lines(name, title, ("seconds", Scale::Linear), y, curves)
    }

    /// The percentiles of distributions that were recorded in microseconds.
    pub(crate) fn percentiles(name: &str, title: &str, of: &[(&str, &Histogram<u64>)]) -> Self {
        let curve = |(name, micros): &(&str, &Histogram<u64>)| Curve {
            name: (*name).to_owned(),
            points: percentiles(micros),
        };
        let curves = of.iter().map(curve).collect();
        let x = ("percentile", Scale::Nines);
        Self::lines(name, title, x, ("ms", Scale::Log), curves)
    }

    /// Writes it to a folder.
    pub(crate) fn write(&self, folder: &Path) -> anyhow::Result<()> {
        let path = folder.join(format!("{}.svg", self.name));
        Ok(std::fs::write(path, self.svg())?)
    }

    fn svg(&self) -> String {
        let points = || self.curves.iter().flat_map(|curve| &curve.points);
        let bottom = HEIGHT - BOTTOM;
        let x = Ruler::new(
            self.x.scale,
            points().map(|point| point.0),
            LEFT,
            WIDTH - RIGHT,
        );
        let y = Ruler::new(self.y.scale, points().map(|point| point.1), bottom, TOP);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\"><style>{SHEET}</style>\
             <title>{title}</title><rect class=\"b\" width=\"{WIDTH}\" height=\"{HEIGHT}\"/>",
            title = escaped(&self.title)
        );
        text(&mut svg, (LEFT, 24.0), "start", "t h", &self.title);
        for (value, label) in x.marks() {
            let at = x.place(value);
            line(&mut svg, "g", (at, TOP), (at, bottom));
            text(&mut svg, (at, bottom + 18.0), "middle", "t", &label);
        }
        for (value, label) in y.marks() {
            let at = y.place(value);
            line(&mut svg, "g", (LEFT, at), (WIDTH - RIGHT, at));
            text(&mut svg, (LEFT - 8.0, at + 4.0), "end", "t", &label);
        }
        line(&mut svg, "a", (LEFT, TOP), (LEFT, bottom));
        line(&mut svg, "a", (LEFT, bottom), (WIDTH - RIGHT, bottom));
        text(
            &mut svg,
            (WIDTH - RIGHT, HEIGHT - 12.0),
            "end",
            "t",
            &self.x.label,
        );
        text(&mut svg, (8.0, TOP - 20.0), "start", "t", &self.y.label);
        for (index, curve) in self.curves.iter().enumerate() {
            draw(&mut svg, index, curve, &x, &y);
        }
        svg.push_str("</svg>\n");
        svg
    }
}

/// A line of the chart, and the line of the legend that names it: at the upper left, where such curves seldom are.
fn draw(svg: &mut String, index: usize, curve: &Curve, x: &Ruler, y: &Ruler) {
    let (colour, dashes) = STYLES
        .get(index % STYLES.len())
        .copied()
        .unwrap_or_default();
    let style = format!("stroke=\"{colour}\" stroke-dasharray=\"{dashes}\"");
    let mut path = String::new();
    for (number, point) in curve.points.iter().enumerate() {
        let step = if number == 0 { 'M' } else { 'L' };
        // Writing to a String cannot fail.
        write!(
            path,
            "{step}{:.1} {:.1}",
            x.place(point.0),
            y.place(point.1)
        )
        .unwrap_or_default();
    }
    let at = TOP + LEGEND_STEP * (index as f64 + 0.8);
    let (from, to) = (LEFT + 12.0, LEFT + 44.0);
    write!(
        svg,
        "<path {style} d=\"{path}\"/><path {style} d=\"M{from} {at}H{to}\"/>"
    )
    .unwrap_or_default();
    text(svg, (to + 8.0, at + 4.0), "start", "t", &curve.name);
}

fn line(svg: &mut String, class: &str, from: (f64, f64), to: (f64, f64)) {
    let ((x1, y1), (x2, y2)) = (from, to);
    write!(
        svg,
        "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
    )
    .unwrap_or_default();
}

fn text(svg: &mut String, (x, y): (f64, f64), anchor: &str, class: &str, text: &str) {
    let text = escaped(text);
    write!(
        svg,
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
    )
    .unwrap_or_default();
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

fn percentiles(micros: &Histogram<u64>) -> Vec<(f64, f64)> {
    let count = micros.len().max(1) as f64;
    let mut shares: Vec<f64> = (0..18).map(|step| f64::from(step) * 0.05).collect();
    for nines in 1..=5 {
        let below = 10_f64.powi(-nines);
        shares.extend((0..10).map(|step| 1.0 - below * (1.0 - f64::from(step) * 0.09)));
    }
    // There is no value beyond the last task.
    shares.retain(|share| *share <= 1.0 - 1.0 / count);
    let at = |share: f64| micros.value_at_quantile(share) as f64 / 1000.0;
    shares
        .into_iter()
        .map(|share| (share * 100.0, at(share)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_names_its_lines_and_says_nothing_beyond_the_last_task() {
        let mut micros = Histogram::new_with_bounds(1, 1_000_000, 3).unwrap();
        for value in 1..=1000 {
            micros.saturating_record(value * 10);
        }
        let chart = Chart::percentiles("x", "a < b", &[("5,000/s & more", &micros)]);
        let curve = chart.curves.first().unwrap();
        assert!(
            curve.points.iter().all(|point| point.0 <= 99.9),
            "{curve:?}"
        );
        let svg = chart.svg();
        assert!(svg.contains("5,000/s &amp; more") && svg.contains("a &lt; b"));
        assert_eq!(svg.matches("<path").count(), 2);
    }
}
