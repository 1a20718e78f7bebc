//! The range read returns rows of many ticks of a wheel for lists: its request, its answer, and a page put
//! together tick by tick.

use super::{Error, Page, Scan, ScannedRow};
use crate::model::{
    entry::Key,
    time::Millis,
    wheel::{Shape, Span, WheelNumber},
};

/// A bounded read of a range of due times of one wheel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RangeScan {
    /// The wheel.
    pub wheel: WheelNumber,
    /// Gives ticks and slots of due times.
    pub shape: Shape,
    /// The due times to read; of any length.
    pub span: Span,
    /// Read behind this key, one of this wheel ([`Key::within`]) or a bound ([`Key::behind`]); none reads
    /// from the span's beginning.
    pub behind: Option<Key>,
    /// Return at most this many rows; at least 1.
    pub rows_max: usize,
    /// Read at most this many slots, where slots are read one by one; at least 1.
    pub slots_max: usize,
}

/// Rows of a range, in key order.
#[derive(Debug, Clone)]
pub struct RangePage {
    /// The rows.
    pub rows: Vec<ScannedRow>,
    /// The key up to which everything of the range has been read, at the last row or behind it. Reading goes
    /// on from here.
    pub reached: Key,
}

impl RangeScan {
    /// Returns the key to read behind: the requested one, or the bound before the span.
    #[must_use]
    pub fn from(&self) -> Key {
        let before = Key::behind(self.span.after);
        self.behind.map_or(before, |behind| behind.max(before))
    }

    /// Returns the reads of single ticks that make up the range, as far as the bound on slots allows.
    pub(super) fn scans(&self) -> Vec<Scan> {
        let (from, tick) = (self.from(), self.shape.tick());
        // A bound lies behind every key of its millisecond, so none of that millisecond is left.
        let spent = from == Key::behind(from.due);
        let first = tick.tick_of(Millis(from.due.0 + i64::from(spent)));
        let last = tick.tick_of(self.span.through);
        let ticks = (0..).map(|offset| first.plus(offset));
        ticks
            .take_while(|tick| *tick <= last)
            .take(self.slots_max.max(1))
            .map(|tick| {
                let whole = self.shape.span_of(tick);
                Scan {
                    wheel: self.wheel,
                    slot: self.shape.slot_of(tick),
                    span: Span {
                        after: whole.after.max(self.span.after),
                        through: whole.through.min(self.span.through),
                    },
                    behind: self.behind.filter(|key| whole.contains(key.due)),
                    rows_max: self.rows_max.max(1),
                }
            })
            .collect()
    }
}

/// A page that is put together from reads of single ticks.
#[derive(Debug)]
pub(super) struct Assembly {
    page: RangePage,
    rows_max: usize,
}

impl Assembly {
    pub(super) fn of(range: &RangeScan) -> Self {
        let ended = Key::behind(range.span.through);
        Self {
            page: RangePage {
                rows: Vec::new(),
                reached: range.from().min(ended),
            },
            rows_max: range.rows_max.max(1),
        }
    }

    /// Adds the page of the next tick. Tells whether there is room for more.
    pub(super) fn take(&mut self, scan: &Scan, page: Page) -> bool {
        let RangePage { rows, reached } = &mut self.page;
        let cut = page.more || rows.len() + page.rows.len() > self.rows_max;
        rows.extend(page.rows);
        rows.truncate(self.rows_max);
        *reached = if cut {
            rows.last().map_or(*reached, |row| row.key.max(*reached))
        } else {
            Key::behind(scan.span.through)
        };
        !cut && rows.len() < self.rows_max
    }

    pub(super) fn finish(self) -> RangePage {
        self.page
    }
}

/// Adds the pages of some ticks in order, until the page is full. Tells whether it has room for more.
pub(super) fn take_all(
    assembly: &mut Assembly,
    scans: &[Scan],
    pages: Vec<Result<Page, Error>>,
) -> Result<bool, Error> {
    for (scan, page) in scans.iter().zip(pages) {
        if !assembly.take(scan, page?) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::time::TickLength;

    fn range(after: i64, through: i64) -> RangeScan {
        let tick = TickLength::new(Duration::from_secs(1)).unwrap();
        RangeScan {
            wheel: WheelNumber::new(0).unwrap(),
            shape: Shape::new(1, tick, 8).unwrap(),
            span: Span {
                after: Millis(after),
                through: Millis(through),
            },
            behind: None,
            rows_max: 10,
            slots_max: 100,
        }
    }

    fn spans(range: &RangeScan) -> Vec<(i64, i64)> {
        let scans = range.scans().into_iter();
        scans
            .map(|scan| (scan.span.after.0, scan.span.through.0))
            .collect()
    }

    #[test]
    fn a_range_is_divided_at_the_ends_of_ticks() {
        assert_eq!(
            spans(&range(500, 2500)),
            [(500, 1000), (1000, 2000), (2000, 2500)]
        );
        assert_eq!(spans(&range(1000, 2000)), [(1000, 2000)]);
        assert_eq!(spans(&range(2000, 2000)), []);
        let few = RangeScan {
            slots_max: 2,
            ..range(0, 1_000_000)
        };
        assert_eq!(spans(&few), [(0, 1000), (1000, 2000)]);
    }

    #[test]
    fn a_range_is_read_on_behind_a_bound() {
        let on = |behind: Key| RangeScan {
            behind: Some(behind),
            ..range(0, 4000)
        };
        assert_eq!(
            spans(&on(Key::behind(Millis(2000)))),
            [(2000, 3000), (3000, 4000)]
        );
        assert_eq!(spans(&on(Key::behind(Millis(1500)))).len(), 3);
        assert_eq!(spans(&on(Key::behind(Millis(4000)))), []);
        assert_eq!(spans(&on(Key::behind(Millis(-5)))).len(), 4);
    }

    #[test]
    fn a_page_that_is_cut_reaches_no_further_than_its_last_row() {
        let range = range(0, 2000);
        let mut assembly = Assembly::of(&range);
        let scans = range.scans();
        let empty = Page {
            rows: Vec::new(),
            more: true,
        };
        let pages = vec![Ok(Page::default()), Ok(empty)];
        assert!(!take_all(&mut assembly, &scans, pages).unwrap());
        assert_eq!(assembly.finish().reached, Key::behind(Millis(1000)));
    }
}
