//! Cases by hand for expressions: changes of clocks, rare days, the ends of the search.

use jiff::{Timestamp, tz::TimeZone};

use super::{cron::Cron, plan};
use crate::model::time::Millis;

fn zone(name: &str) -> TimeZone {
    TimeZone::get(name).unwrap()
}

fn millis(text: &str) -> Millis {
    Millis(text.parse::<Timestamp>().unwrap().as_millisecond())
}

/// The next times in the words of the zone.
fn next(text: &str, name: &str, after: &str, count: usize) -> Vec<String> {
    let (cron, zone) = (Cron::read(text, 0).unwrap(), zone(name));
    let first = cron.next(&zone, millis(after));
    let times = std::iter::successors(first, |time| cron.next(&zone, *time));
    let shown = times.take(count).map(|time| {
        let time = Timestamp::from_millisecond(time.0)
            .unwrap()
            .to_zoned(zone.clone());
        time.strftime("%d %H:%M %:z").to_string()
    });
    shown.collect()
}

const NEW_YORK: &str = "America/New_York";

#[test]
fn a_time_of_the_day_in_a_gap_runs_once_at_its_end() {
    // The clocks go from 02:00 to 03:00 on 14 March 2027.
    let before = "2027-03-13T12:00:00Z";
    assert_eq!(
        next("30 2 * * *", NEW_YORK, before, 2),
        ["14 03:00 -04:00", "15 02:30 -04:00"]
    );
    assert_eq!(
        next("15,45 2 * * *", NEW_YORK, before, 2),
        ["14 03:00 -04:00", "15 02:15 -04:00"],
        "two times of one gap are one run"
    );
    assert_eq!(
        next("0 3 * * *", NEW_YORK, before, 2),
        ["14 03:00 -04:00", "15 03:00 -04:00"]
    );
}

#[test]
fn a_time_of_the_day_that_comes_twice_runs_the_first_time() {
    // The clocks go from 02:00 back to 01:00 on 7 November 2027.
    assert_eq!(
        next("30 1 * * *", NEW_YORK, "2027-11-06T12:00:00Z", 2),
        ["07 01:30 -04:00", "08 01:30 -05:00"]
    );
    // Asked between the two.
    assert_eq!(
        next("30 1 * * *", NEW_YORK, "2027-11-07T05:45:00Z", 1),
        ["08 01:30 -05:00"]
    );
    // Asked right at the change.
    assert_eq!(
        next("30 1 * * *", NEW_YORK, "2027-11-07T06:00:00Z", 1),
        ["08 01:30 -05:00"]
    );
    assert_eq!(
        next("30 1 * * *", NEW_YORK, "2027-11-07T05:59:59Z", 1),
        ["08 01:30 -05:00"]
    );
}

#[test]
fn an_interval_leaves_out_the_gap_and_runs_in_both_hours_of_a_fold() {
    assert_eq!(
        next("*/30 * * * *", NEW_YORK, "2027-03-14T06:15:00Z", 3),
        ["14 01:30 -05:00", "14 03:00 -04:00", "14 03:30 -04:00"]
    );
    assert_eq!(
        next("*/30 * * * *", NEW_YORK, "2027-11-07T04:45:00Z", 5),
        [
            "07 01:00 -04:00",
            "07 01:30 -04:00",
            "07 01:00 -05:00",
            "07 01:30 -05:00",
            "07 02:00 -05:00"
        ]
    );
    // A field that holds all its numbers is `*`, however it is written.
    for text in [
        "0/30 * * * *",
        "0-59/30 0-23 * * *",
        "0 0/30 0/1 * * ?",
        "0,30 0-11,12-23 * * *",
    ] {
        for after in ["2027-03-14T06:15:00Z", "2027-11-07T04:45:00Z"] {
            let stars = next("*/30 * * * *", NEW_YORK, after, 5);
            assert_eq!(next(text, NEW_YORK, after, 5), stars, "{text}");
        }
    }
    assert_eq!(
        next("*/20 2 * * *", NEW_YORK, "2027-03-13T12:00:00Z", 1),
        ["15 02:00 -04:00"]
    );
}

#[test]
fn a_day_that_a_zone_leaves_out_runs_at_its_end() {
    // Samoa had no 30 December 2011.
    assert_eq!(
        next("0 12 30 * *", "Pacific/Apia", "2011-12-01T00:00:00Z", 2),
        ["31 00:00 +14:00", "30 12:00 +14:00"]
    );
}

#[test]
fn rare_days_are_found_and_impossible_ones_are_not() {
    assert_eq!(
        next("0 0 29 2 *", "UTC", "2097-01-01T00:00:00Z", 1),
        ["29 00:00 +00:00"]
    );
    // The 29 February is a Monday in 2044 and then in 2072.
    let cron = Cron::read("0 0 29 2 *", 0).unwrap();
    let utc = TimeZone::UTC;
    let next = cron.next(&utc, millis("2097-01-01T00:00:00Z"));
    assert_eq!(next, Some(millis("2104-02-29T00:00:00Z")));
    let fifth = Cron::read("0 0 */29 2 MON", 0).unwrap();
    assert_eq!(
        fifth.next(&utc, millis("2044-03-01T00:00:00Z")),
        Some(millis("2049-02-01T00:00:00Z")),
        "1 and 30: both must fit"
    );
    for never in [
        "0 0 31 2 *",
        "0 0 30 2 ?",
        "0 0 31 4,6,9,11 *",
        "0 0 ? 2 MON#5",
    ] {
        let cron = Cron::read(never, 0).unwrap();
        let found = cron.next(&utc, millis("2026-01-01T00:00:00Z"));
        assert_eq!(found.is_some(), never.contains('#'), "{never}: {found:?}");
    }
}

#[test]
fn the_search_ends_with_the_years() {
    let every = Cron::read("* * * * * *", 0).unwrap();
    assert_eq!(every.next(&TimeZone::UTC, Millis::MAX), None);
    // Zones know no instant of the last day.
    let before = Millis(Millis::MAX.0 - 2 * 86_400_000 - 999);
    assert_eq!(
        every.next(&TimeZone::UTC, before),
        Some(Millis(before.0 + 1000))
    );
    assert_eq!(every.next(&TimeZone::UTC, Millis(i64::MAX)), None);
    assert!(every.next(&TimeZone::UTC, Millis(-86_400_000)).is_some());
}

/// The search of each comes to an end: it passes months that do not fit, and stops after the horizon.
#[test]
fn hostile_expressions_come_to_an_end() {
    let zones = [
        "UTC",
        "Europe/Berlin",
        "Africa/Casablanca",
        "Antarctica/Troll",
    ]
    .map(zone);
    let start = millis("2026-11-25T00:00:00Z");
    for (text, comes) in [
        ("0 0 31 2 *", false),
        ("59 59 23 29 2 ?", true),
        ("0 0 30 2 ?", false),
        ("* * * * * *", true),
    ] {
        let cron = Cron::read(text, 0).unwrap();
        for zone in &zones {
            assert_eq!(cron.next(zone, start).is_some(), comes, "{text}");
        }
    }
    let long = format!("{} * * * *", ["0-59"; 48].join(","));
    assert!(plan::read(&long, 0).is_ok());
}
