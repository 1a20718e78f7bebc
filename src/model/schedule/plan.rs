//! The plan says when a schedule is due: its expressions, its zone, and the span in which they count.

use std::time::Duration;

use jiff::{SpanRelativeTo, tz::TimeZone};

use super::{
    Mistake, count,
    cron::{Cron, TEXT_BYTES_MAX},
    field::cut,
    words,
};
use crate::model::time::{Millis, whole_millis};

/// Most expressions of a schedule; each of them is asked for each time.
pub const EXPRESSIONS_MAX: usize = 16;

/// Shortest interval: an expression cannot name a shorter one either.
pub const EVERY_MIN: Duration = Duration::from_secs(1);

/// Longest interval: ten years, as a search looks no further than four times that.
pub const EVERY_MAX: Duration = Duration::from_secs(10 * 366 * 24 * 3600);

/// One expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rule {
    /// Times by the clock on the wall.
    Cron(Box<Cron>),
    /// Times that are equally far apart.
    Every(Duration),
}

impl Rule {
    fn cron(&self) -> Option<&Cron> {
        match self {
            Self::Cron(cron) => Some(cron),
            // Its times need not lie on whole seconds, and may be those of an expression.
            Self::Every(_) => None,
        }
    }
}

/// An expression as it is written, and what it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expression {
    /// Its meaning.
    pub rule: Rule,
    /// Its meaning, in words.
    pub words: String,
    /// The zone that it names by `CRON_TZ=`.
    pub zone: Option<String>,
}

/// Reads an expression; `seed` stands for the schedule where it has `H`.
///
/// # Errors
/// Its [`Mistake`].
pub fn read(text: &str, seed: u64) -> Result<Expression, Mistake> {
    if text.len() > TEXT_BYTES_MAX {
        let text = format!(
            "has {} bytes; at most {TEXT_BYTES_MAX} are read",
            text.len()
        );
        return Err(Mistake::new(text));
    }
    let trimmed = text.trim();
    let prefixed = ["CRON_TZ=", "TZ="]
        .iter()
        .find_map(|prefix| trimmed.strip_prefix(prefix));
    let (zone, body) = match prefixed {
        None => (None, trimmed),
        Some(rest) => match rest.split_once(char::is_whitespace) {
            None => return Err(Mistake::new("names a zone and no times")),
            Some((zone, body)) => (Some(zone.to_owned()), body.trim()),
        },
    };
    let (rule, words) = match body.strip_prefix('@') {
        None => cron(body, seed)?,
        Some(name) => named(name, seed)?,
    };
    Ok(Expression { rule, words, zone })
}

fn cron(text: &str, seed: u64) -> Result<(Rule, String), Mistake> {
    let cron = Cron::read(text, seed)?;
    let words = words::of_cron(&cron, text);
    Ok((Rule::Cron(Box::new(cron)), words))
}

fn named(name: &str, seed: u64) -> Result<(Rule, String), Mistake> {
    let name = name.to_ascii_lowercase();
    if let Some(text) = name.strip_prefix("every ") {
        return every(text.trim());
    }
    let text = match &*name {
        "yearly" | "annually" => "0 0 1 1 *",
        "monthly" => "0 0 1 * *",
        "weekly" => "0 0 * * 0",
        "daily" | "midnight" => "0 0 * * *",
        "hourly" => "0 * * * *",
        other => {
            let known = "@yearly, @monthly, @weekly, @daily, @hourly, and @every with a duration";
            let text = format!("`@{}` is not known; these are: {known}", cut(other));
            return Err(Mistake::new(text));
        }
    };
    cron(text, seed)
}

/// Reads the duration of an interval, such as `90s` or `1h 30m`.
fn every(text: &str) -> Result<(Rule, String), Mistake> {
    let wrong = || {
        Mistake::new(format!(
            "`{}` is not a duration such as 90s or 1h30m",
            cut(text)
        ))
    };
    // A day is 24 hours, as in all durations of the service.
    let span: jiff::Span = text.parse().map_err(|_| wrong())?;
    let signed = span.to_duration(SpanRelativeTo::days_are_24_hours());
    let every = signed
        .ok()
        .and_then(|signed| Duration::try_from(signed).ok());
    let every = every.ok_or_else(wrong)?;
    check_every(every)?;
    Ok((Rule::Every(every), words::of_interval(every)))
}

