//! The count tells for a plan how many times cron expressions have in a span, without a walk over them.
//!
//! It goes through the stretches of one offset each, as the search of [`super::cron`] does, and from day to day within them. Days
//! that the same expressions fit have the same times, which are counted once. So years cost as much as their days.

use jiff::{Timestamp, civil::Date, tz::TimeZone};

use super::cron::{Cron, DAY_SECONDS, date_of, repeated_until, seconds_of};
use crate::model::time::Millis;

const HOUR: i64 = 3600;
const MINUTE: i64 = 60;

/// A span of local seconds: from the first on, and before the second.
type Span = (i64, i64);

/// Counts the times behind `after` and before `until` in a zone; a time of several expressions counts once. None where dates end.
pub(super) fn count(crons: &[&Cron], zone: &TimeZone, after: Millis, until: Millis) -> Option<u64> {
    let mut begin = after.0.div_euclid(1000) + 1;
    let end = until.0.div_euclid(1000) + i64::from(until.0.rem_euclid(1000) > 0);
    let before = Timestamp::from_second(begin - 1).ok()?;
    let mut offset = seconds_of(zone.to_offset(before));
    // Local times up to here have been there already.
    let mut repeated = repeated_until(zone, before)?;
    let mut changes = zone.following(before);
    let is_interval = |cron: &&&Cron| cron.is_interval;
    let intervals: Vec<&Cron> = crons.iter().filter(is_interval).copied().collect();
    let mut days = Days::default();
    let mut total = 0;
    loop {
        let change = changes.next();
        let change_at = change
            .as_ref()
            .map_or(i64::MAX, |change| change.timestamp().as_second());
        let (from, to) = (begin + offset, end.min(change_at) + offset);
        let split = repeated.clamp(from, to.max(from));
        total += days.count(&intervals, (from, split))?;
        total += days.count(crons, (split, to))?;
        let Some(change) = change.filter(|_| change_at < end) else {
            return Some(total);
        };
        let next = seconds_of(change.offset());
        let gap = (change_at + offset, change_at + next);
        let left_out = |cron: &&Cron| !cron.is_interval && cron.next_local(gap.0, gap.1).is_some();
        // A time that the gap has left out runs at its end, once with another that is due there anyway.
        let at_end = crons.iter().any(left_out);
        total += u64::from(at_end);
        if next < offset {
            repeated = repeated.max(change_at + offset);
        }
        (begin, offset) = (change_at.max(begin) + i64::from(at_end), next);
    }
}

/// The number of times of whole days, by the expressions that fit them.
#[derive(Default)]
struct Days {
    known: Vec<(Vec<bool>, u64)>,
}

impl Days {
    /// Counts the local seconds of a span that at least one expression fits, by the calendar alone.
    fn count(&mut self, crons: &[&Cron], (from, to): Span) -> Option<u64> {
        if crons.is_empty() || from >= to {
            return Some(0);
        }
        let mut total = 0;
        let mut day = from.div_euclid(DAY_SECONDS);
        let mut date = date_of(day)?;
        while day * DAY_SECONDS < to {
            let begin = day * DAY_SECONDS;
            let part = ((from - begin).max(0), (to - begin).min(DAY_SECONDS));
            total += self.of_day(crons, date, part);
            day += 1;
            date = date.tomorrow().ok()?;
        }
        Some(total)
    }

    fn of_day(&mut self, crons: &[&Cron], date: Date, part: Span) -> u64 {
        let fits = |cron: &&Cron| cron.months >> date.month() & 1 == 1 && cron.days.contain(date);
        let fitting: Vec<&Cron> = crons.iter().filter(|cron| fits(cron)).copied().collect();
        if fitting.is_empty() || part != (0, DAY_SECONDS) {
            return seconds(&fitting, part);
        }
        // With fewer expressions behind a change of the clocks there is another list, of another length.
        let which: Vec<bool> = crons.iter().map(fits).collect();
        if let Some((_, count)) = self.known.iter().find(|(known, _)| *known == which) {
            return *count;
        }
        let count = seconds(&fitting, part);
        self.known.push((which, count));
        count
    }
}

/// Counts the seconds of a part of a day that at least one expression fits by the clock.
fn seconds(crons: &[&Cron], (from, to): Span) -> u64 {
    let mut total = 0;
    for minute in from.div_euclid(MINUTE)..=(to - 1).div_euclid(MINUTE) {
        let fits = |cron: &&&Cron| {
            let hour = minute * MINUTE / HOUR;
            cron.hours >> hour & 1 == 1 && cron.minutes >> (minute % 60) & 1 == 1
        };
        let due = crons.iter().filter(fits);
        let due = due.fold(0, |set, cron| set | cron.seconds);
        let begin = minute * MINUTE;
        let first = (from - begin).clamp(0, MINUTE);
        let last = (to - begin).clamp(first, MINUTE);
        let within = (1_u64 << last) - (1 << first);
        total += u64::from((due & within).count_ones());
    }
    total
}
