//! The days tell which days of the calendar a cron expression means: days of the month, days of the week, or both.
//!
//! If both fields are restricted, a day that fits one of them fits (as every cron since 1979 does it); if one of them is `*` or
//! `?`, or begins with `*`, both must fit.

use jiff::civil::{Date, Weekday};

use super::{
    Mistake,
    field::{DAY, WEEKDAY, cut},
};

/// The days of an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Days {
    /// Bit n: the day n of the month.
    pub(super) days: u64,
    /// Bit n: n days before the last of the month.
    pub(super) before_last: u64,
    /// The last day of the month that is from Monday to Friday.
    pub(super) last_workday: bool,
    /// Bit n: the day from Monday to Friday that is nearest to the day n, within the month.
    pub(super) near: u64,
    /// Bit n: the day n of the week; Sunday is 0.
    pub(super) weekdays: u64,
    /// Bit n of the item k - 1: the k-th such day of the month.
    pub(super) nth: [u64; 5],
    /// Bit n: the last such day of the month.
    pub(super) last: u64,
    /// Neither field begins with `*` or is `?`.
    pub(super) either: bool,
}

impl Days {
    /// Reads the two fields.
    ///
    /// # Errors
    /// The first [`Mistake`].
    pub fn read(day: &str, weekday: &str, seed: u64) -> Result<Self, Mistake> {
        let is_open = |text: &str| text.starts_with('*') || text == "?";
        let mut days = Self {
            days: 0,
            before_last: 0,
            last_workday: false,
            near: 0,
            weekdays: 0,
            nth: [0; 5],
            last: 0,
            either: !is_open(day) && !is_open(weekday),
        };
        for part in day.split(',') {
            days.read_day(part, seed)?;
        }
        for part in weekday.split(',') {
            days.read_weekday(part, seed)?;
        }
        Ok(days)
    }

    fn read_day(&mut self, part: &str, seed: u64) -> Result<(), Mistake> {
        let upper = part.to_ascii_uppercase();
        if upper == "L" {
            self.before_last |= 1;
        } else if upper == "LW" || upper == "WL" {
            self.last_workday = true;
        } else if let Some(before) = upper.strip_prefix("L-") {
            let before = before.parse::<u32>().ok().filter(|n| (1..=30).contains(n));
            let before =
                before.ok_or_else(|| DAY.wrong(&format!("`{}` must be L-1 to L-30", cut(part))))?;
            self.before_last |= 1 << before;
        } else if let Some(near) = upper.strip_suffix('W') {
            self.near |= 1 << DAY.number(near)?;
        } else {
            self.days |= DAY.part(&upper, seed)?;
        }
        Ok(())
    }

    fn read_weekday(&mut self, part: &str, seed: u64) -> Result<(), Mistake> {
        let upper = part.to_ascii_uppercase();
        let fold = |set: u64| (set & 0x7f) | (set >> 7 & 1);
        if let Some((weekday, number)) = upper.split_once('#') {
            let place = number.parse::<usize>().ok().filter(|n| (1..=5).contains(n));
            let nth = place.and_then(|place| self.nth.get_mut(place - 1));
            let nth = nth.ok_or_else(|| {
                WEEKDAY.wrong(&format!(
                    "`{}` must be like FRI#2, from #1 to #5",
                    cut(part)
                ))
            })?;
            *nth |= fold(1 << WEEKDAY.number(weekday)?);
        } else if upper == "L" {
            return Err(
                WEEKDAY.wrong("`L` needs a day, as in FRIL for the last Friday of the month")
            );
        } else if let Some(last) = upper.strip_suffix('L') {
            self.last |= fold(1 << WEEKDAY.number(last)?);
        } else {
            self.weekdays |= fold(WEEKDAY.part(&upper, seed)?);
        }
        Ok(())
    }

    /// Tells whether a day is meant.
    #[must_use]
    pub fn contain(&self, date: Date) -> bool {
        if self.either {
            self.fits_month(date) || self.fits_week(date)
        } else {
            self.fits_month(date) && self.fits_week(date)
        }
    }

    fn fits_month(&self, date: Date) -> bool {
        let (day, length) = (number(date.day()), number(date.days_in_month()));
        let bit = |set: u64, n: u32| set >> n & 1 == 1;
        bit(self.days, day)
            || bit(self.before_last, length - day)
            || (self.last_workday && day == nearest_workday(date, length))
            || (self.near != 0 && is_workday(date) && self.is_near(date, length))
    }