/// Checks an interval.
///
/// # Errors
/// The [`Mistake`] when it is too short, too long, or has a part of a millisecond.
pub fn check_every(every: Duration) -> Result<(), Mistake> {
    if (EVERY_MIN..=EVERY_MAX).contains(&every) && every.subsec_nanos().is_multiple_of(1_000_000) {
        return Ok(());
    }
    Err(Mistake::new(
        "an interval has whole milliseconds, and is one second to ten years long",
    ))
}

/// A plan that was checked.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Its expressions; at least one.
    pub rules: Vec<Rule>,
    /// The zone of its expressions.
    pub zone: TimeZone,
    /// Intervals count from here.
    pub anchor: Millis,
    /// No time is before this.
    pub start: Option<Millis>,
    /// No time is behind this.
    pub end: Option<Millis>,
}

impl Plan {
    /// Returns the first time behind `after`; none when there is none.
    #[must_use]
    pub fn next(&self, after: Millis) -> Option<Millis> {
        let after = self
            .start
            .map_or(after, |start| after.max(Millis(start.0.saturating_sub(1))));
        let times = self.rules.iter().filter_map(|rule| match rule {
            Rule::Cron(cron) => cron.next(&self.zone, after),
            Rule::Every(every) => next_interval(*every, self.anchor, after),
        });
        let next = times.min()?;
        self.end.is_none_or(|end| next <= end).then_some(next)
    }

    /// Returns the first times behind `after`, at most so many.
    #[must_use]
    pub fn times(&self, after: Millis, count: usize) -> Vec<Millis> {
        std::iter::successors(self.next(after), |time| self.next(*time))
            .take(count)
            .collect()
    }

    /// Returns the last time from `from` on and up to `at`; none when there is none.
    #[must_use]
    pub fn last(&self, from: Millis, at: Millis) -> Option<Millis> {
        let is_in = |time: &Millis| *time <= at;
        let mut last = self.next(Millis(from.0.saturating_sub(1))).filter(is_in)?;
        // There is no time behind this and up to `at`.
        let mut none_behind = at;
        while last < none_behind {
            let middle = Millis(last.0 + (none_behind.0 - last.0) / 2);
            match self.next(middle).filter(is_in) {
                Some(later) => last = later,
                None => none_behind = middle,
            }
        }
        Some(last)
    }

    /// Counts the times from `time` on and before `until`; none when only a walk over them can. `time` counts as one of the plan.
    #[must_use]
    pub fn count(&self, time: Millis, until: Millis) -> Option<u64> {
        let until = self
            .end
            .map_or(until, |end| until.min(Millis(end.0.saturating_add(1))));
        if until <= time {
            return Some(0);
        }
        if let [Rule::Every(every)] = self.rules.as_slice() {
            let span = u64::try_from(until.0 - time.0).unwrap_or(0);
            let every = u64::try_from(whole_millis(*every).max(1)).unwrap_or(u64::MAX);
            return Some(span.div_ceil(every));
        }
        let crons = self.rules.iter().map(Rule::cron);
        let crons: Vec<&Cron> = crons.collect::<Option<_>>()?;
        Some(1 + count::count(&crons, &self.zone, time, until)?)
    }

    /// Returns at least as many as there are times from `time` on and before `until`: one of several rules counts for each.
    /// Counts where dates end are not known, and none.
    pub(super) fn count_at_most(&self, time: Millis, until: Millis) -> u64 {
        let of_rule = |rule: &Rule| {
            let one = Self {
                rules: vec![rule.clone()],
                ..self.clone()
            };
            let first = one.next(Millis(time.0.saturating_sub(1)))?;
            one.count(first, until)
        };
        self.rules.iter().filter_map(of_rule).sum()
    }
}

