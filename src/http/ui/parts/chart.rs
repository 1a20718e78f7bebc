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
    let mut svg = open("bars", HEIGHT, label);
    for (index, (title, figure)) in figures.iter().enumerate() {
        let height = (figure * (HEIGHT - 2)).div_ceil(highest);
        let class = if *figure == 0 { "empty" } else { "bar" };
        write!(
            svg,
            "<rect class=\"{class}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"><title>{title}</title></rect>",
            place(index, figures.len()).0,
            HEIGHT - height.max(1),
            place(index, figures.len()).1,
            height.max(1),
        )
        .unwrap_or_default();
    }
    svg + "</svg>"
}

/// The shades of a heat map: each begins at a count, and a cell without tasks has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::http::ui) struct Shades(Vec<u64>);

impl Shades {
    /// Shades at most.
    const MOST: u32 = 5;

    /// Returns the shades for counts up to this one. Each begins at a fourth of the next, so that a minute with a few tasks is
    /// seen beside one with thousands.
    pub(in crate::http::ui) fn of(highest: u64) -> Self {
        let mut bounds = Vec::new();
        let mut bound = highest;
        while bound > 1 && bounds.len() + 1 < Self::MOST as usize {
            bound = bound.div_ceil(4);
            bounds.push(bound);
        }
        bounds.extend((highest > 0 && bounds.last() != Some(&1)).then_some(1));
        bounds.reverse();
        Self(bounds)
    }

    fn class(&self, count: u64) -> usize {
        self.0.partition_point(|bound| *bound <= count)
    }

    /// Returns the least count of each shade, with its drawing.
    pub(in crate::http::ui) fn legend(&self) -> Vec<(String, String)> {
        let shades = self.0.iter().enumerate();
        let shades = shades.map(|(at, bound)| {
            let text = super::text::grouped(*bound);
            let mut svg = open("shade", 12, &format!("from {text} on"));
            let class = at + 1;
            write!(
                svg,
                "<rect class=\"h{class}\" x=\"0\" y=\"0\" width=\"{WIDTH}\" height=\"12\"/></svg>"
            )
            .unwrap_or_default();
            (text, svg)
        });
        shades.collect()
    }
}

/// Draws figures as cells of a row of a heat map; the titles are without text of others.
pub(in crate::http::ui) fn heat(figures: &[(String, u64)], shades: &Shades) -> String {
    let sum: u64 = figures.iter().map(|(_, figure)| figure).sum();
    let label = format!("{} tasks over the time ahead", super::text::grouped(sum));
    let mut svg = open("heat", 20, &label);
    for (index, (title, figure)) in figures.iter().enumerate() {
        write!(
            svg,
            "<rect class=\"h{}\" x=\"{}\" y=\"0\" width=\"{}\" height=\"20\"><title>{title}</title></rect>",
            shades.class(*figure),
            place(index, figures.len()).0,
            place(index, figures.len()).1,
        )
        .unwrap_or_default();
    }
    svg + "</svg>"
}

/// Returns where one of some columns begins, and how wide it is; together they fill the drawing.
fn place(index: usize, columns: usize) -> (u64, u64) {
    let begin = |index: usize| index as u64 * WIDTH / (columns as u64).max(1);
    let width = begin(index + 1) - begin(index);
    (begin(index), width.saturating_sub(2).max(1))
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
    fn shades_rise_with_the_counts_and_nothing_has_none() {
        for highest in [0, 1, 2, 3, 5, 64, 1000, u64::MAX] {
            let shades = Shades::of(highest);
            assert!(shades.0.is_sorted() && shades.0.len() <= 5, "{shades:?}");
            assert_eq!(shades.class(0), 0, "{shades:?}");
            assert_eq!(shades.class(highest), shades.0.len(), "{shades:?}");
            assert_eq!(shades.legend().len(), shades.0.len());
        }
        let shades = Shades::of(1024);
        assert_eq!(shades.0, [1, 4, 16, 64, 256]);
        assert_eq!(
            [1, 3, 4, 255, 256].map(|count| shades.class(count)),
            [1, 1, 2, 4, 5]
        );
        let svg = heat(
            &[
                ("09:00 UTC: 0".to_owned(), 0),
                ("09:01 UTC: 7".to_owned(), 7),
            ],
            &shades,
        );
        assert!(
            svg.contains("<rect class=\"h0\"") && svg.contains("<rect class=\"h2\""),
            "{svg}"
        );
    }

    #[test]
    fn bars_of_nothing_are_flat() {
        let svg = bars(&[("a".to_owned(), 0), ("b".to_owned(), 0)], "tasks");
        assert_eq!(svg.matches("class=\"empty\"").count(), 2);
        assert!(bars(&[], "tasks").ends_with("></svg>"));
        assert!(gauge(5, 0, "run", "x").contains("width=\"1000\""));
    }
}
