//! The charts of pages are drawn here as SVG, and coloured by classes: the policy of pages allows no styles in them.

use std::fmt::Write as _;

/// The width of every drawing, in its own units; the page stretches it.
const WIDTH: u64 = 1000;

/// Height of bars.
const HEIGHT: u64 = 100;

/// A part of a strip.
#[derive(Debug, Clone)]
pub(in crate::http::ui) struct Segment {
    pub(in crate::http::ui) class: &'static str,
    /// In words, without text of others.
    pub(in crate::http::ui) title: String,
    pub(in crate::http::ui) millis: u64,
}

/// Draws a strip of spans behind each other, each at least wide enough to be seen.
pub(in crate::http::ui) fn strip(segments: &[Segment], label: &str) -> String {
    const LEAST: u64 = 4;
    let whole: u64 = segments.iter().map(|segment| segment.millis).sum();
    let room = WIDTH.saturating_sub(LEAST * segments.len() as u64);
    let mut svg = open("strip", 20, label);
    let mut x = 0;
    for segment in segments {
        let share = u128::from(segment.millis) * u128::from(room) / u128::from(whole.max(1));
        let width = u64::try_from(share).unwrap_or(room) + LEAST;
        // Writing to a String cannot fail.
        write!(
            svg,
            "<rect class=\"{}\" x=\"{x}\" y=\"0\" width=\"{}\" height=\"20\"><title>{}</title></rect>",
            segment.class,
            width.saturating_sub(1).max(1),
            segment.title
        )
        .unwrap_or_default();
        x += width;
    }
    svg + "</svg>"
}

/// Draws figures as bars beside each other; the titles are without text of others.
pub(in crate::http::ui) fn bars(figures: &[(String, u64)], label: &str) -> String {
    let highest = figures.iter().map(|(_, figure)| *figure).max();
    let highest = highest.unwrap_or_default().max(1);
    let pitch = WIDTH / (figures.len() as u64).max(1);
    let mut svg = open("bars", HEIGHT, label);
    for (index, (title, figure)) in figures.iter().enumerate() {
        let height = (figure * (HEIGHT - 2)).div_ceil(highest);
        let class = if *figure == 0 { "empty" } else { "bar" };
        write!(
            svg,
            "<rect class=\"{class}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"><title>{title}</title></rect>",
            index as u64 * pitch,
            HEIGHT - height.max(1),
            pitch.saturating_sub(2).max(1),
            height.max(1),
        )
        .unwrap_or_default();
    }
    svg + "</svg>"
}

/// Draws one figure against a whole.
pub(in crate::http::ui) fn gauge(figure: u64, whole: u64, class: &str, label: &str) -> String {
    let share = u128::from(figure.min(whole)) * u128::from(WIDTH) / u128::from(whole.max(1));
    let mut svg = open("gauge", 8, label);
    write!(
        svg,
        "<rect class=\"ground\" x=\"0\" y=\"0\" width=\"{WIDTH}\" height=\"8\"/>\
         <rect class=\"{class}\" x=\"0\" y=\"0\" width=\"{share}\" height=\"8\"/></svg>"
    )
    .unwrap_or_default();
    svg
}

fn open(class: &str, height: u64, label: &str) -> String {
    format!(
        "<svg class=\"{class}\" viewBox=\"0 0 {WIDTH} {height}\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{label}\">"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(millis: u64) -> Segment {
        Segment {
            class: "run",
            title: "attempt 1".to_owned(),
            millis,
        }
    }

    #[test]
    fn a_strip_stays_in_its_width_and_shows_every_part() {
        for segments in [vec![0], vec![0, 0], vec![1, u64::MAX / 4, 3], vec![5; 50]] {
            let segments: Vec<Segment> = segments.into_iter().map(segment).collect();
            let svg = strip(&segments, "time");
            assert_eq!(svg.matches("<rect").count(), segments.len());
            assert!(!svg.contains("width=\"0\""), "{svg}");
        }
    }

    #[test]
    fn bars_of_nothing_are_flat() {
        let svg = bars(&[("a".to_owned(), 0), ("b".to_owned(), 0)], "tasks");
        assert_eq!(svg.matches("class=\"empty\"").count(), 2);
        assert!(bars(&[], "tasks").ends_with("></svg>"));
        assert!(gauge(5, 0, "run", "x").contains("width=\"1000\""));
    }
}