fn next_interval(every: Duration, anchor: Millis, after: Millis) -> Option<Millis> {
    let every = whole_millis(every).max(1);
    if after < anchor {
        return Some(anchor);
    }
    let passed = after
        .0
        .checked_sub(anchor.0)?
        .div_euclid(every)
        .checked_add(1)?;
    let next = Millis(anchor.0.checked_add(passed.checked_mul(every)?)?);
    (next <= Millis::MAX).then_some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    fn plan(texts: &[&str]) -> Plan {
        Plan {
            rules: texts
                .iter()
                .map(|text| read(text, 1).unwrap().rule)
                .collect(),
            zone: TimeZone::UTC,
            anchor: Millis(1000),
            start: None,
            end: None,
        }
    }

    #[test]
    fn several_expressions_are_due_together_once() {
        let plan = plan(&["0 */2 * * *", "@hourly", "@every 90m"]);
        let times = plan.times(Millis(0), 5);
        let every = [1000, HOUR, 5_401_000, 2 * HOUR, 3 * HOUR];
        assert_eq!(times, every.map(Millis));
    }

    #[test]
    fn nothing_is_due_before_the_start_and_behind_the_end() {
        let plan = Plan {
            start: Some(Millis(2 * HOUR)),
            end: Some(Millis(4 * HOUR)),
            ..plan(&["@hourly"])
        };
        assert_eq!(
            plan.times(Millis(0), 9),
            [2, 3, 4].map(|n| Millis(n * HOUR))
        );
        assert_eq!(plan.next(Millis(4 * HOUR)), None);
    }

    #[test]
    fn intervals_count_from_their_anchor_whatever_is_asked() {
        let plan = plan(&["@every 1h"]);
        assert_eq!(plan.next(Millis(-5)), Some(Millis(1000)));
        assert_eq!(plan.next(Millis(1000)), Some(Millis(1000 + HOUR)));
        assert_eq!(
            plan.next(Millis(1000 + HOUR - 1)),
            Some(Millis(1000 + HOUR))
        );
        assert_eq!(plan.next(Millis::MAX), None);
        assert_eq!(plan.next(Millis(i64::MAX)), None);
    }

    #[test]
    fn times_of_an_interval_are_counted_as_a_walk_counts_them() {
        let hourly = plan(&["@every 1h"]);
        let ending = Plan {
            end: Some(Millis(1000 + 3 * HOUR)),
            ..hourly.clone()
        };
        let from = Millis(1000 + HOUR);
        for until in [0, 1000 + HOUR, 1001 + HOUR, 1000 + 3 * HOUR, 9 * HOUR].map(Millis) {
            for plan in [&hourly, &ending] {
                let walked = plan.times(Millis(from.0 - 1), 20).into_iter();
                let walked = walked.filter(|time| *time < until).count();
                assert_eq!(plan.count(from, until), Some(walked as u64), "{until:?}");
            }
        }
        for mixed in [["@every 1h", "@every 2h"], ["@every 1h", "@hourly"]] {
            assert_eq!(plan(&mixed).count(from, Millis(9 * HOUR)), None);
        }
    }

    #[test]
    fn the_last_time_is_the_one_that_a_walk_comes_to_last() {
        for texts in [&["@every 7m"][..], &["3,59 * * * *", "@hourly"]] {
            let plan = plan(texts);
            let times = plan.times(Millis(0), 40);
            let from = times[3];
            assert_eq!(plan.last(from, Millis(from.0 - 1)), None);
            for two in times[3..].windows(2) {
                for at in [two[0].0, two[0].0 + 1, two[1].0 - 1] {
                    assert_eq!(plan.last(from, Millis(at)), Some(two[0]), "{texts:?}");
                }
            }
        }
        let ended = Plan {
            end: Some(Millis(HOUR)),
            ..plan(&["@hourly"])
        };
        assert_eq!(ended.last(Millis(0), Millis(9 * HOUR)), Some(Millis(HOUR)));
    }

    #[test]
    fn prefixes_and_names_are_read_and_mistakes_are_told() {
        let read_zone = |text| read(text, 0).map(|one| one.zone);
        let zone = read_zone("CRON_TZ=Europe/Berlin 0 2 * * *").unwrap();
        assert_eq!(zone.as_deref(), Some("Europe/Berlin"));
        assert_eq!(read_zone("  @every 1h 30m ").unwrap(), None);
        let rule = |text| read(text, 0).unwrap().rule;
        assert_eq!(rule("@Daily"), rule("@daily"));
        let day = Duration::from_secs(24 * 3600);
        assert_eq!(rule("@every 1d"), Rule::Every(day));
        assert_eq!(rule("@Every 2D 1H"), Rule::Every(day * 2 + day / 24));
        for (text, said) in [
            ("@reboot", "`@reboot` is not known"),
            ("@every 10ms", "one second to ten years"),
            ("@every soon", "is not a duration"),
            ("@every -5m", "is not a duration"),
            ("@every 1mo", "is not a duration"),
            ("0 12 * * ? *", "leave the year out"),
            ("0 12 ? * MON-FRI *", "leave the year out"),
            ("CRON_TZ=UTC", "no times"),
            ("* * *", "has 3 fields"),
            ("0 0 1 1 * 2030 7", "has 7 fields"),
            ("", "has 0 fields"),
        ] {
            let mistake = read(text, 0).unwrap_err().to_string();
            assert!(mistake.contains(said), "{text}: {mistake}");
        }
        let long = "0,".repeat(200);
        assert!(
            read(&long, 0)
                .unwrap_err()
                .to_string()
                .contains("at most 256")
        );
    }
}
