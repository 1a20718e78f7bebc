//! The cron expression says for a schedule when it is due, and finds the next time in a time zone.
//!
//! An expression is read once into sets of numbers. The next time is looked for in the local time of the zone, stretch by
//! stretch between the changes of its offset. These are the rules where clocks are changed, those of Vixie's cron:
//!
//! - An expression whose second, minute or hour begins with `*`, or holds all numbers, is one of intervals. It runs whenever the
//!   clock on the wall shows a time that fits: not in an hour that is left out, twice in one that comes twice.
//! - Any other names times of the day. A time that is left out runs once, at the end of the gap. A time that comes twice runs
//!   the first time only.
//!
//! The cost of any expression is bounded: the search ends [`HORIZON_YEARS`] ahead, and passes months that do not fit at once.

use jiff::{
    Timestamp,
    civil::Date,
    tz::{Offset, TimeZone},
};

use super::{
    Mistake,
    day::Days,
    field::{HOUR, MINUTE, MONTH, SECOND},
};
use crate::model::time::Millis;

/// Longest text of an expression.
pub const TEXT_BYTES_MAX: usize = 256;

/// How far ahead the next time is looked for. The 29 February falls on each day of the week once in 40 years at least, also
/// around a year like 2100 that has none.
pub const HORIZON_YEARS: i64 = 41;

pub(super) const DAY_SECONDS: i64 = 86_400;

/// A cron expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cron {
    pub(super) seconds: u64,
    pub(super) minutes: u64,
    pub(super) hours: u64,
    pub(super) months: u64,
    pub(super) days: Days,
    /// Second, minute or hour begins with `*`, or holds all numbers.
    pub(super) is_interval: bool,
}

impl Cron {
    /// Reads five fields, or six with the seconds first. `seed` stands for the schedule where the text has `H`.
    ///
    /// # Errors
    /// The first [`Mistake`].
    pub fn read(text: &str, seed: u64) -> Result<Self, Mistake> {
        if text.len() > TEXT_BYTES_MAX {
            let text = format!(
                "has {} bytes; at most {TEXT_BYTES_MAX} are read",
                text.len()
            );
            return Err(Mistake::new(text));
        }
        let fields: Vec<&str> = text.split_ascii_whitespace().collect();
        let (second, [minute, hour, day, month, weekday]) = match fields.as_slice() {
            &[minute, hour, day, month, weekday] => ("0", [minute, hour, day, month, weekday]),
            &[second, minute, hour, day, month, weekday] => {
                (second, [minute, hour, day, month, weekday])
            }
            other => {
                let text = "fields are needed: minute, hour, day of month, month, day of week; a sixth, the second, may come first";
                return Err(Mistake::new(format!(
                    "has {} fields; five {text}",
                    other.len()
                )));
            }
        };
        let times = [(SECOND, second), (MINUTE, minute), (HOUR, hour)];
        let mut is_interval = false;
        let mut sets = [0; 3];
        for ((field, text), set) in times.into_iter().zip(&mut sets) {
            *set = field.set(text, seed)?;
            is_interval |= text.starts_with('*') || field.is_all(*set);
        }
        let [seconds, minutes, hours] = sets;
        // Before the days: the month shows best what is read one field off.
        let months = MONTH.set(month, seed)?;
        Ok(Self {
            seconds,
            minutes,
            hours,
            months,
            days: Days::read(day, weekday, seed)?,
            is_interval,
        })
    }

    /// Returns the first time behind `after` in a zone; none when there is none within [`HORIZON_YEARS`].
    #[must_use]
    pub fn next(&self, zone: &TimeZone, after: Millis) -> Option<Millis> {
        let first = after.0.div_euclid(1000) + 1;
        let last = first
            .saturating_add(HORIZON_YEARS * 366 * DAY_SECONDS)
            .min(Millis::MAX.0 / 1000);
        let found = self.next_second(zone, first, last)?;
        Some(Millis(found * 1000))
    }

