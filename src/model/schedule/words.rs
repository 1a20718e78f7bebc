//! The words describe an expression to people, in English: "At 02:30, Monday to Friday".
//!
//! The usual forms read as a person would say them. The rest lists its numbers; a long list is cut, as the times beside it in
//! the API say what is meant.

use std::time::Duration;

use super::cron::Cron;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

const WEEKDAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];

const PLACES: [&str; 5] = ["first", "second", "third", "fourth", "fifth"];

/// Most items that a list has.
const LISTED_MAX: usize = 8;

/// Most times of the day that are written one by one.
const TIMES_MAX: usize = 4;

/// Describes an interval.
#[must_use]
pub fn of_interval(every: Duration) -> String {
    let seconds = every.as_secs();
    let (count, unit) = match seconds {
        _ if every.subsec_millis() != 0 => {
            return format!("Every {} milliseconds", every.as_millis());
        }
        s if s % 86_400 == 0 => (s / 86_400, "day"),
        s if s % 3600 == 0 => (s / 3600, "hour"),
        s if s % 60 == 0 => (s / 60, "minute"),
        s => (s, "second"),
    };
    if count == 1 {
        format!("Every {unit}")
    } else {
        format!("Every {count} {unit}s")
    }
}

/// Describes an expression that was read from `text`.
#[must_use]
pub fn of_cron(cron: &Cron, text: &str) -> String {
    let fields: Vec<&str> = text.split_ascii_whitespace().collect();
    let open = |from_last: usize| {
        let field = fields
            .len()
            .checked_sub(from_last)
            .and_then(|at| fields.get(at));
        field.is_none_or(|text| matches!(*text, "*" | "?"))
    };
    let mut parts = vec![time_of_day(cron)];
    let (day, weekday) = (!open(3), !open(1));
    let days = day.then(|| days_of_month(cron));
    let weekdays = weekday.then(|| days_of_week(cron));
    match (days, weekdays) {
        (Some(days), Some(weekdays)) if cron.days.either => {
            parts.push(format!("{days}, or {weekdays}"))
        }
        (Some(days), Some(weekdays)) => parts.push(format!("{days}, if it is {weekdays}")),
        (Some(one), None) | (None, Some(one)) => parts.push(one),
        (None, None) => {}
    }
    if cron.months != months(1, 12) {
        let names = numbers(cron.months).map(|n| name(&MONTHS, n.wrapping_sub(1)));
        parts.push(format!(
            "in {}",
            spans(cron.months, 1, 12, &MONTHS).unwrap_or_else(|| list(names))
        ));
    }
    parts.join(", ")
}

fn time_of_day(cron: &Cron) -> String {
    let (seconds, minutes, hours) = (cron.seconds, cron.minutes, cron.hours);
    let times = usize::try_from(hours.count_ones() * minutes.count_ones() * seconds.count_ones());
    if times.is_ok_and(|times| times <= TIMES_MAX) {
        let times = numbers(hours).flat_map(|hour| {
            numbers(minutes).flat_map(move |minute| {
                numbers(seconds).map(move |second| match second {
                    0 => format!("{hour:02}:{minute:02}"),
                    second => format!("{hour:02}:{minute:02}:{second:02}"),
                })
            })
        });
        return format!("At {}", list(times));
    }
    let each_hour = step_of(hours, 23).filter(|_| hours.trailing_zeros() == 0);
    if let Some(step) = each_hour.filter(|_| minutes == 1 && seconds == 1) {
        return format!("Every {step} hours");
    }
    let (of_minutes, of_hours) = (minutes_of(minutes), hours_of(hours));
    if seconds == 1 {
        return format!("{of_minutes}{of_hours}");
    }
    let of_seconds = if seconds == months(0, 59) {
        "Every second".to_owned()
    } else if let Some(step) = step_of(seconds, 59) {
        format!("Every {step} seconds")
    } else {
        let listed = list(numbers(seconds).map(|n| n.to_string()));
        format!("At second {listed}")
    };
    if minutes == months(0, 59) {
        format!("{of_seconds}{of_hours}")
    } else {
        format!("{of_seconds}, {}{of_hours}", lower(&of_minutes))
    }
}

