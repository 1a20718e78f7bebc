//! The field reads one of the five or six fields of a cron expression as a set of numbers.
//!
//! `*`, numbers, names, ranges, steps and lists are those of every cron. `H` stands for a number that follows from the name of
//! the schedule, so that many schedules with one text do not start together (as in Jenkins). `?` stands for any day in the fields
//! of days (as in Quartz), and for nothing in the others.

use super::Mistake;

/// A kind of field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Its name for people.
    pub name: &'static str,
    /// The least number.
    pub min: u32,
    /// The greatest number.
    pub max: u32,
    /// The greatest number that `H` may stand for.
    hashed_max: u32,
    /// Names of numbers, beginning with `min`.
    names: &'static [&'static str],
    /// It is a field of days: `?` stands for any of them.
    any: bool,
}

/// Why `?` is refused outside of the fields of days. An expression of AWS has the year behind the day of the week, and would be
/// read one field off.
const NO_DAYS: &str = "`?` stands for any day, and this is no field of days; expressions of AWS have the year as their sixth field: \
                       leave the year out. A number that follows from the name of the schedule is `H`";

/// Seconds of a minute.
pub const SECOND: Field = plain("second", 0, 59);
/// Minutes of an hour.
pub const MINUTE: Field = plain("minute", 0, 59);
/// Hours of a day.
pub const HOUR: Field = plain("hour", 0, 23);
/// Days of a month.
pub const DAY: Field = Field {
    // Every month has these.
    hashed_max: 28,
    any: true,
    ..plain("day of month", 1, 31)
};
/// Months of a year.
pub const MONTH: Field = Field {
    names: &[
        "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC",
    ],
    ..plain("month", 1, 12)
};
/// Days of a week; 0 and 7 are both Sunday.
pub const WEEKDAY: Field = Field {
    hashed_max: 6,
    names: &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"],
    any: true,
    ..plain("day of week", 0, 7)
};

const fn plain(name: &'static str, min: u32, max: u32) -> Field {
    Field {
        name,
        min,
        max,
        hashed_max: max,
        names: &[],
        any: false,
    }
}

impl Field {
    /// Reads a list as a set: bit n stands for the number n.
    ///
    /// # Errors
    /// The [`Mistake`] of the first part that is wrong.
    pub fn set(&self, text: &str, seed: u64) -> Result<u64, Mistake> {
        let mut set = 0;
        for part in text.split(',') {
            set |= self.part(part, seed)?;
        }
        Ok(set)
    }

    /// Reads one part of a list.
    ///
    /// # Errors
    /// Its [`Mistake`].
    pub fn part(&self, text: &str, seed: u64) -> Result<u64, Mistake> {
        let (base, step) = match text.split_once('/') {
            None => (text, None),
            Some((base, step)) => (base, Some(self.step(step)?)),
        };
        let bits = match base {
            "" => return Err(self.wrong("a part of the list is empty")),
            "*" => bits(self.min, self.top(), step.unwrap_or(1)),
            "?" if self.any && step.is_none() => bits(self.min, self.top(), 1),
            "?" if self.any => return Err(self.wrong("`?` has no step: write `*` before it")),
            "?" => return Err(self.wrong(NO_DAYS)),
            "H" => self.hashed(self.min, self.hashed_max, step, seed),
            base if base.starts_with("H(") => {
                let inside = base
                    .strip_prefix("H(")
                    .and_then(|rest| rest.strip_suffix(')'));
                let range = inside.and_then(|inside| inside.split_once('-'));
                let Some((from, to)) = range else {
                    return Err(self.wrong(&format!("`{base}` must be like `H(0-29)`")));
                };
                let (from, to) = self.range(from, to)?;
                self.hashed(from, to, step, seed)
            }
            base => {
                let (from, to) = match base.split_once('-') {
                    Some((from, to)) => self.range(from, to)?,
                    None => {
                        let from = self.number(base)?;
                        (from, if step.is_some() { self.top() } else { from })
                    }
                };
                bits(from, to.max(from), step.unwrap_or(1))
            }
        };
        Ok(bits)
    }

