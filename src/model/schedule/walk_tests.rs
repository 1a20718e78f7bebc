//! A walk over every minute is the other implementation: what it finds, the search must find.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{
    Timestamp, ToSpan as _,
    civil::DateTime,
    tz::{TimeZone, TimeZoneDatabase},
};
use proptest::prelude::*;

use super::{count, cron::Cron, day::Days, field};
use crate::model::time::Millis;

const MINUTE: i64 = 60;

/// Tells whether a local minute fits, without any of the search.
fn fits(cron: &Cron, local: DateTime) -> bool {
    let bit = |set: u64, n: i8| set >> n & 1 == 1;
    bit(cron.minutes, local.minute())
        && bit(cron.hours, local.hour())
        && bit(cron.months, local.month())
        && cron.days.contain(local.date())
}

/// A real minute, as a person with a clock on the wall sees it.
struct Minute {
    /// Its beginning, since 1970.
    second: i64,
    local: DateTime,
    /// The clock did not show this local minute before.
    is_first: bool,
    /// Local minutes that the clock left out before this one.
    left_out: Vec<DateTime>,
}

/// Walks through each real minute from `from` to `to`, in order.
fn walk(zone: &TimeZone, from: i64, to: i64) -> Vec<Minute> {
    let mut minutes = Vec::new();
    // Local times that were there, with a day before `from` so that a fold is known.
    let mut latest: Option<DateTime> = None;
    let mut second = from - 2 * 86_400;
    while second < to {
        let local = zone.to_datetime(Timestamp::from_second(second).unwrap());
        let is_first = latest.is_none_or(|latest| local > latest);
        let after = |local: DateTime| local.checked_add(1.minute()).ok();
        let missing = std::iter::successors(latest.and_then(after), |missing| after(*missing));
        let left_out = missing.take_while(|missing| *missing < local && is_first);
        let left_out = left_out.collect();
        if second >= from {
            minutes.push(Minute {
                second,
                local,
                is_first,
                left_out,
            });
        }
        latest = latest.max(Some(local));
        second += MINUTE;
    }
    minutes
}

/// Returns the minutes of a walk in which an expression is due, in order.
fn walked(cron: &Cron, minutes: &[Minute]) -> Vec<i64> {
    let is_due = |minute: &&Minute| {
        let in_gap = || minute.left_out.iter().any(|missing| fits(cron, *missing));
        if cron.is_interval {
            fits(cron, minute.local)
        } else {
            minute.is_first && (fits(cron, minute.local) || in_gap())
        }
    };
    let due = minutes.iter().filter(is_due);
    due.map(|minute| minute.second).collect()
}

fn searched(cron: &Cron, zone: &TimeZone, from: i64, to: i64) -> Vec<i64> {
    let first = cron.next(zone, Millis(from * 1000 - 1));
    std::iter::successors(first, |time| cron.next(zone, *time))
        .map(|time| time.0 / 1000)
        .take_while(|second| *second < to)
        .collect()
}

/// Compares both for each expression around each change of the clocks from 2026 on for these years, and over some usual days.
fn compare(name: &str, zone: &TimeZone, texts: &[&str], years: i16) {
    let at = |year: i16| jiff::civil::date(year, 1, 1).at(0, 0, 0, 0);
    let second = |year| TimeZone::UTC.to_timestamp(at(year)).unwrap();
    let (begin, end) = (second(2026), second(2026 + years));
    let mut middles = vec![begin.as_second() + 200 * 86_400];
    let changes = zone
        .following(begin)
        .take_while(|change| change.timestamp() < end);
    middles.extend(changes.map(|change| change.timestamp().as_second()));
    for middle in middles {
        // Whole minutes, as the walk has no seconds.
        let middle = middle.div_euclid(MINUTE) * MINUTE;
        let (from, to) = (middle - 30 * 3600, middle + 40 * 3600);
        let minutes = walk(zone, from, to);
        for text in texts {
            let cron = Cron::read(text, 5).unwrap();
            let case = format!(
                "{name}: {text} around {}",
                Timestamp::from_second(middle).unwrap()
            );
            let walked = walked(&cron, &minutes);
            assert_eq!(searched(&cron, zone, from, to), walked, "{case}");
            counts_as_a_walk(&[&cron], zone, (from, to), &walked, &case);
        }
        let crons: Vec<Cron> = texts
            .iter()
            .map(|text| Cron::read(text, 5).unwrap())
            .collect();
        let all = crons.iter().flat_map(|cron| walked(cron, &minutes));
        let all: Vec<i64> = all.collect::<BTreeSet<i64>>().into_iter().collect();
        let crons: Vec<&Cron> = crons.iter().collect();
        counts_as_a_walk(&crons, zone, (from, to), &all, name);
    }
}