fn minutes_of(minutes: u64) -> String {
    if minutes == months(0, 59) {
        return "Every minute".to_owned();
    }
    if minutes == 1 {
        return "Every hour".to_owned();
    }
    let first = minutes.trailing_zeros();
    match step_of(minutes, 59) {
        Some(step) if first == 0 => format!("Every {step} minutes"),
        Some(step) => format!("Every {step} minutes from minute {first} of the hour"),
        None => {
            let listed = list(numbers(minutes).map(|n| n.to_string()));
            format!("At minute {listed} of the hour")
        }
    }
}

fn hours_of(hours: u64) -> String {
    if hours == months(0, 23) {
        return String::new();
    }
    if let Some((from, to)) = range_of(hours) {
        return format!(", from {from:02}:00 to {to:02}:59");
    }
    match step_of(hours, 23) {
        Some(step) => format!(", each {step} hours from {:02}:00", hours.trailing_zeros()),
        None => {
            let listed = list(numbers(hours).map(|hour| format!("{hour:02}")));
            format!(", in the hours {listed}")
        }
    }
}

fn days_of_month(cron: &Cron) -> String {
    let days = &cron.days;
    let mut said = Vec::new();
    if days.days != 0 {
        let all: Vec<u32> = numbers(days.days).collect();
        let word = if all.len() == 1 { "day" } else { "days" };
        let listed = range_of(days.days).filter(|_| all.len() > 2);
        let listed = listed.map_or_else(
            || list(all.iter().map(ToString::to_string)),
            |(from, to)| format!("{from} to {to}"),
        );
        said.push(format!("{word} {listed} of the month"));
    }
    said.extend(numbers(days.before_last).map(|before| match before {
        0 => "the last day of the month".to_owned(),
        1 => "the day before the last of the month".to_owned(),
        before => format!("{before} days before the last of the month"),
    }));
    if days.last_workday {
        said.push("the last day from Monday to Friday of the month".to_owned());
    }
    let near = numbers(days.near);
    said.extend(
        near.map(|day| format!("the day from Monday to Friday nearest to day {day} of the month")),
    );
    format!("on {}", list(said.into_iter()))
}

fn days_of_week(cron: &Cron) -> String {
    let days = &cron.days;
    let mut said = Vec::new();
    if days.weekdays != 0 {
        let names = numbers(days.weekdays).map(|day| name(&WEEKDAYS, day));
        let listed = spans(days.weekdays, 0, 6, &WEEKDAYS);
        said.push(listed.unwrap_or_else(|| list(names)));
    }
    for (place, set) in PLACES.iter().zip(days.nth) {
        said.extend(
            numbers(set).map(|day| format!("the {place} {} of the month", name(&WEEKDAYS, day))),
        );
    }
    said.extend(
        numbers(days.last).map(|day| format!("the last {} of the month", name(&WEEKDAYS, day))),
    );
    list(said.into_iter())
}

/// "A to C", for more than two that follow each other.
fn spans(set: u64, min: u32, max: u32, names: &[&str]) -> Option<String> {
    let (from, to) = range_of(set & months(min, max))?;
    let first = usize::try_from(from - min)
        .ok()
        .and_then(|at| names.get(at))?;
    let last = usize::try_from(to - min)
        .ok()
        .and_then(|at| names.get(at))?;
    (to > from + 1).then(|| format!("{first} to {last}"))
}

/// The first and the last number of a set without gaps.
fn range_of(set: u64) -> Option<(u32, u32)> {
    let (from, count) = (set.trailing_zeros(), set.count_ones());
    let to = from.checked_add(count)?.checked_sub(1)?;
    (count > 0 && set == months(from, to)).then_some((from, to))
}

/// The step of a set that has each n-th number, up to `max`, also from the last one to the first of the next round.
fn step_of(set: u64, max: u32) -> Option<u32> {
    let mut all = numbers(set);
    let (first, second) = (all.next()?, all.next()?);
    let step = second - first;
    if !(max + 1).is_multiple_of(step) {
        return None;
    }
    let expected: u64 = (first..=max)
        .step_by(usize::try_from(step).ok()?)
        .map(|n| 1 << n)
        .sum();
    (step > 1 && first < step && set == expected).then_some(step)
}

