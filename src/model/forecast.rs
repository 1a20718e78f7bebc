//! The forecast counts for people and autoscalers the tasks that are due in the time ahead, by callback.
//!
//! Tasks are counted by the second of their start. Where there is no room for a second it is counted by the minute, and else by
//! the hour. So each count of a span has two bounds, which are equal unless the span cuts a minute or an hour of that kind.

use std::collections::BTreeMap;

use super::time::Millis;

/// The seconds of the cells of each tier, from the finest on.
const SPANS: [i64; 3] = [1, 60, 3600];

/// The number of tasks that are due in a span.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Due {
    /// So many at least.
    pub at_least: u64,
    /// And so many at most.
    pub at_most: u64,
}

impl Due {
    fn add(&mut self, tasks: u64, whole: bool) {
        self.at_most += tasks;
        if whole {
            self.at_least += tasks;
        }
    }
}

/// The tasks of one callback, by the first second of each cell. A count below zero was taken out before it was found.
#[derive(Debug, Default)]
struct Cells([BTreeMap<i64, i64>; SPANS.len()]);

/// The forecast.
#[derive(Debug, Default)]
pub struct Forecast {
    by_label: BTreeMap<String, Cells>,
    /// How many cells each tier has.
    sizes: [usize; SPANS.len()],
    /// Tasks were left out, since no tier had room.
    cut: bool,
}

/// The first second of the cell that a second lies in.
const fn begin(second: i64, span: i64) -> i64 {
    second.div_euclid(span).saturating_mul(span)
}

impl Forecast {
    /// Counts a task that is due at `due`, or takes it out. Each tier has at most `room` cells.
    pub fn change(&mut self, label: &str, due: Millis, adds: bool, now: Millis, room: usize) {
        let second = due.0.div_euclid(1000);
        if adds && self.sizes.iter().any(|size| *size >= room) {
            self.pass(now);
        }
        if !self.by_label.contains_key(label) {
            self.by_label.insert(label.to_owned(), Cells::default());
        }
        let Some(cells) = self.by_label.get_mut(label) else {
            return;
        };
        let tiers = cells.0.iter_mut().zip(&mut self.sizes).zip(SPANS);
        for ((cells, size), span) in tiers {
            let place = begin(second, span);
            let has_room = adds && *size < room;
            if let Some(count) = cells.get_mut(&place) {
                *count += if adds { 1 } else { -1 };
                if *count == 0 {
                    cells.remove(&place);
                    *size -= 1;
                }
                return;
            }
            if has_room {
                cells.insert(place, 1);
                *size += 1;
                return;
            }
        }
        self.cut |= adds;
        if !adds {
            self.owe(label, second);
        }
    }

    /// Notes that a task is taken out that was not found yet.
    fn owe(&mut self, label: &str, second: i64) {
        let [finest, ..] = &mut self.sizes;
        if let Some(Cells([seconds, ..])) = self.by_label.get_mut(label) {
            seconds.insert(second, -1);
            *finest += 1;
        }
    }

    /// Forgets the cells that have passed at `now`.
    pub fn pass(&mut self, now: Millis) {
        let second = now.0.div_euclid(1000);
        self.sizes = [0; SPANS.len()];
        for Cells(tiers) in self.by_label.values_mut() {
            for ((cells, span), size) in tiers.iter_mut().zip(SPANS).zip(&mut self.sizes) {
                *cells = cells.split_off(&begin(second, span));
                *size += cells.len();
            }
        }
        self.by_label
            .retain(|_, Cells(tiers)| tiers.iter().any(|cells| !cells.is_empty()));
    }

    /// Returns the labels of those that have tasks ahead, in order.
    pub fn labels(&self) -> impl Iterator<Item = &str> {
        self.by_label.keys().map(String::as_str)
    }

    /// Tells whether tasks were left out.
    #[must_use]
    pub const fn is_cut(&self) -> bool {
        self.cut
    }