    /// Reads a number or a name.
    ///
    /// # Errors
    /// Its [`Mistake`].
    pub fn number(&self, text: &str) -> Result<u32, Mistake> {
        let named = self.names.iter().zip(self.min..);
        let named = named
            .into_iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(text));
        if let Some((_, number)) = named {
            return Ok(number);
        }
        let digits =
            !text.is_empty() && text.len() <= 4 && text.bytes().all(|b| b.is_ascii_digit());
        let number = digits.then(|| text.parse().ok()).flatten();
        number
            .filter(|number| (self.min..=self.max).contains(number))
            .ok_or_else(|| {
                let also = self.names.first().zip(self.names.last());
                let also = also.map_or_else(String::new, |(first, last)| {
                    format!(", or {first} to {last}")
                });
                let (min, max) = (self.min, self.max);
                self.wrong(&format!(
                    "`{}` is not a number from {min} to {max}{also}",
                    cut(text)
                ))
            })
    }

    fn range(&self, first: &str, last: &str) -> Result<(u32, u32), Mistake> {
        let (from, to) = (self.number(first)?, self.number(last)?);
        if from > to && to == 0 && self.max == 7 {
            let first = cut(first);
            let text = format!("Sunday is 7 at the end of a range: write `{first}-7`");
            return Err(self.wrong(&text));
        }
        if from > to {
            let text = format!("the range {from}-{to} goes backwards: write it as two ranges");
            return Err(self.wrong(&text));
        }
        Ok((from, to))
    }

    fn step(&self, text: &str) -> Result<u32, Mistake> {
        let most = self.top() - self.min + 1;
        let digits =
            !text.is_empty() && text.len() <= 4 && text.bytes().all(|b| b.is_ascii_digit());
        let step = digits.then(|| text.parse().ok()).flatten();
        step.filter(|step| (1..=most).contains(step))
            .ok_or_else(|| self.wrong(&format!("the step `{}` is not 1 to {most}", cut(text))))
    }

    /// Tells whether a set holds every number.
    pub(super) fn is_all(&self, set: u64) -> bool {
        set == bits(self.min, self.top(), 1)
    }

    /// The greatest number that is not another name of the least.
    const fn top(&self) -> u32 {
        if self.max == 7 { 6 } else { self.max }
    }

    /// One number of a range, or with a step the numbers behind one of the first.
    fn hashed(&self, from: u32, to: u32, step: Option<u32>, seed: u64) -> u64 {
        let field = super::hash(&[self.name.as_bytes(), &seed.to_be_bytes()]);
        let among = u64::from(step.unwrap_or(to - from + 1).min(to - from + 1).max(1));
        // The remainder is below `among`, which is a small number.
        let first = from + u32::try_from(field % among).unwrap_or(0);
        match step {
            None => bits(first, first, 1),
            Some(step) => bits(first, to, step),
        }
    }

    pub(super) fn wrong(&self, detail: &str) -> Mistake {
        Mistake::new(format!("{}: {detail}", self.name))
    }
}

fn bits(from: u32, to: u32, step: u32) -> u64 {
    let mut set = 0;
    let mut number = from;
    while number <= to {
        set |= 1 << number;
        number += step.max(1);
    }
    set
}

/// The beginning of a text, for a message.
pub(super) fn cut(text: &str) -> String {
    const MOST: usize = 40;
    if text.chars().count() <= MOST {
        return text.to_owned();
    }
    text.chars().take(MOST).chain("...".chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(field: Field, text: &str) -> Vec<u32> {
        let set = field.set(text, 7).unwrap();
        (0..64).filter(|n| set >> n & 1 == 1).collect()
    }

    #[test]
    fn lists_ranges_steps_and_names_are_sets_of_numbers() {
        assert_eq!(numbers(HOUR, "1,3-5,20-23/2"), [1, 3, 4, 5, 20, 22]);
        assert_eq!(numbers(MINUTE, "*/20"), [0, 20, 40]);
        assert_eq!(numbers(MINUTE, "50/5"), [50, 55]);
        assert_eq!(numbers(MONTH, "jan,MAR-may"), [1, 3, 4, 5]);
        assert_eq!(numbers(WEEKDAY, "MON-FRI"), [1, 2, 3, 4, 5]);
        assert_eq!(numbers(WEEKDAY, "5-7"), [5, 6, 7]);
        assert_eq!(numbers(WEEKDAY, "*"), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(numbers(DAY, "?").len(), 31);
    }

    #[test]
    fn a_hashed_number_stays_in_its_range_and_spreads() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let one = MINUTE.set("H", seed).unwrap();
            assert_eq!(one.count_ones(), 1);
            seen.insert(one);
            let early = MINUTE.set("H(0-9)", seed).unwrap();
            assert!(early.trailing_zeros() < 10);
            let quarters = MINUTE.set("H/15", seed).unwrap();
            assert_eq!(quarters.count_ones(), 4);
            assert!(DAY.set("H", seed).unwrap().trailing_zeros() <= 28);
        }
        assert!(seen.len() > 40, "{}", seen.len());
    }

    #[test]
    fn each_mistake_names_its_field_and_what_would_be_right() {
        for (field, text, said) in [
            (MINUTE, "60", "minute: `60` is not a number from 0 to 59"),
            (MINUTE, "", "minute: a part of the list is empty"),
            (MINUTE, "1,", "minute: a part of the list is empty"),
            (HOUR, "5-3", "hour: the range 5-3 goes backwards"),
            (HOUR, "*/0", "hour: the step `0` is not 1 to 24"),
            (HOUR, "*/25", "hour: the step `25` is not 1 to 24"),
            (
                MONTH,
                "FEBR",
                "month: `FEBR` is not a number from 1 to 12, or JAN to DEC",
            ),
            (WEEKDAY, "8", "day of week: `8` is not a number from 0 to 7"),
            (MINUTE, "H(5)", "must be like `H(0-29)`"),
            (MINUTE, "?", "leave the year out"),
            (MONTH, "?", "`?` stands for any day"),
            (DAY, "?/2", "has no step"),
            (WEEKDAY, "FRI-SUN", "write `FRI-7`"),
            (WEEKDAY, "FRI-MON", "write it as two ranges"),
            (MINUTE, "-1", "minute: `` is not a number"),
            (MINUTE, "99999999999999999999", "is not a number"),
        ] {
            let mistake = field.set(text, 0).unwrap_err().to_string();
            assert!(mistake.contains(said), "{text}: {mistake}");
        }
    }
}