/// The set of a range.
fn months(from: u32, to: u32) -> u64 {
    (from..=to).map(|n| 1_u64 << n).sum()
}

fn numbers(set: u64) -> impl Iterator<Item = u32> {
    (0..64).filter(move |n| set >> n & 1 == 1)
}

fn name(names: &[&str], number: u32) -> String {
    let known = usize::try_from(number).ok().and_then(|at| names.get(at));
    known.map_or_else(|| number.to_string(), |known| (*known).to_owned())
}

/// "a", "a and b", "a, b and c"; a long list is cut.
fn list(items: impl Iterator<Item = String>) -> String {
    let mut items: Vec<String> = items.collect();
    if items.len() > LISTED_MAX {
        let left = items.len() - LISTED_MAX;
        items.truncate(LISTED_MAX);
        items.push(format!("{left} more"));
    }
    let last = items.pop().unwrap_or_default();
    if items.is_empty() {
        last
    } else {
        format!("{} and {last}", items.join(", "))
    }
}

fn lower(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_ascii_lowercase());
    first.into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_expressions_read_as_a_person_would_say_them() {
        for (text, words) in [
            ("30 2 * * MON-FRI", "At 02:30, Monday to Friday"),
            ("* * * * *", "Every minute"),
            ("*/15 * * * *", "Every 15 minutes"),
            ("*/45 * * * *", "At minute 0 and 45 of the hour"),
            ("*/59 * * * *", "At minute 0 and 59 of the hour"),
            ("*/7 */5 * * *", "At minute 0, 7, 14,"),
            ("*/7 */5 * * *", "in the hours 00, 05, 10, 15 and 20"),
            (
                "0 */5 * * *",
                "Every hour, in the hours 00, 05, 10, 15 and 20",
            ),
            ("*/40 * * * * *", "At second 0 and 40"),
            ("0 0/5 0/1 * * ?", "Every 5 minutes"),
            ("0 * * * *", "Every hour"),
            ("5 * * * *", "At minute 5 of the hour"),
            ("5/20 * * * *", "Every 20 minutes from minute 5 of the hour"),
            ("*/10 9-17 * * *", "Every 10 minutes, from 09:00 to 17:59"),
            ("0 */6 * * *", "At 00:00, 06:00, 12:00 and 18:00"),
            ("0 */2 * * *", "Every 2 hours"),
            ("0 1/3 * * *", "Every hour, each 3 hours from 01:00"),
            ("0 0 1 * *", "At 00:00, on day 1 of the month"),
            ("0 0 1,15 * *", "At 00:00, on days 1 and 15 of the month"),
            ("0 0 L * *", "At 00:00, on the last day of the month"),
            (
                "0 12 LW * *",
                "At 12:00, on the last day from Monday to Friday of the month",
            ),
            ("0 9 * * MON#2", "At 09:00, the second Monday of the month"),
            ("0 9 * * FRIL", "At 09:00, the last Friday of the month"),
            (
                "0 0 13 * FRI",
                "At 00:00, on day 13 of the month, or Friday",
            ),
            ("0 0 */2 * FRI", "if it is Friday"),
            (
                "0 0 1 1,7 *",
                "At 00:00, on day 1 of the month, in January and July",
            ),
            ("0 0 1 6-8 *", "in June to August"),
            ("*/10 * * * * *", "Every 10 seconds"),
            ("* * * * * *", "Every second"),
            ("30 0 8 * * *", "At 08:00:30"),
            ("15 */5 * * * *", "At second 15, every 5 minutes"),
        ] {
            let cron = Cron::read(text, 0).unwrap();
            let said = of_cron(&cron, text);
            assert!(said.contains(words), "{text}: {said}");
        }
    }

    #[test]
    fn intervals_are_told_in_their_largest_unit() {
        let told = |seconds| of_interval(Duration::from_secs(seconds));
        assert_eq!(told(1), "Every second");
        assert_eq!(told(90), "Every 90 seconds");
        assert_eq!(told(300), "Every 5 minutes");
        assert_eq!(told(7200), "Every 2 hours");
        assert_eq!(told(86_400), "Every day");
        assert_eq!(
            of_interval(Duration::from_millis(1500)),
            "Every 1500 milliseconds"
        );
    }
}