    /// Looks through the stretches of one offset each.
    fn next_second(&self, zone: &TimeZone, first: i64, last: i64) -> Option<i64> {
        let before = Timestamp::from_second(first - 1).ok()?;
        let mut offset = seconds_of(zone.to_offset(before));
        // Local times up to here have been there already.
        let mut repeated = repeated_until(zone, before)?;
        let mut begin = first;
        let mut changes = zone.following(before);
        loop {
            let change = changes.next();
            let end = change
                .as_ref()
                .map_or(i64::MAX, |change| change.timestamp().as_second());
            let from = (begin + offset).max(if self.is_interval { i64::MIN } else { repeated });
            let to = end.min(last + 1).saturating_add(offset);
            if let Some(local) = self.next_local(from, to) {
                return Some(local - offset);
            }
            let change = change.filter(|_| end <= last)?;
            let next = seconds_of(change.offset());
            let gap = (end + offset)..(end + next);
            if !self.is_interval && self.next_local(gap.start, gap.end).is_some() {
                return Some(end);
            }
            if next < offset {
                repeated = repeated.max(end + offset);
            }
            (begin, offset) = (end.max(begin), next);
        }
    }

    /// Returns the first local second from `from` on and before `to` that fits, by the calendar alone.
    pub(super) fn next_local(&self, from: i64, to: i64) -> Option<i64> {
        let (mut day, mut time) = (from.div_euclid(DAY_SECONDS), from.rem_euclid(DAY_SECONDS));
        let mut date = date_of(day)?;
        while day.checked_mul(DAY_SECONDS)? < to {
            if self.months >> date.month() & 1 == 0 {
                let length = i64::from(date.days_in_month()) - i64::from(date.day());
                (day, time) = (day + length + 1, 0);
                date = date.last_of_month().tomorrow().ok()?;
                continue;
            }
            if self.days.contain(date)
                && let Some(time) = self.next_time(time)
            {
                let found = day * DAY_SECONDS + time;
                return (found < to).then_some(found);
            }
            (day, time) = (day + 1, 0);
            date = date.tomorrow().ok()?;
        }
        None
    }

    /// Returns the first second of a day from `from` on that fits.
    fn next_time(&self, from: i64) -> Option<i64> {
        let (hour, minute, second) = (from / 3600, from / 60 % 60, from % 60);
        let first = |set: u64| i64::from(set.trailing_zeros());
        let at = |h, m, s| h * 3600 + m * 60 + s;
        let (m0, s0) = (first(self.minutes), first(self.seconds));
        let this_hour = self.hours >> hour & 1 == 1;
        if this_hour {
            let this_minute = self.minutes >> minute & 1 == 1;
            if this_minute && let Some(second) = at_least(self.seconds, second) {
                return Some(at(hour, minute, second));
            }
            if let Some(minute) = at_least(self.minutes, minute + 1) {
                return Some(at(hour, minute, s0));
            }
        }
        at_least(self.hours, hour + 1).map(|hour| at(hour, m0, s0))
    }
}

/// Returns the local second up to which the local times at `at` were there before, because the clock was set back.
pub(super) fn repeated_until(zone: &TimeZone, at: Timestamp) -> Option<i64> {
    // The change may be the very second that was asked about.
    let at = Timestamp::from_second(at.as_second() + 1).ok()?;
    let Some(change) = zone.preceding(at).next() else {
        return Some(i64::MIN);
    };
    let second = change.timestamp().as_second();
    let earlier = Timestamp::from_second(second - 1).ok()?;
    let (before, behind) = (
        seconds_of(zone.to_offset(earlier)),
        seconds_of(change.offset()),
    );
    Some(if behind < before {
        second + before
    } else {
        i64::MIN
    })
}

/// Returns the least number of a set that is not below `least`.
fn at_least(set: u64, least: i64) -> Option<i64> {
    let rest = u32::try_from(least)
        .ok()
        .and_then(|least| set.checked_shr(least))?;
    (rest != 0).then(|| least + i64::from(rest.trailing_zeros()))
}

pub(super) fn seconds_of(offset: Offset) -> i64 {
    i64::from(offset.seconds())
}

/// Returns the date of a day since 1970-01-01; none outside of the years that dates have.
pub(super) fn date_of(day: i64) -> Option<Date> {
    let span = jiff::Span::new().try_days(day).ok()?;
    jiff::civil::date(1970, 1, 1).checked_add(span).ok()
}