/// Counts from and up to some of the times that a walk has found, and from the beginning to the end.
fn counts_as_a_walk(
    crons: &[&Cron],
    zone: &TimeZone,
    span: (i64, i64),
    walked: &[i64],
    case: &str,
) {
    let some = walked.iter().step_by(walked.len() / 6 + 1);
    let bounds: Vec<i64> = some
        .flat_map(|time| [*time, time + 1])
        .chain([span.0, span.1])
        .collect();
    for (from, until) in bounds
        .iter()
        .flat_map(|from| bounds.iter().map(move |until| (*from, *until)))
    {
        let within = walked
            .iter()
            .filter(|time| from <= **time && **time < until)
            .count();
        let counted = count::count(crons, zone, Millis(from * 1000 - 1), Millis(until * 1000));
        assert_eq!(counted, Some(within as u64), "{case}, {from} to {until}");
    }
}

const TEXTS: [&str; 12] = [
    "*/30 * * * *",
    "30 2 * * *",
    "0 0 * * *",
    "15,45 1-3 * * *",
    "*/20 2 * * *",
    "0 */3 * * *",
    "59 23 L * *",
    "0 3 * * SUN",
    "30 1 * 3,11 SUNL",
    "7 0-4 1W * *",
    "0 2 ? * SUN#1",
    "30 0 29-31 * MON",
];

#[test]
fn the_search_finds_what_a_walk_over_the_minutes_finds() {
    for name in [
        "UTC",
        "Europe/Berlin",
        "America/New_York",
        "Australia/Lord_Howe",
        "Asia/Kolkata",
        "America/Santiago",
    ] {
        let zone = TimeZone::get(name).unwrap();
        compare(name, &zone, &TEXTS, 2);
    }
}

#[test]
#[ignore = "every zone of the database by ten years, minutes: make test-all"]
fn the_search_finds_what_a_walk_finds_in_every_zone() {
    let database = TimeZoneDatabase::from_env();
    let mut zones = BTreeMap::new();
    for name in database.available() {
        zones.insert(name.to_string(), database.get(name.as_str()).unwrap());
    }
    assert!(zones.len() > 300, "{} zones", zones.len());
    for (name, zone) in &zones {
        compare(name, zone, &TEXTS, 10);
    }
}

fn part(min: u32, max: u32) -> impl Strategy<Value = String> {
    prop_oneof![
        Just("*".to_owned()),
        (min..=max).prop_map(|n| n.to_string()),
        (min..=max, min..=max).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b))),
        (1..=max).prop_map(|n| format!("*/{n}")),
        (min..=max, 1..=max).prop_map(|(a, n)| format!("{a}/{n}")),
    ]
}

#[test]
fn the_times_of_a_year_are_counted_by_their_days() {
    let zone = TimeZone::get("Europe/Berlin").unwrap();
    let at = |year: i16| {
        let begin = jiff::civil::date(year, 1, 1).at(0, 0, 0, 0);
        zone.to_timestamp(begin).unwrap().as_millisecond()
    };
    for (text, times) in [
        ("* * * * * *", 365 * 86_400),
        ("0 2 * * *", 365),
        ("30 2 * * *", 365),
        ("30 * * * *", 365 * 24),
        ("*/7 0-30/3 9-17 * * MON-FRI", 9 * 11 * 9 * 261),
        ("0 0 29 2 *", 0),
    ] {
        let cron = Cron::read(text, 0).unwrap();
        let counted = count::count(&[&cron], &zone, Millis(at(2026) - 1), Millis(at(2027)));
        assert_eq!(counted, Some(times), "{text}");
    }
    // Every second holds the times of all others.
    let crons = ["* * * * * *", "0 9 * * *"].map(|text| Cron::read(text, 0).unwrap());
    let counted = count::count(
        &[&crons[0], &crons[1]],
        &zone,
        Millis(at(2026) - 1),
        Millis(at(2027)),
    );
    assert_eq!(counted, Some(365 * 86_400));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn any_expression_is_found_as_by_a_walk(
        minute in part(0, 59),
        hour in part(0, 23),
        weekday in part(0, 6),
        day in part(1, 28),
        zone in prop::sample::select(vec!["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]),
    ) {
        let text = format!("{minute} {hour} {day} * {weekday}");
        compare(zone, &TimeZone::get(zone).unwrap(), &[text.as_str()], 1);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[0-9A-Za-z*?/,#@() LWH=-]{0,80}") {
        drop(super::plan::read(&text, 9));
        drop(field::MINUTE.set(&text, 3));
        drop(Days::read(&text, &text, 3));
    }
}