    /// Tells whether this day from Monday to Friday is the nearest to one that is meant.
    fn is_near(&self, date: Date, length: u32) -> bool {
        let day = number(date.day());
        let around = day.saturating_sub(2).max(1)..=(day + 2).min(length);
        let mut meant = around.filter(|near| self.near >> near & 1 == 1);
        meant.any(|near| nearest_workday(date, near) == day)
    }

    fn fits_week(&self, date: Date) -> bool {
        let weekday = date.weekday().to_sunday_zero_offset().unsigned_abs();
        let bit = |set: u64| set >> weekday & 1 == 1;
        let (day, length) = (number(date.day()), number(date.days_in_month()));
        let place = usize::try_from((day - 1) / 7).unwrap_or(0);
        bit(self.weekdays)
            || self.nth.get(place).is_some_and(|nth| bit(*nth))
            || (bit(self.last) && day + 7 > length)
    }
}

fn is_workday(date: Date) -> bool {
    !matches!(date.weekday(), Weekday::Saturday | Weekday::Sunday)
}

/// Returns the day from Monday to Friday that is nearest to a day of the month of `date`, within that month.
fn nearest_workday(date: Date, day: u32) -> u32 {
    let length = number(date.days_in_month());
    // 0 is Monday: the weekday of `day`, from that of `date`.
    let weekday =
        i64::from(date.weekday().to_monday_zero_offset()) + i64::from(day) - i64::from(date.day());
    match weekday.rem_euclid(7) {
        5 if day == 1 => 3,
        5 => day - 1,
        6 if day == length => day - 2,
        6 => day + 1,
        _ => day,
    }
}

fn number(small: i8) -> u32 {
    u32::from(small.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::*;

    /// The days of a month that are meant.
    fn of(year: i16, month: i8, day: &str, weekday: &str) -> Vec<i8> {
        let days = Days::read(day, weekday, 3).unwrap();
        let first = date(year, month, 1);
        let all = 1..=first.days_in_month();
        all.filter(|day| days.contain(date(year, month, *day)))
            .collect()
    }

    #[test]
    fn days_of_the_month_and_of_the_week_are_one_of_both_unless_one_is_open() {
        // July 2026 begins on a Wednesday.
        assert_eq!(of(2026, 7, "*", "MON"), [6, 13, 20, 27]);
        assert_eq!(of(2026, 7, "?", "1"), [6, 13, 20, 27]);
        assert_eq!(of(2026, 7, "13", "*"), [13]);
        assert_eq!(of(2026, 7, "1,2", "MON"), [1, 2, 6, 13, 20, 27]);
        assert_eq!(of(2026, 7, "*/2", "MON"), [13, 27], "both must fit");
        assert_eq!(of(2026, 7, "31", "?"), [31]);
        assert_eq!(of(2026, 6, "31", "?"), [] as [i8; 0]);
        assert_eq!(of(2026, 7, "*", "7"), of(2026, 7, "*", "SUN"));
    }

    #[test]
    fn last_days_nearest_workdays_and_counted_weekdays_are_found() {
        assert_eq!(of(2026, 2, "L", "*"), [28]);
        assert_eq!(of(2028, 2, "L", "*"), [29]);
        assert_eq!(of(2026, 7, "L-3", "*"), [28]);
        // The 31 May 2026 is a Sunday, the 1 August a Saturday, the 15 August a Saturday.
        assert_eq!(of(2026, 5, "LW", "*"), [29]);
        assert_eq!(of(2026, 5, "31W", "*"), [29]);
        assert_eq!(of(2026, 8, "1W", "*"), [3]);
        assert_eq!(of(2026, 8, "15W", "*"), [14]);
        assert_eq!(of(2026, 8, "16W", "*"), [17]);
        assert_eq!(of(2026, 6, "31W", "*"), [] as [i8; 0]);
        assert_eq!(of(2026, 7, "*", "FRI#2"), [10]);
        assert_eq!(of(2026, 7, "*", "5#5"), [31]);
        assert_eq!(of(2026, 8, "*", "5#5"), [] as [i8; 0]);
        assert_eq!(of(2026, 7, "*", "FRIL,0L"), [26, 31]);
    }

    #[test]
    fn mistakes_say_what_would_be_right() {
        for (day, weekday, said) in [
            ("L-31", "*", "must be L-1 to L-30"),
            ("W", "*", "is not a number from 1 to 31"),
            ("0", "*", "is not a number from 1 to 31"),
            ("*", "FRI#6", "from #1 to #5"),
            ("*", "L", "FRIL"),
            ("*", "#1", "is not a number from 0 to 7"),
        ] {
            let mistake = Days::read(day, weekday, 0).unwrap_err().to_string();
            assert!(mistake.contains(said), "{day} {weekday}: {mistake}");
        }
    }
}