    /// Counts the tasks of a callback that are due in `count` steps of so many seconds, from the second of `from` on.
    #[must_use]
    pub fn steps(&self, label: &str, from: Millis, step: u32, count: usize) -> Vec<Due> {
        let (first, step) = (from.0.div_euclid(1000), i64::from(step.max(1)));
        let mut steps = vec![Due::default(); count];
        let behind = first.saturating_add(step.saturating_mul(i64::try_from(count).unwrap_or(0)));
        let Some(Cells(tiers)) = self.by_label.get(label) else {
            return steps;
        };
        for (cells, span) in tiers.iter().zip(SPANS) {
            for (begins, tasks) in cells.range(begin(first, span)..behind) {
                let tasks = u64::try_from(*tasks).unwrap_or(0);
                let at = |second: i64| (second - first).div_euclid(step);
                let (one, other) = (at((*begins).max(first)), at(*begins + span - 1));
                let whole = *begins >= first && one == other;
                for index in one..=other {
                    let step = usize::try_from(index).ok();
                    if let Some(due) = step.and_then(|index| steps.get_mut(index)) {
                        due.add(tasks, whole);
                    }
                }
            }
        }
        steps
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: Millis = Millis(7_200_000);
    const ROOM: usize = 100;

    fn at(second: i64) -> Millis {
        Millis(NOW.0 + second * 1000 + 7)
    }

    fn of(seconds: &[i64], room: usize) -> Forecast {
        let mut forecast = Forecast::default();
        for second in seconds {
            forecast.change("mail", at(*second), true, NOW, room);
        }
        forecast
    }

    fn exactly(steps: &[Due]) -> Vec<u64> {
        assert!(
            steps.iter().all(|due| due.at_least == due.at_most),
            "{steps:?}"
        );
        steps.iter().map(|due| due.at_least).collect()
    }

    #[test]
    fn tasks_are_counted_by_the_second() {
        let mut forecast = of(&[0, 0, 1, 59, 60, 3600], ROOM);
        let steps =
            |forecast: &Forecast, step, count| exactly(&forecast.steps("mail", NOW, step, count));
        assert_eq!(steps(&forecast, 1, 3), [2, 1, 0]);
        assert_eq!(steps(&forecast, 60, 2), [4, 1]);
        assert_eq!(steps(&forecast, 3600, 2), [5, 1]);
        assert_eq!(exactly(&forecast.steps("other", NOW, 1, 2)), [0, 0]);
        forecast.change("mail", at(0), false, NOW, ROOM);
        forecast.change("other", at(5), true, NOW, ROOM);
        assert_eq!(steps(&forecast, 1, 2), [1, 1]);
        assert_eq!(forecast.labels().collect::<Vec<_>>(), ["mail", "other"]);
        forecast.pass(at(10));
        assert_eq!(forecast.labels().collect::<Vec<_>>(), ["mail"]);
        assert_eq!(exactly(&forecast.steps("mail", at(10), 60, 1)), [2]);
        assert_eq!(forecast.sizes, [3, 0, 0]);
    }

    #[test]
    fn tasks_for_which_there_is_no_room_have_bounds() {
        // Two cells a tier: seconds 0 and 1, minute 0 and 1, the hours of 2:02 and 3:00.
        let forecast = of(&[0, 1, 2, 62, 120, 3600, 7200], 2);
        assert!(forecast.is_cut(), "the last one had no room");
        let due = |at_least, at_most| Due { at_least, at_most };
        let steps = forecast.steps("mail", NOW, 60, 3);
        assert_eq!(steps, [due(3, 4), due(1, 2), due(0, 1)]);
        let steps = forecast.steps("mail", NOW, 3600, 2);
        assert_eq!(exactly(&steps), [5, 1]);
        let steps = forecast.steps("mail", at(30), 60, 1);
        assert_eq!(steps, [due(0, 3)]);
        // Those that have passed make room.
        let mut forecast = of(&[0, 1], 2);
        forecast.change("mail", at(7200), true, at(10), 2);
        assert_eq!(exactly(&forecast.steps("mail", at(7200), 1, 1)), [1]);
    }

    #[test]
    fn a_task_that_is_taken_out_before_it_is_found_is_not_counted() {
        let mut forecast = Forecast::default();
        forecast.change("mail", at(5), false, NOW, ROOM);
        assert_eq!(exactly(&forecast.steps("mail", NOW, 10, 1)), [0]);
        forecast.change("mail", at(5), true, NOW, ROOM);
        assert_eq!(forecast.sizes, [0; 3]);
    }

    proptest! {
        #[test]
        fn bounds_hold_whatever_room_there_is(
            seconds in prop::collection::vec(0..20_000_i64, 0..60), room in 1..20_usize, step in 1..7200_u32,
        ) {
            let forecast = of(&seconds, room);
            let count = 12;
            let steps = forecast.steps("mail", NOW, step, count);
            for (index, due) in steps.iter().enumerate() {
                let begins = index as i64 * i64::from(step);
                let real = seconds.iter().filter(|second| (begins..begins + i64::from(step)).contains(*second));
                let real = real.count() as u64;
                prop_assert!(due.at_least <= real, "{due:?} {real}");
                prop_assert!(real <= due.at_most || forecast.is_cut(), "{due:?} {real}");
            }
        }
    }
}
